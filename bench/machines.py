#!/usr/bin/env python3
"""What it costs to have a run's processes on two machines, beside torch.distributed's Gloo and beside one machine.

    python3 bench/machines.py --rounds 5

Both machines are this one, a processor each, and meet at its loopback address, so that what is measured is the way through
sockets and the kernel; a network's own time comes on top. Runs and sums take turns; given are medians, and ratios of the medians.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOME / "bench"))
from processes import CASES, rate_of_second_half, steps_per_second, sums  # noqa: E402


CPUS = sorted(os.sched_getaffinity(0))


def on(machine: int) -> list[str]:
    """Before a command: it has the processor of that machine alone."""
    return ["taskset", "-c", str(CPUS[machine % len(CPUS)])]


def sums_of_two(program: Path, port: int) -> dict[int, float]:
    other = subprocess.Popen([*on(1), program, "--join", f"127.0.0.1:{port}"])
    try:
        return sums([*on(0), program, "--machines", "2", "--listen", f"127.0.0.1:{port}"])
    finally:
        other.wait(timeout=60)


def steps_per_second_of_two(engine: Path, case: list[str]) -> float:
    """Of the second half of a run, a process on each machine."""
    folder = Path(tempfile.mkdtemp())
    command = [engine, "train", *case, "processes=2", "machines=2", "threads=1", "--listen", "127.0.0.1:0"]
    try:
        leader = subprocess.Popen(
            [*on(0), *command, "--sinks", "jsonl", "train.save_every=1000000000", "--out", folder / "run"],
            stdout=subprocess.PIPE,
            text=True,
        )
        where = re.search(r"maglev join (\S+)", leader.stdout.readline())[1]
        other = subprocess.Popen([*on(1), engine, "join", where], stdout=subprocess.DEVNULL)
        leader.communicate()
        if leader.returncode or other.wait(timeout=60):
            sys.exit("a run of two machines failed")
        return rate_of_second_half(folder / "run")
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HOME / ".build" / "release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=29519)
    options = parser.parse_args()

    ours, gloo = [], []
    for _ in range(options.rounds):
        ours.append(sums_of_two(options.build / "tests" / "group_throughput", options.port))
        gloo.append(sums([sys.executable, HOME / "bench" / "peers" / "gloo_sums.py", "--apart"]))
    for count in ours[0]:
        mine, theirs = (statistics.median(one[count] for one in each) for each in (ours, gloo))
        print(f"sum of {count:>10} f32: {mine:9.1f} us, Gloo {theirs:9.1f} us, {theirs / mine:.1f} x")

    engine = options.build / "maglev-engine"
    for name, case in CASES.items():
        one, two = [], []
        for _ in range(options.rounds):
            one.append(steps_per_second(engine, case, 2))
            two.append(steps_per_second_of_two(engine, case))
        here, apart = statistics.median(one), statistics.median(two)
        print(f"{name}: two processes on one machine {here:,.0f} steps/s, on two {apart:,.0f}, {apart / here:.2f} x")


if __name__ == "__main__":
    main()
