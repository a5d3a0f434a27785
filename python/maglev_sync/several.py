"""All runs that were named, once or until they have ended."""

from __future__ import annotations

import contextlib
import operator
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from maglev_sync import journal as journals
from maglev_sync.errors import COMMAND, Error, Refused, did_you_mean
from maglev_sync.mlflow_tracker import MlflowTracker
from maglev_sync.runs import (
    Group,
    Outcome,
    Place,
    find_places,
    group_outcome,
    group_trains,
    held,
    identity_of,
    is_group,
    members_of,
    read_outcome,
)
from maglev_sync.sending import Options, Sending, Sent
from maglev_sync.tracker import Tracker
from maglev_sync.wandb_tracker import WandbTracker, check_project

TRACKERS = ("wandb", "mlflow")
POLL_S = 1.0
# so often nobody trains before a group of which some wait is over
QUIET_POLLS = 5


class OfARun(Protocol):
    """maglev.Run, which nobody here imports."""

    folder: Path


Given = str | os.PathLike[str] | OfARun


def first_identity(group: Group) -> str:
    """Of its first run that says what it is."""
    for place in members_of(group):
        with contextlib.suppress(Error):
            return identity_of(place.folder)
    raise Error(f"[{group.folder}] holds no run that says what it is")


def outcomes_of(group: Group) -> list[Outcome]:
    """Of those that have begun; one that cannot be read is a failed one."""
    outcomes = [Outcome("running")] if group_trains(group.folder) else []
    for place in members_of(group):
        if (place.folder / "run.json").exists():
            try:
                outcomes.append(read_outcome(place))
            except Error:
                outcomes.append(Outcome("failed"))
    return outcomes


class Several:
    def __init__(self, given: Sequence[str], tracker: Tracker, options: Options, tell: Callable[[str], None]):
        self.given, self.tracker, self.options, self.tell = given, tracker, options, tell
        self.open: dict[Path, Sending] = {}
        self.sent: dict[Path, Sent] = {}
        self.seen: dict[Path, Group] = {}  # groups of runs that were looked at
        self.groups: dict[str, Group] = {}  # those that are open, by their ids
        self.refused: dict[Path, str] = {}
        self.told_why: set[Path] = set()  # of those that were refused
        self.waiting: set[Path] = set()  # runs that train and have written no row yet
        self.told: set[Path] = set()  # of which that was said
        self.folders: dict[str, Path] = {}  # by ids of runs
        self.quiet = 0

    def group_id(self, group: Group) -> str:
        """Opens the group and those around it; it is called after its first run, once and for all."""
        parent_id = self.group_id(group.parent) if group.parent else ""
        stored = journals.load(group.folder, self.tracker.target)
        if not stored.id:
            stored.id = f"{group.kind}-{first_identity(group)}"
        if stored.id not in self.groups:
            # until it is closed
            stored.told = {}
            journals.save(group.folder, self.tracker.target, stored)
            self.tracker.open_group(group, stored.id, parent_id)
            self.groups[stored.id] = group
        return stored.id

    def see(self, group: Group | None) -> None:
        while group:
            self.seen[group.folder] = group
            group = group.parent

    def begin(self, place: Place, outcome: Outcome) -> Sending | None:
        """None where all was sent before."""
        sending = Sending(place, self.tracker, self.options)
        try:
            other = self.folders.setdefault(sending.id, place.folder)
            if other != place.folder:
                raise Error(
                    f"[{place.folder}] is a copy of the run {other}, which is sent; send the one that is to go on alone"
                )
            self.see(place.group)
            if not self.tracker.empty and sending.nothing_new(outcome):
                self.sent[place.folder] = sending.sent(outcome)
                self.tell(self.sent[place.folder].line())
                sending.turn.close()
                return None
            group_id = self.group_id(place.group) if place.group else ""
            sending.open(group_id, outcome.over or self.options.follow)
        except BaseException:
            sending.drop()
            raise
        self.open[place.folder] = sending
        return sending

    def send(self, place: Place) -> None:
        """What there is of one run; closes it where it is over."""
        # how it stands comes first: what was written before that is sent
        outcome = read_outcome(place)
        if not self.has_rows(place, outcome):
            return
        sending = self.open.get(place.folder) or self.begin(place, outcome)
        if sending is None:
            return
        if sending.id != identity_of(place.folder):
            raise Error(f"[{place.folder}] holds another run now than the one that was followed; send it anew")
        # its score comes behind its end
        tried = place.trial is not None and held(place.trial / "trial.lock")
        sending.catch_up()
        if outcome.over and not tried or not self.options.follow:
            self.end(place.folder, outcome)

    def has_rows(self, place: Place, outcome: Outcome) -> bool:
        """Whether its metrics.jsonl is there; one that is followed is waited for. Throws Error where none will be."""
        self.waiting.discard(place.folder)
        if (place.folder / "metrics.jsonl").exists():
            return True
        if outcome.over or not self.options.follow:
            raise Error(
                f"[{place.folder}] has no metrics.jsonl, whose rows are what is sent; "
                "a run that is trained with jsonl among its --sinks has one"
            )
        if place.folder not in self.told:
            self.told.add(place.folder)
            self.tell(f"{place.folder}: no metrics.jsonl yet, waited for")
        self.waiting.add(place.folder)
        return False

    def end(self, folder: Path, outcome: Outcome) -> None:
        sending = self.open.pop(folder)
        sending.close(outcome)
        self.sent[folder] = sending.sent(outcome)
        self.tell(self.sent[folder].line())

    def once(self) -> None:
        """Of several the others are sent where one is refused."""
        places = {place.folder: place for given in self.given for place in find_places(given)}
        for place in places.values():
            begun = not place.group or (place.folder / "run.json").exists()
            if place.folder in self.sent or not begun:
                continue
            try:
                self.send(place)
                self.refused.pop(place.folder, None)
            except (Error, OSError) as error:
                if sending := self.open.pop(place.folder, None):
                    sending.drop()
                waits = self.options.follow and held(place.folder / "run.lock")
                if self.refused.get(place.folder) != str(error) and (len(places) > 1 or waits):
                    self.tell(f"{place.name}: not sent, {error}")
                    self.told_why.add(place.folder)
                self.refused[place.folder] = str(error)

    def follow(self, poll_s: float) -> None:
        while self.goes_on():
            time.sleep(poll_s)
            self.once()

    def goes_on(self) -> bool:
        """Whether more may come."""
        folders = [Path(one) for one in self.given if is_group(Path(one))]
        folders += [group.folder for group in self.groups.values()]
        trains = bool(self.open or self.waiting) or any(map(group_trains, folders))
        trains = trains or any(held(folder / "run.lock") for folder in self.refused)
        self.quiet = 0 if trains else self.quiet + 1
        return trains or bool(folders) and self.quiet < QUIET_POLLS

    def close_groups(self) -> None:
        """Tells how they stand, where that was not told; those within others first, which open them."""
        for group in sorted(self.seen.values(), key=lambda group: -len(group.folder.parts)):
            try:
                self.close_group(group)
            except Error as error:
                self.refused[group.folder] = str(error)
                self.tell(f"{group.name}: its end was not told, {error}")
                self.told_why.add(group.folder)

    def refusal(self) -> Refused:
        short = ""
        if self.refused.keys() <= self.told_why:
            count = f"{len(self.refused)} of {len(self.sent.keys() | self.refused.keys())}"
            short = f"[sync] {count} were refused; why is said of each above"
        return Refused(self.refused.values(), short)

    def close_group(self, group: Group) -> None:
        outcome = group_outcome(group, outcomes_of(group))
        if journals.load(group.folder, self.tracker.target).told == outcome.told():
            return
        self.tracker.close_group(self.group_id(group), outcome)
        stored = journals.load(group.folder, self.tracker.target)
        stored.told = outcome.told()
        journals.save(group.folder, self.tracker.target, stored)

    def leave(self) -> None:
        """Lets go of what is open, as it stands; what was interrupted within a batch is as after a crash."""
        for folder, sending in list(self.open.items()):
            if sending.whole:
                self.end(folder, Outcome("running"))
            else:
                sending.drop()


def check(to: str, project: str, entity: str | None, offline: bool, uri: str | None) -> None:
    """What can be wrong without a look at anything. Throws Error."""
    if to not in TRACKERS:
        known = f"[sync] --to must be one of {', '.join(TRACKERS)}, got {to!r}"
        if str(to).lower() == "tensorboard":
            raise Error(f"{known}; TensorBoard reads what training wrote as it is: tensorboard --logdir runs")
        raise Error(f"{known}{did_you_mean(str(to), TRACKERS)}")
    if not isinstance(project, str) or not project:
        got = "an empty one" if project == "" else repr(project)
        raise Error(f"[sync] --project must be a name, got {got}; leave it out for 'maglev'")
    if not isinstance(entity, str | None):
        raise Error(f"[sync] --entity must be a name, got {entity!r}; leave it out for W&B's own choice")
    if to == "wandb":
        check_project(project)
    if to == "wandb" and uri is not None:
        raise Error("[sync] --uri is MLflow's; W&B's server is chosen by WANDB_BASE_URL")
    if uri == "":
        raise Error("[sync] --uri must be an address or a folder, got ''; leave it out for MLFLOW_TRACKING_URI")
    if to == "mlflow" and (offline or entity):
        word = "--offline" if offline else "--entity"
        raise Error(f"[sync] {word} is W&B's; MLflow needs no network with --uri FOLDER or --uri sqlite:///FILE")


def steps_between(every: Any) -> int:
    """Of rows that are sent; 0: all are. Throws Error."""
    if every is None:
        return 0
    # what counts, numpy's numbers too, and neither 2.5 nor "5"
    with contextlib.suppress(TypeError):
        if operator.index(every) >= 1:
            return operator.index(every)
    raise Error(f"[sync] --every must be a number of env steps from 1 on, got {every!r}; leave it out for all rows")


def as_path(given: Any, what: str) -> str:
    """As a text; throws Error."""
    try:
        return os.fsdecode(given)
    except TypeError:
        raise Error(f"[sync] {what} must be a text or a path, got {given!r}") from None


def named(runs: Given | Iterable[Given]) -> list[str]:
    """One or several, as paths or as maglev.Run."""
    one = not isinstance(runs, Iterable) or isinstance(runs, (str, bytes)) or hasattr(runs, "folder")
    several: Any = [runs] if one else runs
    given = [as_path(getattr(run, "folder", run), "a run") for run in several]
    if not given:
        raise Error(f"[sync] a folder of a run is expected, got none; {COMMAND} runs lists them")
    for run in given:
        find_places(run)
    return given


def sync(
    runs: Given | Iterable[Given],
    to: str,
    *,
    project: str = "maglev",
    follow: bool = False,
    checkpoints: bool = False,
    offline: bool = False,
    uri: str | Path | None = None,
    entity: str | None = None,
    every: int | None = None,
    anew: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    progress: Callable[[str, float], None] = lambda name, share: None,
    poll_s: float = POLL_S,
) -> list[Sent]:
    """Sends runs to a tracker: what is not there yet of their settings, rows and ends.

    runs: a folder or several, each a run, several seeds, a sweep, a study, or a folder of these. to: "wandb", "mlflow".
    project: W&B's project, MLflow's experiment. follow: goes on until they have ended.
    checkpoints: the newest and the best one too, when a run has ended. offline: W&B's folders for `wandb sync`.
    uri: MLflow's server or database, or a folder for one. entity: W&B's team.
    every: one row of so many env steps; None: all. anew: as another run of the tracker, whatever was sent before.
    tell: hears a line of each run that is done, and where they are. progress: of the run that is sent, and which share
      of its file is.
    """
    uri = None if uri is None else as_path(uri, "--uri")
    check(to, project, entity, offline, uri)
    options = Options(follow, checkpoints, steps_between(every), anew, progress)
    given = named(runs)
    tracker = WandbTracker(project, entity, offline) if to == "wandb" else MlflowTracker(project, uri)
    work = Several(given, tracker, options, tell)
    try:
        work.once()
        if follow:
            work.follow(poll_s)
    except KeyboardInterrupt:
        work.leave()
        raise
    work.leave()
    work.close_groups()
    if work.sent and tracker.where:
        tell(tracker.where)
    if work.refused:
        raise work.refusal()
    return list(work.sent.values())
