"""TorchRL's replay storage: rows written a step, and slices drawn.

    torchrl_storage.py write --columns vector|image --rows 8 [--way list]
    torchrl_storage.py sample --capacity 1000000 [--cached]
    torchrl_storage.py all

Written are rows of a step, ready made outside the clock: `list` is LazyTensorStorage.set with a
list of one TensorDict a row and their indices, `lazy` the same rows as a lazy stack into a slice,
`batched` one TensorDict of all rows into a slice; `extend_list` and `extend_batched` go through
ReplayBuffer as a user would.
Drawn are 256 slices of 4 rows (horizon 3) by SliceSampler, from episodes of 251 rows, the
trajectory uniform; --cached keeps its table of episodes, which is right only while nothing is
written. `all` is these and `frames`: 16 frames added, then 1,024 single ones drawn by index. One
thread unless --threads says otherwise. Prints one JSON object a line.
"""

import argparse
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from tensordict import LazyStackedTensorDict, TensorDict  # noqa: E402
from torchrl.data import LazyTensorStorage, ReplayBuffer  # noqa: E402
from storage_timing import ADDED, CAPACITY, DRAWN, FRAMES, ROWS, tell  # noqa: E402
from torchrl.data.replay_buffers.samplers import SliceSampler  # noqa: E402

EPISODE_ROWS = 251
SLICES, SLICE_ROWS = 256, 4
SAMPLED = (20_000, 1_000_000)


def transitions(columns: str, rows: int) -> TensorDict:
    """`rows` rows: 18 f32 or 64 x 64 x 3 u8 observed, 4 f32 of action, reward, three flags."""
    if columns == "vector":
        observed = torch.randn(rows, 18)
    else:
        observed = torch.randint(0, 256, (rows, 64, 64, 3), dtype=torch.uint8)
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


def frames():
    """A call that adds 16 frames and draws 1,024 of them by index."""
    storage = LazyTensorStorage(FRAMES)
    storage.set(slice(0, FRAMES), transitions("image", FRAMES))
    batch = transitions("image", ADDED)
    at = 0

    def add_and_draw():
        nonlocal at
        storage.set(slice(at, at + ADDED), batch)
        at = (at + ADDED) % FRAMES
        return storage.get(torch.randint(0, FRAMES, (DRAWN,)))

    return add_and_draw


def tell_write(columns: str, rows: int, way: str, seconds: float):
    call = writer(columns, rows, way)
    tell("write", columns, rows, f"torchrl {way}", rows, call, seconds)


def tell_sample(capacity: int, cached: bool, seconds: float):
    way = "torchrl cached" if cached else "torchrl"
    call = sampler(capacity, cached)
    tell("sample", "vector", capacity, way, SLICES * SLICE_ROWS, call, seconds)


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
    kinds.add_parser("all")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.kind == "write":
        if CAPACITY[arguments.columns] % arguments.rows:
            parser.error(f"--rows must divide {CAPACITY[arguments.columns]}")
        tell_write(arguments.columns, arguments.rows, arguments.way, arguments.seconds)
    elif arguments.kind == "sample":
        tell_sample(arguments.capacity, arguments.cached, arguments.seconds)
    else:
        for columns in CAPACITY:
            for rows in ROWS:
                for way in ("list", "lazy", "batched"):
                    tell_write(columns, rows, way, arguments.seconds)
        for capacity in SAMPLED:
            for cached in (False, True):
                tell_sample(capacity, cached, arguments.seconds)
        tell("frames", "image", FRAMES, "torchrl", ADDED + DRAWN, frames(), arguments.seconds)


if __name__ == "__main__":
    main()
