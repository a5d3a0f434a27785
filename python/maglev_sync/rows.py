"""metrics.jsonl a row at a time, from any place on, while it grows."""

from __future__ import annotations

import json
import math
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

PIECE_BYTES = 1 << 20


class Row(NamedTuple):
    kind: str  # "": a flush; else of what the event is: "eval"
    step: int
    seconds: float
    figures: dict[str, float]  # all but the step; NaN: null
    end: int  # bytes of the file up to behind its line
    digest: int  # of these bytes


def is_number(value: object) -> TypeGuard[float]:
    """Neither a truth value nor a whole number that no float can hold."""
    return isinstance(value, float) or type(value) is int and abs(value) <= sys.float_info.max


def row_of(line: bytes, end: int, digest: int) -> Row | None:
    """As the engine reads it (base/metrics/rows.h): None where it is no JSON object with a whole number "step"."""
    try:
        json_row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(json_row, dict) or not is_number(json_row.get("step")):
        return None
    step = json_row.pop("step")
    if not math.isfinite(step) or step != int(step):
        return None
    figures = {
        name: math.nan if value is None else value
        for name, value in json_row.items()
        if value is None or is_number(value)
    }
    kind = ""
    if "episodes" not in figures:
        kind = next((name.split("/")[0] for name in figures if name != "seconds"), "event")
    seconds = figures.get("seconds", math.nan)
    return Row(kind, int(step), seconds if math.isfinite(seconds) else 0.0, figures, end, digest)


class MetricsFile:
    """Rows behind a place; a last line without its end waits."""

    def __init__(self, path: Path):
        self.path = path
        self.seek()

    def bytes(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def goes_on(self) -> bool:
        """Whether what was read still stands before what comes; a look at the file's name alone."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return self.place == 0
        return found.st_ino == self.node and found.st_size >= self.place

    def begins_with(self, size: int, digest: int) -> bool:
        """Whether the first `size` bytes are those of the digest."""
        if self.bytes() < size:
            return False
        found, left = 0, size
        if size:
            with open(self.path, "rb") as file:
                while left and (piece := file.read(min(left, PIECE_BYTES))):
                    found, left = zlib.crc32(piece, found), left - len(piece)
        return left == 0 and found == digest

    def seek(self, place: int = 0, digest: int = 0) -> None:
        self.place, self.digest = place, digest  # bytes that were read, and their CRC
        self.damaged = 0  # lines behind the place that are none
        self.node: int | None = None  # the file that was read last

    def rows(self) -> Iterator[Row]:
        """Whole rows from the place on, which moves along."""
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            return
        with file:
            node = os.fstat(file.fileno()).st_ino
            # replaced since it was looked at: its rows are no continuation
            if self.node not in (None, node):
                return
            self.node = node
            file.seek(self.place)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.place += len(line)
                self.digest = zlib.crc32(line, self.digest)
                row = row_of(line, self.place, self.digest)
                if row:
                    yield row
                else:
                    self.damaged += 1
