"""The first day on a GPU: builds, checks and measures, in stages of one to nine minutes.

Each stage that passed is remembered in OUT/report.json and not run again, so that a machine that is lent for minutes
is used up to the last of them: call again until it says that everything was run. OUT/report.md is what to keep.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from day import HOME, Day, Late, reason  # noqa: E402
from machine import commit  # noqa: E402
from stages import STAGES  # noqa: E402

AROUND_S = 15  # what a call may need besides its stages
UNFINISHED = 3


def write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)


def machine() -> str:
    # not its driver: another one of the same kind goes on where this one stopped
    words = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        gpu = (
            subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
            or "no GPU"
        )
    except OSError:
        gpu = "no GPU"
    return f"{gpu}; {os.cpu_count()} processors"


def described(of: dict) -> str:
    return "; ".join(f"{key} {value}" for key, value in of.items())


def as_markdown(report: dict) -> str:
    lines = ["# First day", "", described(report["of"]), ""]
    for name in (name for name in STAGES if name in report["stages"]):
        stage = report["stages"][name]
        lines += [f"## {name}: {stage['state']}, {stage['seconds']:.0f} s", ""]
        if stage["of"] != report["of"]:
            lines += [f"Of {described(stage['of'])}", ""]
        lines += [*(f"    {fact}" for fact in stage["facts"]), ""]
    return "\n".join(lines)


def keep(out: Path, report: dict) -> None:
    write(out / "report.json", json.dumps(report, indent=1))
    write(out / "report.md", as_markdown(report))


def chosen(only: str) -> list[str]:
    return [name for name in STAGES if not only or name in only.split(",")]


def least_minutes(wanted: list[str]) -> float:
    """With less some stage would never be begun, in however many calls; to a tenth."""
    longest_s = max((STAGES[name].reserved_s for name in wanted), default=0)
    return math.ceil((longest_s + AROUND_S) / 6) / 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="first_day.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=HOME / ".build" / "first_day", help="where reports and runs go"
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=HOME / ".build" / "cuda",
        help="a build folder; made by the stage `build`",
    )
    parser.add_argument(
        "--device", default="cuda:0", help="cuda:N, or cpu to try the script itself"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=1e9,
        help="begin no stage for which more is reserved than is left of these",
    )
    parser.add_argument("--only", default="", help="stages, by commas: " + ", ".join(STAGES))
    parser.add_argument(
        "--again",
        action="store_true",
        help="also stages that passed before, with this build and these flags",
    )
    parser.add_argument("--quick", action="store_true", help="tiny counts: does everything run?")
    args = parser.parse_args()
    unknown = set(filter(None, args.only.split(","))) - set(STAGES)
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}; stages: {', '.join(STAGES)}")
    least = least_minutes(chosen(args.only))
    if args.minutes < least:
        parser.error(f"--minutes must be at least {least:g}, for the longest of these stages")
    return args


def is_open(stage: dict, of: dict) -> bool:
    """Whether a stage is yet to be run as now: it never was, or was late once, on a machine that was busy at first."""
    late_once = stage.get("state") == "late" and stage.get("late", 1) < 2
    return stage.get("of") != of or late_once


def pending(wanted: list, stages: dict, of: dict, again: bool) -> list:
    """Stages to run: those that are open first, those that failed behind them."""
    now = [name for name in wanted if again or is_open(stages.get(name, {}), of)]
    failed = [name for name in wanted if name not in now and stages[name]["state"] != "passed"]
    # nothing runs before it is built
    return sorted(now + failed, key=lambda name: name != "build")


def run_stage(name: str, args: argparse.Namespace) -> dict:
    """What the report says of it: passed, failed, or late if it took longer than is reserved."""
    print(name, flush=True)
    begin = time.monotonic()
    day = Day(args.out.resolve(), args.build.resolve(), args.device, args.quick)
    # whether everything runs is tried on any machine
    day.deadline = begin + STAGES[name].reserved_s * (20 if args.quick else 1)
    try:
        STAGES[name].work(day)
        state = "passed"
    except Exception as why:  # whatever it is, the stages behind it are worth their minutes
        state = "late" if isinstance(why, Late) else "failed"
        day.tell(f"FAILED: {reason(why)}")
    return {"state": state, "seconds": time.monotonic() - begin, "facts": day.facts}


def read_report(args: argparse.Namespace) -> dict:
    """Of earlier calls, with what this one is of."""
    path = args.out / "report.json"
    report = json.loads(path.read_text()) if path.exists() else {"stages": {}}
    # what passed elsewhere, or before a change, says nothing of this run
    report["of"] = {
        "machine": machine(),
        "device": args.device,
        "quick": args.quick,
        "build": str(args.build.resolve()),
        "commit": commit(HOME) or "unknown",
    }
    # a report that was carried here came without the build
    if not (args.build / "maglev-engine").exists():
        report["stages"].pop("build", None)
    return report


def main() -> int:
    args = arguments()
    end = time.monotonic() + 60 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    report = read_report(args)
    stages, of = report["stages"], report["of"]
    wanted, left_out = chosen(args.only), []
    for name in pending(wanted, stages, of, args.again):
        if time.monotonic() + STAGES[name].reserved_s > end:
            # one that failed in an earlier call is no reason for another, unless it is asked for
            if args.again or is_open(stages.get(name, {}), of):
                left_out.append(name)
            if name == "build":
                break
            continue
        before = stages.get(name, {})
        stages[name] = {"of": of, **run_stage(name, args)}
        if stages[name]["state"] == "late":
            stages[name]["late"] = 1 + (before.get("late", 0) if before.get("of") == of else 0)
        keep(args.out, report)
        if name == "build" and stages[name]["state"] != "passed":
            # what was compiled stays
            return UNFINISHED if stages[name]["state"] == "late" else 1
    left_out += [name for name in wanted if name not in left_out and is_open(stages.get(name, {}), of)]
    if left_out:
        print(f"no time left for {', '.join(left_out)}: call again")
        return UNFINISHED
    failed = [name for name in wanted if stages.get(name, {}).get("state") != "passed"]
    print(f"{args.out / 'report.md'}: {len(wanted) - len(failed)} of {len(wanted)} stages passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
