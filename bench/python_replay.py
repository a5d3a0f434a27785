#!/usr/bin/env python3
"""What a loop in Python pays for its replay: the engine's, through its package, beside TorchRL's, Stable-Baselines3's and
cpprb's (those that are installed), in turn.

    ./maglev python bench/python_replay.py [--rounds 5] [--seconds 0.5] [--threads 1]

vectors: 8 rows a step of 18 f32 observed and 4 f32 done, 100,000 held, batches of 256 transitions. priorities: the same drawn
by priorities to the power 0.6; a sample is followed by new ones for its transitions. pixels: 8 rows of 64 x 64 x 3
bytes, 8,192 held, batches of 16 slices of 64 transitions. A step is ready made outside the clock. Prints medians of microseconds
a call, of wall and of processor time, and how often the first one's processor time each takes.
"""

import argparse
import logging
import statistics
import time
import warnings

import gymnasium
import numpy as np
import torch

import maglev

warnings.filterwarnings("ignore")
logging.getLogger("torchrl").setLevel(logging.WARNING)
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=0.5)
parser.add_argument("--threads", type=int, default=1, help="torch's and ours")

ROWS, EPISODE = 8, 250
VECTORS = ((18,), torch.float32)
SHAPE = {"vectors": VECTORS, "priorities": VECTORS, "pixels": ((64, 64, 3), torch.uint8)}
CAPACITY = {"vectors": 100_000, "priorities": 100_000, "pixels": 8192}
LENGTH = {"vectors": 1, "priorities": 1, "pixels": 64}
BATCH = {"vectors": 256, "priorities": 256, "pixels": 16}
ALPHA, BETA = 0.6, 0.4
ERRORS = torch.rand(256)


def observed(work: str, rows: int) -> torch.Tensor:
    shape, dtype = SHAPE[work]
    return torch.randn(rows, *shape) if dtype.is_floating_point else torch.randint(256, (rows, *shape), dtype=dtype)


class Ours:
    def __init__(self, work: str, copy: bool, threads: int):
        columns = maglev.Columns({"obs": SHAPE[work]}, ((4,), torch.float32), rows=ROWS)
        self.priorities = ALPHA if work == "priorities" else None
        sizes = (CAPACITY[work], LENGTH[work], BATCH[work])
        self.replay = maglev.Replay(columns, *sizes, priorities=self.priorities, copy=copy, threads=threads)
        flags = torch.zeros(ROWS, dtype=torch.bool)
        self.step = {"obs": observed(work, ROWS), "action": torch.rand(ROWS, 4), "reward": torch.randn(ROWS)}
        self.step |= {"terminated": flags, "truncated": flags, "is_first": flags}
        self.ends = torch.ones(ROWS, dtype=torch.bool)
        self.time = 0
        while len(self.replay) < self.replay.capacity:
            self.add()

    def add(self):
        # an episode's last transition, its last observation, and the next one's first
        place, self.time = self.time % (EPISODE + 1), self.time + 1
        if place == EPISODE - 1:
            self.replay.add(**self.step | {"truncated": self.ends})
        elif place == 0:
            self.replay.add(**self.step | {"is_first": self.ends})
        else:
            self.replay.add(**self.step)

    def sample(self):
        batch = self.replay.sample(beta=BETA)
        if self.priorities is not None:
            self.replay.update_priorities(batch, ERRORS)
        return batch


class TorchRL:
    """Rows of episodes behind each other, the layout that its SliceSampler draws from fastest."""

    def __init__(self, work: str, cached: bool = False):
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler, RandomSampler, SliceSampler

        capacity, slices = CAPACITY[work], BATCH[work]
        # what a slice of 64 transitions is there: 65 rows
        rows = LENGTH[work] + 1
        if work == "vectors":
            sampler = RandomSampler()
        elif work == "priorities":
            sampler = PrioritizedSampler(capacity, alpha=ALPHA, beta=BETA)
        else:
            sampler = SliceSampler(
                num_slices=slices, traj_key="episode", end_key=None, strict_length=True, cache_values=cached
            )
        self.priorities = work == "priorities"
        batch = slices * rows if work == "pixels" else slices
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), sampler=sampler, batch_size=batch)

        def rows_of(count: int):
            columns = {"obs": observed(work, count), "action": torch.rand(count, 4), "reward": torch.randn(count)}
            if work != "pixels":
                columns["next"] = {"obs": observed(work, count)}
            columns |= {name: torch.zeros(count, dtype=torch.bool) for name in ("terminated", "truncated", "is_first")}
            columns["episode"] = torch.arange(count) // (EPISODE + 1)
            return TensorDict(columns, batch_size=[count])

        for begin in range(0, capacity, 1024):
            part = rows_of(min(1024, capacity - begin))
            part["episode"] = torch.arange(begin, begin + len(part)) // (EPISODE + 1)
            self.buffer.extend(part)
        self.step = rows_of(ROWS)

    def add(self):
        self.buffer.extend(self.step)

    def sample(self):
        batch = self.buffer.sample()
        if self.priorities:
            batch["td_error"] = ERRORS
            self.buffer.update_tensordict_priority(batch)
        return batch


class StableBaselines:
    def __init__(self, work: str):
        from stable_baselines3.common.buffers import ReplayBuffer

        box = gymnasium.spaces.Box
        self.buffer = ReplayBuffer(
            CAPACITY[work], box(-9, 9, SHAPE[work][0]), box(-1, 1, (4,)), device="cpu", n_envs=ROWS
        )  # fmt: skip
        obs, flags = observed(work, ROWS).numpy(), np.zeros(ROWS, bool)
        self.step = (obs, obs, np.zeros((ROWS, 4), np.float32), np.zeros(ROWS, np.float32), flags, [{}] * ROWS)
        self.batch = BATCH[work]
        while not self.buffer.full:
            self.add()

    def add(self):
        self.buffer.add(*self.step)

    def sample(self):
        return self.buffer.sample(self.batch)


class Cpprb:
    def __init__(self, work: str):
        from cpprb import PrioritizedReplayBuffer, ReplayBuffer

        columns = {"obs": {"shape": SHAPE[work][0]}, "action": {"shape": 4}, "reward": {}, "terminated": {}, "truncated": {}}
        columns_of_all = columns | {"next_obs": {"shape": SHAPE[work][0]}}
        self.priorities = work == "priorities"
        if self.priorities:
            self.buffer = PrioritizedReplayBuffer(CAPACITY[work], columns_of_all, alpha=ALPHA)
        else:
            self.buffer = ReplayBuffer(CAPACITY[work], columns_of_all)
        self.step = {name: np.zeros((ROWS, *np.atleast_1d(of.get("shape", 1))), np.float32) for name, of in columns.items()}
        self.step["next_obs"] = self.step["obs"] = observed(work, ROWS).numpy()
        self.batch = BATCH[work]
        while self.buffer.get_stored_size() < CAPACITY[work]:
            self.add()

    def add(self):
        self.buffer.add(**self.step)

    def sample(self):
        if not self.priorities:
            return self.buffer.sample(self.batch)
        batch = self.buffer.sample(self.batch, beta=BETA)
        self.buffer.update_priorities(batch["indexes"], ERRORS.numpy())
        return batch


def contestants(work: str, threads: int):
    """{name: a full replay} of those that are installed and draw what is wanted."""
    makers = {
        "maglev.Replay": lambda: Ours(work, copy=True, threads=threads),
        "the same with copy=False": lambda: Ours(work, copy=False, threads=threads),
        "TorchRL": lambda: TorchRL(work),
    }
    if work == "vectors":
        makers["Stable-Baselines3"] = lambda: StableBaselines(work)
    if work != "pixels":
        makers["cpprb"] = lambda: Cpprb(work)
    else:
        makers["TorchRL, cache_values=True"] = lambda: TorchRL(work, cached=True)
    made = {}
    for name, make in makers.items():
        try:
            made[name] = make()
        except (ImportError, RuntimeError) as error:
            print(f"  {name} is left out: {error}")
    return made


def timed(call, seconds: float) -> tuple[float, float]:
    """Microseconds a call, of wall and of processor time."""
    calls, wall, cpu = 0, time.perf_counter(), time.process_time()
    while (now := time.perf_counter()) - wall < seconds:
        call()
        calls += 1
    return 1e6 * (now - wall) / calls, 1e6 * (time.process_time() - cpu) / calls


def main():
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for work in SHAPE:
        replays = contestants(work, options.threads)
        for what in ("add", "sample"):
            figures = {name: [] for name in replays}
            # the first round warms up
            for _ in range(options.rounds + 1):
                for name, replay in replays.items():
                    figures[name].append(timed(getattr(replay, what), options.seconds))
            print(f"{work}, {what}, medians of {options.rounds}")
            first = next(iter(figures.values()))[1:]
            for name, samples in figures.items():
                wall, cpu = (statistics.median(part) for part in zip(*samples[1:]))
                ratio = statistics.median(theirs[1] / ours[1] for ours, theirs in zip(first, samples[1:]))
                print(f"  {name:28} {wall:10,.1f} us {cpu:10,.1f} us of processor {ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
