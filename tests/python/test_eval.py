"""maglev eval and league: what they do with what they cannot write, and with files that are damaged."""

import json
import re

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


def test_what_was_found_out_before_is_kept(run, engine):
    words = ("eval", run, "--actions", "mean", "--json")
    judged = json.loads(engine(*words, "--episodes", 4).stdout)
    look = json.loads(engine(*words, "--episodes", 2, "env.max_steps=10").stdout)
    kept = json.loads((run / "eval.json").read_text())
    assert kept["results"] == look["results"] and kept["asked"]["episodes"] == 2 and "earlier" not in look
    assert judged in kept["earlier"]
    count = len(kept["earlier"])
    assert engine(*words, "--episodes", 4).returncode == 0
    kept = json.loads((run / "eval.json").read_text())
    assert kept["asked"] == judged["asked"] and look in kept["earlier"] and len(kept["earlier"]) == count


def test_the_seed_of_an_evaluation_is_a_flag(run, engine):
    done = engine("eval", run, "seed=7")
    assert done.returncode == 2 and "--seed 7" in done.stderr, done.stderr


def test_games_against_an_environments_own_opponent_are_counted(engine, tmp_path):
    done = engine("eval", "hockey", "random", "--episodes", 30, "--json", "env.opponent=strong")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["results"]
    assert row["wins"] + row["draws"] + row["losses"] == row["episodes"] == 30
    counted = row["events"]
    assert [counted[name] for name in ("goals", "timeouts", "conceded")] == [row["wins"], row["draws"], row["losses"]]
    assert row["losses"] > 0
    for name, count in counted.items():
        assert row["events_per_1k"][name] == pytest.approx(1000 * count / row["steps"])
    shown = engine("eval", "hockey", "random", "--episodes", 30, "env.opponent=strong").stdout
    assert " won " in shown and "against" not in shown
    # no game of two players
    shown = engine("eval", "cartpole", "random", "--episodes", 2).stdout
    assert " won " not in shown


def test_a_judgement_is_the_same_for_any_number_of_threads(run, engine):
    for judged in ((run,), ("hockey_duel", "weak")):
        returns = set()
        for threads in ("threads=1", "threads=2"):
            done = engine("eval", *judged, "--episodes", 2, "--actions", "sample", "--json", threads, "env.max_steps=20")
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            assert report["settings"] == ["env.max_steps=20"]
            returns.add(str([row["returns"] for row in report["results"]]))
        assert len(returns) == 1
    done = engine("eval", run, "threads=-1")
    assert done.returncode == 2 and "threads" in done.stderr


def test_a_run_meets_a_checkpoint_that_stays_who_it_was(run, engine, tmp_path):
    small = ("env.count=8", "ppo.rollout=32", "ppo.network.hidden=[16]", "env.max_steps=20")
    begin = ("train", "ppo", "hockey_duel", "--bare", "--sinks", "jsonl", "--out", "new", "train.steps=512")
    done = engine(*begin, *small, f"train.opponents={run}@latest,weak,{run}", cwd=tmp_path)
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


def test_whoever_is_new_in_an_opponents_place_begins_with_no_games(run, engine, tmp_path):
    small = ("env.count=8", "ppo.rollout=32", "ppo.network.hidden=[16]", "env.max_steps=20")
    words = ("train", "ppo", "hockey_duel", "--bare", "--sinks", "jsonl", *small)
    # another run of the same name elsewhere, with a slash behind it as shells complete it
    other = tmp_path / "other" / "run"
    assert engine(*words, "--out", other, "train.steps=512", "train.opponents=weak").returncode == 0
    folder = tmp_path / "new"

    def games():
        players = json.loads((folder / "league.json").read_text())["players"]
        return [(player["name"], player["run"], player["games"]) for player in players]

    assert engine(*words, "--out", folder, "train.steps=1024", f"train.opponents={run}/").returncode == 0
    ((name, whole, before),) = games()
    assert name.startswith("run@step_") and whole == f"{run}@{name.split('@')[1]}" and before > 20
    done = engine("train", "--resume", folder, "train.steps=1280", f"train.opponents={other}/")
    assert done.returncode == 0, done.stderr
    ((name, whole, after),) = games()
    assert whole.startswith(f"{other}@") and after < before
    # and its checkpoint goes: the newest there is plays, and the run says so
    assert engine("train", "--resume", other, "train.steps=4096", "train.save_every=256").returncode == 0
    done = engine("train", "--resume", folder, "train.steps=1536")
    assert done.returncode == 0 and "has no step_" in done.stdout + (folder / "log.txt").read_text(), done.stderr
    assert games()[0][1] != whole


@pytest.mark.parametrize(
    "setting, said",
    [
        ("train.opponents=strong,strong", "must be as many and of the same kinds: weak,past became strong,strong;"),
        ("train.opponents=weak", "must be as many and of the same kinds: weak,past became weak;"),
        ("train.opponents=", "must be as many and of the same kinds: weak,past became nobody;"),
        ("train.past=2", "train.past stays 4 in a run that is resumed"),
    ],
)
def test_a_league_that_a_checkpoint_does_not_hold_is_refused_by_its_setting(run, engine, setting, said):
    done = engine("train", "--resume", run, "train.steps=1024", setting)
    assert done.returncode == 2 and said in done.stderr and "league." not in done.stderr, done.stderr
    assert f"train.init_from={run}" in done.stderr


def test_a_path_with_a_comma_is_refused_as_an_opponent(run, engine, tmp_path):
    place = tmp_path / "x,y"
    place.mkdir()
    (place / "a").symlink_to(run)
    done = engine("train", "ppo", "hockey_duel", "--out", tmp_path / "new", "train.opponents=a", cwd=place)
    assert done.returncode == 2 and "has one; rename that folder" in done.stderr, done.stderr


def test_a_checkpoint_is_judged_by_its_name(run, engine):
    words = ("--episodes", 2, "--actions", "mean", "--json")
    first = sorted(path.name for path in run.glob("checkpoints/step_*"))[0]
    done = engine("eval", f"{run}@{first}", *words)
    assert done.returncode == 0 and json.loads(done.stdout)["checkpoint"].endswith(first), done.stderr
    twice = engine("eval", f"{run}@{first}", "--checkpoint", "latest")
    assert twice.returncode == 2 and "leave out --checkpoint" in twice.stderr


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
    assert json.loads(engine(*words, "--json", "threads=1").stdout) == report
    # whole games: who is stronger wins more, in whichever order they are named
    games = [engine("league", "hockey_duel", *names, "--games", 40, "--json") for names in (("strong", "random"), ("random", "strong"))]
    there, back = (json.loads(done.stdout) for done in games)
    assert there["players"][0]["name"] == back["players"][0]["name"] == "strong"
    won, lost = there["pairs"][0]["wins"], there["pairs"][0]["losses"]
    assert won > lost and (back["pairs"][0]["losses"], back["pairs"][0]["wins"]) == (won, lost)
    shown = engine(*words)
    assert shown.returncode == 0 and "weak against random: " in shown.stdout and "+/-" in shown.stdout


@pytest.mark.parametrize(
    "words, said",
    [
        (["cartpole", "random", "balance"], "1 agent"),
        (["hockey_duel", "weak", "weak"], "named twice"),
        (["hockey_duel", "weak"], "two players"),
        (["hockey_duel"], "two players at least"),
        (["hockey_duel", "weak", "random", "train.steps=5"], "only env.* settings"),
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


def test_steps_in_which_no_episode_ends_are_told(run, engine):
    done = engine("eval", run, "--envs", 2, "--steps", 10)
    assert done.returncode == 0 and "no episode ended within these steps: take more" in done.stdout, done.stdout


def test_a_checkpoint_of_a_past_self_holds_no_optimiser(run):
    manifest = json.loads(next(run.glob("checkpoints/step_*/manifest.json")).read_text())
    names = list(manifest["tensors"])
    assert any(name.startswith("algo.optimizer.") for name in names)
    past = [name for name in names if name.startswith("league.past0.")]
    assert past and all(name.startswith("league.past0.network.") for name in past)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"step": 1}', "[" * 100_000, '{"players":' + "[" * 100_000]
)
def test_a_damaged_league_is_one_error(text, run, engine, tmp_path):
    assert engine("league", run).returncode == 0
    (tmp_path / "league.json").write_text(text)
    done = engine("league", tmp_path)
    assert done.returncode == 2 and f"{tmp_path}/league.json] is damaged: expected" in done.stderr, done.stderr
    assert "json.exception" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def planning_run(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("eval") / "plans"
    small = "enc_dim=16 mlp_dim=16 latent_dim=16 num_q=2 samples=16 elites=4 policy_trajectories=2 batch=8 update_every=40"
    done = engine(
        *("train", "tdmpc2", "pendulum", "--bare", "--sinks", "jsonl", "--out", folder, "train.steps=240"),
        *("env.count=4", "env.max_steps=20", "tdmpc2.seed_steps=80", "tdmpc2.updates_per_step=0.1"),
        *(f"tdmpc2.{setting}" for setting in small.split()),
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_policy_is_judged_as_it_is_asked_to_act(planning_run, engine):
    words = ("eval", planning_run, "--episodes", 2, "--actions", "mean", "--json")
    reports = {}
    for settings in ((), ("tdmpc2.iterations=1",), ("tdmpc2.mpc=false",), ("tdmpc2.iterations=6",)):
        done = engine(*words, *settings)
        assert done.returncode == 0, done.stderr
        reports[settings] = json.loads(done.stdout)
        assert reports[settings].get("settings", []) == list(settings)
    returns = {settings: report["results"][0]["return_mean"] for settings, report in reports.items()}
    # by fewer rounds, by none, and by as many as it was trained with
    assert returns[()] == returns[("tdmpc2.iterations=6",)]
    assert len(set(returns.values())) == 3, returns
    # another way to name it: a player on its environment
    named = engine("eval", "pendulum", planning_run, "--episodes", 2, "--actions", "mean", "--json", "env.max_steps=20", "tdmpc2.mpc=false")
    assert json.loads(named.stdout)["results"][0]["return_mean"] == returns[("tdmpc2.mpc=false",)], named.stderr
    played = [engine("play", planning_run, "--fast", *settings).stdout for settings in ((), ("tdmpc2.mpc=false",))]
    assert "return of" in played[0] and played[0] != played[1]


@pytest.mark.parametrize(
    "setting, said",
    [
        ("tdmpc2.lr=1", "those that say how a policy acts (tdmpc2.mpc, tdmpc2.horizon, tdmpc2.iterations"),
        ("tdmpc2.samples=3 tdmpc2.elites=4", "tdmpc2.elites must be at most tdmpc2.samples = 3, got 4"),
        ("tdmpc2.iterations=0", "tdmpc2.iterations"),
        ("tdmpc2.iteratons=3", "got 'tdmpc2.iteratons=3'; did you mean tdmpc2.iterations"),
    ],
)
@pytest.mark.parametrize("verb", ["eval", "play"])
def test_what_was_learned_is_not_changed_by_asking(planning_run, engine, verb, setting, said):
    done = engine(verb, planning_run, *setting.split())
    assert done.returncode == 2 and said in done.stderr, done.stderr


@pytest.mark.parametrize("verb", [("eval", "--episodes", "1"), ("play", "--fast")])
def test_what_a_run_acts_by_gives_way_to_what_is_given(planning_run, engine, verb):
    words = (verb[0], planning_run, *verb[1:], "tdmpc2.samples=3")
    done = engine(*words)
    told = "maglev: tdmpc2.elites is 3 here and not 4 of the run: it must be at most tdmpc2.samples = 3\n"
    assert done.returncode == 0 and done.stderr == told, done.stderr
    # as if it had been given
    given = engine(*words, "tdmpc2.elites=3")
    assert given.stderr == "" and result_of(given) == result_of(done)


def result_of(done):
    """What was told of games, but for how long they took."""
    return re.sub(r"[\d.]+ s\b", "", done.stdout)


@pytest.mark.parametrize("verb", [("eval", "--episodes", "1"), ("play", "--fast")])
def test_a_setting_that_changes_nothing_as_the_others_are_is_told(planning_run, engine, verb):
    told = f"maglev: tdmpc2.iterations=3 changes nothing for {planning_run}: tdmpc2.mpc is off"
    done = engine(verb[0], planning_run, *verb[1:], "tdmpc2.iterations=3", "tdmpc2.mpc=false")
    assert done.returncode == 0 and done.stderr.startswith(told) and done.stderr.count("\n") == 1, done.stderr
    assert engine(verb[0], planning_run, *verb[1:], "tdmpc2.iterations=3").stderr == ""


def test_actions_are_drawn_at_a_temperature(run, engine):
    words = ("eval", run, "--episodes", 4, "--against", "weak", "--json")
    reports = {}
    for temperature in ((), ("1",), ("0.01",), ("100",)):
        done = engine(*words, *(("--temperature", *temperature) if temperature else ("--actions", "sample")))
        assert done.returncode == 0, done.stderr
        (reports[temperature],) = json.loads(done.stdout)["results"]
        assert reports[temperature]["actions"] == "sample"
    kept = [{k: v for k, v in report.items() if k != "seconds"} for report in reports.values()]
    # 1 is as it learned, to the bit
    assert kept[0] == kept[1] and "temperature" not in kept[1]
    assert kept[2]["temperature"] == pytest.approx(0.01) and kept[3]["temperature"] == 100
    assert len({json.dumps(one["returns"]) for one in kept}) == 3
    # another way to name it, and the table
    named = engine("eval", "hockey_duel", run, "--episodes", 4, "--temperature", 100, "--against", "weak", "env.max_steps=20")
    assert named.returncode == 0 and "sample, T = 100" in named.stdout, named.stderr
    asked = (("--actions", "sample"), ("--temperature", 1), ("--temperature", 50))
    played = [engine("play", run, "--fast", *how).stdout for how in asked]
    assert "return of" in played[0] and played[0] == played[1] != played[2]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--temperature", "0"], "--temperature must be a number above 0 and at most 1000, got '0'; "),
        (["--temperature", "-1"], "--temperature must be a number above 0 and at most 1000, got '-1'; "),
        (["--temperature", "1001"], "--temperature must be a number above 0 and at most 1000, got '1001'; "),
        (["--temperature", "1x"], "--temperature must be a number above 0 and at most 1000, got '1x'; "),
        (["--temperature", "0"], "--actions mean"),
        (["--temperature", "2", "--actions", "mean"], "the same at every temperature"),
    ],
)
@pytest.mark.parametrize("verb", ["eval", "play"])
def test_a_temperature_that_cannot_be_is_refused(run, engine, verb, words, said):
    done = engine(verb, run, *words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_temperature_is_of_policies_that_draw_by_one(planning_run, run, engine):
    for words, said in (
        (("eval", planning_run, "--temperature", 2), "its actions are planned"),
        (("play", planning_run, "--fast", "--temperature", 2), "its actions are planned"),
        (("eval", "hockey_duel", "weak", "--temperature", 2), "no policy that a temperature could be of"),
        (("play", "hockey_duel", "weak", "--temperature", 2), "none plays"),
        (("eval", run, "--temperature", 2, "--quantile", 0.5, "--base", run), "leave out --temperature"),
    ):
        done = engine(*words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = engine("eval", planning_run, "--episodes", 1, "--temperature", 2, "tdmpc2.mpc=false")
    assert done.returncode == 0 and "sample, T = 2" in done.stdout, done.stderr


def test_misspelled_players_and_runs_are_answered_with_near_ones(run, engine, tmp_path):
    near = f"did you mean {run}?"
    misspelled = f"{run}s"
    for words in (
        ("eval", misspelled),
        ("league", misspelled),
        ("eval", "hockey_duel", misspelled),
        ("eval", run, "--against", f"{misspelled}@latest"),
        ("watch", misspelled),
        ("compare", misspelled, run),
    ):
        done = engine(*words)
        assert done.returncode == 2 and near in done.stderr, done.stderr
    for opponents, meant in (("weak,stong", "strong"), ("passt", "past"), (misspelled, run)):
        done = engine("train", "ppo", "hockey_duel", f"train.opponents={opponents}", "--out", tmp_path / "none")
        assert done.returncode == 2 and f"did you mean {meant}" in done.stderr, done.stderr
        assert not (tmp_path / "none").exists()


def test_rivals_are_of_games_of_two(engine):
    done = engine("eval", "cartpole", "random", "--against", "random")
    assert done.returncode == 2 and "--against is for games of two players, and cartpole has 1" in done.stderr
    assert "train.opponents" not in done.stderr
