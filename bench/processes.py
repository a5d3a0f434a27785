#!/usr/bin/env python3
"""What several processes cost beside one with as many threads, and their sums beside torch.distributed's Gloo.

    python3 bench/processes.py --rounds 5

Runs and sums take turns; given are medians, and ratios of the medians.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
CASES = {
    "ppo cartpole 1024 x 32": ["ppo", "cartpole", "--bare", "env.count=1024", "ppo.rollout=32", "ppo.minibatch=8192",
                               "ppo.epochs=4", "train.steps=3000000"],
    "ppo cartpole 8 x 128": ["ppo", "cartpole", "--bare", "env.count=8", "ppo.rollout=128", "ppo.minibatch=256",
                             "ppo.epochs=4", "train.steps=400000"],
    "ppo goodhart 64 x 32": ["ppo", "goodhart", "env.count=64", "ppo.rollout=32", "ppo.minibatch=512", "train.steps=60000"],
    "tdmpc2 pendulum": ["tdmpc2", "pendulum", "train.steps=6000"],
    "dreamer pendulum": ["dreamer", "pendulum", "train.steps=6000"],
}


def rate_of_second_half(run: Path) -> float:
    """Steps a second, by a run's rows of metrics."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    middle, last = rows[len(rows) // 2], rows[-1]
    return (last["step"] - middle["step"]) / (last["seconds"] - middle["seconds"])


def steps_per_second(engine: Path, case: list[str], processes: int) -> float:
    """Of the second half of a run."""
    folder = Path(tempfile.mkdtemp())
    try:
        subprocess.run(
            [engine, "train", *case, f"processes={processes}", "--sinks", "jsonl", "train.save_every=1000000000",
             "--out", folder / "run"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return rate_of_second_half(folder / "run")
    finally:
        shutil.rmtree(folder)


def sums(command: list) -> dict[int, float]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {row["count"]: row["us"] for row in map(json.loads, done.stdout.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HOME / ".build" / "release")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    several = options.processes

    ours, gloo = [], []
    for _ in range(options.rounds):
        ours.append(sums([options.build / "tests" / "group_throughput", "--processes", str(several)]))
        gloo.append(sums([sys.executable, HOME / "bench" / "peers" / "gloo_sums.py", "--processes", str(several)]))
    for count in ours[0]:
        mine, theirs = (statistics.median(one[count] for one in each) for each in (ours, gloo))
        print(f"sum of {count:>10} f32: {mine:9.1f} us, Gloo {theirs:9.1f} us, {theirs / mine:.1f} x")

    for name, case in CASES.items():
        rates: dict[int, list[float]] = {1: [], several: []}
        for _ in range(options.rounds):
            for processes in rates:
                rates[processes].append(steps_per_second(options.build / "maglev-engine", case, processes))
        one, more = (statistics.median(rates[n]) for n in rates)
        print(f"{name}: one process {one:,.0f} steps/s, {several} processes {more:,.0f}, {more / one:.2f} x")


if __name__ == "__main__":
    main()
