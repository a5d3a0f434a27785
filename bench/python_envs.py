#!/usr/bin/env python3
"""How many steps a second a Python loop makes of CartPole: the engine's environments through its package, beside
Gymnasium's own vector environments and EnvPool (where it is installed), in turn.

    ./maglev python bench/python_envs.py [--envs 8,64,1024] [--rounds 5] [--seconds 1]

Actions are drawn beforehand, everything on as many threads as it takes by itself; EnvPool also on one. Prints medians, and ratios round by
round of the first to each other one.
"""

import argparse
import statistics
import time

import gymnasium
import numpy as np
import torch

import maglev
from maglev.gymnasium import VectorEnv

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--envs", default="8,64,1024")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=1.0)


def rate(step, count: int, seconds: float) -> float:
    """Steps a second of all environments together."""
    begin = time.perf_counter()
    made = 0
    while (now := time.perf_counter()) - begin < seconds:
        for _ in range(16):
            step()
        made += 16
    return made * count / (now - begin)


def contestants(count: int):
    """{name: what steps it once}, each with environments of its own."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 2, count)
    actions = torch.as_tensor(drawn)

    tensors = maglev.make("cartpole", count)
    tensors.reset()
    yield "maglev.make, tensors", lambda: tensors.step(actions)
    views = maglev.make("cartpole", count, copy=False)
    views.reset()
    yield "the same with copy=False", lambda: views.step(actions)
    arrays = VectorEnv("cartpole", count)
    arrays.reset(seed=1)
    yield "maglev.gymnasium.VectorEnv", lambda: arrays.step(drawn)
    # Gymnasium's CartPole in NumPy, all environments at once
    numpy = gymnasium.make_vec("CartPole-v1", count, vectorization_mode="vector_entry_point")
    numpy.reset(seed=1)
    yield "Gymnasium, vector entry point", lambda: numpy.step(drawn)
    sync = gymnasium.make_vec("CartPole-v1", count, vectorization_mode="sync")
    sync.reset(seed=1)
    yield "Gymnasium, SyncVectorEnv", lambda: sync.step(drawn)
    try:
        import envpool
    except ImportError:
        return
    # with the threads it takes by itself, and with one, which is faster for environments this small
    pool = envpool.make_gymnasium("CartPole-v1", num_envs=count)
    pool.reset()
    yield "EnvPool", lambda: pool.step(drawn)
    single = envpool.make_gymnasium("CartPole-v1", num_envs=count, num_threads=1)
    single.reset()
    yield "EnvPool, num_threads=1", lambda: single.step(drawn)


def main():
    options = parser.parse_args()
    for count in map(int, options.envs.split(",")):
        all_of = dict(contestants(count))
        rates = {name: [] for name in all_of}
        for _ in range(options.rounds + 1):
            for name, step in all_of.items():
                rates[name].append(rate(step, count, options.seconds))
        # the first round warms up
        rates = {name: samples[1:] for name, samples in rates.items()}
        first = next(iter(rates.values()))
        print(f"{count} environments, medians of {options.rounds}")
        for name, samples in rates.items():
            ratio = statistics.median(a / b for a, b in zip(first, samples))
            print(f"  {name:32} {statistics.median(samples):14,.0f} steps/s   {ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
