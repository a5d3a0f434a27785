"""What a tracker does for the sending side."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from maglev_sync.journal import Journal
from maglev_sync.rows import Row
from maglev_sync.runs import About, Group, Outcome

# a tracker's run, its rows beside the others'
STEP = "global_step"


class Handle(Protocol):
    """A run that is open at the tracker."""

    there: int  # rows that it has; they are never sent again
    url: str
    late: bool  # what is sent is there only once it is closed

    def send(self, rows: list[Row], first: int) -> None:
        """Rows number `first` and following."""

    def checkpoint(self, which: str, folder: Path) -> None:
        """Sends a checkpoint's files, `which`: "final", "best"."""

    def close(self, outcome: Outcome, step: int) -> None:
        """Tells how the run stands, at its last step; where it is running, more may come."""

    def drop(self) -> None:
        """Lets go of it, as after a crash. Throws nothing."""


class Tracker(Protocol):
    name: str  # "wandb", "mlflow"
    target: str  # which tracker and project, without passwords
    where: str  # where runs are that have no address, for people; "" where they have one
    figures_at_once: int
    empty: bool  # it has nothing of the project

    def open(self, about: About, journal: Journal, follow: bool) -> Handle:
        """Makes the run, or goes on with it; `follow`: it stays open until it ends."""

    def open_group(self, group: Group, group_id: str, parent_id: str) -> None:
        """Makes what stands for several runs, where the tracker has such."""

    def close_group(self, group_id: str, outcome: Outcome) -> None:
        """How they came out."""
