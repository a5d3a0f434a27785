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


def test_a_run_meets_a_checkpoint_that_stays_who_it_was(run, engine, tmp_path):
    small = ("env.count=8", "ppo.rollout=32", "ppo.network.hidden=[16]", "env.max_steps=20")
    begin = ("train", "ppo", "hockey_duel", "--bare", "--sinks", "jsonl", "--out", "new", "train.steps=512")
    done = engine(*begin, *small, f"train.opponents={run}@best,weak,{run}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "new"
    newest = sorted(path.name for path in run.glob("checkpoints/step_*"))[-1]
    assert f"{run}@{newest},weak,{run}@{newest}" in (folder / "config.yaml").read_text()
    players = {p["name"]: p for p in json.loads((folder / "league.json").read_text())["players"]}
    assert set(players) == {f"run@{newest}", "weak", f"run@{newest}#2"}
    assert players[f"run@{newest}"]["run"] == f"{run}@{newest}" and "run" not in players["weak"]
    # from another folder; then somebody else in a place begins anew, and the others keep their games
    done = engine("train", "--resume", folder, "train.steps=1024")
    assert done.returncode == 0 and "changed train.opponents" not in done.stdout, done.stderr
    games = {p["name"]: p["games"] for p in json.loads((folder / "league.json").read_text())["players"]}
    assert games["weak"] > players["weak"]["games"]
    done = engine("train", "--resume", folder, "train.steps=1280", f"train.opponents={run},weak,random")
    assert done.returncode == 0 and "changed train.opponents" in done.stdout, done.stderr
    later = {p["name"]: p["games"] for p in json.loads((folder / "league.json").read_text())["players"]}
    assert set(later) == {f"run@{newest}", "weak", "random"} and later["random"] < later["weak"]


def test_a_checkpoint_that_is_none_is_told(run, engine, tmp_path):
    done = engine("train", "ppo", "hockey_duel", "--out", tmp_path / "new", f"train.opponents={run}@bset")
    assert done.returncode == 2 and "unknown checkpoint 'bset'" in done.stderr and "best" in done.stderr
    assert not (tmp_path / "new").exists()


def test_players_are_rated_by_a_tournament(run, engine):
    words = ("league", "hockey_duel", "weak", "random", f"{run}@latest", "env.max_steps=20", "--games", 5)
    done = engine(*words, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["pairs"]) == 3
    assert all(pair["wins"] + pair["draws"] + pair["losses"] == 5 for pair in report["pairs"])
    elo = [player["elo"] for player in report["players"]]
    assert elo == sorted(elo, reverse=True) and abs(sum(elo) / 3 - 1000) < 1e-6
    for player in report["players"]:
        assert player["wins"] + player["draws"] + player["losses"] == 10
    assert json.loads(engine(*words, "--json").stdout) == report
    shown = engine(*words)
    assert shown.returncode == 0 and "weak against random: " in shown.stdout and "+/-" in shown.stdout


@pytest.mark.parametrize(
    "words, said",
    [
        (["cartpole", "random", "balance"], "1 agent"),
        (["hockey_duel", "weak", "weak"], "named twice"),
        (["hockey_duel", "weak"], "two players"),
        (["hockey_duel", "weak", "wake"], "'wake' is neither a scripted player"),
    ],
)
def test_a_tournament_of_nobody_is_one_error(words, said, engine):
    done = engine("league", *words)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_league_of_a_folder_of_runs_names_one(run, engine):
    done = engine("league", run.parent)
    assert done.returncode == 2 and "is no run, but" in done.stderr and str(run) in done.stderr


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
