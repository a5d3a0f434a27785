"""maglev tell: what trains is asked to stop, save or record a trace by its folder."""

import json
import os
import subprocess

import pytest
from conftest import ENGINE, HOME
from waiting import LONG_S, wait_for

WORDS = ["train", "ppo", "cartpole", "--sinks", "jsonl", "train.steps=100000000000", "train.save_every=1000000000", "threads=1"]


def started(folder, *more):
    process = subprocess.Popen(
        [ENGINE, *WORDS, *more, "--out", folder], env={**os.environ, "MAGLEV_HOME": str(HOME)}, stderr=subprocess.DEVNULL
    )
    return process


def rows(run):
    metrics = run / "metrics.jsonl"
    return metrics.exists() and metrics.read_text().count("\n") > 2


def test_a_run_saves_traces_and_stops(engine, tmp_path):
    run = tmp_path / "run"
    process = started(run)
    try:
        wait_for(lambda: process.poll() is not None or rows(run))
        assert engine("tell", run, "trace").stdout == (
            f"process {process.pid} traces the next iterations, as many as trace.length says\n"
        )
        wait_for(lambda: process.poll() is not None or list(run.glob("traces/*.json.gz")))
        before = len(list(run.glob("checkpoints/step_*")))
        assert engine("tell", run, "save").returncode == 0
        wait_for(lambda: process.poll() is not None or len(list(run.glob("checkpoints/step_*"))) > before)
        assert process.poll() is None
        done = engine("tell", run, "stop", "--wait")
        assert done.returncode == 0 and "ends its iteration, saves and leaves" in done.stdout, done.stderr
        # it has let go of its folder
        status = json.loads((run / "run.json").read_text())
        assert status["state"] == "stopped" and process.wait(LONG_S) == 130
    finally:
        process.kill()
    done = engine("tell", run, "stop")
    assert done.returncode == 2 and f"[tell] {run} is not being trained now, its state is stopped" in done.stderr


def test_seeds_are_told_together_and_each_by_itself(engine, tmp_path):
    group = tmp_path / "group"
    process = started(group, "--seeds", "3")
    try:
        wait_for(lambda: process.poll() is not None or rows(group / "seed-1"))
        assert engine("tell", group / "seed-1", "stop", "--wait").returncode == 0
        assert json.loads((group / "seed-1" / "run.json").read_text())["state"] == "stopped"
        # the next one has begun in its place
        wait_for(lambda: process.poll() is not None or rows(group / "seed-2"))
        assert engine("tell", group, "stop", "--wait").stdout.startswith(f"process {process.pid} ends")
        assert process.wait(LONG_S) == 130
    finally:
        process.kill()
    states = [seed["state"] for seed in json.loads((group / "seeds.json").read_text())["seeds"]]
    assert states == ["stopped", "stopped", "waiting"]
    # one that goes on by itself is told by the folder of all, once it hears
    words = [ENGINE, "train", "--resume", group / "seed-1", "--sinks", "jsonl"]
    process = subprocess.Popen(words, env={**os.environ, "MAGLEV_HOME": str(HOME)}, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: process.poll() is not None or engine("tell", group, "save").returncode == 0)
        assert engine("tell", group, "stop", "--wait").stdout.startswith(f"process {process.pid} ends")
        assert process.wait(LONG_S) == 130
    finally:
        process.kill()


def test_a_sweep_is_told_by_its_folder(engine, tmp_path):
    folder = tmp_path / "sweep"
    words = ["sweep", "ppo", "cartpole", "--space", "ppo.lr", "--parallel", "1", *WORDS[5:], "--out", folder]
    process = subprocess.Popen([ENGINE, *words], env={**os.environ, "MAGLEV_HOME": str(HOME)}, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: process.poll() is not None or rows(folder / "trials" / "0" / "run"))
        assert engine("tell", folder, "stop", "--wait").returncode == 0
        assert process.wait(LONG_S) == 130
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "stop"], "nowhere"),
        (["RUN", "stopp"], "did you mean stop"),
        (["RUN", "save", "--wait"], "--wait is of stop"),
        (["RUN"], "<run> stop|save|trace"),
    ],
)
def test_mistakes_are_named_on_the_first_line(engine, tmp_path, words, said):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    done = engine("tell", *[tmp_path / "run" if word == "RUN" else word for word in words], cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr.splitlines()[0], done.stderr
