"""sync.json in a run folder: how far each tracker has been sent to.

It is written before rows are sent, and what a tracker says it has counts more, where it can say it (Handle.there): a
crash in between neither loses nor doubles a row.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from maglev_sync.errors import Error
from maglev_sync.runs import read_json

FILE = "sync.json"
TAIL = 1000
ADVICE = "remove it, and the tracker is asked; of W&B offline remove its folders too"


@dataclass
class Journal:
    """Of one folder and one target: a tracker's project."""

    id: str = ""  # of a group
    generation: int = 1  # raised by --anew
    every: int = 0
    sent: int = 0  # rows, in all
    bytes: int = 0  # of metrics.jsonl, up to behind the last row that was sent
    digest: int = 0  # of these
    last: dict[str, int] = field(default_factory=dict)  # the last step by kind of row
    # of a file that a resume cut: up to which step of a kind rows are there already, until one goes beyond
    known: dict[str, int] = field(default_factory=dict)
    # the last rows that were sent, by kind and step, and the last step by kind before them: uploads may get lost
    tail: list[list[Any]] = field(default_factory=list)
    base: dict[str, int] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)  # how it stands, as the tracker was told
    checkpoints: dict[str, str] = field(default_factory=dict)
    open: str = ""  # W&B's folder that is being written, its name alone; worth nothing until it is closed

    def go_back(self) -> None:
        """Before the first row."""
        self.sent = self.bytes = self.digest = 0
        self.last, self.known, self.tail, self.base, self.checkpoints = {}, {}, [], {}, {}
        self.told = {}

    def note(self, kind: str, step: int) -> None:
        """A row of these was sent."""
        self.sent += 1
        self.last[kind] = step
        self.tail.append([kind, step])
        if len(self.tail) > 2 * TAIL:
            self.base |= dict(self.tail[:TAIL])
            del self.tail[:TAIL]

    def take_back(self, lost: int) -> None:
        """The last rows of the tail never arrived."""
        del self.tail[len(self.tail) - lost :]
        self.sent -= lost
        self.last = {**self.base, **dict(self.tail)}


def read_all(folder: Path) -> dict[str, Any]:
    """By targets."""
    return read_json(folder / FILE, ADVICE)


def load(folder: Path, target: str, all_targets: dict[str, Any] | None = None) -> Journal:
    """`all_targets`: what read_all gave, where it was asked."""
    path = folder / FILE
    stored = (read_all(folder) if all_targets is None else all_targets).get(target, {})
    known = {one.name for one in fields(Journal)}
    try:
        return Journal(**{name: value for name, value in stored.items() if name in known})
    except (TypeError, AttributeError):
        raise Error(f"[{path}] must hold what was sent, got {json.dumps(stored)[:80]}; {ADVICE}") from None


def save(folder: Path, target: str, journal: Journal, others: dict[str, Any] | None = None) -> None:
    """At once: readers find the old one before and the new one after. `others`: those of other targets, where known."""
    path = folder / FILE
    plain = asdict(Journal())
    said = {name: value for name, value in asdict(journal).items() if value != plain[name]}
    content = (read_all(folder) if others is None else others) | {target: said}
    temporary = folder / f".{FILE}.{os.getpid()}"
    try:
        temporary.write_text(json.dumps(content) + "\n")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Error(f"[{path}] cannot be written: {error.strerror}; what was sent is kept there") from None


class Turn:
    """One sync at a time of a folder."""

    def __init__(self, folder: Path):
        self.path = folder / "sync.lock"
        try:
            self.file = open(self.path, "a")
        except OSError as error:
            raise Error(f"[{self.path}] cannot be written: {error.strerror}; what was sent is kept beside it") from None
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.file.close()
            raise Error(f"[{folder}] is being sent by another process; wait for it to end, or stop it") from None

    def close(self) -> None:
        self.file.close()
