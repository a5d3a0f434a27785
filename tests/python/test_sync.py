"""`./maglev sync`: runs in Weights & Biases and MLflow. Recorders stand for their clients, and hold what they promise;
where the packages are installed their own files are read back."""

import ast
import collections
import fcntl
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
from conftest import BUILD, HOME
from waiting import LONG_S, wait_for

sys.path.insert(0, str(HOME / "python"))
import maglev_sync  # noqa: E402
from maglev_sync import several, wandb_tracker  # noqa: E402
from maglev_sync.__main__ import main  # noqa: E402
from maglev_sync.settings import typed  # noqa: E402

CONFIG = """\
seed: {seed}
train:
  steps: 20000
  graph: off
  quiet: false
ppo:
  lr: 3e-4
  network:
    hidden: [64, 64]
"""
REPRODUCE = """\
# How to get this run again

- seed: 1
- maglev: 0.1.0
- git commit: 0123abc4567
- plug-ins: /home/me/mine (77d0a4e)
- torch: 2.13.0
- device: cpu

## Continued at step 100

- git commit: 89abcde0123
"""


def row(step, **figures):
    values = {
        "step": step,
        "seconds": step / 1000,
        "steps_per_second": 9.5,
        "return_mean": step / 10,
        "episodes": step // 50,
    }
    return json.dumps(values | {"loss/policy": -0.5} | figures) + "\n"


def event(step, value=1.5):
    return json.dumps({"step": step, "seconds": step / 1000 + 0.01, "eval/return_mean": value}) + "\n"


def status(folder, **changes):
    known = json.loads((folder / "run.json").read_text()) if (folder / "run.json").exists() else {}
    # as the engine: readers find the old one or the new one
    (folder / "run.json.new").write_text(json.dumps(known | changes))
    os.replace(folder / "run.json.new", folder / "run.json")


def make_run(folder, lines=(), state="finished", seed=1, **changes):
    """A run's folder as training leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(CONFIG.format(seed=seed))
    (folder / "reproduce.md").write_text(f"    ./maglev train --out {folder}\n{REPRODUCE}")
    (folder / "metrics.jsonl").write_text("".join(lines))
    times = {"started": 1000.25, "ended": 1100.5}
    who = {"algo": "ppo", "env": "cartpole", "env_title": "cartpole", "host": "elsewhere"}
    status(folder, **{**who, **times, "state": state, "message": "", **changes})
    return folder


def append(folder, *lines):
    with open(folder / "metrics.jsonl", "a") as file:
        file.write("".join(lines))


def checkpoint(run, step, size=4, sequence=None):
    folder = run / "checkpoints" / f"step_{step:012}"
    folder.mkdir(parents=True)
    (folder / "state.safetensors").write_bytes(b"abcd")
    (folder / "manifest.json").write_text(json.dumps({"state_file": {"bytes": size}, "sequence": sequence or step}))
    return folder


class Crash(BaseException):
    """Ends the program where it stands."""


class Recorder:
    """What both have in common: a crash, after so many calls that send rows."""

    def __init__(self):
        self.calls = 0
        self.crash_at, self.crash = None, Crash
        self.rows_sent = 0

    def call(self):
        self.calls += 1
        if self.calls == self.crash_at:
            raise self.crash


class Wandb(Recorder):
    """W&B's client: rows are known by their numbers, a server has some of them when a program crashes."""

    def __init__(self):
        super().__init__()
        self.runs = {}
        self.loses = 0
        self.inits = 0
        self.module = types.ModuleType("wandb")
        self.module.errors = types.SimpleNamespace(Error=type("WandbError", (Exception,), {}))
        self.module.Settings = lambda **settings: settings
        self.module.Artifact = WandbArtifact
        self.module.init = self.init
        self.refuses = ""

    def init(self, **how):
        if self.refuses:
            raise self.module.errors.Error(self.refuses)
        self.inits += 1
        run = self.runs.setdefault(how["id"], WandbRun(self))
        run.begin(how)
        return run

    def rows(self, run_id=None):
        """Figures by number, in the tracker's order, and none twice."""
        run = self.runs[run_id] if run_id else next(iter(self.runs.values()))
        assert sorted(run.history) == list(range(len(run.history)))
        return [run.history[number] for number in sorted(run.history)]

    def steps(self, run_id=None):
        return [row["global_step"] for row in self.rows(run_id)]


class WandbArtifact:
    def __init__(self, name, type, metadata):
        assert re.fullmatch(r"[\w.-]+", name)
        self.name, self.files = name, []

    def add_file(self, path):
        self.files.append(Path(path).name)


class WandbRun:
    def __init__(self, server):
        self.server, self.history, self.unsent = server, {}, {}
        self.how, self.artifacts, self.metrics, self.exits = {}, [], [], []
        self.config = types.SimpleNamespace(update=self.update)
        self.settings, self.summary, self.folders = {}, {}, {}

    def begin(self, how):
        self.how, self.id, self.name, self.url = how, how["id"], how["name"], "https://wandb.test/" + how["id"]
        # an upload that a crash cut short
        for number in sorted(self.unsent)[: len(self.unsent) - self.server.loses]:
            self.history[number] = self.unsent[number]
        self.unsent = {}
        self.starting_step = 0
        if how["mode"] == "online":
            self.starting_step = max(self.history, default=-1) + 1
        else:
            above = Path(how["dir"]) / "wandb"
            # what was removed is never uploaded
            for name in [name for name in self.folders if not (above / name).exists()]:
                for number in self.folders.pop(name):
                    del self.history[number]
            folder = above / f"offline-run-{self.server.inits}-{how['id']}"
            (folder / "files").mkdir(parents=True)
            self.dir = str(folder / "files")
        self.written = {}

    def update(self, settings, allow_val_change):
        self.settings.update(settings)

    def define_metric(self, name, step_metric=None):
        self.metrics.append((name, step_metric))

    def log(self, figures, step, commit):
        assert commit
        self.server.call()
        assert step not in self.history and step not in self.unsent and step not in self.written
        self.server.rows_sent += 1
        (self.unsent if self.how["mode"] == "online" else self.written)[step] = figures

    def log_artifact(self, artifact, aliases):
        self.artifacts.append((artifact.name, artifact.files, aliases))

    def finish(self, exit_code):
        for number, figures in {**self.unsent, **self.written}.items():
            assert number not in self.history
            self.history[number] = figures
        if self.how["mode"] == "offline":
            self.folders[Path(self.dir).parent.name] = list(self.written)
        self.unsent, self.written = {}, {}
        self.exits.append(exit_code)


class Mlflow(Recorder):
    """MLflow's client before a database: the same metric twice is there once."""

    def __init__(self):
        super().__init__()
        self.store = {}
        self.experiments = {}
        self.torn = False
        tuple_of = collections.namedtuple
        self.module = types.ModuleType("mlflow")
        self.module.exceptions = types.SimpleNamespace(MlflowException=type("MlflowException", (Exception,), {}))
        self.module.MlflowClient = lambda tracking_uri: self
        self.module.get_tracking_uri = lambda: "http://user:secret@mlflow.test"
        self.entities = types.ModuleType("mlflow.entities")
        self.entities.Metric = tuple_of("Metric", "key value timestamp step")
        self.entities.Param = tuple_of("Param", "key value")
        self.entities.RunTag = tuple_of("RunTag", "key value")

    def get_experiment_by_name(self, name):
        return self.experiments.get(name)

    def create_experiment(self, name, artifact_location):
        self.experiments[name] = types.SimpleNamespace(
            experiment_id=str(len(self.experiments)), lifecycle_stage="active"
        )
        return self.experiments[name].experiment_id

    def search_runs(self, experiments, filter_string, max_results):
        key, value = re.fullmatch(r"tags\.`(.+)` = '(.+)'", filter_string).groups()
        return [run for run in self.store.values() if run.data.tags.get(key) == value][:max_results]

    def create_run(self, experiment, start_time, tags, run_name):
        info = types.SimpleNamespace(
            run_id=f"m{len(self.store)}", status="RUNNING", start_time=start_time, name=run_name, end_time=None
        )
        run = types.SimpleNamespace(
            info=info, data=types.SimpleNamespace(tags=dict(tags), params={}), metrics={}, artifacts=[]
        )
        self.store[info.run_id] = run
        return run

    def update_run(self, run_id, status, name):
        self.store[run_id].info.status, self.store[run_id].info.name = status, name

    def log_batch(self, run_id, metrics=(), params=(), tags=()):
        run = self.store[run_id]
        assert len(metrics) + len(params) + len(tags) <= 1000 and len(params) <= 100
        for param in params:
            assert run.data.params.get(param.key, param.value) == param.value and len(param.value) <= 6000
            run.data.params[param.key] = param.value
        if metrics and not self.torn:
            self.call()
        for metric in metrics:
            assert re.fullmatch(r"[/\w.\- :]+", metric.key)
            value = "nan" if math.isnan(metric.value) else metric.value
            run.metrics[(metric.key, value, metric.timestamp, metric.step)] = metric
        if metrics and self.torn:
            self.call()
        for tag in tags:
            run.data.tags[tag.key] = tag.value
        self.rows_sent += len({metric.step for metric in metrics})

    def delete_tag(self, run_id, key):
        del self.store[run_id].data.tags[key]

    def log_metric(self, run_id, key, value, timestamp, step):
        self.log_batch(run_id, metrics=[self.entities.Metric(key, value, timestamp, step)])

    def set_tag(self, run_id, key, value):
        self.store[run_id].data.tags[key] = value

    def set_terminated(self, run_id, status, end_time):
        self.store[run_id].info.status, self.store[run_id].info.end_time = status, end_time

    def log_artifacts(self, run_id, folder, path):
        self.store[run_id].artifacts.append((path, sorted(file.name for file in Path(folder).iterdir())))

    def run(self, name):
        return next(run for run in self.store.values() if run.info.name == name)

    def steps(self, run_id=None):
        """Of the figures that all rows have, and none twice."""
        run = self.store[run_id] if run_id else next(run for run in self.store.values() if run.metrics)
        return [metric.step for metric in run.metrics.values() if metric.key == "seconds"]


@pytest.fixture
def wandb(monkeypatch):
    server = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", server.module)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_DIR", raising=False)
    # folders of the recorder are called by numbers, and no two by the same
    monkeypatch.setattr(several.WandbTracker, "wait_for_a_new_name", lambda self, folder: None)
    monkeypatch.setattr(wandb_tracker.WandbRun, "wait_until_written", lambda self: None)
    return server


@pytest.fixture
def mlflow(monkeypatch):
    server = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", server.module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", server.entities)
    return server


@pytest.fixture(params=["wandb", "wandb --offline", "mlflow"])
def tracker(request):
    """A recorder, and what sends to it."""
    server = request.getfixturevalue(request.param.split()[0])
    offline = "offline" in request.param
    options = {"to": request.param.split()[0], **({"offline": True} if offline else {})}
    server.send = lambda runs, **more: maglev_sync.sync(runs, **options, **more)
    server.online = not offline
    return server


LINES = [row(100), row(200), event(100), row(300), event(300, 2.5)]
STEPS = [100, 200, 100, 300, 300]


# ---- what is sent


def test_wandb_gets_settings_rows_tags_and_the_end(wandb, tmp_path):
    run = make_run(tmp_path / "a", [*LINES, row(400, **{"loss/policy": None})])
    (sent,) = maglev_sync.sync(run, to="wandb", project="carts", entity="team")
    (there,) = wandb.runs.values()
    assert (sent.rows, sent.total, sent.state, sent.url) == (6, 6, "finished", there.url)
    assert there.how["name"] == "a" and there.how["project"] == "carts" and there.how["entity"] == "team"
    assert there.how["resume"] == "allow" and there.how["group"] is None
    assert there.settings["ppo"] == {"lr": 3e-4, "network": {"hidden": [64, 64]}}
    assert there.settings["train"] == {"steps": 20000, "graph": "off", "quiet": False}
    assert there.settings["maglev"]["commit"] == "89abcde0123" and there.settings["maglev"]["machine"] == "elsewhere"
    assert there.settings["maglev"]["plugins"] == "/home/me/mine (77d0a4e)"
    assert set(there.how["tags"]) == {"ppo", "cartpole", "elsewhere", "89abcde0123", "seed-1"}
    assert there.metrics == [("global_step", None), ("*", "global_step")]
    assert wandb.steps() == [*STEPS, 400]
    rows = wandb.rows()
    assert rows[0]["return_mean"] == 10 and rows[0]["episodes"] == 2 and rows[0]["_timestamp"] == 1000.35
    assert rows[2]["eval/return_mean"] == 1.5 and "episodes" not in rows[2]
    assert math.isnan(rows[5]["loss/policy"])
    assert there.exits == [0] and there.summary["state"] == "finished"
    settings = there.how["settings"]
    assert settings["console"] == "off" and settings["x_disable_stats"] and settings["host"] == "elsewhere"


def test_mlflow_gets_settings_rows_tags_and_the_end(mlflow, tmp_path):
    run = make_run(tmp_path / "a", [*LINES, row(400, **{"loss/policy": None, "odd name (%)": 2})])
    (sent,) = maglev_sync.sync(run, to="mlflow")
    there = mlflow.run("a")
    assert (sent.rows, sent.total, sent.state) == (6, 6, "finished")
    assert sent.url == "http://mlflow.test/#/experiments/0/runs/m0"
    maglev_sync.sync(run, to="mlflow", uri="postgresql://db/ml?user=u&password=secret")
    assert "secret" not in (run / "sync.json").read_text()
    assert there.data.params["ppo.lr"] == "3e-4" and there.data.params["ppo.network.hidden"] == "[64, 64]"
    tags = there.data.tags
    assert tags["algorithm"] == "ppo" and tags["seed"] == "1" and tags["maglev.state"] == "finished"
    assert tags["mlflow.source.git.commit"] == tags["commit"] == "89abcde0123"
    assert sorted(mlflow.steps()) == sorted([*STEPS, 400])
    metrics = {(m.key, m.step): m for m in there.metrics.values()}
    assert metrics["return_mean", 300].value == 30 and metrics["return_mean", 300].timestamp == 1000550
    assert math.isnan(metrics["loss/policy", 400].value) and metrics["odd name ___", 400].value == 2
    assert metrics["eval/return_mean", 300].value == 2.5
    assert there.info.status == "FINISHED" and there.info.start_time == 1000250 and there.info.end_time == 1100500


@pytest.mark.parametrize(
    ("state", "exit_code", "mlflow_status"),
    [("failed", 1, "FAILED"), ("stopped", 0, "KILLED"), ("finished", 0, "FINISHED"), ("killed", 1, "KILLED")],
)
def test_how_a_run_ended_is_told(wandb, mlflow, tmp_path, state, exit_code, mlflow_status):
    run = make_run(tmp_path / "a", LINES, state=state)
    status(run, message="[memory] ppo asked for more" if state == "failed" else "")
    if state == "killed":
        # it says that it runs, and nobody holds its lock
        status(run, state="running", host=os.uname().nodename)
    for to in ("wandb", "mlflow"):
        assert maglev_sync.sync(run, to=to)[0].state == state
    (there,) = wandb.runs.values()
    assert there.exits == [exit_code] and there.summary["state"] == state
    assert there.summary.get("error") == ("[memory] ppo asked for more" if state == "failed" else None)
    tags = mlflow.run("a").data.tags
    assert mlflow.run("a").info.status == mlflow_status
    assert tags.get("maglev.error") == ("[memory] ppo asked for more" if state == "failed" else None)


def test_the_error_of_a_run_that_went_on_is_taken_back(wandb, mlflow, tmp_path):
    run = make_run(tmp_path / "a", LINES, state="failed", message="no room")
    for to in ("wandb", "mlflow"):
        maglev_sync.sync(run, to=to)
    status(run, state="finished", message="")
    for to in ("wandb", "mlflow"):
        maglev_sync.sync(run, to=to)
    (there,) = wandb.runs.values()
    assert there.summary["error"] is None and "maglev.error" not in mlflow.run("a").data.tags


def test_a_run_that_goes_on_is_left_as_running(wandb, mlflow, tmp_path):
    run = make_run(tmp_path / "a", LINES, state="running")
    for to in ("wandb", "mlflow"):
        assert maglev_sync.sync(run, to=to)[0].state == "running"
    (there,) = wandb.runs.values()
    assert there.how["settings"]["x_update_finish_state"] is False
    assert mlflow.run("a").info.status == "RUNNING"


def test_settings_are_what_the_engine_means():
    words = {"a": "3e-4", "b": "off", "c": "true", "d": ["1", "x"], "e": "1.", "f": "-7", "g": "1e", "h": "inf"}
    assert typed(words) == {"a": 3e-4, "b": "off", "c": True, "d": [1, "x"], "e": 1.0, "f": -7, "g": "1e", "h": "inf"}


def test_what_a_resume_changed_is_told(wandb, mlflow, tmp_path):
    run = make_run(tmp_path / "a", LINES)
    for to in ("wandb", "mlflow"):
        maglev_sync.sync(run, to=to)
    (run / "config.yaml").write_text(CONFIG.format(seed=1).replace("20000", "40000"))
    append(run, row(400))
    for to in ("wandb", "mlflow"):
        maglev_sync.sync(run, to=to)
    (there,) = wandb.runs.values()
    assert there.settings["train"]["steps"] == 40000
    there = mlflow.run("a")
    assert (
        there.data.params["train.steps"] == "20000"
        and there.data.tags["maglev.changed"] == "train.steps: 20000 -> 40000"
    )


def test_rows_wider_than_a_batch_arrive_whole(mlflow, tmp_path):
    wide = {f"layer/{k}": k for k in range(1500)}
    maglev_sync.sync(make_run(tmp_path / "a", [row(100), row(200, **wide), row(300)]), to="mlflow")
    there = mlflow.run("a")
    assert mlflow.steps() == [100, 200, 300] and there.data.tags["maglev.rows"] == "3"
    assert sum(metric.key.startswith("layer/") for metric in there.metrics.values()) == 1500


def test_checkpoints_are_sent_where_asked_once_and_whole(wandb, mlflow, tmp_path):
    run = make_run(tmp_path / "a", LINES, state="running")
    best, _ = checkpoint(run, 100), checkpoint(run, 300)
    checkpoint(run, 400, size=5)
    # from before a resume went back
    checkpoint(run, 500, sequence=150)
    (run / "checkpoints" / "best").symlink_to(best.name)
    for to in ("wandb", "mlflow"):
        maglev_sync.sync(run, to=to)
        assert "when the run has ended" in maglev_sync.sync(run, to=to, checkpoints=True)[0].notes[-1]
    status(run, state="finished")
    for _ in range(2):
        for to in ("wandb", "mlflow"):
            maglev_sync.sync(run, to=to, checkpoints=True)
    ((run_id, there),) = wandb.runs.items()
    files = ["manifest.json", "state.safetensors"]
    assert there.artifacts == [
        (f"a-{run_id}-final", files, ["final", "step_000000000300"]),
        (f"a-{run_id}-best", files, ["best", "step_000000000100"]),
    ]
    assert mlflow.run("a").artifacts == [("checkpoint/final", files), ("checkpoint/best", files)]


# ---- once


def test_again_sends_nothing_and_asks_nobody(tracker, tmp_path):
    run = make_run(tmp_path / "a", LINES)
    tracker.send(run)
    calls, inits = tracker.rows_sent, getattr(tracker, "inits", 0)
    (sent,) = tracker.send(run)
    assert (sent.rows, sent.total) == (0, 5) and tracker.rows_sent == calls and getattr(tracker, "inits", 0) == inits
    append(run, row(400), event(400))
    (sent,) = tracker.send(run)
    assert (sent.rows, sent.total) == (2, 7) and sorted(tracker.steps()) == sorted([*STEPS, 400, 400])


def test_a_torn_last_line_waits(tracker, tmp_path):
    run = make_run(tmp_path / "a", [*LINES, row(400)[:30]], state="running")
    assert tracker.send(run)[0].total == 5
    append(run, row(400)[30:])
    (sent,) = tracker.send(run)
    assert (sent.rows, sent.total, sent.notes) == (1, 6, ())


def test_lines_that_are_no_rows_are_left_out_and_told(tracker, tmp_path):
    run = make_run(tmp_path / "a", [row(100), "\0\0\n", "[1]\n", '{"step": 1.5}\n', '{"step": "3"}\n', row(200)])
    append(run, "[" * 100_000 + "\n", f'{{"step": {10**400}}}\n', f'{{"step": 300, "seconds": {10**400}}}\n')
    (sent,) = tracker.send(run)
    assert sent.total == 3 and sent.notes == ("lines of metrics.jsonl that are no rows: 6",)


@pytest.mark.parametrize("at", [1, 2, 7, 30])
@pytest.mark.parametrize(("loses", "crash"), [(0, Crash), (1, Crash), (5, Crash), (0, KeyboardInterrupt)])
def test_a_crash_neither_loses_nor_doubles_a_row(tracker, tmp_path, monkeypatch, at, loses, crash):
    for one in (several.WandbTracker, several.MlflowTracker):
        monkeypatch.setattr(one, "figures_at_once", 20)
    lines = [
        line for k in range(1, 301) for line in ([row(100 * k), event(100 * k - 50)] if k % 20 == 0 else [row(100 * k)])
    ]
    run = make_run(tmp_path / "a", lines[:150], state="running")
    tracker.crash_at, tracker.loses, tracker.torn, tracker.crash = at, loses, bool(loses), crash
    with pytest.raises(crash):
        tracker.send(run)
        append(run, *lines[150:])
        tracker.send(run)
    tracker.crash_at = None
    (run / "metrics.jsonl").write_text("".join(lines))
    status(run, state="finished")
    (sent,) = tracker.send(run)
    assert sent.total == len(lines)
    steps = [json.loads(line)["step"] for line in lines]
    assert sorted(tracker.steps()) == sorted(steps)


def test_where_what_was_sent_is_forgotten_the_tracker_is_asked(wandb, mlflow, tmp_path):
    run = make_run(tmp_path / "a", LINES)
    for to, server in (("wandb", wandb), ("mlflow", mlflow)):
        maglev_sync.sync(run, to=to)
        (run / "sync.json").unlink()
        (sent,) = maglev_sync.sync(run, to=to)
        assert (sent.rows, sent.total) == (0, 5) and len(server.steps()) == 5


def test_another_server_and_a_store_that_was_deleted_get_all(wandb, mlflow, tmp_path, monkeypatch):
    run = make_run(tmp_path / "a", LINES)
    checkpoint(run, 300)
    for _ in range(2):
        maglev_sync.sync(run, to="mlflow", checkpoints=True)
        assert len(mlflow.steps()) == 5 and len(mlflow.run("a").artifacts) == 1
        mlflow.store.clear(), mlflow.experiments.clear()
    maglev_sync.sync(run, to="wandb")
    wandb.runs.clear()
    monkeypatch.setenv("WANDB_BASE_URL", "https://other.test")
    maglev_sync.sync(run, to="wandb")
    assert wandb.steps() == STEPS
    monkeypatch.chdir(tmp_path)
    maglev_sync.sync(run, to="mlflow", uri="sqlite:///x/all.db")
    assert f'"mlflow:sqlite:///{tmp_path}/x/all.db:maglev"' in (run / "sync.json").read_text()


def test_a_moved_run_is_the_same_and_a_new_one_in_its_place_another(tracker, tmp_path):
    tracker.send(make_run(tmp_path / "a", LINES))
    os.rename(tmp_path / "a", tmp_path / "a.old-1")
    with open(tmp_path / "a.old-1" / "reproduce.md", "a") as file:
        file.write("\n## Continued at step 300\n")
    (sent,) = tracker.send(tmp_path / "a.old-1")
    assert sent.rows == 0
    run = make_run(tmp_path / "a", LINES[:2])
    status(run, started=2000.5)
    (sent,) = tracker.send(run)
    assert sent.total == 2


def test_copies_of_a_run_are_not_mixed(tracker, tmp_path):
    shutil.copytree(make_run(tmp_path / "runs" / "a", LINES, algo=1), tmp_path / "runs" / "b")
    (tmp_path / "runs" / "c²").mkdir()
    with pytest.raises(maglev_sync.Error, match="b] is a copy of the run .*a, which is sent"):
        tracker.send(tmp_path / "runs")
    assert len(tracker.steps()) == 5


def resumed(run, at, *more):
    """As the jsonl sink begins: rows up to the checkpoint in a new file, then others."""
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    beside = run / "beside"
    beside.write_text("".join(line for line in lines if json.loads(line)["step"] <= at))
    os.replace(beside, run / "metrics.jsonl")
    append(run, *more)


def test_a_step_that_a_resume_wrote_again_is_sent_once(tracker, tmp_path):
    run = make_run(tmp_path / "a", [row(100), row(200), event(100), row(300), row(400)], state="killed")
    tracker.send(run)
    # the evaluation of step 200 ended late and was not there before
    resumed(run, 200, event(200), row(300, seconds=9.5), row(400, seconds=9.75), row(500), event(400))
    (sent,) = tracker.send(run)
    assert sent.rows == 3 and sorted(tracker.steps()) == [100, 100, 200, 200, 300, 400, 400, 500]
    assert "a resume wrote 5 rows again" in sent.notes[0]
    append(run, row(600))
    assert tracker.send(run)[0].rows == 1 and len(tracker.steps()) == 9


def test_rows_that_come_again_one_by_one_are_sent_once(tracker, tmp_path):
    run = make_run(tmp_path / "a", [row(100), row(200), row(300), event(300), row(400), row(500)], state="running")
    tracker.send(run)
    resumed(run, 200)
    for line in (row(300), row(400), event(300), row(500), event(400), row(600), event(600), row(700)):
        append(run, line)
        tracker.send(run)
    assert sorted(tracker.steps()) == [100, 200, 300, 300, 400, 400, 500, 600, 600, 700]


@pytest.mark.parametrize("loses", range(1, 8))
def test_rows_that_got_lost_behind_a_resume_are_sent_anew(wandb, tmp_path, loses):
    run = make_run(tmp_path / "a", [row(100 * k) for k in range(1, 6)], state="running")
    maglev_sync.sync(run, to="wandb")
    resumed(run, 300, *[row(100 * k) for k in range(4, 12)])
    maglev_sync.sync(run, to="wandb")
    (there,) = wandb.runs.values()
    for number in sorted(there.history)[-loses:]:
        del there.history[number]
    append(run, row(1200))
    maglev_sync.sync(run, to="wandb")
    assert wandb.steps() == [100 * k for k in range(1, 13)]


def test_one_row_of_so_many_steps_and_every_event(tracker, tmp_path):
    lines = [line for k in range(1, 41) for line in (row(50 * k), *([event(50 * k)] if k == 11 else []))]
    run = make_run(tmp_path / "a", lines[:20], state="running")
    tracker.send(run, every=500)
    (run / "metrics.jsonl").write_text("".join(lines))
    (sent,) = tracker.send(run)
    assert sorted(tracker.steps()) == [50, 500, 550, 1000, 1500, 2000] and sent.total == 6
    with pytest.raises(maglev_sync.Error, match="--every 500 so far, got 100"):
        tracker.send(run, every=100)


def test_anew_is_another_run_of_the_tracker(wandb, mlflow, tmp_path):
    run = make_run(tmp_path / "a", LINES)
    for to in ("wandb", "mlflow"):
        maglev_sync.sync(run, to=to, anew=True)
        assert maglev_sync.sync(run, to=to, anew=True)[0].rows == 5
        assert maglev_sync.sync(run, to=to)[0].rows == 0
    first, second = wandb.runs
    assert second == first + "-2" and wandb.steps(first) == wandb.steps(second) == STEPS
    assert len(mlflow.store) == 2 and mlflow.steps("m0") == mlflow.steps("m1") == STEPS


def test_two_at_once_are_refused(tracker, tmp_path):
    run = make_run(tmp_path / "a", LINES)
    turn = maglev_sync.sending.Turn(run)
    with pytest.raises(maglev_sync.Error, match="being sent by another process"):
        tracker.send(run)
    turn.close()
    tracker.send(run)


def test_offline_folders_that_a_crash_left_are_removed_and_no_others(wandb, tmp_path):
    run = make_run(tmp_path / "a", LINES[:2], state="running")
    maglev_sync.sync(run, to="wandb", offline=True)
    append(run, *LINES[2:])
    wandb.crash_at = wandb.calls + 2
    with pytest.raises(Crash):
        maglev_sync.sync(run, to="wandb", offline=True)
    assert len(list((run / "wandb").iterdir())) == 2
    wandb.crash_at = None
    run = run.rename(tmp_path / "moved")
    other = tmp_path / "wandb" / "offline-run-7-other"
    other.mkdir(parents=True)
    maglev_sync.sync(run, to="wandb", offline=True)
    names = sorted(path.name.split("-")[2] for path in (run / "wandb").iterdir())
    assert names == ["1", "3"] and wandb.steps() == STEPS
    account = json.loads((run / "sync.json").read_text())
    next(iter(account.values()))["open"] = str(other)
    (run / "sync.json").write_text(json.dumps(account))
    maglev_sync.sync(run, to="wandb", offline=True)
    assert other.exists()


# ---- while it trains


def test_follow_sends_on_and_ends_with_the_run(tracker, tmp_path):
    run = make_run(tmp_path / "a", LINES[:1], state="running")
    lines = [row(100 * k) for k in range(2, 30)]

    def train():
        for k, line in enumerate(lines):
            append(run, line[:20])
            time.sleep(0.005)
            append(run, line[20:])
            if k == 15:
                resumed(run, 1000, *lines[9 : k + 1])
        status(run, state="finished")

    training = threading.Thread(target=train)
    training.start()
    (sent,) = tracker.send(run, follow=True, poll_s=0.01)
    training.join()
    assert sent.state == "finished" and sorted(tracker.steps()) == [100 * k for k in range(1, 30)]


def test_an_interrupted_follow_keeps_what_was_sent(tracker, tmp_path, monkeypatch):
    run = make_run(tmp_path / "a", LINES, state="running")

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(several.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tracker.send(run, follow=True)
    assert sorted(tracker.steps()) == sorted(STEPS)
    status(run, state="finished")
    append(run, row(400))
    (sent,) = tracker.send(run)
    assert (sent.rows, sent.total) == (1, 6)


@pytest.mark.parametrize(("words", "again"), [([], "the same command"), (["--anew"], "it without --anew")])
def test_an_interruption_says_what_goes_on(wandb, tmp_path, capsys, words, again):
    wandb.crash_at, wandb.crash = 2, KeyboardInterrupt
    assert main([str(make_run(tmp_path / "a", LINES)), "--to", "wandb", *words]) == 130
    assert capsys.readouterr().err == f"maglev: interrupted; what was sent stays, and {again} goes on\n"


@pytest.mark.parametrize("begins", ["sent", "refused"])
def test_follow_goes_on_while_the_lock_is_held(wandb, tmp_path, monkeypatch, begins):
    """Just behind a resume, which has not said so yet, and behind a hiccup of the tracker."""
    run, told, naps = make_run(tmp_path / "a", LINES), [], []
    if begins == "sent":
        maglev_sync.sync(run, to="wandb")
    else:
        wandb.refuses = "no network"
    lock = open(run / "run.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)

    def train(seconds):
        naps.append(seconds)
        wandb.refuses = ""
        append(run, row(400 + len(naps)))
        if len(naps) == 3:
            lock.close()

    monkeypatch.setattr(several.time, "sleep", train)
    (sent,) = maglev_sync.sync(run, to="wandb", follow=True, tell=told.append)
    assert len(naps) == 3 and wandb.steps() == [*STEPS, 401, 402, 403] and sent.state == "finished"
    assert ("no network" in "".join(told)) == (begins == "refused")


def test_another_run_in_the_folder_is_not_mixed_in(wandb, tmp_path, monkeypatch):
    run = make_run(tmp_path / "a", LINES, state="running")

    def overwrite(seconds):
        make_run(run, [row(50)], state="finished")
        status(run, started=5000.5)

    monkeypatch.setattr(several.time, "sleep", overwrite)
    with pytest.raises(maglev_sync.Error, match="another run now"):
        maglev_sync.sync(run, to="wandb", follow=True)


# ---- several


def make_seeds(folder, seeds=(1, 2), **changes):
    for seed in seeds:
        make_run(folder / f"seed-{seed}", LINES, seed=seed, **changes)
    rows = [{"seed": seed, "state": "finished"} for seed in seeds]
    (folder / "seeds.json").write_text(json.dumps({"seeds": rows, "mean": 12.5, "deviation": None}))
    return folder


def make_sweep(folder):
    for number, score in ((0, 3.5), (1, 7.25), (10, None)):
        trial = folder / "trials" / str(number)
        make_run(trial / "run", LINES)
        (trial / "trial.json").write_text(json.dumps({"number": number, "state": "finished", "score": score}))
    (folder / "sweep.json").write_text("{}")
    return folder


def test_seeds_are_a_group(wandb, mlflow, tmp_path):
    group = make_seeds(tmp_path / "a", seeds=(2, 10, 1))
    (group / "seed-7").mkdir()
    (group / "seed-7" / "config.yaml").write_text("seed: 7\n")
    sent = maglev_sync.sync(group, to="wandb")
    assert [one.name for one in sent] == ["a/seed-1", "a/seed-2", "a/seed-10"]
    assert {run.how["group"] for run in wandb.runs.values()} == {"a"} and len(wandb.runs) == 3
    maglev_sync.sync(group, to="mlflow")
    parent = mlflow.run("a")
    children = [run for run in mlflow.store.values() if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(children) == 3 and parent.info.status == "FINISHED"
    assert [(m.key, m.value) for m in parent.metrics.values()] == [("mean", 12.5)]
    # one that is sent by itself is of the same group
    append(group / "seed-2", row(400))
    maglev_sync.sync(group / "seed-2", to="mlflow")
    assert len(mlflow.store) == 4


def test_a_sweep_is_a_group_with_scores(wandb, mlflow, tmp_path):
    sweep = make_sweep(tmp_path / "s")
    assert [one.name for one in maglev_sync.sync(sweep, to="wandb")] == ["s/trial-0", "s/trial-1", "s/trial-10"]
    runs = {run.name: run for run in wandb.runs.values()}
    assert {run.how["group"] for run in runs.values()} == {"s"} and runs["s/trial-1"].how["job_type"] == "trial-1"
    assert runs["s/trial-1"].summary["trial_score"] == 7.25 and "trial_score" not in runs["s/trial-10"].summary
    maglev_sync.sync(sweep / "trials" / "1" / "run", to="mlflow")
    maglev_sync.sync(sweep, to="mlflow")
    assert len(mlflow.store) == 4
    assert [(m.key, m.value) for m in mlflow.run("s").metrics.values()] == [("best_score", 7.25)]
    assert mlflow.run("s/trial-1").data.tags["trial"] == "1"
    # a score comes behind the end of its run
    (sweep / "trials" / "10" / "trial.json").write_text('{"number": 10, "state": "finished", "score": 9.5}')
    for to in ("wandb", "mlflow"):
        maglev_sync.sync(sweep, to=to)
    assert runs["s/trial-10"].summary["trial_score"] == 9.5
    assert [(m.key, m.value) for m in mlflow.run("s").metrics.values()][1:] == [("best_score", 9.5)]


def test_a_group_whose_end_was_not_told_is_told_next_time(mlflow, tmp_path, monkeypatch):
    group = make_seeds(tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(several.Several, "close_groups", lambda self: None)
        maglev_sync.sync(group, to="mlflow")
    assert mlflow.run("a").info.status == "RUNNING"
    calls = mlflow.calls
    for _ in range(2):
        maglev_sync.sync(group, to="mlflow")
        assert mlflow.run("a").info.status == "FINISHED" and mlflow.calls == calls + 1


def test_a_damaged_member_spoils_no_group(mlflow, tmp_path):
    group = make_seeds(tmp_path / "a", seeds=(1, 2, 3))
    (group / "seed-1" / "run.json").write_text("{")
    with pytest.raises(maglev_sync.Error, match="seed-1/run.json. must be JSON"):
        maglev_sync.sync(group, to="mlflow")
    assert len(mlflow.store) == 3 and mlflow.run("a").info.status == "FAILED"


def test_seeds_of_trials_lie_below_them(wandb, mlflow, tmp_path):
    sweep = make_sweep(tmp_path / "s")
    run = sweep / "trials" / "0" / "run"
    shutil.rmtree(run)
    make_seeds(run)
    assert [one.name for one in maglev_sync.sync(sweep, to="mlflow")][:2] == ["s/trial-0/seed-1", "s/trial-0/seed-2"]
    sweep_run, trial_run = mlflow.run("s"), mlflow.run("s/trial-0")
    assert trial_run.data.tags["mlflow.parentRunId"] == sweep_run.info.run_id
    assert mlflow.run("s/trial-0/seed-2").data.tags["mlflow.parentRunId"] == trial_run.info.run_id
    maglev_sync.sync(run / "seed-1", to="wandb")
    (there,) = wandb.runs.values()
    assert there.how["group"] == "s" and there.name == "s/trial-0/seed-1"


def test_a_folder_of_all_is_sent_and_what_is_refused_keeps_no_other_from_it(wandb, tmp_path):
    make_run(tmp_path / "runs" / "b", LINES)
    (make_run(tmp_path / "runs" / "broken", LINES) / "run.json").write_text("{")
    (make_run(tmp_path / "runs" / "wandb" / "run-1" / "files") / "run.json").unlink()
    study = tmp_path / "runs" / "study"
    make_seeds(study / "arm")
    (study / "study.json").write_text("{}")
    told = []
    with pytest.raises(maglev_sync.Error, match="run.json.*must be JSON"):
        maglev_sync.sync(tmp_path / "runs", to="wandb", tell=told.append)
    assert sorted(run.name for run in wandb.runs.values()) == ["b", "study/arm/seed-1", "study/arm/seed-2"]
    assert any(line.startswith("broken: not sent, ") for line in told)


def test_follow_waits_for_seeds_that_have_not_begun(wandb, tmp_path, monkeypatch):
    group, naps = make_seeds(tmp_path / "a", seeds=(1,)), []

    def begin(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            make_run(group / "seed-2", LINES, seed=2)

    monkeypatch.setattr(several.time, "sleep", begin)
    sent = maglev_sync.sync(group, to="wandb", follow=True)
    assert [one.name for one in sent] == ["a/seed-1", "a/seed-2"]


# ---- what is wrong


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["runs/aa", "--to", "wandb"], r"runs/aa is no folder of a run.*did you mean a\?"),
        (["runs/empty", "--to", "wandb"], "runs/empty holds no run"),
        (["runs/a", "--to", "wandbb"], r"--to must be one of wandb, mlflow, got 'wandbb'; did you mean wandb\?"),
        (["runs/a"], "required: --to"),
        (["--to", "wandb"], "required: RUN"),
        (["runs/a", "--to", "wandb", "--folow"], "--folow; did you mean --follow"),
        (["runs/a", "--to", "wandb", "--every", "x"], "--every.*'x'"),
        (["runs/a", "--to", "wandb", "--every", "-3"], "--every must be.*got -3"),
        (["runs/a", "--to", "wandb", "--every", "0"], "--every must be a number of env steps from 1 on, got 0"),
        (["runs/a", "--to", "wandb", "--uri", "x"], "--uri is MLflow's"),
        (["runs/a", "--to", "mlflow", "--uri", ""], "--uri must be an address or a folder, got ''"),
        (["runs/none", "--to", "mlflow"], "runs/none] has no metrics.jsonl.*jsonl among its --sinks"),
        (["runs/a", "runs/ab", "--to", "wandb", "--project", "a/b"], "--project must be a name (?!.*login).*'a/b'"),
        (["runs/a", "--to", "mlflow", "--offline"], "--offline is W&B's; MLflow needs no network"),
        (["runs/a", "--to", "mlflow", "--entity", "me"], "--entity is W&B's"),
        (["runs/a", "--to", "mlflow", "--project", ""], "--project must be a name"),
        (["runs/damaged", "--to", "wandb"], r"config.yaml\] must be YAML, got"),
        (["runs/ab", "--to", "wandb"], "has no run.json that says"),
    ],
)
def test_what_is_wrong_is_one_line(wandb, mlflow, tmp_path, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs/a"), LINES)
    (make_run(Path("runs/ab"), LINES) / "run.json").unlink()
    (make_run(Path("runs/damaged"), LINES) / "config.yaml").write_text("a: [1\nb: }")
    (make_run(Path("runs/none")) / "metrics.jsonl").unlink()
    Path("runs/empty").mkdir()
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("maglev: ") and said.count("\n") == 1 and re.search(expected, said), said


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"every": 0}, "--every must be .* got 0"),
        ({"every": "5"}, "--every must be .* got '5'"),
        ({"every": 2.5}, r"--every must be .* got 2\.5"),
        ({"uri": 7}, "--uri must be a text or a path, got 7"),
        ({"project": 7}, "--project must be a name, got 7"),
        ({"to": 7}, "--to must be one of wandb, mlflow, got 7"),
        ({"to": "tensorboard"}, "tensorboard --logdir runs"),
        ({"runs": 7}, "a run must be a text or a path, got 7"),
        ({"runs": [None]}, "a run must be a text or a path, got None"),
    ],
)
def test_a_wrong_type_is_an_error_of_the_package(mlflow, tmp_path, options, expected):
    words = {"runs": make_run(tmp_path / "a", LINES), "to": "mlflow", **options}
    with pytest.raises(maglev_sync.Error, match=expected):
        maglev_sync.sync(**words)


def test_a_folder_for_a_database_may_be_a_path_and_is_named(mlflow, tmp_path):
    run, told = make_run(tmp_path / "a", LINES), []
    maglev_sync.sync(run, to="mlflow", uri=tmp_path / "db", tell=told.append)
    assert told[-1].startswith(f"sent to sqlite:///{tmp_path}/db/mlflow.db; ")
    maglev_sync.sync(run, to="mlflow", uri="postgresql://me:secret@db/ml", tell=told.append)
    assert told[-1] == "sent to postgresql://db/ml"
    maglev_sync.sync(run, to="mlflow", tell=told.append)
    assert told[-1].startswith("a: ")


def test_where_mlflow_chooses_itself_that_is_said(mlflow, tmp_path, monkeypatch):
    run, told = make_run(tmp_path / "a", LINES), []
    monkeypatch.setattr(mlflow.module, "get_tracking_uri", lambda: f"sqlite:///{tmp_path}/mlflow.db")
    for named in (False, True):
        mlflow.module.is_tracking_uri_set = lambda named=named: named
        maglev_sync.sync(run, to="mlflow", tell=told.append)
        assert told[-1].startswith(f"sent to sqlite:///{tmp_path}/mlflow.db") and ("--uri" in told[-1]) != named


def test_a_run_without_rows_is_waited_for_where_it_is_followed(tracker, tmp_path, monkeypatch):
    run, naps = make_run(tmp_path / "a", state="running"), []
    (run / "metrics.jsonl").unlink()
    with pytest.raises(maglev_sync.Error, match="has no metrics.jsonl"):
        tracker.send(run)

    def train(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            append(run, *LINES)
            status(run, state="finished")

    monkeypatch.setattr(several.time, "sleep", train)
    (sent,) = tracker.send(run, follow=True)
    assert len(naps) == 3 and (sent.total, sent.state) == (5, "finished")
    # one that was trained with other sinks never has any
    other, naps[:] = make_run(tmp_path / "b", state="running", seed=2), []
    (other / "metrics.jsonl").unlink()
    status(other, started=2000.5)
    monkeypatch.setattr(several.time, "sleep", lambda seconds: status(other, state="finished"))
    with pytest.raises(maglev_sync.Error, match="b] has no metrics.jsonl"):
        tracker.send(other, follow=True)


def test_why_runs_were_refused_is_said_once(wandb, tmp_path, capsys):
    for name in "abc":
        status(make_run(tmp_path / name, LINES), started=1000.5 + ord(name))
    wandb.refuses = "the server is closed"
    assert main([str(tmp_path), "--to", "wandb", "--offline"]) == 2
    said = capsys.readouterr()
    assert said.err == "maglev: [sync] 3 of 3 were refused; why is said of each above\n"
    assert said.out.count("the server is closed; send it once more") == 3 and "login" not in said.out
    with pytest.raises(maglev_sync.Error) as refusal:
        maglev_sync.sync(tmp_path, to="wandb", offline=True)
    assert [str(refusal.value).count(f"did not take {name}") for name in "abc"] == [1, 1, 1]


def test_what_the_tracker_refuses_is_passed_on(wandb, mlflow, tmp_path, monkeypatch):
    run = make_run(tmp_path / "a", LINES)
    wandb.refuses = "no API key\nconfigured"
    with pytest.raises(maglev_sync.Error, match="W&B did not take a: no API key configured; `wandb login`"):
        maglev_sync.sync(run, to="wandb")

    def refuse(*words, **more):
        raise mlflow.module.exceptions.MlflowException("no\nroom at http://me:secret@h/x?password=secret or y")

    wandb.refuses = ""
    with monkeypatch.context() as patched, pytest.raises(maglev_sync.Error, match="W&B did not take a: .*`wandb"):
        patched.delattr(wandb.module, "Settings")
        maglev_sync.sync(run, to="wandb")
    wandb.crash_at, wandb.crash = wandb.calls + 2, ValueError("mailbox\nclosed")
    with pytest.raises(maglev_sync.Error, match="W&B did not take rows from step 100 on: mailbox closed"):
        maglev_sync.sync(run, to="wandb")
    (there,) = wandb.runs.values()
    assert there.exits == [1]
    maglev_sync.sync(run, to="wandb")
    assert wandb.steps() == STEPS

    mlflow.log_batch = refuse
    with pytest.raises(maglev_sync.Error, match="MLflow refused the run a: no room at http://h/x or y"):
        maglev_sync.sync(run, to="mlflow")


@pytest.mark.parametrize("where", ["places_below", "read_outcome"])
def test_what_cannot_be_read_is_one_line(wandb, tmp_path, monkeypatch, capsys, where):
    def refuse(*words):
        raise PermissionError(13, "Permission denied", "a/b")

    monkeypatch.setattr(maglev_sync.runs, where, refuse)
    monkeypatch.setattr(several, where, refuse, raising=False)
    assert main([str(make_run(tmp_path / "a", LINES)), "--to", "wandb"]) == 2
    assert re.fullmatch(r"maglev: .*a/b.*\n", capsys.readouterr().err)


def test_a_missing_package_is_named_with_what_installs_it(tmp_path, monkeypatch):
    run = make_run(tmp_path / "a", LINES)
    for to in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, to, None)
        with pytest.raises(maglev_sync.Error, match=f"{to} cannot be imported.*requirements-{to}.txt"):
            maglev_sync.sync(run, to=to)


def test_a_damaged_account_of_what_was_sent_is_told(tracker, tmp_path):
    run = make_run(tmp_path / "a", LINES)
    for content in ("[]", "{", '{"%s": 1}'):
        (run / "sync.json").unlink(missing_ok=True)
        shutil.rmtree(run / "wandb", ignore_errors=True)
        tracker.send(run)
        target = next(iter(json.loads((run / "sync.json").read_text())))
        (run / "sync.json").write_text(content.replace("%s", target))
        with pytest.raises(maglev_sync.Error, match=r"sync.json\] must .*; remove it, and the tracker is asked"):
            tracker.send(run)


def test_an_account_that_cannot_be_written_leaves_nothing(mlflow, tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(28, "No space left on device")

    run = make_run(tmp_path / "a", LINES)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(maglev_sync.Error, match="sync.json. cannot be written: No space left"):
        maglev_sync.sync(run, to="mlflow")
    assert not list(run.glob(".sync.json*"))


def test_help_says_what_there_is():
    done = subprocess.run(
        [sys.executable, "-m", "maglev_sync", "--help"],
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    for word in ("--to", "--project", "--follow", "--checkpoints", "--every", "--anew", "--offline", "--uri"):
        assert word in done.stdout


# ---- runs of the engine


def test_the_packages_function_does_the_same(wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("MAGLEV_BUILD", str(BUILD))
    try:
        import maglev
    except ImportError as error:
        pytest.skip(f"no module was built: {error}")
    run = make_run(tmp_path / "a", LINES)
    assert [one.total for one in maglev.sync(maglev.Run(run), to="wandb", project="carts")] == [5]
    with pytest.raises(maglev.Error, match="--to must be one of"):
        maglev.sync(run, to="wanb")


def test_runs_of_the_engine_are_sent_and_go_on(engine, wandb, tmp_path):
    words = ["--sinks", "jsonl", "env.count=8", "ppo.rollout=32", "ppo.minibatch=64", "train.log_every=256"]
    done = engine(
        "train",
        "ppo",
        "cartpole",
        "train.steps=4096",
        "train.eval_every=2048",
        "seed=3",
        *words,
        "--out",
        tmp_path / "a",
    )
    assert done.returncode == 0, done.stderr
    (sent,) = maglev_sync.sync(tmp_path / "a", to="wandb")
    lines = (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()
    assert (sent.total, sent.state) == (len(lines), "finished")
    (there,) = wandb.runs.values()
    assert there.settings["seed"] == 3 and there.settings["ppo"]["minibatch"] == 64
    assert there.how["tags"][:2] == ["ppo", "cartpole"] and there.settings["maglev"]["torch"]
    assert any("eval/return_mean" in row for row in wandb.rows())
    done = engine("train", "--resume", tmp_path / "a", "train.steps=8192", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    maglev_sync.sync(tmp_path / "a", to="wandb")
    steps = [json.loads(line)["step"] for line in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
    assert sorted(set(wandb.steps())) == sorted(set(steps)) and there.settings["train"]["steps"] == 8192


# ---- the packages themselves


def records_of(path, Record):
    """A .wandb file: LevelDB's log format, with a header of seven bytes before it."""
    data, place, record = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, place)
        record += data[place + 7 : place + 7 + size]
        place += 7 + size
        # whole, or the last part
        if kind in (1, 4):
            yield Record.FromString(record)
            record = b""


@pytest.mark.parametrize("size", [1, 100, 32747, 32748, 32749, 40_000, 200_000])
def test_the_last_record_of_a_file_is_found_and_a_torn_one_is_none(tmp_path, size):
    """Written by LevelDB's own rules."""
    data = bytearray(b"header.")
    for record in (b"a" * 50_000, b"b" * size, b"c" * 9):
        kind, rest = 0, record
        while rest or kind == 0:
            left = 32768 - len(data) % 32768
            if left < 7:
                data += bytes(left)
                continue
            piece, rest = rest[: left - 7], rest[left - 7 :]
            kind = (1 if not rest else 2) if kind == 0 else (3 if rest else 4)
            data += struct.pack("<IHB", 0, len(piece), kind) + piece
    path = tmp_path / "run.wandb"
    path.write_bytes(data)
    assert wandb_tracker.last_record(path) == b"c" * 9
    path.write_bytes(data[:-1])
    assert wandb_tracker.last_record(path) == b""


@pytest.fixture
def wandb_itself(tmp_path, monkeypatch):
    """The package, which leaves no files elsewhere."""
    for name in ("WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / name))
    return pytest.importorskip("wandb")


def test_wandb_itself_writes_what_was_sent(wandb_itself, tmp_path):
    group = make_seeds(tmp_path / "a")
    run = group / "seed-1"
    append(run, row(400, **{"loss/policy": None}))
    checkpoint(run, 300)
    maglev_sync.sync(group, to="wandb", offline=True, checkpoints=True)
    append(run, row(500))
    assert [one.rows for one in maglev_sync.sync(group, to="wandb", offline=True)] == [1, 0]
    histories, seen = list(histories_of(run)), collections.defaultdict(list)
    for record in all_records_of(run):
        seen[record.WhichOneof("record_type")].append(record)
    assert [h["_step"] for h in histories] == list(range(7))
    assert [h["global_step"] for h in histories] == [*STEPS, 400, 500]
    assert histories[2]["eval/return_mean"] == 1.5 and math.isnan(histories[5]["loss/policy"])
    begun = seen["run"][0].run
    assert (
        begun.run_group == "a" and begun.display_name == "a/seed-1" and set(begun.tags) >= {"ppo", "cartpole", "seed-1"}
    )
    assert {record.run.run_id for record in seen["run"]} == {begun.run_id} and begun.host == "elsewhere"
    assert [record.exit.exit_code for record in seen["exit"]] == [0, 0]
    assert [record.artifact.type for record in seen["artifact"]] == ["model"]
    assert not list((group / "seed-2" / "wandb").glob("offline-run-*"))[1:]


def all_records_of(run):
    """Those of all folders that W&B's client wrote for the run, in their order."""
    from wandb.proto.wandb_internal_pb2 import Record

    for file in sorted(run.glob("wandb/offline-run-*/run-*.wandb")):
        yield from records_of(file, Record)


def histories_of(run):
    """Rows among them."""
    for record in all_records_of(run):
        if record.WhichOneof("record_type") == "history":
            yield {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}


def test_wandb_itself_loses_and_doubles_nothing_when_it_is_killed(wandb_itself, tmp_path):
    run = make_run(tmp_path / "a", [row(100 * k) for k in range(1, 3001)])
    words = [sys.executable, "-m", "maglev_sync", run, "--to", "wandb", "--offline"]
    # a service of its own, not the one of this process
    env = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"} | {
        "PYTHONPATH": str(HOME / "python")
    }
    process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL)
    wait_for(lambda: any(file.stat().st_size > 100_000 for file in run.glob("wandb/offline-run-*/run-*.wandb")), process)
    process.kill()
    process.wait()
    subprocess.run(words, env=env, stdin=subprocess.DEVNULL, check=True, timeout=LONG_S)
    assert [history["_step"] for history in histories_of(run)] == list(range(3000))


def test_wandb_itself_goes_on_with_what_it_refused(wandb_itself, tmp_path, monkeypatch):
    """In the same process, as --follow does."""
    run = make_run(tmp_path / "a", [row(100 * k) for k in range(1, 101)])
    log = wandb_itself.Run.log

    def refuse(self, figures, step, commit):
        if step == 50:
            raise ValueError("closed")
        log(self, figures, step=step, commit=commit)

    with monkeypatch.context() as patched:
        patched.setattr(wandb_itself.Run, "log", refuse)
        with pytest.raises(maglev_sync.Error, match="W&B did not take rows from step 100 on: closed"):
            maglev_sync.sync(run, to="wandb", offline=True)
    maglev_sync.sync(run, to="wandb", offline=True)
    assert [history["_step"] for history in histories_of(run)] == list(range(100))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """MLflow's, which takes seconds to make."""
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    return tmp_path_factory.mktemp("mlflow")


def test_mlflow_itself_has_what_was_sent(database, tmp_path):
    from mlflow import MlflowClient

    group = make_seeds(tmp_path / "a")
    run = group / "seed-1"
    append(run, row(400, **{"loss/policy": None}))
    checkpoint(run, 300)
    maglev_sync.sync(group, to="mlflow", uri=str(database), checkpoints=True)
    append(run, row(500), '{"step": 500, "seconds": 0.5, "loss/value": Infinity}\n')
    assert [one.rows for one in maglev_sync.sync(group, to="mlflow", uri=str(database))] == [2, 0]
    (run / "sync.json").unlink()
    assert [one.rows for one in maglev_sync.sync(run, to="mlflow", uri=str(database))] == [0]

    client = MlflowClient(tracking_uri=f"sqlite:///{database}/mlflow.db")
    runs = {
        found.info.run_name: found
        for found in client.search_runs([client.get_experiment_by_name("maglev").experiment_id])
    }
    assert set(runs) == {"a", "a/seed-1", "a/seed-2"}
    there = runs["a/seed-1"]
    history = client.get_metric_history(there.info.run_id, "return_mean")
    assert [(m.step, m.value) for m in history] == [(step, step / 10) for step in (100, 200, 300, 400, 500)]
    assert history[0].timestamp == 1000350
    assert [m.step for m in client.get_metric_history(there.info.run_id, "eval/return_mean")] == [100, 300]
    policy = client.get_metric_history(there.info.run_id, "loss/policy")
    assert [m.step for m in policy if math.isnan(m.value)] == [400]
    assert client.get_metric_history(there.info.run_id, "loss/value")[0].value > 1e308
    assert there.data.params["ppo.lr"] == "3e-4" and there.data.tags["mlflow.parentRunId"] == runs["a"].info.run_id
    assert there.info.status == "FINISHED" and runs["a"].data.metrics["mean"] == 12.5
    files = client.list_artifacts(there.info.run_id, "checkpoint/final")
    assert [Path(file.path).name for file in files] == ["manifest.json", "state.safetensors"]
    assert not list(tmp_path.glob("mlruns"))


def test_mlflow_itself_loses_and_doubles_nothing_in_a_crash(database, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    lines = [row(100 * k) for k in range(1, 601)]
    run = make_run(tmp_path / "crashed", lines, state="running")
    whole, calls = MlflowClient.log_batch, []

    def log_batch(self, *words, **more):
        whole(self, *words, **({**more, "tags": []} if len(calls) == 2 else more))
        calls.append(1)
        if len(calls) == 3:
            raise Crash

    monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
    with pytest.raises(Crash):
        maglev_sync.sync(run, to="mlflow", uri=str(database), project="crash")
    status(run, state="finished")
    maglev_sync.sync(run, to="mlflow", uri=str(database), project="crash")
    client = MlflowClient(tracking_uri=f"sqlite:///{database}/mlflow.db")
    (there,) = client.search_runs([client.get_experiment_by_name("crash").experiment_id])
    assert [m.step for m in client.get_metric_history(there.info.run_id, "seconds")] == [100 * k for k in range(1, 601)]


def test_two_open_a_database_one_after_another(mlflow, tmp_path, monkeypatch):
    """MLflow breaks off where two make the same one."""
    runs = [make_run(tmp_path / name, LINES) for name in "ab"]
    status(runs[1], started=2000.5)
    inside, most, find = [], [], mlflow.get_experiment_by_name

    def slow(name):
        inside.append(name)
        time.sleep(0.1)
        most.append(len(inside))
        inside.pop()
        return find(name)

    monkeypatch.setattr(mlflow, "get_experiment_by_name", slow)
    uri = f"sqlite:///{tmp_path}/new/all.db"
    syncs = [threading.Thread(target=maglev_sync.sync, args=(run, "mlflow"), kwargs={"uri": uri}) for run in runs]
    for one in syncs:
        one.start()
    for one in syncs:
        one.join()
    assert most == [1, 1] and len(mlflow.store) == 2


def test_what_a_database_cannot_do_is_one_line(mlflow, tmp_path, monkeypatch, capsys):
    """Of packages below MLflow, whose errors have no kind in common."""

    def refuse(name):
        raise ValueError("Circular dependency\ndetected.")

    monkeypatch.setattr(mlflow, "get_experiment_by_name", refuse)
    assert main([str(make_run(tmp_path / "a", LINES)), "--to", "mlflow", "--uri", str(tmp_path / "db")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("maglev: [sync] MLflow refused the address sqlite:") and said.count("\n") == 1
    assert said.endswith("Circular dependency detected.\n")


def test_mlflow_says_itself_why_an_address_is_none(database, tmp_path):
    run = make_run(tmp_path / "a", LINES)
    (tmp_path / "no.db").write_text("no database")
    nowhere = ("sqlite:////proc/nowhere/all.db", "gopher://x", f"sqlite:///{tmp_path}/no.db", "postgresql://me:pw@h/x")
    for uri in nowhere:
        with pytest.raises(maglev_sync.Error, match=r"MLflow (refused|cannot take) the address (?!.*pw)"):
            maglev_sync.sync(run, to="mlflow", uri=uri)


def test_types_are_said_in_full():
    """Programs that call the package are checked with mypy --strict; what it is given of trackers' clients is Any."""
    for path in (HOME / "python" / "maglev_sync").glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            where, given = f"{path.name}: {function.name}", function.args
            parameters = [one for one in [*given.posonlyargs, *given.args, *given.kwonlyargs] if one.arg != "self"]
            said = [one.annotation for one in parameters]
            # of __init__ it is known where a parameter has a type
            if function.name != "__init__" or not said:
                said.append(function.returns)
            assert None not in said, where
            bare = re.compile(r"\b(dict|list|tuple|Callable|Sequence|Iterable|Iterator)\b(?!\[)")
            assert not any(bare.search(ast.unparse(annotation)) for annotation in said), where
