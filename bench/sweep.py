"""Sweeps from deliberately bad settings: does the search find what reaches the proven settings' score?

    bench/sweep.py [--engine PATH] [--seeds 3] [--trials 40]

Prints a Markdown table, one row a search: what the bad settings score, the target, and after how many trials of the
budget a trial reached it. All is counted in trials and steps, so that a busy machine changes nothing.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]

# settings that learn nothing, what is searched, and the score that the proven settings are known for
BAD = ["ppo.lr=1e-6", "ppo.gamma=0.5", "ppo.epochs=1", "ppo.lambda=0", "env.count=8", "ppo.minibatch=256"]
SPACE = [
    "ppo.lr=1e-6..1e-1:log",
    "ppo.gamma=0.5..0.999",
    "ppo.lambda=0..1",
    "ppo.epochs=1..20",
    "ppo.rollout=32,64,128,256",
]
CASES = {
    "cartpole": {"target": 475, "settings": ["train.steps=100000", "train.eval_every=100000"]},
    "pendulum": {
        "target": -200,
        "settings": ["train.steps=140000", "train.eval_every=140000", "ppo.network.normalize_obs=true"],
    },
}


def run(engine, *words):
    done = subprocess.run([engine, *map(str, words)], capture_output=True, text=True, cwd=HOME, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def trials_of(folder):
    rows = [json.loads(path.read_text()) for path in folder.glob("trials/*/trial.json")]
    return sorted(rows, key=lambda row: row["ended"])


def search(engine, env, seed, trials, folder):
    case = CASES[env]
    common = ["--bare", *BAD, *case["settings"], "train.eval_episodes=20"]
    bad = folder / "bad"
    run(engine, "train", "ppo", env, *common, f"seed={seed}", "--seeds", 1, "--out", bad)
    before = json.loads((bad / "seeds.json").read_text())["mean"]
    space = [word for line in SPACE for word in ("--space", line)]
    limits = ["--trials", trials, "--until", case["target"], "--search-seed", seed, "--parallel", 2]
    out = folder / "sweep"
    run(engine, "sweep", "ppo", env, *space, *common, f"seed={seed}", *limits, "--out", out)
    rows = trials_of(out)
    reached = [n for n, row in enumerate(rows, 1) if row["score"] is not None and row["score"] >= case["target"]]
    best = max(row["score"] for row in rows if row["score"] is not None)
    return before, case["target"], reached[0] if reached else None, best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default=HOME / ".build" / "release" / "maglev-engine")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=40)
    given = parser.parse_args()
    os.environ.setdefault("MAGLEV_HOME", str(HOME))
    print("| environment | search seed | bad settings | target | reached after | best |")
    print("|---|---:|---:|---:|---:|---:|")
    for env in CASES:
        for seed in range(1, given.seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                before, target, after, best = search(given.engine, env, seed, given.trials, Path(folder))
            text = f"{after} of {given.trials} trials" if after else "not reached"
            print(f"| {env} | {seed} | {before:.1f} | {target} | {text} | {best:.1f} |", flush=True)


if __name__ == "__main__":
    main()
