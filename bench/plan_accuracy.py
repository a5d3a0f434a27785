"""How near `maglev plan` comes to the speed that is then measured.

    python3 bench/plan_accuracy.py [--seconds 4] [--rounds 3] [--threads 1] [--cases "ppo cartpole;..."]

Of every pair of algorithm and environment with its proven settings, and some of other sizes: the
plan first, then two runs round by round in turn, one with some seconds' steps more than the other, so that
what comes before the first update is in neither. On one thread in processor time, which
other programs do not shorten; on more by the clock, which wants a machine at rest. The bar is 25 % of
the median.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
BAR = 0.25
LEARNING = 1200  # steps after which every case learns
# what tells shapes apart that proven settings do not: large batches, wide layers, wide models
CASES = [
    "ppo cartpole",
    "ppo pendulum",
    "ppo goodhart",
    "ppo minatar_breakout",
    "ppo cartpole env.count=1024 ppo.rollout=32 ppo.minibatch=8192 ppo.epochs=4",
    "ppo pendulum ppo.network.hidden=[256,256] env.count=64",
    "tdmpc2 pendulum",
    "tdmpc2 pendulum tdmpc2.latent_dim=128 tdmpc2.mlp_dim=256 tdmpc2.samples=256",
    # a prover that learns soon meets fewer goals than the random one that is planned for
    "ppo kg ppo.lr=0 ppo.lr_end=0",
    "dreamer cartpole",
    "dreamer pendulum dreamer.deter=512 dreamer.stoch=32 dreamer.classes=4 dreamer.length=64",
]


def planned(engine, words):
    """What plan says of time; a run that does not fit is no case."""
    done = subprocess.run([engine, "plan", *words, "--json"], stdout=subprocess.PIPE, check=True, cwd=HOME)
    return json.loads(done.stdout)["time"]


def took(engine, words, steps, processor_time):
    """Seconds of a run of so many steps that writes and saves next to nothing."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*words, f"train.steps={steps}", f"train.log_every={steps}", f"train.save_every={steps}"]
        begin = time.monotonic()
        child = subprocess.Popen(
            [engine, "train", *words, "--sinks", "jsonl", "--out", f"{folder}/run"], stdout=subprocess.DEVNULL, cwd=HOME
        )
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            raise SystemExit(f"{' '.join(words)}: status {status}")
        return usage.ru_utime + usage.ru_stime if processor_time else time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default=str(HOME / ".build/release/maglev-engine"))
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement, as planned")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="0: as many as there are")
    parser.add_argument("--cases", help="algorithm, environment and settings, by semicolons")
    options = parser.parse_args()
    os.environ.setdefault("MAGLEV_HOME", str(HOME))
    cases = options.cases.split(";") if options.cases else CASES
    words = {case: [*case.split(), f"threads={options.threads}"] for case in cases}
    plans = {case: planned(options.engine, words[case]) for case in cases}
    samples = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case, plan in plans.items():
            # whole iterations
            size = plan["iteration_steps"]
            begin, more = (
                -(-int(steps) // size) * size for steps in (LEARNING, plan["steps_per_second"] * options.seconds)
            )
            seconds = [took(options.engine, words[case], n, options.threads == 1) for n in (begin, begin + more)]
            samples[case].append(more / (seconds[1] - seconds[0]))
    print("| settings | planned steps/s | measured | planned / measured | most of the time |")
    print("|---|---|---|---|---|")
    worst = 1.0
    for case, plan in plans.items():
        told, measured = plan["steps_per_second"], statistics.median(samples[case])
        worst = max(worst, told / measured, measured / told)
        stage = max(plan["stages"], key=lambda s: s["seconds"])
        print(
            f"| `{case}` | {told:,.0f} | {measured:,.0f} | {told / measured:.2f} |"
            f" {stage['name']} ({stage['seconds'] / plan['iteration_s']:.0%}), {stage['limit']} |"
        )
    print(json.dumps({"samples": samples, "plans": plans}), file=sys.stderr)
    return 0 if worst <= 1 + BAR else 1


if __name__ == "__main__":
    sys.exit(main())
