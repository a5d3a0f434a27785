"""Runs programs and compares their figures in interleaved rounds: ours, peer, ours, peer, ..."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from machine import Bystanders

HOME = Path(__file__).resolve().parent.parent
VENV = HOME / ".venv-bench"
PEER_PYTHON = VENV / "bin" / "python"
TIMEOUT_S = 3600


class Unavailable(Exception):
    """Why something cannot be measured, in one line."""


@dataclass
class Finished:
    output: str
    seconds: float

    def report(self) -> dict:
        """The JSON object in the last line that holds one."""
        return self.reports()[-1]

    def reports(self) -> list:
        """Those of all lines that hold one; at least one."""
        found = [json.loads(x) for x in self.output.splitlines() if x.startswith("{")]
        if not found:
            raise Unavailable(f"printed no figures: {self.output[-200:]!r}")
        return found


def execute(command: list, one_core: bool = False, limit_s: float = TIMEOUT_S) -> Finished:
    """Runs to the end, on the last usable core alone if so asked. Throws Unavailable."""
    words = [str(word) for word in command]
    core = {max(os.sched_getaffinity(0))}
    environment = {**os.environ, "MAGLEV_HOME": os.environ.get("MAGLEV_HOME", str(HOME))}
    begin = time.monotonic()
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=environment,
            preexec_fn=(lambda: os.sched_setaffinity(0, core)) if one_core else None,
            check=False,
        )
    except OSError as error:
        raise Unavailable(f"{shown(words)}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{shown(words)}: not finished after {limit_s:.0f} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        last = last.replace(f"{HOME}/", "")
        raise Unavailable(f"{shown(words)}: exit status {done.returncode}: {last}")
    return Finished(done.stdout, time.monotonic() - begin)


def shown(command: list, *folders: Path) -> str:
    """A command line for people and results: no folder of this machine in it."""
    words = []
    for word in map(str, command):
        for folder in folders:
            word = word.replace(str(folder), "RUN")
        word = word.replace(f"{HOME}/", "")
        words.append(Path(word).name if word.startswith("/") else word)
    return shlex.join(words)


@dataclass
class Contender:
    """`sample` gives one figure, larger is better; `warm_up` is asked once before."""

    name: str
    command: str
    sample: Callable[[], float]
    version: str = ""
    warm_up: Callable[[], object] | None = None
    samples: list = field(default_factory=list)

    def summary(self) -> dict:
        return {
            "name": self.name,
            "version": self.version,
            "command": self.command,
            "samples": [float(f"{s:.6g}") for s in self.samples],
            **spread(self.samples),
        }


def spread(samples: list) -> dict:
    if not samples:
        return {"median": None, "min": None, "max": None}
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}


def compare(ours: Contender, peers: list[Contender], rounds: int, say: Callable) -> dict:
    """Warms up, then measures all in turn, `rounds` times. One that fails is left out."""
    missing, taking_part, others = [], [], 0.0

    def attempt(contender: Contender, what: Callable) -> bool:
        nonlocal others
        bystanders = Bystanders()
        try:
            what()
        except Unavailable as why:
            missing.append({"name": contender.name, "why": str(why)})
            say(f"  {contender.name} is left out: {why}")
            return False
        others = max(others, bystanders.processors())
        return True

    for contender in [ours, *peers]:
        if attempt(contender, contender.warm_up or contender.sample):
            taking_part.append(contender)
    others = 0.0
    for turn in range(rounds):
        if ours not in taking_part:
            break
        for contender in list(taking_part):
            if not attempt(contender, lambda c=contender: c.samples.append(c.sample())):
                taking_part.remove(contender)
        figures = ", ".join(f"{c.name} {short(c.samples[-1])}" for c in taking_part if c.samples)
        say(f"  round {turn + 1} of {rounds}: {figures}")

    result = {"ours": ours.summary(), "peers": [], "missing": missing}
    for peer in peers:
        if not peer.samples or not ours.samples:
            continue
        ratios = [a / b for a, b in zip(ours.samples, peer.samples)]
        result["peers"].append(
            {
                **peer.summary(),
                "ratio_of_medians": result["ours"]["median"] / statistics.median(peer.samples),
                "pair_ratios": spread(ratios),
            }
        )
    result["bystanders"] = round(others, 2)
    return result


def short(figure: float | None) -> str:
    """1234567 as 1.23 M."""
    if figure is None:
        return "-"
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(figure) >= size:
            return f"{figure / size:.3g}{unit}"
    return f"{figure:.3g}"
