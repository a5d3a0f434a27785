#!/usr/bin/env python3
"""What mending a bottleneck gains, beside what `maglev trace analyze` says of it.

Each mistake of tests/bottlenecks runs with a window traced; the first finding's patch is then set, or, where it is the
user's code that has to change, the mistake is left out. Gain is the share of the time of a step that goes; predicted
for a patch is what the finding says of it, else the share that would go if what it names were free. Runs take turns,
and of each the fastest counts: the one that other programs disturbed least.

    python3 bench/bottlenecks.py .build/release --rounds 3
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

WINDOW = "4-15"  # iterations


def train(program: Path, words: list[str], settings: list[str]) -> tuple[float, list[Path], Path]:
    """Seconds a step, traces, and the folder that all lies in."""
    folder = Path(tempfile.mkdtemp())
    run = folder / "run"
    done = subprocess.run([program, *words, run, *settings], capture_output=True, text=True, check=True)
    return float(done.stdout), sorted((run / "traces").glob("*.json.gz")), folder


def first_finding(engine: Path, trace: Path) -> dict | None:
    done = subprocess.run([engine, "trace", "analyze", trace, "--json"], capture_output=True, text=True, check=True)
    # that others use the machine too is no finding of the run's
    named = [found for found in json.loads(done.stdout)["findings"] if found["name"] != "other programs"]
    return named[0] if named else None


def measure(build: Path, name: str, rounds: int) -> dict:
    program, engine = build / "tests" / "maglev-bottlenecks", build / "maglev-engine"
    found = None
    for _ in range(5):
        if found:
            break
        _, traces, folder = train(program, [name], [f"trace.window={WINDOW}"])
        found = first_finding(engine, traces[0])
        shutil.rmtree(folder)
    if not found:
        raise SystemExit(f"{name}: nothing is named; other programs have this machine's processors, measure at rest")
    patch = found["patch"].split()
    mended = ([name], patch) if patch else (["without", name], [])
    slow, fast = [], []
    for _ in range(rounds):
        for times, (words, settings) in ((slow, ([name], [])), (fast, mended)):
            seconds, _, folder = train(program, words, settings)
            times.append(seconds)
            shutil.rmtree(folder)
    return {
        "name": name,
        "finding": found["name"],
        "patch": found["patch"] or "(the user's code)",
        "predicted": found["patch_gain"] if patch else found["gain"],
        "measured": 1 - min(fast) / min(slow),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="folder of a build with its tests")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="names of mistakes")
    words = parser.parse_args()
    program = words.build / "tests" / "maglev-bottlenecks"
    listed = subprocess.run([program, "list"], capture_output=True, text=True, check=True)
    names = words.only or [line.split("\t")[0] for line in listed.stdout.splitlines()]
    print("| bottleneck | named first | patch | predicted | measured | at least half |")
    print("|---|---|---|---|---|---|")
    for name in names:
        row = measure(words.build, name, words.rounds)
        print(
            f"| {row['name']} | {row['finding']} | {row['patch']} | {100 * row['predicted']:.0f} % "
            f"| {100 * row['measured']:.0f} % | {'yes' if row['measured'] >= row['predicted'] / 2 else 'no'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
