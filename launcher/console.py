"""What the launcher speaks through: failures, one-line progress, child processes, state files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
# from a wheel, which has no sources
INSTALLED = not (HOME / "CMakeLists.txt").exists()
BUILD = HOME / ".build"


class Failure(Exception):
    """Ends the launcher with one line; status 2: the command or the machine, 1: a failed build."""

    def __init__(self, message: str, status: int = 2):
        super().__init__(message)
        self.status = status


class Screen:
    """One line that is rewritten where stderr is a terminal; elsewhere only lines that stay."""

    def __init__(self):
        self.live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.colours = self.live and not os.environ.get("NO_COLOR")
        self.shown = False

    def show(self, text: str):
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\033[K" + text[:width])
            sys.stderr.flush()
            self.shown = True

    def progress(self, label: str, done: int, total: int, note: str):
        """A bar of what is done, in place."""
        wide = 20
        full = round(wide * done / max(1, total))
        bar = "#" * full + "-" * (wide - full)
        self.show(f"{label} [{bar}] {done}/{total}  {note}")

    def say(self, text: str, colour: str = ""):
        if self.shown:
            sys.stderr.write("\r\033[K")
            self.shown = False
        if colour and self.colours:
            text = f"\033[{colour}m{text}\033[0m"
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


screen = Screen()


def read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text())
        return content if isinstance(content, dict) else {}
    except (OSError, ValueError):
        return {}


def write_json(path: Path, content: dict):
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1))
    os.replace(temporary, path)


def digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()


def log_name(log) -> str:
    return os.path.relpath(log, HOME)


def start(command: list, env=None) -> subprocess.Popen:
    """A command in the repository without input; its output and errors are one stream of lines."""
    try:
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=HOME,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Failure(f"[run] {command[0]} cannot be started: {error.strerror}") from None


def run_logged(command: list, log, on_line=None, env=None) -> tuple[int, list[str]]:
    """Runs a command in the repository without input; every line goes to `log` and to `on_line`."""
    log.write("$ " + shlex.join(str(word) for word in command) + "\n")
    log.flush()
    child = start(command, env)
    lines = []
    try:
        for line in child.stdout:
            log.write(line)
            lines.append(line.rstrip("\n"))
            if on_line:
                on_line(lines[-1])
        return child.wait(), lines
    finally:
        # reached with a live child only when interrupted
        if child.poll() is None:
            child.terminate()
            child.wait()
        log.flush()


def duration(seconds: float) -> str:
    """For people: 40 seconds, 3 minutes."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    return f"{round(seconds / 60)} minutes"


def output_of(*command: str) -> str:
    """What a program prints; empty when it is missing or fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.stdout.strip() if done.returncode == 0 else ""
    except OSError:
        return ""


def numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def no_install() -> bool:
    return os.environ.get("MAGLEV_NO_INSTALL", "") not in ("", "0")
