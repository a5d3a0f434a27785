"""What every stage of first_day.py works with: where things are, how commands run, what is told."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """What a stage expected and did not get, in one line."""


class Late(Failed):
    """A command was still running when its stage's time was over; `output` is what it had printed."""

    def __init__(self, what: str, output: str = ""):
        super().__init__(what)
        self.output = output


def reason(why: Exception) -> str:
    return str(why) if isinstance(why, Failed) else repr(why)


def kill_session(leader: int) -> None:
    """All processes of a session: ninja gives each compiler a group of its own, which no killpg reaches."""
    found = True
    while found:
        found = False
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # behind the name, which may hold anything: state, parent, group, session
                state, _, _, session = stat.read_text(errors="replace").rpartition(")")[2].split()[:4]
                if int(session) == leader and state not in "ZX":
                    os.kill(int(stat.parent.name), signal.SIGKILL)
                    found = True


@dataclass
class Day:
    """Where everything is, and what the stage at work has to tell."""

    out: Path
    build: Path
    device: str
    quick: bool
    facts: list = field(default_factory=list)
    deadline: float = 0

    def left(self) -> float:
        """Seconds of the stage's time."""
        return self.deadline - time.monotonic()

    @property
    def place(self) -> str:
        return self.device.split(":")[0]

    @property
    def engine(self) -> Path:
        return self.build / "maglev-engine"

    @property
    def environment(self) -> dict:
        return {
            **os.environ,
            "MAGLEV_HOME": str(HOME),
            "MAGLEV_BUILD": str(self.build),
            "MAGLEV_ENGINE": str(self.engine),
        }

    def run(self, *words, good: tuple = (0,), **env: str) -> str:
        """Output of a command within the stage's time; all of it goes to log.txt. Throws Failed."""
        words = [str(word) for word in words]
        try:
            process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=HOME,
                env={**self.environment, **env},
                start_new_session=True,
            )
        except OSError as error:
            raise Failed(f"`{words[0]}` cannot be started: {error}") from error
        late = False
        try:
            output, _ = process.communicate(timeout=max(1, self.left()))
        except subprocess.TimeoutExpired:
            # its compilers and tests too, or they would run beside the next stage
            kill_session(process.pid)
            output, late = process.communicate()[0], True
        with open(self.out / "log.txt", "a") as log:
            log.write(f"$ {' '.join(words)}\n{output}\n")
        if late or process.returncode not in good:
            lines = [line for line in output.splitlines() if line.strip()]
            ended = "out of time" if late else f"exit status {process.returncode}"
            what = f"`{' '.join(words)[:200]}`: {ended}; {' | '.join(lines[-3:])[:600]}"
            raise Late(what, output) if late else Failed(what)
        return output

    def folder(self, name: str) -> Path:
        """Of a run, made anew."""
        folder = self.out / "runs" / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def train(self, name: str, *settings) -> Path:
        folder = self.folder(name)
        self.run(*self.training(folder, *settings))
        return folder

    def training(self, folder: Path, *settings) -> list:
        words = [self.engine, "train", *settings, f"device={self.device}", "--sinks", "jsonl"]
        return [*words, "--out", folder]

    def tell(self, fact: str) -> None:
        self.facts.append(fact)
        print("   ", fact, flush=True)


def each(day: Day, parts: dict[str, Callable[[], None]]) -> None:
    """Does every part of a stage; failures are told at once, hide no other, end in one Failed."""
    failed = []
    for name, part in parts.items():
        try:
            part()
        except Late:
            raise
        except Exception as why:  # whatever it is, the parts behind it are worth their seconds
            day.tell(f"FAILED: {name}: {reason(why)}")
            failed.append(name)
    if failed:
        raise Failed(f"{len(failed)} of {len(parts)}: {', '.join(failed)}")
