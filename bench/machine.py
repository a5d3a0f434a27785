"""What a measurement ran on, and whether something else was running beside it."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import time
from pathlib import Path

CALM_LOAD = 0.3


def processor() -> str:
    """Name, family and model: hosts may give every generation of a maker's one name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""

    def value(key: str) -> str:
        match = re.search(rf"^{key}\s*:\s*(.+)$", text, re.MULTILINE)
        return match[1].strip() if match else ""

    name = value("model name") or platform.processor() or platform.machine()
    family, model = value("cpu family"), value("model")
    return f"{name}, family {family} model {model}" if family and model else name


def cores() -> int:
    return len(os.sched_getaffinity(0))


def machine() -> dict:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor(),
        "cores": cores(),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def machine_name() -> str:
    """For a file of results: letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{processor()} {cores()} cores".lower()).strip("-")


def load() -> float:
    return os.getloadavg()[0]


def wait_until_calm(limit_s: float) -> float:
    """Waits at most `limit_s` for the load to fall; returns the load."""
    end = time.monotonic() + limit_s
    while load() > CALM_LOAD and time.monotonic() < end:
        time.sleep(2)
    return load()


def commit(folder: Path) -> str:
    """Commit of the checkout that `folder` lies in; "+" where tracked files differ from it.
    Empty where that is unknown."""

    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            return ""
        return done.stdout.strip()

    name = git("rev-parse", "--short=12", "HEAD")
    return name + ("+" if name and git("status", "--porcelain", "-uno") else "")


def _busy_s() -> float:
    """Processor seconds spent by the whole machine, time taken by its host included."""
    try:
        ticks = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError):
        return float("nan")
    user, nice, system, _idle, _wait, irq, soft, stolen = ticks
    return (user + nice + system + irq + soft + stolen) / os.sysconf("SC_CLK_TCK")


class Bystanders:
    """Processors that programs other than our children kept busy since it was made.

    Counts children only once they have ended and were waited for.
    """

    def __init__(self):
        self._begin = (time.monotonic(), _busy_s(), self._ours_s())

    @staticmethod
    def _ours_s() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
        return sum(u.ru_utime + u.ru_stime for u in used)

    def processors(self) -> float:
        wall, busy, ours = (
            now - then
            for now, then in zip((time.monotonic(), _busy_s(), self._ours_s()), self._begin)
        )
        return max(0.0, (busy - ours) / max(wall, 1e-3))
