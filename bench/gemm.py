"""Rate of bfloat16 products of the widths TD-MPC2 uses, by the peers' torch: gemm.py --threads N.

The best over several row counts of [rows, 512] x [512, 512]: what a planner or an update of the
default size could reach with this library. Prints one JSON object: GFLOP/s, two operations a
multiply-add.
"""

import argparse
import json
import time

import torch

ROWS, WIDTH = (256, 512, 1024, 2048, 4096), 512
SECONDS = 0.1  # of each measurement
REPEATS = 5


def rate(rows: int) -> float:
    a, b = torch.randn(rows, WIDTH).bfloat16(), torch.randn(WIDTH, WIDTH).bfloat16()
    out = torch.empty(rows, WIDTH, dtype=torch.bfloat16)
    torch.mm(a, b, out=out)
    best = 0.0
    for _ in range(REPEATS):
        count, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < SECONDS:
            torch.mm(a, b, out=out)
            count += 1
        best = max(best, 2e-9 * rows * WIDTH * WIDTH * count / took)
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, required=True)
    torch.set_num_threads(parser.parse_args().threads)
    print(json.dumps({"bf16": max(rate(rows) for rows in ROWS)}))


if __name__ == "__main__":
    main()
