"""Rows of one run to a tracker, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from maglev_sync import journal as journals
from maglev_sync.errors import Error
from maglev_sync.journal import Turn
from maglev_sync.rows import MetricsFile, Row
from maglev_sync.runs import Outcome, Place, checkpoints_of, identity_of, read_about
from maglev_sync.tracker import Handle, Tracker


@dataclass(frozen=True)
class Options:
    follow: bool = False
    checkpoints: bool = False
    every: int = 0
    anew: bool = False
    progress: Callable[[str, float], None] = lambda name, share: None


@dataclass
class Sent:
    """What became of a run."""

    run: Path
    name: str
    rows: int  # sent now
    total: int  # at the tracker
    state: str
    url: str
    notes: tuple[str, ...]

    def line(self) -> str:
        words = f"{self.name}: {self.rows:,} rows sent, {self.total:,} in all, {self.state}"
        return "\n  ".join([words + (f"  {self.url}" if self.url else ""), *self.notes])


class Sending:
    """A run on its way. While it lives nobody else sends the run."""

    def __init__(self, place: Place, tracker: Tracker, options: Options):
        self.place, self.tracker, self.options = place, tracker, options
        self.id = identity_of(place.folder)
        self.file = MetricsFile(place.folder / "metrics.jsonl")
        self.handle: Handle  # once it is open
        self.url = ""
        self.last: dict[str, int] = {}  # the last step by kind of row, of those that are wanted
        self.rows = self.again = 0  # sent now; found to be there already after a resume
        self.surplus = 0  # rows that the tracker has and the journal does not know of
        self.rewritten = False  # by a resume
        self.whole = True  # what was given so far is written down
        self.turn = Turn(place.folder)
        try:
            self.others = journals.read_all(place.folder)
            self.journal = journals.load(place.folder, tracker.target, self.others)
            self.choose()
        except BaseException:
            self.turn.close()
            raise

    def choose(self) -> None:
        """Which of the tracker's runs, and which rows of it."""
        journal, every = self.journal, self.options.every
        if self.options.anew and (journal.sent or journal.told):
            journal.go_back()
            journal.generation += 1
        if not journal.sent:
            journal.every = every
        elif every not in (0, journal.every or 1):
            raise Error(
                f"[{self.place.folder}] was sent with --every {journal.every or 1} so far, got {every}; "
                "leave it out, or send all anew with --anew"
            )

    # ---- where to begin

    def nothing_new(self, outcome: Outcome) -> bool:
        """Whether the tracker need not be asked."""
        journal = self.journal
        told = outcome.over and journal.told == outcome.told() and not journal.open
        if not told or self.checkpoints_left(outcome) or not self.file.begins_with(journal.bytes, journal.digest):
            return False
        self.stand_behind_what_was_sent()
        return not any(self.wanted(row) for row in self.file.rows())

    def open(self, group_id: str, ends: bool) -> None:
        """`ends`: it is left only when the run has ended."""
        about = read_about(self.place, self.id, self.tracker.name)
        about.group_id = group_id
        if self.journal.generation > 1:
            about.id += f"-{self.journal.generation}"
        self.handle = self.tracker.open(about, self.journal, ends)
        self.url = self.handle.url
        self.journal.told = {}
        self.align(self.handle.there)

    def stand_behind_what_was_sent(self) -> None:
        journal = self.journal
        self.file.seek(journal.bytes, journal.digest)
        self.last = dict(journal.last)

    def align(self, there: int) -> None:
        """Stands behind the rows that the tracker has."""
        journal = self.journal
        lost = journal.sent - there
        if lost > 0 and not there:
            # it was deleted there
            journal.checkpoints = {}
        if 0 < lost <= len(journal.tail):
            journal.take_back(lost)
            journal.known = {}
            self.start_over()
            return
        if lost > 0:
            self.count_to(there)
        self.surplus = max(0, there - journal.sent)
        self.stand_behind_what_was_sent()
        if not self.file.begins_with(journal.bytes, journal.digest):
            self.read_again()

    def count_to(self, there: int) -> None:
        """Stands behind so many rows of the file."""
        self.journal.go_back()
        self.file.seek()
        self.last = {}
        for row in self.file.rows() if there else ():
            if self.wanted(row):
                self.note(row)
            if self.journal.sent == there:
                return

    def start_over(self) -> None:
        """What is in the file is read from its beginning, and what is known to be sent left out."""
        self.file.seek()
        self.last = {}
        self.journal.known |= self.journal.last

    def read_again(self) -> None:
        """A resume cut the file and wrote on."""
        self.rewritten = True
        self.start_over()

    # ---- rows

    def wanted(self, row: Row) -> bool:
        """Whether --every leaves it; events are never left out."""
        every, last = self.journal.every, self.last.get(row.kind)
        wanted = row.kind != "" or every < 2 or last is None or row.step // every != last // every
        if wanted:
            self.last[row.kind] = row.step
        return wanted

    def was_sent(self, row: Row) -> bool:
        """Whether the tracker has a row of its step from before the file was cut."""
        known = self.journal.known.get(row.kind)
        if known is not None and row.step > known:
            del self.journal.known[row.kind]
        return known is not None and row.step <= known

    def note(self, row: Row) -> None:
        self.journal.bytes, self.journal.digest = row.end, row.digest
        self.journal.note(row.kind, row.step)

    def catch_up(self) -> None:
        """Sends all whole rows that are there."""
        file = self.file
        if not file.goes_on():
            same = file.begins_with(file.place, file.digest)
            file.seek(file.place, file.digest) if same else self.read_again()
        chunk: list[Row] = []
        figures = 0
        for row in self.file.rows():
            known, wanted = self.was_sent(row), self.wanted(row)
            self.again += known and self.rewritten
            if known or not wanted:
                continue
            if chunk and figures + len(row.figures) > self.tracker.figures_at_once:
                self.give(chunk)
                chunk, figures = [], 0
            chunk.append(row)
            figures += len(row.figures)
        self.give(chunk)

    def give(self, rows: list[Row]) -> None:
        if not rows:
            return
        journal = self.journal
        self.whole = False
        there, first = min(self.surplus, len(rows)), journal.sent
        for row in rows:
            self.note(row)
        # beforehand: after a crash the tracker says how many of them it has
        if not self.handle.late:
            self.save()
        if rows[there:]:
            self.handle.send(rows[there:], first + there)
        self.surplus -= there
        self.rows += len(rows) - there
        self.whole = True
        self.options.progress(self.place.name, journal.bytes / max(1, self.file.bytes()))

    def save(self) -> None:
        journals.save(self.place.folder, self.tracker.target, self.journal, self.others)

    # ---- the end

    def checkpoints_left(self, outcome: Outcome) -> dict[str, Path]:
        if not self.options.checkpoints or not outcome.over:
            return {}
        found = checkpoints_of(self.place.folder)
        return {which: path for which, path in found.items() if self.journal.checkpoints.get(which) != path.name}

    def close(self, outcome: Outcome) -> None:
        """Tells how the run stands, and lets go of it."""
        try:
            for which, path in self.checkpoints_left(outcome).items():
                self.handle.checkpoint(which, path)
                self.journal.checkpoints[which] = path.name
            self.handle.close(outcome, max(self.journal.last.values(), default=0))
            self.journal.told, self.journal.open = outcome.told(), ""
            self.save()
        except BaseException:
            self.drop()
            raise
        self.turn.close()

    def drop(self) -> None:
        """Lets go of it, as after a crash."""
        try:
            if hasattr(self, "handle"):
                self.handle.drop()
        finally:
            self.turn.close()

    def sent(self, outcome: Outcome) -> Sent:
        notes = []
        if self.again:
            notes.append(
                f"a resume wrote {self.again:,} rows again that had been sent; they stay as they were, or --anew"
            )
        if self.file.damaged:
            notes.append(f"lines of metrics.jsonl that are no rows: {self.file.damaged}")
        if self.options.checkpoints and not outcome.over:
            notes.append("checkpoints are sent when the run has ended")
        folder, name = self.place.folder, self.place.name
        return Sent(folder, name, self.rows, self.journal.sent, outcome.state, self.url, tuple(notes))
