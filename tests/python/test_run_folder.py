"""What a run leaves behind, and what the other commands make of it."""

import json
import shutil

import pytest
import yaml
from conftest import newest_manifest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

STEPS = 20480


@pytest.fixture(scope="module")
def run(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run_folder") / "run"
    done = engine(
        "train",
        "ppo",
        "cartpole",
        f"train.steps={STEPS}",
        "seed=1",
        "env.count=8",
        "ppo.rollout=128",
        "ppo.minibatch=256",
        "--out",
        folder,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_metrics_have_one_object_a_line(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == STEPS
    for key in ("step", "seconds", "steps_per_second", "return_mean", "episodes"):
        assert all(key in row for row in rows)
    assert [r["step"] for r in rows] == sorted({r["step"] for r in rows})
    assert rows[-1]["return_mean"] > 20 and rows[-1]["episodes"] > 100


def test_tensorboard_reads_the_events(run):
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tags = events.Tags()["scalars"]
    assert {"return_mean", "loss/policy", "steps_per_second"} <= set(tags)
    scalars = events.Scalars("loss/value")
    assert [s.step for s in scalars] == [r["step"] for r in rows]
    assert scalars[-1].value == pytest.approx(rows[-1]["loss/value"], rel=1e-6)


def test_the_saved_settings_make_the_same_run(run, engine, tmp_path):
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["ppo"]["minibatch"] == 256 and config["seed"] == 1
    again = tmp_path / "again"
    done = engine("train", "ppo", "cartpole", "--bare", "--config", run / "config.yaml", "--out", again)
    assert done.returncode == 0, done.stderr

    assert newest_manifest(run)["state_hash"] == newest_manifest(again)["state_hash"]
    text = (run / "reproduce.md").read_text()
    assert "train ppo cartpole" in text and "torch" in text


def test_eval_is_fixed_and_reports_both_modes(run, engine):
    first = engine("eval", run, "--episodes", "20", "--json")
    second = engine("eval", run, "--episodes", "20", "--json", "--envs", "20")
    assert first.returncode == 0, first.stderr
    a, b = json.loads(first.stdout), json.loads(second.stdout)
    assert [r["actions"] for r in a["results"]] == ["mean", "sample"]
    for x, y in zip(a["results"], b["results"]):
        assert x["returns"] == y["returns"] and len(x["returns"]) == 20
        assert x["return_mean"] == pytest.approx(sum(x["returns"]) / 20)
    table = engine("eval", run, "--episodes", "5")
    assert "mean" in table.stdout and "sample" in table.stdout
    steps = json.loads(engine("eval", run, "--steps", "640", "--envs", "64", "--json", "--actions", "mean").stdout)
    assert steps["results"][0]["steps"] <= 640


def test_runs_lists_it(run, engine):
    done = engine("runs", run.parent)
    assert "finished" in done.stdout and "cartpole" in done.stdout


def test_runs_lists_a_run_that_is_named_and_what_is_below_other_folders(run, engine, tmp_path):
    (line,) = engine("runs", run).stdout.splitlines()[1:]
    assert line.split()[0] == str(run) and "finished" in line
    shutil.copytree(run, tmp_path / "runs" / "first" / "again", symlinks=True)
    (line,) = engine("runs", cwd=tmp_path).stdout.splitlines()[1:]
    assert line.split()[0] == "first/again"
    # the newest checkpoint knows what the lost status said
    steps = json.loads((run / "run.json").read_text())["steps"]
    (tmp_path / "runs" / "first" / "again" / "run.json").unlink()
    (line,) = engine("runs", cwd=tmp_path).stdout.splitlines()[1:]
    assert line.split()[:5] == ["first/again", "ppo", "cartpole", "unknown", str(steps)]


def test_a_run_without_out_gets_a_folder_of_its_own(engine, tmp_path):
    for _ in range(2):
        done = engine(
            "train",
            "ppo",
            "cartpole",
            "train.steps=1024",
            "env.count=8",
            "--sinks",
            "jsonl",
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
    names = sorted(p.name for p in (tmp_path / "runs").iterdir())
    date, number = names[1].split("-ppo-cartpole-")
    assert len(names) == 2 and names[0].endswith("-ppo-cartpole-1")
    # of one day, or of two
    assert number == ("2" if names[0].startswith(date) else "1")


def test_help_lists_every_setting(engine):
    done = engine("train", "ppo", "goodhart", "--help")
    assert done.returncode == 0
    for name in (
        "train.steps",
        "seed",
        "device",
        "env.count",
        "env.mode",
        "ppo.rollout",
        "ppo.minibatch",
        "ppo.epochs",
        "ppo.lr",
        "ppo.gamma",
        "ppo.clip",
    ):
        assert f"  {name} " in done.stdout


def test_a_run_tells_what_it_takes_of_the_machine(engine, tmp_path):
    settings = ["train.steps=30000", "train.log_every=3000", "train.monitor_every=1e-6"]
    done = engine("train", "ppo", "cartpole", *settings, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(row["memory/process_mib"] > 1 for row in rows)
    assert all(0 < row["memory/tensors_mib"] < row["memory/process_mib"] for row in rows)
    assert all(row["machine/processors"] >= 0 for row in rows)
    done = engine("train", "ppo", "cartpole", *settings, "train.monitor_every=0", "--out", tmp_path / "not")
    assert done.returncode == 0, done.stderr
    assert "memory/" not in (tmp_path / "not" / "metrics.jsonl").read_text()


def test_a_run_tells_what_it_has_cost(engine, tmp_path):
    settings = ["train.steps=30000", "train.log_every=10000"]
    done = engine("train", "ppo", "cartpole", *settings, "train.price=36", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(row["machine/cost"] == pytest.approx(row["seconds"] / 100, rel=1e-4) for row in rows)
    assert " cost  " in done.stdout
    done = engine("train", "ppo", "cartpole", *settings, "--out", tmp_path / "not")
    assert done.returncode == 0 and " cost  " not in done.stdout, done.stderr
    assert "machine/cost" not in (tmp_path / "not" / "metrics.jsonl").read_text()


@pytest.mark.parametrize(
    "words, told",
    [
        (["ppo", "cartpole", "train.rollout_memory=pinned"], "train.rollout_memory=pinned changes nothing here: the run is on a processor"),
        (["ppo", "cartpole", "train.replay_memory=device"], "train.replay_memory=device changes nothing here: ppo has no replay"),
        (["tdmpc2", "pendulum", "tdmpc2.micro_batch=8"], "tdmpc2.micro_batch=8 changes nothing here: on panels"),
        (["tdmpc2", "pendulum", "tdmpc2.micro_batch=8", "tdmpc2.fused=off"], ""),
        (["dreamer", "cartpole", "dreamer.micro_batch=2", "dreamer.fused=off"], "dreamer.micro_batch=2 changes nothing here: the reference"),
        (["dreamer", "cartpole", "dreamer.micro_batch=2"], ""),
        (["ppo", "cartpole", "ppo.entropy_floor=0.6"], "ppo.entropy_floor=0.6 changes nothing here: ppo.entropy_floor_penalty is 0"),
        (["ppo", "cartpole", "ppo.entropy_floor=0.6", "ppo.entropy_floor_penalty=0.1"], ""),
        (["ppo", "cartpole", "ppo.network.log_std=-1"], "ppo.network.log_std=-1 changes nothing here: actions are categories"),
        (["ppo", "pendulum", "ppo.network.log_std=-1"], ""),
        (["tdmpc2", "pendulum", "tdmpc2.mpc=false", "tdmpc2.samples=99"], "tdmpc2.samples=99 changes nothing here: tdmpc2.mpc is off"),
        (["ppo", "kg", "env.end_bonus=0.5"], "env.end_bonus=0.5 changes nothing here: it is of env.reward=5"),
        (["ppo", "kg", "env.end_bonus=0.5", "env.reward=5"], ""),
        (["ppo", "hockey", "env.players=both", "env.opponent=strong"], "env.opponent=strong changes nothing here: env.players=both"),
        (["ppo", "hockey", "env.opponent=strong"], ""),
        (["ppo", "hockey_duel", "train.opponents=weak", "train.past=2"], "train.past=2 changes nothing here: past is not among train.opponents"),
        (["ppo", "hockey_duel", "train.opponents=weak", "train.past_every=9"], "train.past_every=9 changes nothing here: past is not among"),
        (["ppo", "hockey_duel", "train.opponents=weak", "train.matchmaking=hard"], "train.matchmaking=hard changes nothing here: there is one opponent"),
        (["ppo", "hockey_duel", "train.opponents=past", "train.past=2", "train.past_every=9", "train.matchmaking=hard"], ""),
        (["tdmpc2", "pendulum", "tdmpc2.episodic=off", "tdmpc2.termination=soft"], "tdmpc2.termination=soft changes nothing here: "),
    ],
)
def test_a_setting_that_changes_nothing_is_told(engine, tmp_path, words, told):
    run = tmp_path / "run"
    done = engine("train", *words, "env.count=4", "threads=1", "train.steps=64", "--out", run)
    assert done.returncode == 0, done.stderr
    log = (run / "log.txt").read_text()
    assert told in log and ("changes nothing" in log) == bool(told), log
