#!/usr/bin/env python3
"""What tracing costs: processor time of whole runs, in turn, without a window, with spans of every iteration, and with
torch's profiler. `--before ENGINE` adds one built without spans.

    python3 bench/trace_overhead.py .build/release/maglev-engine --before OLD_ENGINE --rounds 5
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

# many small steps, whose spans are dear beside them; and the proven settings' shape
CASES = {
    "ppo cartpole 8 x 128": ["ppo", "cartpole", "--bare", "env.count=8", "ppo.rollout=128", "ppo.minibatch=256",
                             "ppo.epochs=4", "train.steps=400000"],
    "ppo cartpole 1024 x 32": ["ppo", "cartpole", "--bare", "env.count=1024", "ppo.rollout=32",
                               "ppo.minibatch=8192", "ppo.epochs=4", "train.steps=3000000"],
}
COMMON = ["--sinks", "jsonl", "threads=1", "seed=1", "train.save_every=1000000000", "train.log_every=100000"]
WAYS = {
    "off": [],
    "lite": ["trace.window=1-1000000", "trace.size_limit=2000"],
    "full": ["trace.window=20-60", "trace.mode=full"],
}


def processor_time(engine: str, settings: list[str]) -> float:
    """Seconds of processor time of a run until it has ended, what it wrote included."""
    folder = Path(tempfile.mkdtemp())
    try:
        process = subprocess.Popen([engine, "train", *settings, "--out", str(folder / "run")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(process.stderr.read().decode())
        return usage.ru_utime + usage.ru_stime
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine")
    parser.add_argument("--before", help="an engine to compare with, run with tracing off")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", default=["off", "lite"], choices=WAYS)
    options = parser.parse_args()
    for name, case in CASES.items():
        seconds: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            if options.before:
                seconds.setdefault("before", []).append(processor_time(options.before, case + COMMON))
            for way in options.ways:
                seconds.setdefault(way, []).append(processor_time(options.engine, case + COMMON + WAYS[way]))
        base = min(seconds.get("before", seconds["off"]))
        for way, samples in seconds.items():
            print(f"{name:24} {way:8} min {min(samples):6.2f} s, median {statistics.median(samples):6.2f} s, "
                  f"{100 * (min(samples) / base - 1):+5.1f} %", flush=True)


if __name__ == "__main__":
    main()
