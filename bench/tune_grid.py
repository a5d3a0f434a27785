"""How near `maglev tune` comes to the best of an exhaustive grid over the same settings.

    python3 bench/tune_grid.py [--budget 120s] [--seconds 3] [--rounds 2] [--pairs ppo:cartpole,...]

Of every pair of algorithm and environment: tune with the budget, then each combination of the values it searched, measured
round by round in turn; combinations that a first look finds below half of the best are not measured again. Last, what tune
chose beside the best of the grid, turn about. Wants a machine at rest: of processor time nothing can be said where numbers
of threads are compared.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
PAIRS = "ppo:cartpole,ppo:pendulum,ppo:minatar_breakout,tdmpc2:pendulum"
HOPELESS = 0.5
FINALS = 5
WAIT_S = 60  # for the first updates


def speed(engine, words, seconds):
    """Environment steps a second of `train`, from its first update on; 0 where it gives none."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [engine, "train", *words, "train.steps=1000000000000", "train.save_every=1000000000000"]
        with subprocess.Popen(
            [*command, "--sinks", "jsonl", "--out", run], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as child:
            end, rows = time.monotonic() + WAIT_S + seconds, []
            while child.poll() is None and time.monotonic() < end:
                time.sleep(0.1)
                try:
                    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
                except FileNotFoundError:
                    continue
                rows = [json.loads(line) for line in lines if line.endswith("\n")]
                rows = [r for r in rows if any(k.startswith("loss/") and v is not None for k, v in r.items())]
                if len(rows) > 2 and rows[-1]["seconds"] - rows[0]["seconds"] >= seconds:
                    break
            child.kill()
    if len(rows) < 2:
        return 0.0
    return (rows[-1]["step"] - rows[0]["step"]) / (rows[-1]["seconds"] - rows[0]["seconds"])


def tuned(engine, pair, budget):
    """What tune says, searched anew into a cache of its own, and how long it took."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.monotonic()
        done = subprocess.run(
            [engine, "tune", *pair, "--budget", budget, "--json"],
            stdout=subprocess.PIPE, check=True, env={**os.environ, "XDG_CACHE_HOME": cache},
        )  # fmt: skip
        return json.loads(done.stdout), time.monotonic() - begin


def combinations(found):
    """Every combination of the values that were searched, as name=value."""
    values = {}
    for row in found["rows"]:
        for name, value in row["settings"].items():
            values.setdefault(name, {None})
            values[name].add(value)
    names = sorted(values)
    for chosen in itertools.product(*(sorted(values[n], key=str) for n in names)):
        yield tuple(f"{name}={value}" for name, value in zip(names, chosen) if value is not None)


def measure(engine, pair, options):
    found, took = tuned(engine, pair, options.budget)
    choice = tuple(sorted(f"{name}={value}" for name, value in found["settings"].items()))
    every = f"train.log_every={max(1, int(max(row['steps_per_second'] for row in found['rows']) / 20))}"
    grid = {words: [] for words in combinations(found)}
    for turn in range(options.rounds):
        best = max((statistics.median(s) for s in grid.values() if s), default=0)
        for words, samples in grid.items():
            if turn == 0 or statistics.median(samples) >= HOPELESS * best:
                samples.append(speed(engine, [*pair, every, *words], options.seconds))
    best = max(grid, key=lambda words: statistics.median(grid[words]))
    finals = {words: [] for words in {choice, best}}
    for _ in range(FINALS):
        for words, samples in finals.items():
            samples.append(speed(engine, [*pair, every, *words], options.seconds))
    ours, theirs = statistics.median(finals[choice]), statistics.median(finals[best])
    return {
        "pair": " ".join(pair), "tune_s": round(took, 1), "points": len(grid), "chosen": " ".join(choice),
        "best": " ".join(best), "chosen_steps_per_second": ours, "best_steps_per_second": theirs, "share": ours / theirs,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default=str(HOME / ".build/release/maglev-engine"))
    parser.add_argument("--budget", default="120s", help="of tune, for each pair")
    parser.add_argument("--seconds", type=float, default=3, help="measured of each combination and turn")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pairs", default=PAIRS, help="algorithm:environment, by commas")
    options = parser.parse_args()
    os.environ.setdefault("MAGLEV_HOME", str(HOME))
    rows = [measure(options.engine, pair.split(":"), options) for pair in options.pairs.split(",")]
    print("| pair | tune took | combinations | tune chose | best of the grid | share of its steps/s |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['pair']} | {row['tune_s']} s | {row['points']} | {row['chosen'] or 'as it is'} |"
            f" {row['best'] or 'as it is'} | {100 * row['share']:.1f} % |"
        )
    print(json.dumps(rows), file=sys.stderr)
    return 0 if all(row["share"] >= 0.95 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
