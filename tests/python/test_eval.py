"""maglev eval and league: what they do with what they cannot write, and with files that are damaged."""

import json

import pytest


@pytest.fixture(scope="module")
def run(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("eval") / "run"
    done = engine(
        *("train", "ppo", "hockey_duel", "--bare", "--sinks", "jsonl", "--out", folder),
        *("train.steps=512", "env.count=8", "ppo.rollout=32", "ppo.network.hidden=[16]"),
        *("train.opponents=weak,past", "env.max_steps=20"),
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_result_that_cannot_be_kept_is_shown(run, engine):
    blocked = run / "eval.json"
    blocked.mkdir()
    done = engine("eval", run, "--episodes", 2, "--actions", "mean", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["results"][0]["episodes"] == 2
    assert "eval.json" in done.stderr and len(done.stderr.strip().splitlines()) == 1
    blocked.rmdir()
    done = engine("eval", run, "--episodes", 2, "--actions", "mean")
    assert done.returncode == 0 and blocked.is_file(), done.stderr


def test_episodes_and_steps_are_not_both_given(run, engine):
    done = engine("eval", run, "--episodes", 2, "--steps", 10)
    assert done.returncode == 2 and "--episodes and --steps" in done.stderr


def test_a_checkpoint_of_a_past_self_holds_no_optimiser(run):
    manifest = json.loads(next(run.glob("checkpoints/step_*/manifest.json")).read_text())
    names = list(manifest["tensors"])
    assert any(name.startswith("algo.optimizer.") for name in names)
    past = [name for name in names if name.startswith("league.past0.")]
    assert past and all(name.startswith("league.past0.network.") for name in past)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"step": 1}', "[" * 100_000, '{"players":' + "[" * 100_000]
)
def test_a_damaged_league_is_one_error(text, run, engine, tmp_path):
    assert engine("league", run).returncode == 0
    (tmp_path / "league.json").write_text(text)
    done = engine("league", tmp_path)
    assert done.returncode == 2 and "league.json" in done.stderr and "damaged" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
