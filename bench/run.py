#!/usr/bin/env python3
"""Measures Maglev beside its peers: python3 bench/run.py [--only CASE ...]. See bench/README.md.

Standard library only. Each case's results go to bench/results/<machine>.jsonl as soon as it ends.
Exit status: 0; 1 when something of ours could not be measured; 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import dreamer_cases  # noqa: E402
import learning_cases  # noqa: E402
import ppo_cases  # noqa: E402
import proof_cases  # noqa: E402
import speed_cases  # noqa: E402
import tdmpc2_cases  # noqa: E402
from machine import (  # noqa: E402
    CALM_LOAD,
    commit,
    load,
    machine,
    machine_name,
    wait_until_calm,
)
from measure import HOME, PEER_PYTHON, VENV, Unavailable, short  # noqa: E402
from programs import Programs, peer_version  # noqa: E402

CASES = {
    case.__name__: case
    for case in (
        speed_cases.cartpole_env,
        speed_cases.goodhart_env,
        speed_cases.minatar_env,
        speed_cases.dmc_env,
        speed_cases.gymnasium_env,
        speed_cases.start_up,
        ppo_cases.cartpole_ppo_8x128,
        ppo_cases.cartpole_ppo_1024x32,
        ppo_cases.cartpole_memory_ppo_8x128,
        ppo_cases.pendulum_ppo_8x128,
        ppo_cases.pendulum_ppo_1024x32,
        ppo_cases.minatar_ppo_256x32,
        ppo_cases.atari_ppo_8x128,
        ppo_cases.gymnasium_ppo_8x128,
        ppo_cases.goodhart_ppo,
        tdmpc2_cases.tdmpc2_plan,
        tdmpc2_cases.tdmpc2_update,
        dreamer_cases.dreamer_update,
        tdmpc2_cases.replay_write,
        tdmpc2_cases.replay_sample,
        tdmpc2_cases.hockey_env,
        proof_cases.umls_proofs,
        proof_cases.family_ranking,
        proof_cases.prover_ppo,
        proof_cases.kg_env,
        learning_cases.learning_cartpole,
        learning_cases.learning_pendulum,
        learning_cases.learning_goodhart,
    )
}


def say(text: str):
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures Maglev beside its peers.")
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="CASE", default=list(CASES),
                        help=f"cases to measure, of: {', '.join(CASES)}")  # fmt: skip
    parser.add_argument("--pairs", type=int, default=5, help="rounds of each comparison")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the learning cases")
    parser.add_argument("--out", type=Path, help="default bench/results/<machine>.jsonl")
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS",
                        help=f"wait at most this long for a load below {CALM_LOAD}")  # fmt: skip
    parser.add_argument("--quick", action="store_true",
                        help="tiny step counts; results kept only with --out")  # fmt: skip
    parser.add_argument("--engine", default="", help="default .build/release/maglev-engine")
    parser.add_argument("--throughput", default="",
                        help="default .build/release/tests/env_throughput")  # fmt: skip
    parser.add_argument("--counts", type=int, nargs="+", default=[],
                        help="environments of cartpole_env, default 8 64 1024")  # fmt: skip
    parser.add_argument("--goodhart-steps", type=int, default=1_500_000)
    parser.add_argument("--peers", nargs="+", metavar="NAME", default=[],
                        help="peers of the PPO cases, default all: stable-baselines3, cleanrl, "
                             "torchrl, pufferlib, sample-factory, rl-tools")  # fmt: skip
    parser.add_argument("--peer-threads", type=int, default=0,
                        help="default: the faster of 1 and all, found in the warm-up")  # fmt: skip
    for name, what in (
        ("--cleanrl", "CleanRL"),
        ("--rl-tools", "rl-tools"),
        ("--goodhart", "the original Goodhart trainer"),
        ("--tdmpc2", "the official TD-MPC2"),
        ("--r2dreamer", "r2dreamer"),
        ("--dreamerv3", "the official Dreamer V3"),
        ("--hockey", "the original hockey environment"),
    ):
        parser.add_argument(name, type=Path, metavar="DIR", help=f"a checkout of {what}")
    chosen = parser.parse_args()
    if chosen.pairs < 1 or chosen.seeds < 1:
        parser.error("--pairs and --seeds must be at least 1")
    for name in ("cleanrl", "rl_tools", "goodhart", "tdmpc2", "r2dreamer", "dreamerv3", "hockey"):
        folder = getattr(chosen, name)
        if folder and not folder.is_dir():
            parser.error(f"--{name.replace('_', '-')}: {folder} is no folder")
        setattr(chosen, name, folder and folder.resolve())
    if chosen.quick:
        chosen.pairs = min(chosen.pairs, 2)
    return chosen


def table(case: str, result: dict):
    """Prints one result for people."""
    say(f"\n{case}: {result['variant']}")
    if "peers" in result:
        say(f"  {'':20} {'median':>10} {'min':>10} {'max':>10}   ours is ... times as fast")
        for row in [result["ours"], *result["peers"]]:
            figures = " ".join(f"{short(row[key]):>10}" for key in ("median", "min", "max"))
            told = ""
            if "pair_ratios" in row:
                pairs = row["pair_ratios"]
                told = (
                    f"{row['ratio_of_medians']:.2f} (medians), {pairs['median']:.2f} "
                    f"[{pairs['min']:.2f} - {pairs['max']:.2f}] (pairs)"
                )
            say(f"  {row['name']:20} {figures}   {told}".rstrip())
        if "floor" in result:
            shares = ", ".join(
                f"{row['name']} {row['share_of_floor']:.1%}"
                for row in [result["ours"], *result["peers"]]
                if "share_of_floor" in row
            )
            bound = result["floor"]
            unit = "call" if "flop_a_call" in bound else "step"
            say(
                f"  arithmetic alone allows {short(bound[f'{unit}s_per_second'])} {unit}s/s "
                f"({short(bound[f'flop_a_{unit}'])} operations a {unit} at "
                f"{bound['peak_gflops']:.0f} GFLOP/s); reached: {shares}"
            )
            if "peak_gflops_bf16" in bound:
                say(f"  (bf16 is held to {bound['peak_gflops_bf16']:.0f} GFLOP/s)")
        if "stated" in result:
            stated = result["stated"]
            ratio = f"{stated['ratio']:.0f}" if "ratio" in stated else "-"
            say(f"  {stated['name']}, NOT in this run: {short(stated['median'])}   {ratio}")
    for who, name in (("ours", "maglev"), ("sb3", "stable-baselines3")):
        if "reached" in result.get(who, {}):
            row = result[who]
            say(
                f"  {name:20} {result['bar']}: {row['reached']}; return median "
                f"{row['return_median']:.1f}, least {row['return_min']:.1f}; "
                f"train {row['train_s_median']:.1f} s, eval {row['eval_s_median']:.1f} s"
            )
    if "train_time_ratio" in result:
        ratio = result["train_time_ratio"]
        say(
            f"  training time, SB3's over ours: {ratio['median']:.2f} "
            f"[{ratio['min']:.2f} - {ratio['max']:.2f}]"
        )
    for row in result.get("seeds", []):
        if "food" in row:
            say(
                f"  seed {row['seed']}: food/1k {row['food']:.1f}, poison/1k {row['poison']:.2f}, "
                f"deaths/1k {row['deaths']:.2f}, train {row['train_s']:.0f} s"
            )
    if "reached" in result:
        say(f"  {result['bar']}: {result['reached']}")
    for peer in result["missing"]:
        say(f"  not measured: {peer['name']}: {peer['why']}")
    if result["bystanders"] > CALM_LOAD:
        say(f"  WARNING: other programs kept up to {result['bystanders']:.1f} processors busy")


def main() -> int:
    options = arguments()
    options.say = say
    options.programs = Programs.found(options.engine, options.throughput)
    if not PEER_PYTHON.exists() or not (VENV / "setup.log").exists():
        say("bench: making .venv-bench with the peers (once, some minutes)")
        subprocess.run(["bash", str(HOME / "bench" / "setup.sh")], check=False)
    out = options.out
    if not out and not options.quick:
        out = HOME / "bench" / "results" / f"{machine_name()}.jsonl"

    before = wait_until_calm(options.wait)
    if before > CALM_LOAD:
        say(f"bench: WARNING: the load is {before:.2f}; a busy machine's figures are of no use")
    facts = machine()
    try:
        facts["peers_torch"] = peer_version("torch", PEER_PYTHON)
    except Unavailable as why:
        facts["peers_torch"] = str(why)
    common = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(options.programs.engine.parent),
        "machine": facts,
        "load_before": round(before, 2),
        **({"quick": True} if options.quick else {}),
    }
    say(f"bench: {facts['processor']}, {facts['cores']} cores, commit {common['commit']}")

    printed, ours_failed = [], False
    try:
        for case in options.only:
            with tempfile.TemporaryDirectory(prefix="maglev-bench-") as folder:
                options.folder = Path(folder)
                results = CASES[case](options)
            for result in results:
                line = {**common, "case": case, "load_after": round(load(), 2), **result}
                printed.append((case, result))
                ours_failed |= any(peer["name"].startswith("maglev") for peer in result["missing"])
                if out:
                    out.parent.mkdir(parents=True, exist_ok=True)
                    with open(out, "a") as file:
                        file.write(json.dumps(line) + "\n")
    except KeyboardInterrupt:
        say("bench: interrupted; what was measured is kept")
    for case, result in printed:
        table(case, result)
    if out and printed:
        say(f"\nbench: {len(printed)} results added to {out}")
    return 1 if ours_failed else 0


if __name__ == "__main__":
    sys.exit(main())
