"""Weights & Biases: a run each, several as a group, online or into folders for `wandb sync`.

A row's number is W&B's own `_step`, so its server says how many it has; env steps are the x axis by define_metric.
Offline a folder that a crash left half written is removed and made anew from the run's own files.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maglev_sync import journal as journals
from maglev_sync.errors import Error, import_package
from maglev_sync.journal import Journal
from maglev_sync.rows import Row
from maglev_sync.runs import About, Group, Outcome
from maglev_sync.settings import typed
from maglev_sync.tracker import STEP

MODES = {"": False, "online": False, "run": False, "offline": True, "dryrun": True}
LONGEST_TAG, LONGEST_PROJECT = 64, 128
NOT_IN_PROJECT = "/\\#?%:"
BLOCK, HEADER = 32768, 7
WRITTEN_S = 60
AGAIN = "send it once more"
LOGIN = "`wandb login` or WANDB_API_KEY says who you are, --offline needs neither that nor a network"


def check_project(project: str) -> None:
    """As its client would of each run anew. Throws Error."""
    if len(project) > LONGEST_PROJECT or set(project) & set(NOT_IN_PROJECT):
        raise Error(
            f"[sync] --project must be a name without {' '.join(NOT_IN_PROJECT)} for W&B, "
            f"of {LONGEST_PROJECT} letters at most, got {project!r}; its user or team is --entity"
        )


def works_offline(offline: bool) -> bool:
    mode = os.environ.get("WANDB_MODE", "")
    if mode not in MODES:
        raise Error(f"[sync] WANDB_MODE must be online or offline here, got {mode!r}; unset it, or give --offline")
    return offline or MODES[mode]


def folder_of_all(run: Path) -> Path:
    """Where its client makes folders of runs."""
    return Path(os.environ.get("WANDB_DIR") or run) / "wandb"


def tags_of(about: About) -> list[str]:
    facts = about.facts
    words = [facts.get("algorithm"), facts.get("environment"), facts.get("machine"), facts.get("commit")]
    if "seed" in facts:
        words.append(f"seed-{facts['seed']}")
    return [word[:LONGEST_TAG] for word in words if word]


def last_record(path: Path) -> bytes:
    """Of a .wandb file: LevelDB's log format, in blocks of 32 KiB, behind a header of 7 bytes. Empty: it is torn."""
    if not path.exists():
        return b""
    whole, part = b"", None
    with open(path, "rb") as file:
        first = max(0, os.fstat(file.fileno()).st_size // BLOCK - 2) * BLOCK
        file.seek(first)
        data, place = file.read(), 0 if first else HEADER
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        place += HEADER + size
        # 1: whole, 2: its first part, 4: its last one; what began before the bytes that were read is none
        begun = b"" if kind in (1, 2) else part
        part = None if begun is None else begun + data[place - size : place]
        whole = (part or b"") if kind in (1, 4) else whole
    return whole if place == len(data) else b""


@contextlib.contextmanager
def reported(what: str, advice: str = AGAIN) -> Iterator[None]:
    """Errors in one line: W&B's, those of its service and of the packages it stands on have no kind in common."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Error(f"[sync] W&B did not take {what}: {reason}; {advice}") from error


class WandbRun:
    def __init__(self, run: Any, there: int, started: float, late: bool, wandb: Any):
        self.run, self.there, self.late = run, there, late
        self.url = "" if late else (run.url or "")
        self.started, self.wandb = started, wandb

    def send(self, rows: list[Row], first: int) -> None:
        with reported(f"rows from step {rows[0].step} on"):
            for number, row in enumerate(rows, first):
                times = {STEP: row.step, "_timestamp": self.started + row.seconds}
                self.run.log({**row.figures, **times}, step=number, commit=True)

    def checkpoint(self, which: str, folder: Path) -> None:
        # names of artifacts are letters, digits, dashes, underscores and dots
        name = re.sub(r"[^\w.-]", "-", f"{self.run.name}-{self.run.id}")
        with reported(f"the checkpoint {folder.name}"):
            artifact = self.wandb.Artifact(f"{name}-{which}", type="model", metadata={"checkpoint": folder.name})
            for path in sorted(folder.iterdir()):
                artifact.add_file(str(path))
            self.run.log_artifact(artifact, aliases=[which, folder.name])

    def close(self, outcome: Outcome, step: int) -> None:
        with reported("the run's end"):
            # None takes back the error of a run that went on
            self.run.summary.update({"state": outcome.state, "error": outcome.error or None, **outcome.figures})
            self.run.finish(exit_code=1 if outcome.state in ("failed", "killed") else 0)
            if self.late:
                self.wait_until_written()

    def drop(self) -> None:
        # else it goes on uploading while the next one of its id begins
        with contextlib.suppress(Exception):
            self.run.finish(exit_code=1)

    def wait_until_written(self) -> None:
        """Its service goes on writing behind finish()."""
        record = import_package("wandb.proto.wandb_internal_pb2", "wandb").Record
        path = Path(self.run.dir).parent / f"run-{self.run.id}.wandb"
        for _ in range(WRITTEN_S * 100):
            if record.FromString(last_record(path)).WhichOneof("record_type") == "exit":
                return
            time.sleep(0.01)
        raise Error(f"[{path}] was not written to its end by W&B's service in {WRITTEN_S} s; send it once more")


class WandbTracker:
    name = "wandb"
    figures_at_once = 20_000
    where = ""  # what is written offline lies in the runs themselves
    empty = False  # whether it is, only a run's own figures say

    def __init__(self, project: str, entity: str | None, offline: bool):
        self.project, self.entity = project, entity
        self.offline = works_offline(offline)
        # its makers are not told how their client does, so that offline nobody is asked for
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self.wandb = import_package("wandb", "wandb")
        server = os.environ.get("WANDB_BASE_URL", "")
        where = "-offline" if self.offline else f"@{server}" if server else ""
        self.target = f"wandb{where}:{entity or ''}/{project}"

    def settings(self, about: About, ends: bool) -> Any:
        """Of the run that was made, not of the machine and the program that send it."""
        return self.wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            host=about.facts.get("machine"),
            init_timeout=30,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            x_update_finish_state=ends,
        )

    def open(self, about: About, journal: Journal, follow: bool) -> WandbRun:
        folder = about.place.folder
        if self.offline:
            self.wait_for_a_new_name(folder)
            self.remove_half_written(about, journal)
        group = about.place.group
        with reported(about.name, AGAIN if self.offline else LOGIN):
            run = self.wandb.init(
                id=about.id,
                project=self.project,
                entity=self.entity,
                name=about.name,
                group=group.top().name if group else None,
                job_type=f"trial-{about.facts['trial']}" if "trial" in about.facts else None,
                tags=tags_of(about),
                dir=os.environ.get("WANDB_DIR") or str(folder),
                mode="offline" if self.offline else "online",
                resume="allow",
                reinit="create_new",
                force=not self.offline,
                settings=self.settings(about, follow),
            )
        there = journal.sent if self.offline else run.starting_step
        made = WandbRun(run, there, about.started, self.offline, self.wandb)
        try:
            if self.offline:
                journal.open = Path(run.dir).parent.name
                journals.save(folder, self.target, journal)
            with reported(f"the settings of {about.name}"):
                run.config.update({**typed(about.settings), "maglev": about.facts}, allow_val_change=True)
                run.define_metric(STEP)
                run.define_metric("*", step_metric=STEP)
        except BaseException:
            made.drop()
            raise
        return made

    def wait_for_a_new_name(self, folder: Path) -> None:
        """W&B calls its folders by the second, and what goes into one that is there is lost."""
        made = max((path.stat().st_mtime for path in folder_of_all(folder).glob("offline-run-*")), default=0.0)
        # files' times are some milliseconds behind the clock
        time.sleep(max(0.0, min(1.1, made + 1.1 - time.time())))

    def remove_half_written(self, about: About, journal: Journal) -> None:
        """What it has is in metrics.jsonl; where a person has uploaded it all the same, the server has these rows."""
        left = folder_of_all(about.place.folder) / Path(journal.open).name
        # behind the run's id stands a number after --anew
        if re.fullmatch(rf"offline-run-\w+-{about.id.partition('-')[0]}(-\d+)?", left.name) and left.is_dir():
            shutil.rmtree(left)
        journal.open = ""

    def open_group(self, group: Group, group_id: str, parent_id: str) -> None:
        """Runs name their group themselves."""

    def close_group(self, group_id: str, outcome: Outcome) -> None:
        pass
