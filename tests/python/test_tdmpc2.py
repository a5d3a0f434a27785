"""TD-MPC2 as a user runs it: tasks, images, datasets, resuming, self-play, the report's settings."""

import json

import pytest
from conftest import newest_manifest

SMALL = [
    "tdmpc2.enc_dim=32",
    "tdmpc2.mlp_dim=32",
    "tdmpc2.latent_dim=32",
    "tdmpc2.enc_layers=2",
    "tdmpc2.num_q=2",
    "tdmpc2.samples=32",
    "tdmpc2.elites=8",
    "tdmpc2.policy_trajectories=4",
    "tdmpc2.iterations=2",
    "tdmpc2.batch=32",
    "tdmpc2.seed_steps=300",
    "env.count=4",
    "threads=2",
]


def train(run, out, env, *settings):
    done = run(
        "train", "tdmpc2", env, "--bare", "--out", out, *SMALL, *settings
    )
    assert done.returncode == 0, done.stderr
    return done


def last_row(run):
    return json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])


def evaluate(run, out, *settings):
    done = run("eval", out, "--episodes", "24", "--actions", "mean", "--json", *settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["results"]


def test_several_tasks_are_learnt_together_and_again_from_their_dataset(examples, tmp_path):
    online, data = tmp_path / "online", tmp_path / "points.safetensors"
    common = ["env.tasks=true", "tdmpc2.task_dim=8", "tdmpc2.lr=0.001"]
    train(examples, online, "points", *common, "train.steps=1200", "tdmpc2.updates_per_step=0.25")
    # a run of seed steps alone acts at random
    random = tmp_path / "random"
    train(examples, random, "points", *common, "train.steps=200")
    untrained = evaluate(examples, random)[0]["return_mean"]
    assert evaluate(examples, online)[0]["return_mean"] > untrained + 3

    done = examples("data", online, data)
    assert done.returncode == 0, done.stderr
    offline = tmp_path / "offline"
    train(examples, offline, "points", *common, f"train.dataset={data}", "train.steps=600")
    assert evaluate(examples, offline)[0]["return_mean"] > untrained + 3

    # a resume knows its files again, and says which are others now
    resume = ["train", "--resume", offline]
    same = examples(*resume, "train.steps=610")
    assert same.returncode == 0 and "changed dataset" not in same.stdout, same.stdout + same.stderr
    before = (offline / "dataset.txt").read_text()
    data.rename(tmp_path / "first.safetensors")
    assert examples("data", random, data).returncode == 0
    other = examples(*resume, "train.steps=620")
    assert f"changed dataset: {before.strip()} -> " in other.stdout, other.stdout
    assert (offline / "dataset.txt").read_text() != before


def test_images_are_learnt_from(examples, tmp_path):
    train(
        examples,
        tmp_path / "run",
        "points",
        "env.image=true",
        "tdmpc2.batch=8",
        "train.steps=420",
        "tdmpc2.seed_steps=400",
        "tdmpc2.updates_per_step=0.1",
    )
    row = last_row(tmp_path / "run")
    assert row["loss/consistency"] > 0 and row["loss/reward"] > 0


@pytest.mark.parametrize("settings", [["train.overlap=false"], ["train.overlap=true"]])
def test_a_resumed_run_is_the_unbroken_one(examples, tmp_path, settings):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = [*settings, "env.terminate=true", "tdmpc2.updates_per_step=0.25"]
    settings += ["train.replay_capacity=600"]
    train(examples, whole, "points", *settings, "train.steps=800")
    train(examples, cut, "points", *settings, "train.steps=480", "threads=1")
    done = examples("train", "--resume", cut, "train.steps=800")
    assert done.returncode == 0, done.stderr
    assert newest_manifest(cut)["state_hash"] == newest_manifest(whole)["state_hash"]


def test_who_learns_slowly_is_told_why(engine, tmp_path):
    for width, told in ((20, True), (24, False)):
        out = tmp_path / str(width)
        train(engine, out, "pendulum", f"tdmpc2.enc_dim={width}", "train.steps=320")
        said = "tdmpc2 learns by autograd, which is slower: a width is not a multiple of 8" in (out / "log.txt").read_text()
        assert said == told


@pytest.mark.parametrize("name", ["hockey_report", "hockey_report_tuned"])
def test_the_settings_of_a_report_are_its_own_beside_the_proven_ones(engine, home, name):
    """The file says all that configs/tdmpc2/hockey.yaml says, too."""
    words = ("train", "tdmpc2", "hockey", "--config", home / f"configs/tdmpc2/{name}.yaml", "--help")
    shown = [engine(*words, *bare).stdout for bare in ((), ("--bare",))]
    said = [[line for line in text.splitlines() if line.startswith(("  tdmpc2.", "  env."))] for text in shown]
    assert len(said[0]) > 40 and said[0] == said[1]


def test_the_settings_of_the_report_run(examples, tmp_path, home):
    done = examples(
        "train",
        "tdmpc2",
        "hockey",
        "--config",
        home / "configs/tdmpc2/hockey_report.yaml",
        "--bare",
        "--out",
        tmp_path / "run",
        *SMALL[:5],
        "tdmpc2.batch=16",
        "tdmpc2.seed_steps=300",
        "train.steps=1200",
        "train.precision=fp32",
    )
    assert done.returncode == 0, done.stderr
    assert last_row(tmp_path / "run")["loss/value"] > 0


def test_self_play_meets_everybody_and_keeps_a_table(engine, tmp_path):
    run = tmp_path / "run"
    train(
        engine,
        run,
        "hockey_duel",
        "train.opponents=weak,strong,past",
        "train.past_every=400",
        "train.steps=3000",
        "tdmpc2.updates_per_step=0.02",
    )
    league = json.loads((run / "league.json").read_text())
    names = {player["name"] for player in league["players"]}
    assert {"weak", "strong"} < names and any(name.startswith("past@") for name in names)
    shown = engine("league", run)
    assert shown.returncode == 0 and "strong" in shown.stdout and "the learner" in shown.stdout
    results = evaluate(engine, run)
    assert [row["against"] for row in results] == ["weak", "strong"]
    for row in results:
        assert row["wins"] + row["draws"] + row["losses"] == 24
