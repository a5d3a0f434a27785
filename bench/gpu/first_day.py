"""The first day on a GPU: builds, checks and measures, in stages of under 8 minutes.

Each stage that passed is remembered in OUT/report.json and not run again, so that a machine that is lent for minutes
is used up to the last of them: call again until it says that everything was run. OUT/report.md is what to keep.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from day import HOME, Day, Late, reason  # noqa: E402
from machine import commit  # noqa: E402
from stages import STAGES  # noqa: E402

LIMIT_S, LEAST_MINUTES = 470, 8
UNFINISHED = 3


def write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)


def machine() -> str:
    words = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = (
            subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
            or "no GPU"
        )
    except OSError:
        gpu = "no GPU"
    return f"{gpu}; {os.cpu_count()} processors"


def as_markdown(report: dict) -> str:
    lines = ["# First day", "", report["machine"], ""]
    for name, stage in report["stages"].items():
        lines += [f"## {name}: {stage['state']}, {stage['seconds']:.0f} s", ""]
        lines += [*(f"    {fact}" for fact in stage["facts"]), ""]
    return "\n".join(lines)


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
        "--minutes", type=float, default=1e9, help="begin no stage that may end after this time"
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
    if args.minutes < LEAST_MINUTES:
        parser.error(f"--minutes must be at least {LEAST_MINUTES}, which a stage may take")
    return args


def pending(wanted: list, stages: dict, of: dict, again: bool) -> list:
    """Stages to run: those that were never run as now first, those that failed behind them."""
    now = [name for name in wanted if again or stages.get(name, {}).get("of") != of]
    failed = [name for name in wanted if name not in now and stages[name]["state"] != "passed"]
    return now + failed


def main() -> int:
    args = arguments()
    begin = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "report.json"
    report = json.loads(path.read_text()) if path.exists() else {"stages": {}}
    stages = report["stages"]
    # what passed elsewhere, or before a change, says nothing of this run
    of = {
        "device": args.device,
        "quick": args.quick,
        "build": str(args.build.resolve()),
        "commit": commit(HOME) or "unknown",
    }
    report["machine"] = f"{machine()}; commit {of['commit']}"
    wanted = [name for name in STAGES if not args.only or name in args.only.split(",")]
    for name in pending(wanted, stages, of, args.again):
        if time.monotonic() - begin + LIMIT_S > 60 * args.minutes:
            if stages.get(name, {}).get("of") == of:
                break
            print(f"no time left for the stage {name}: call again")
            return UNFINISHED
        print(f"{name}", flush=True)
        day = Day(args.out.resolve(), args.build.resolve(), args.device, args.quick)
        started = time.monotonic()
        day.deadline = started + LIMIT_S
        late = False
        try:
            STAGES[name](day)
            state = "passed"
        except Exception as why:  # whatever it is, the stages behind it are worth their minutes
            state, late = "failed", isinstance(why, Late)
            day.tell(f"FAILED: {reason(why)}")
        stages[name] = {
            "of": of,
            "state": state,
            "seconds": time.monotonic() - started,
            "facts": day.facts,
        }
        write(path, json.dumps(report, indent=1))
        write(args.out / "report.md", as_markdown(report))
        if name == "build" and state == "failed":
            # what was compiled stays
            return UNFINISHED if late else 1
    failed = [name for name in wanted if stages.get(name, {}).get("state") != "passed"]
    print(f"{args.out / 'report.md'}: {len(wanted) - len(failed)} of {len(wanted)} stages passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
