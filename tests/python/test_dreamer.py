"""Dreamer as a user runs it: learning, images, resuming, evaluation, its mistakes."""

import json

import pytest
from conftest import newest_manifest
from PIL import Image

SMALL = [
    "dreamer.deter=64",
    "dreamer.hidden=32",
    "dreamer.stoch=8",
    "dreamer.classes=8",
    "dreamer.depth=2",
    "dreamer.units=32",
    "dreamer.imagination=8",
    "dreamer.batch=8",
    "dreamer.length=16",
    "dreamer.lr=0.001",
    "dreamer.warmup=10",
    "env.count=4",
]


def train(run, out, env, *settings):
    done = run("train", "dreamer", env, "--bare", "--out", out, *SMALL, *settings)
    assert done.returncode == 0, done.stderr
    return done


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def mean_return(run, out):
    done = run("eval", out, "--episodes", "24", "--actions", "mean", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["results"][0]["return_mean"]


@pytest.mark.parametrize("settings", [["train.overlap=false"], ["train.overlap=true"]])
def test_a_resumed_run_is_the_unbroken_one(examples, tmp_path, settings):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    # the ring goes round, and most sequences cross the ends of episodes
    settings = [*settings, "env.terminate=true", "dreamer.train_ratio=8", "train.replay_capacity=500"]
    train(examples, whole, "points", *settings, "train.steps=900", "threads=2")
    train(examples, cut, "points", *settings, "train.steps=500", "threads=1")
    done = examples("train", "--resume", cut, "train.steps=900")
    assert done.returncode == 0 and "the replay keeps 500 rows" in done.stdout, done.stderr
    done = examples("train", "--resume", cut, "train.steps=1000", "train.replay_capacity=900")
    assert done.returncode == 2 and "train.replay_capacity stays 500" in done.stderr
    done = examples("train", "--resume", cut, "train.steps=1000", "dreamer.capacity=400")
    assert done.returncode == 2 and "dreamer.capacity is what a new run begins with" in done.stderr
    assert newest_manifest(cut)["state_hash"] == newest_manifest(whole)["state_hash"]


def test_a_dataset_is_learnt_from_and_a_resumed_run_is_the_unbroken_one(examples, tmp_path):
    played, data = tmp_path / "played", tmp_path / "points.safetensors"
    # at random
    train(examples, played, "points", "train.steps=2000", "dreamer.first_steps=1990")
    done = examples("data", played, data)
    assert done.returncode == 0 and "maglev train dreamer points" in done.stdout, done.stdout + done.stderr
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    words = [f"train.dataset={data}", "train.log_every=50"]
    train(examples, whole, "points", *words, "train.steps=300", "threads=2")
    # nobody stepped an environment, and the states that updates wrote are saved
    train(examples, cut, "points", *words, "train.steps=150", "threads=1")
    done = examples("train", "--resume", cut, "train.steps=300")
    assert done.returncode == 0, done.stderr
    assert newest_manifest(cut)["state_hash"] == newest_manifest(whole)["state_hash"]
    lost = [row["loss/reconstruction"] for row in rows(whole)]
    assert lost[-1] < 0.5 * lost[0], lost
    # its policy is the better one once its critic knows something
    long = tmp_path / "long"
    train(examples, long, "points", *words, "train.steps=2000", "threads=2")
    assert mean_return(examples, long) > mean_return(examples, played) + 10
    # states lie beside the rows they are of
    data.rename(tmp_path / "first.safetensors")
    assert examples("data", whole.parent / "played", tmp_path / "again.safetensors").returncode == 0
    both = f"train.dataset={tmp_path / 'first.safetensors'},{tmp_path / 'again.safetensors'}"
    other = examples("train", "--resume", cut, "train.steps=410", both)
    assert other.returncode == 2 and "the files of train.dataset have" in other.stderr, other.stderr


def test_images_are_learnt_from(examples, tmp_path):
    run = tmp_path / "run"
    settings = ["env.image=true", "train.steps=1000", "train.log_every=100", "dreamer.train_ratio=6"]
    train(examples, run, "points", *settings)
    seen = [row["loss/reconstruction"] for row in rows(run) if row.get("loss/reconstruction")]
    # a quarter for each pixel at first: grey where it is black
    assert seen[0] > 500 and seen[-1] < 0.2 * seen[0]

    # and what the model sees and imagines can be looked at
    moving, strip = tmp_path / "dreams.gif", tmp_path / "dreams.png"
    words = ["eval", run, "--episodes", "2", "--actions", "mean", "--json", "--seen", "3", "--imagined", "9"]
    for file in (moving, strip):
        done = examples(*words, "--imagine", file)
        assert done.returncode == 0, done.stderr
        off = json.loads(done.stdout)["world_model"]["image"]
        assert 0 < off["error_seen"] < 128 and 0 < off["error_imagined"] < 128 and 0 < off["error_still"] < 128
    with Image.open(moving) as picture:
        assert picture.n_frames == 12
    with Image.open(strip) as picture:
        # twelve steps across, truth above model above difference
        assert picture.width > 12 * 64 and picture.height > 3 * 64
    done = examples(*words, "--imagine", strip)
    assert done.returncode != 0 and "--overwrite" in done.stderr
    assert examples(*words, "--imagine", strip, "--overwrite").returncode == 0


def looked_into(engine, run, strip):
    """How far the world model of a run is off, by column, when it is drawn over eight steps."""
    words = ["--seen", "3", "--imagined", "5", "--imagine", strip, "--json"]
    done = engine("eval", run, "--episodes", "2", "--actions", "mean", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["world_model"]


def test_pictures_that_do_not_halve_are_learnt_from_and_drawn_in_their_size(engine, tmp_path):
    run, strip = tmp_path / "run", tmp_path / "dreams.png"
    settings = ["train.steps=800", "train.log_every=100", "dreamer.train_ratio=6"]
    train(engine, run, "minatar_breakout", *settings)
    seen = [row["loss/reconstruction"] for row in rows(run) if row.get("loss/reconstruction")]
    # a quarter for each of 400 pixels at first
    assert 50 < seen[0] < 101 and seen[-1] < 0.3 * seen[0], seen
    off = looked_into(engine, run, strip)["image"]
    assert 0 < off["error_seen"] < 128 and 0 < off["error_imagined"] < 128


def test_windows_of_cells_are_learnt_from_and_drawn_as_what_the_policy_sees(engine, tmp_path):
    run, strip = tmp_path / "run", tmp_path / "dreams.png"
    settings = ["train.steps=800", "train.log_every=100", "dreamer.train_ratio=6", "train.save_every=400"]
    train(engine, run, "goodhart", *settings)
    seen = [row["loss/reconstruction"] for row in rows(run) if row.get("loss/reconstruction")]
    # ln 2 nats for each of 11 x 11 cells in two channels at first
    assert 120 < seen[0] < 172 and seen[-1] < 0.5 * seen[0], seen
    off = looked_into(engine, run, strip)
    assert list(off) == ["window"], "density is the critic's of an algorithm that has one"
    assert 0 < off["window"]["error_seen"] < 128 and 0 < off["window"]["error_imagined"] < 128
    # eight steps of 11 x 11, six pixels a cell
    assert Image.open(strip).width > 8 * 66
    reference = tmp_path / "reference"
    train(engine, reference, "goodhart", *settings, "dreamer.fused=off")
    last = [rows(each)[-1]["loss/reconstruction"] for each in (run, reference)]
    assert last[0] == pytest.approx(last[1], rel=0.1)


def test_only_a_world_model_with_a_decoder_can_be_looked_at(engine, tmp_path):
    short = ["dreamer.first_steps=128", "train.steps=200", "dreamer.train_ratio=8"]
    train(engine, tmp_path / "blind", "pendulum", "dreamer.objective=redundancy", *short)
    assert any(row.get("loss/redundancy") for row in rows(tmp_path / "blind"))
    done = engine("train", "ppo", "cartpole", "--bare", "--out", tmp_path / "ppo", "train.steps=2048")
    assert done.returncode == 0, done.stderr
    for run, expected in (("blind", "no decoder"), ("ppo", "ppo has no world model")):
        done = engine("eval", tmp_path / run, "--episodes", "1", "--imagine", tmp_path / "dreams.png")
        assert done.returncode != 0 and expected in done.stderr, done.stderr
        assert not (tmp_path / "dreams.png").exists()


def test_what_is_wrong_is_said_in_a_line(engine):
    for words, expected in (
        (["dreamer.size=11m"], "dreamer.size"),
        (["dreamer.size=12"], "12m"),
        (["dreamer.legnth=64"], "did you mean dreamer.length"),
        (["dreamer.length=1"], "dreamer.length must be"),
        (["dreamer.deter=100"], "dreamer.deter must be a multiple of dreamer.blocks = 8, got 100"),
        (["train.replay_capacity=100"], "raise the capacity to at least"),
        (["train.precision=fp16"], "train.precision"),
    ):
        done = engine("train", "dreamer", "cartpole", "--bare", *words)
        assert done.returncode != 0, words
        assert expected in done.stderr, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) <= 3, done.stderr
