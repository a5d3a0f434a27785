"""MLflow: a run each, below a parent run where they are several; a server, or a database in a folder.

How many rows it has is a tag that each batch of metrics sets; what a crash in between sends again, its databases hold
once, for a row has the same time stamps each time.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from maglev_sync.errors import Error, import_package
from maglev_sync.journal import Journal
from maglev_sync.rows import Row
from maglev_sync.runs import About, Group, Outcome

# what MLflow takes at once is 1,000; its client counts the tag of a batch too, and sends what is more behind it
METRICS, PARAMS = 999, 100
LONGEST_PARAM, LONGEST_TAG = 6000, 5000
RUN, ROWS, STATE, ERROR, CHANGED = (f"maglev.{name}" for name in ("run", "rows", "state", "error", "changed"))
STATUS = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "killed": "KILLED"}


@functools.lru_cache(maxsize=4096)
def name_of(name: str) -> str:
    """A metric's or a setting's name as MLflow allows it."""
    name = re.sub(r"[^\w.\-/ ]", "_", name)
    return (
        name if posixpath.normpath(name) == name and name[0] not in "/." else name.replace("/", "_").replace("..", "_")
    )


def without_password(text: str) -> str:
    """An address, or a text with some: who asks, and what stands behind "?", are left out."""
    return re.sub(r"(//)[^/\s]*@|\?[^\s'\"]*", r"\1", text)


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Errors in one line: MLflow's, its database's and those of who makes that have no kind in common."""
    try:
        yield
    except Error:
        raise
    except ImportError as error:
        raise Error(f"[sync] MLflow cannot take {what}: {error}; install that driver into .venv") from None
    except Exception as error:
        reason = without_password(" ".join(str(error).split())) or type(error).__name__
        raise Error(f"[sync] MLflow refused {what}: {reason}") from error


@contextlib.contextmanager
def turn_to_make(uri: str) -> Iterator[None]:
    """One at a time opens the databases of a folder: MLflow breaks off where two make the same one."""
    if not uri.startswith("sqlite:///"):
        yield
        return
    folder = Path(unquote(uri.removeprefix("sqlite:///").partition("?")[0])).absolute().parent
    while not folder.exists():
        folder = folder.parent
    with contextlib.ExitStack() as until:
        # some network file systems lock no folders
        with contextlib.suppress(OSError):
            locked = os.open(folder, os.O_RDONLY)
            until.callback(os.close, locked)
            fcntl.flock(locked, fcntl.LOCK_EX)
        yield


class MlflowRun:
    late = False

    def __init__(self, client: Any, entities: Any, info: dict[str, Any]):
        self.client, self.entities = client, entities
        self.run_id, self.url = str(info["id"]), str(info["url"])
        self.there, self.started = int(info["there"]), float(info["started"])

    def millis(self, seconds: float) -> int:
        return round(1000 * (self.started + seconds))

    def metrics_of(self, row: Row) -> list[Any]:
        time = self.millis(row.seconds)
        return [
            self.entities.Metric(name_of(name), float(value), time, row.step) for name, value in row.figures.items()
        ]

    def batches(self, rows: list[Row], first: int) -> Iterator[tuple[list[Any], int]]:
        """Metrics, and how many rows are whole with them; a row wider than a batch is whole with its last one."""
        batch: list[Any] = []
        whole = first
        for row in rows:
            metrics = self.metrics_of(row)
            if batch and len(batch) + len(metrics) > METRICS:
                yield batch, whole
                batch = []
            batch += metrics
            while len(batch) > METRICS:
                yield batch[:METRICS], whole
                batch = batch[METRICS:]
            whole += 1
        if batch or whole > first:
            yield batch, whole

    def send(self, rows: list[Row], first: int) -> None:
        with reported(f"rows from step {rows[0].step} on"):
            for batch, whole in self.batches(rows, first):
                self.client.log_batch(self.run_id, metrics=batch, tags=[self.entities.RunTag(ROWS, str(whole))])

    def checkpoint(self, which: str, folder: Path) -> None:
        with reported(f"the checkpoint {folder.name}"):
            # a folder `checkpoints` is what a run is known by
            self.client.log_artifacts(self.run_id, str(folder), f"checkpoint/{which}")

    def close(self, outcome: Outcome, step: int) -> None:
        time = round(1000 * outcome.ended) or None
        with reported("the run's end"):
            for name, value in outcome.figures.items() if outcome.over else ():
                self.client.log_metric(self.run_id, name, value, timestamp=time, step=step)
            self.client.set_tag(self.run_id, STATE, outcome.state)
            if outcome.error:
                self.client.set_tag(self.run_id, ERROR, outcome.error[:LONGEST_TAG])
            if outcome.over:
                self.client.set_terminated(self.run_id, STATUS.get(outcome.state, "FAILED"), end_time=time)

    def drop(self) -> None:
        """It has nothing open."""


class MlflowTracker:
    name = "mlflow"
    figures_at_once = METRICS

    def __init__(self, project: str, uri: str | None):
        # nothing is told to others than the one who was named
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        mlflow = import_package("mlflow", "mlflow")
        self.entities = import_package("mlflow.entities", "mlflow")
        self.artifacts: str | None = None
        self.uri = self.address(uri or mlflow.get_tracking_uri())
        self.target = f"mlflow:{without_password(self.uri)}:{project}"
        self.project = project
        self.where = self.whereabouts(named=uri is not None)
        with reported(f"the address {without_password(self.uri)}"), turn_to_make(self.uri):
            self.client = mlflow.MlflowClient(tracking_uri=self.uri)
            self.experiment = self.find_experiment()
        self.parents: dict[str, str] = {}  # MLflow's runs by ids of groups

    def address(self, uri: str) -> str:
        """A folder stands for a database in it and its files beside that."""
        if re.match(r"sqlite:///[^/:]", uri):
            return f"sqlite:///{os.path.abspath(uri.removeprefix('sqlite:///'))}"
        if "://" in uri or uri in ("databricks", "uc"):
            return uri
        folder = Path(os.path.abspath(uri.removeprefix("file:")))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(
                f"[sync] --uri {uri} must be an address or a folder: it cannot be made, {error.strerror}"
            ) from None
        self.artifacts = (folder / "artifacts").as_uri()
        return f"sqlite:///{folder / 'mlflow.db'}"

    def whereabouts(self, named: bool) -> str:
        """Of a server each run has its own address."""
        if self.uri.startswith("http") or "://" not in self.uri:
            return ""
        address = without_password(self.uri)
        named = named or import_package("mlflow", "mlflow").is_tracking_uri_set()
        by = "" if named else " (MLflow's own choice; --uri or MLFLOW_TRACKING_URI names another)"
        pages = f"; its pages: mlflow ui --backend-store-uri '{address}'" if address.startswith("sqlite:") else ""
        return f"sent to {address}{by}{pages}"

    def find_experiment(self) -> str:
        found = self.client.get_experiment_by_name(self.project)
        self.empty = found is None
        if found is None:
            return str(self.client.create_experiment(self.project, artifact_location=self.artifacts))
        if found.lifecycle_stage != "active":
            raise Error(
                f"[sync] MLflow's experiment {self.project!r} is deleted; restore it, or take another --project"
            )
        return str(found.experiment_id)

    def find_run(self, run_id: str) -> Any:
        found = self.client.search_runs([self.experiment], filter_string=f"tags.`{RUN}` = '{run_id}'", max_results=1)
        return found[0] if found else None

    def run_for(self, run_id: str, name: str, started: float, tags: dict[str, str]) -> Any:
        """The run of this id, made or gone on with."""
        found = self.find_run(run_id)
        if found is None:
            time = round(1000 * started) or None
            return self.client.create_run(self.experiment, start_time=time, tags={RUN: run_id, **tags}, run_name=name)
        self.client.update_run(found.info.run_id, status="RUNNING", name=name)
        if ERROR in found.data.tags:
            self.client.delete_tag(found.info.run_id, ERROR)
        own = [self.entities.RunTag(key, value) for key, value in tags.items() if found.data.tags.get(key) != value]
        if own:
            self.client.log_batch(found.info.run_id, tags=own)
        return found

    def open(self, about: About, journal: Journal, follow: bool) -> MlflowRun:
        tags = {name: value[:LONGEST_TAG] for name, value in about.facts.items()}
        if re.fullmatch(r"[0-9a-f]{7,40}", about.facts.get("commit", "")):
            tags["mlflow.source.git.commit"] = about.facts["commit"]
        if about.group_id in self.parents:
            tags["mlflow.parentRunId"] = self.parents[about.group_id]
        with reported(f"the run {about.name}"):
            run = self.run_for(about.id, about.name, about.started, tags)
            self.send_settings(run, about.flat_settings())
        there = int(run.data.tags.get(ROWS, 0))
        url = ""
        if self.uri.startswith("http"):
            url = f"{without_password(self.uri).rstrip('/')}/#/experiments/{self.experiment}/runs/{run.info.run_id}"
        info = {"id": run.info.run_id, "there": there, "url": url, "started": about.started}
        return MlflowRun(self.client, self.entities, info)

    def send_settings(self, run: Any, settings: dict[str, str]) -> None:
        """A setting that MLflow has is never another there: what a resume changed is a tag."""
        wanted = {name_of(name): value[:LONGEST_PARAM] for name, value in settings.items()}
        params = run.data.params
        new = [self.entities.Param(name, value) for name, value in wanted.items() if name not in params]
        for first in range(0, len(new), PARAMS):
            self.client.log_batch(run.info.run_id, params=new[first : first + PARAMS])
        changed = [
            f"{name}: {params[name]} -> {value}" for name, value in wanted.items() if params.get(name, value) != value
        ]
        if changed:
            self.client.set_tag(run.info.run_id, CHANGED, "; ".join(changed)[:LONGEST_TAG])

    def open_group(self, group: Group, group_id: str, parent_id: str) -> None:
        if group_id in self.parents:
            return
        tags = {"group": group.kind}
        if parent_id:
            tags["mlflow.parentRunId"] = self.parents[parent_id]
        with reported(f"the group {group.name}"):
            self.parents[group_id] = self.run_for(group_id, group.name, 0, tags).info.run_id

    def close_group(self, group_id: str, outcome: Outcome) -> None:
        info = {"id": self.parents[group_id], "there": 0, "url": "", "started": 0}
        MlflowRun(self.client, self.entities, info).close(outcome, 0)
