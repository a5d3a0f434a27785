"""Sums of f32 values by torch.distributed's Gloo group, in place, between processes of this machine.

A line of JSON for each count, as group_throughput prints them.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SUMS, WARM = 200, 20


def work(rank: int, processes: int, counts: list[int], apart: bool) -> None:
    if apart:
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {usable[rank % len(usable)]})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    dist.init_process_group("gloo", rank=rank, world_size=processes)
    torch.set_num_threads(1)
    for count in counts:
        values, took = torch.zeros(count), []
        for i in range(WARM + SUMS):
            begin = time.perf_counter()
            dist.all_reduce(values)
            if i >= WARM:
                took.append(1e6 * (time.perf_counter() - begin))
        if rank == 0:
            print(json.dumps({"processes": processes, "count": count, "us": round(statistics.median(took), 1)}), flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("counts", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--apart", action="store_true", help="a processor of its own for each")
    options = parser.parse_args()
    mp.spawn(work, (options.processes, options.counts, options.apart), nprocs=options.processes)


if __name__ == "__main__":
    main()
