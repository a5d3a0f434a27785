"""TorchRL's replay storage: rows written a step, and slices drawn.

    torchrl_storage.py write --columns vector|image --rows 8 [--way list]
    torchrl_storage.py sample --capacity 1000000 [--cached]

Written are rows of a step, ready made outside the clock: `list` is LazyTensorStorage.set with a
list of one TensorDict a row and their indices, `lazy` the same rows as a lazy stack into a slice,
`batched` one TensorDict of all rows into a slice; `extend_list` and `extend_batched` go through
ReplayBuffer as a user would.
Drawn are 256 slices of 4 rows (horizon 3) by SliceSampler, from episodes of 251 rows, the
trajectory uniform; --cached keeps its table of episodes, which is right only while nothing is
written. One thread unless --threads says otherwise. Prints one JSON object.
"""

import argparse
import json
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from tensordict import LazyStackedTensorDict, TensorDict  # noqa: E402
from torchrl.data import LazyTensorStorage, ReplayBuffer  # noqa: E402
from torchrl.data.replay_buffers.samplers import SliceSampler  # noqa: E402

CAPACITY = {"vector": 65536, "image": 4096}  # rows of the storage that is written to
EPISODE_ROWS = 251
SLICES, SLICE_ROWS = 256, 4
WARM_UP = 20


def transitions(columns: str, rows: int) -> TensorDict:
    """`rows` rows: 18 f32 or 64 x 64 x 9 u8 observed, 4 f32 of action, reward, three flags."""
    if columns == "vector":
        observed = torch.randn(rows, 18)
    else:
        observed = torch.randint(0, 256, (rows, 64, 64, 9), dtype=torch.uint8)
    flags = {name: torch.zeros(rows, dtype=torch.bool) for name in ("is_first", "terminated")}
    return TensorDict(
        {
            "obs": observed,
            "action": torch.rand(rows, 4) * 2 - 1,
            "reward": torch.randn(rows),
            "truncated": torch.zeros(rows, dtype=torch.bool),
            **flags,
        },
        batch_size=[rows],
    )


def writer(columns: str, rows: int, way: str):
    """A call that writes one step's rows; it wraps around at the end of the storage, which is full
    from the start, so that every page has been touched."""
    capacity = CAPACITY[columns]
    storage = LazyTensorStorage(capacity)
    storage.set(slice(0, capacity), transitions(columns, capacity))
    batch = transitions(columns, rows)
    parts = [row.clone() for row in batch.unbind(0)]
    if way.startswith("extend"):
        buffer = ReplayBuffer(storage=storage)
        data = parts if way == "extend_list" else batch
        return lambda: buffer.extend(data)
    data = {"list": parts, "lazy": LazyStackedTensorDict(*parts), "batched": batch}[way]
    at = 0

    def write():
        nonlocal at
        place = slice(at, at + rows)
        storage.set(torch.arange(at, at + rows) if way == "list" else place, data)
        at = (at + rows) % capacity

    return write


def sampler(capacity: int, cached: bool):
    """A call that draws one batch from a full storage."""
    data = transitions("vector", capacity)
    data["episode"] = torch.arange(capacity) // EPISODE_ROWS
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(capacity),
        sampler=SliceSampler(
            num_slices=SLICES,
            end_key=None,
            traj_key="episode",
            truncated_key=None,
            strict_length=True,
            cache_values=cached,
        ),
        batch_size=SLICES * SLICE_ROWS,
    )
    buffer.extend(data)
    drawn = buffer.sample()["episode"].view(SLICES, SLICE_ROWS)
    if not (drawn == drawn[:, :1]).all():
        raise SystemExit("torchrl_storage: a slice crosses an episode's end")
    return buffer.sample


def timed(call, seconds: float) -> dict:
    """Calls a second, of wall and of processor time."""
    for _ in range(WARM_UP):
        call()
    calls, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        call()
        calls += 1
    return {
        "per_second": calls / (time.perf_counter() - wall),
        "per_cpu_second": calls / (time.process_time() - cpu),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    kinds = parser.add_subparsers(dest="kind", required=True)
    write = kinds.add_parser("write")
    write.add_argument("--columns", choices=tuple(CAPACITY), required=True)
    write.add_argument("--rows", type=int, required=True)
    ways = ("list", "lazy", "batched", "extend_list", "extend_batched")
    write.add_argument("--way", choices=ways, default="list")
    sample = kinds.add_parser("sample")
    sample.add_argument("--capacity", type=int, required=True)
    sample.add_argument("--cached", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.kind == "write":
        if CAPACITY[arguments.columns] % arguments.rows:
            parser.error(f"--rows must divide {CAPACITY[arguments.columns]}")
        call = writer(arguments.columns, arguments.rows, arguments.way)
    else:
        call = sampler(arguments.capacity, arguments.cached)
    print(json.dumps(timed(call, arguments.seconds)))


if __name__ == "__main__":
    main()
