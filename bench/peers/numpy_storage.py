"""A ring of plain numpy arrays: rows written a step, and frames drawn by fancy indexing.

    numpy_storage.py [--seconds 0.5] all

The works are those of storage_timing.py: `list` stacks rows that lie apart and assigns the stack,
`batched` assigns rows that lie side by side; of `frames`, `numpy` is ring[indices] as users write it,
`numpy take` np.take into an array that is there already.
"""

import argparse

import numpy as np
from storage_timing import ADDED, CAPACITY, DRAWN, FRAMES, ROWS, tell


def ring(columns: str, rows: int) -> dict:
    shape = {"vector": (18,), "image": (64, 64, 3)}[columns]
    made = np.random.default_rng(1)
    return {
        "obs": made.integers(0, 200, (rows, *shape), dtype=np.uint8)
        if columns == "image"
        else made.random((rows, *shape), dtype=np.float32),
        "action": made.random((rows, 4), dtype=np.float32),
        "reward": made.random(rows, dtype=np.float32),
        **{name: np.zeros(rows, bool) for name in ("is_first", "terminated", "truncated")},
    }


def writer(store: dict, columns: str, rows: int, way: str):
    """A call that writes one step's rows and wraps around at the end."""
    batch = ring(columns, rows)
    parts = [{name: column[r].copy() for name, column in batch.items()} for r in range(rows)]
    capacity, place = len(store["reward"]), 0

    def write():
        nonlocal place
        for name, column in store.items():
            data = batch[name] if way == "batched" else np.stack([part[name] for part in parts])
            column[place : place + rows] = data
        place = (place + rows) % capacity

    return write


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("what", choices=("all",))
    seconds = parser.parse_args().seconds
    for columns, capacity in CAPACITY.items():
        for rows in ROWS:
            store = ring(columns, capacity)
            for way in ("list", "batched"):
                call = writer(store, columns, rows, way)
                tell("write", columns, rows, f"numpy {way}", rows, call, seconds)
    store = ring("image", FRAMES)
    add = writer(store, "image", ADDED, "batched")
    draw = np.random.default_rng(2)
    drawn = np.empty((DRAWN, 64, 64, 3), np.uint8)

    def indexed():
        add()
        return store["obs"][draw.integers(0, FRAMES, DRAWN)]

    def taken():
        add()
        np.take(store["obs"], draw.integers(0, FRAMES, DRAWN), axis=0, out=drawn)

    for way, call in (("numpy", indexed), ("numpy take", taken)):
        tell("frames", "image", FRAMES, way, ADDED + DRAWN, call, seconds)


if __name__ == "__main__":
    main()
