"""`./maglev sync`: the command line."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from maglev_sync.errors import COMMAND, Error, Refused, did_you_mean
from maglev_sync.several import sync

USAGE = f"{COMMAND} sync RUN [RUN ...] --to wandb|mlflow [options]"
ABOUT = """\
Sends runs to an experiment tracker, from what training wrote into their folders: settings, every row of metrics.jsonl
by env steps, evaluations, how each ended. Again: what is new alone. RUN is a run, several seeds, a sweep, a study, or a
folder of these."""
EXAMPLES = f"""\
examples
  {COMMAND} sync runs/a --to wandb --project cartpole
  {COMMAND} sync runs/a --to wandb --offline          folders for `wandb sync` in runs/a, no network
  {COMMAND} sync runs/a --to mlflow --uri runs/mlflow a database in that folder, no server
  {COMMAND} sync runs/a --to mlflow --uri http://HOST:5000 --follow

docs/tracking.md says what is sent, and how often."""


class Parser(argparse.ArgumentParser):
    """Whose errors are one line, with near names."""

    def error(self, message: str) -> NoReturn:
        found = re.match(r"unrecognized arguments: (\S+)", message)
        near = did_you_mean(found.group(1).split("=")[0], self._option_string_actions) if found else ""
        raise Error(f"[sync] {message}{near}; see {COMMAND} sync --help")


def parser() -> Parser:
    made = Parser(
        prog=f"{COMMAND} sync",
        usage=USAGE,
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("runs", metavar="RUN", nargs="+", help="a folder of a run, or of several")
    made.add_argument("--to", required=True, metavar="TRACKER", help="wandb or mlflow")
    made.add_argument("--project", default="maglev", help="W&B's project, MLflow's experiment (default maglev)")
    made.add_argument("--follow", action="store_true", help="send on while they train, and end with them")
    made.add_argument(
        "--checkpoints", action="store_true", help="the newest and the best one too, once a run has ended"
    )
    made.add_argument(
        "--every", type=int, metavar="STEPS", help="one row of so many env steps (default: all rows)"
    )
    made.add_argument("--anew", action="store_true", help="send all once more, as another run of the tracker")
    made.add_argument(
        "--offline", action="store_true", help="W&B: into folders for `wandb sync`, as WANDB_MODE=offline"
    )
    made.add_argument("--entity", help="W&B: the user or team (default: as W&B knows you)")
    made.add_argument(
        "--uri",
        help="MLflow: a server, a database, or a folder for one (default MLFLOW_TRACKING_URI, else mlflow.db here)",
    )
    return made


class Screen:
    """A line for each run that is done, below them how far the one is that is sent, where that can be rewritten."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.shown_at = 0.0

    def progress(self, name: str, share: float) -> None:
        if self.live and time.monotonic() - self.shown_at > 0.2:
            self.shown_at = time.monotonic()
            print(f"\r\033[K{name}: {share:.0%}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.shown_at:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def tell(self, line: str) -> None:
        self.clear()
        print(line, flush=True)


def stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    screen = Screen()
    # a wrong address is told in seconds; of what was sent nothing is lost
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    try:
        given = vars(parser().parse_args(arguments))
        sync(given.pop("runs"), given.pop("to"), **given, tell=screen.tell, progress=screen.progress)
    except Refused as error:
        screen.clear()
        print(f"maglev: {error.short}", file=sys.stderr)
        return 2
    except Error as error:
        screen.clear()
        print(f"maglev: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        screen.clear()
        print(f"maglev: [sync] {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        screen.clear()
        again = "it without --anew" if "--anew" in arguments else "the same command"
        print(f"maglev: interrupted; what was sent stays, and {again} goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main(sys.argv[1:]))
