"""A sweep: trials that are recorded, stopped early, gone on with and never trained twice."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import ENGINE, HOME
from waiting import LONG_S, wait_for

SPACE = ["--space", "ppo.lr=1e-5..1e-1:log", "--space", "ppo.epochs=1..4", "--space", "ppo.optimizer"]
SMALL = ["--bare", "train.steps=3200", "env.count=4", "ppo.rollout=16"]


def words(folder, *more):
    return [str(word) for word in ["sweep", "ppo", "cartpole", *SPACE, *SMALL, *more, "--out", folder]]


def trials_of(folder):
    files = sorted((folder / "trials").glob("*/trial.json"), key=lambda path: int(path.parent.name))
    return [json.loads(path.read_text()) for path in files]


def settings_of(folder):
    return [trial["settings"] for trial in trials_of(folder)]


@pytest.fixture(scope="module")
def swept(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "s"
    done = engine(*words(folder, "--trials", 6, "--start", 3, "--parallel", 1))
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.parametrize("verb", ["play", "eval", "export"])
@pytest.mark.parametrize("checkpoint", ["", "@best"])
def test_a_sweep_in_place_of_a_run_names_its_trials(swept, engine, verb, checkpoint):
    folder, _ = swept
    done = engine(verb, f"{folder}{checkpoint}")
    assert done.returncode != 0
    assert f"[{folder}] is a sweep; name one of its trials in its place, best first, with their scores: " in done.stderr


def test_trials_are_recorded_and_the_best_settings_train(swept, engine, tmp_path):
    folder, done = swept
    trials = trials_of(folder)
    assert [trial["state"] for trial in trials] == ["finished"] * 6
    assert sorted(trial["ended"] for trial in trials) == [1, 2, 3, 4, 5, 6]
    best = max(trials, key=lambda trial: trial["score"])
    assert f"trial {best['number']} of a sweep" in (folder / "best.yaml").read_text()
    again = engine("train", "ppo", "cartpole", "--bare", "--config", folder / "best.yaml", "--out", tmp_path / "run")
    assert again.returncode == 0, again.stderr
    status = json.loads((tmp_path / "run" / "run.json").read_text())
    assert status["return_mean"] == pytest.approx(best["score"])
    page = (folder / "report.html").read_text()
    for part in ("Importance", "History", "Slices", "Pareto front", "ppo.optimizer"):
        assert part in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_runs_lists_a_sweep_as_one_row_and_its_trials_by_themselves(swept, engine):
    folder, _ = swept
    (row,) = engine("runs", folder.parent).stdout.splitlines()[1:]
    best = max(trial["score"] for trial in trials_of(folder))
    assert "6 of 6 trials ended" in row and "cartpole" in row and f"{best:.2f}" in row and " ago" in row
    for listed, name in ((folder, "trials/3/run"), (folder / "trials", "3/run")):
        lines = engine("runs", listed).stdout.splitlines()[1:]
        assert len(lines) == 6 and sum(line.split()[0] == name for line in lines) == 1


def best_of(folder):
    best = max(trials_of(folder), key=lambda trial: trial["score"])
    return f"with their scores: {folder}/trials/{best['number']}/run ({best['score']:.4g}), "


@pytest.mark.parametrize("words", [["eval"], ["play"], ["league"], ["train", "--resume"], ["eval", "cartpole"]])
def test_a_sweep_is_no_run_and_its_trials_are_named_best_first(swept, engine, words):
    folder, _ = swept
    done = engine(*words, folder)
    assert done.returncode == 2 and best_of(folder) in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_the_best_is_confirmed_with_seeds_the_search_did_not_use(swept, engine, tmp_path):
    folder = shutil.copytree(swept[0], tmp_path / "s")
    command = words(folder, "--trials", 6, "--start", 3, "--parallel", 1, "--confirm", 2)
    done = engine(*command)
    assert done.returncode == 0, done.stderr
    best = max(trials_of(folder), key=lambda trial: trial["score"])
    name = f"trial {best['number']}"
    assert f"confirms {name} beside the settings the search began with, by seeds 2 to 3" in done.stderr
    for row, arm in (("where it began", "start"), (name, f"trial-{best['number']}")):
        assert f"{row}: seeds of {folder}/confirm/{arm}\n" in done.stderr
    told = done.stdout[done.stdout.index("Confirmed with seeds 2 to 3") :]
    assert name in told and "where it began" in told and f"{best['score']:.4g}" in told
    assert "no difference is shown" in told or "is higher than" in told or "is lower than" in told
    # the means are those of the runs, and the settings those of the trial
    for arm, row in ((f"trial-{best['number']}", name), ("start", "where it began")):
        group = json.loads((folder / "confirm" / arm / "seeds.json").read_text())
        assert [seed["seed"] for seed in group["seeds"]] == [2, 3]
        line = next(line for line in told.splitlines() if line.startswith(row))
        assert f"{group['mean']:.4g}" in line, line
    lr = next(setting for setting in best["settings"] if setting.startswith("ppo.lr="))
    assert lr.removeprefix("ppo.").replace("=", ": ") in (folder / "confirm" / f"trial-{best['number']}" / "settings.yaml").read_text()
    page = (folder / "report.html").read_text()
    assert "Confirmation" in page and "which the search did not use" in page
    # the same command trains nothing more; a third seed is added, and then counts
    files = [(path, path.stat().st_mtime_ns) for path in folder.glob("confirm/*/seed-*/metrics.jsonl")]
    again = engine(*command)
    assert again.returncode == 0 and again.stdout[again.stdout.index("Confirmed with") :] == told
    assert files == [(path, path.stat().st_mtime_ns) for path in folder.glob("confirm/*/seed-*/metrics.jsonl")]
    more = engine(*command[:-3], 3, *command[-2:])
    assert more.returncode == 0 and "by seeds 2 to 4" in more.stderr, more.stderr
    assert all(path.stat().st_mtime_ns == at for path, at in files)
    assert len(list(folder.glob("confirm/*/seed-4/metrics.jsonl"))) == len(files) // 2
    fewer = engine(*command)
    assert fewer.returncode == 0 and "3 seeds of the settings are there already: it is confirmed by these, in place of 2" in fewer.stderr
    # who does not ask for it again is told what it came to, and keeps it
    silent = engine(*command[:-4], *command[-2:])
    assert silent.returncode == 0 and "confirms" not in silent.stderr, silent.stderr
    for done in (fewer, silent):
        assert done.stdout[done.stdout.index("Confirmed with") :] == more.stdout[more.stdout.index("Confirmed with") :]
    assert "Confirmation" in (folder / "report.html").read_text()


def test_a_confirmation_that_was_killed_goes_on(swept, engine, tmp_path):
    folder = shutil.copytree(swept[0], tmp_path / "s")
    command = words(folder, "--trials", 6, "--start", 3, "--parallel", 1, "--confirm", 2)
    process = subprocess.Popen([ENGINE, *command], env={**os.environ, "MAGLEV_HOME": str(HOME)})
    wait_for(lambda: process.poll() is not None or list(folder.glob("confirm/*/seed-3")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = engine(*command)
    assert done.returncode == 0, done.stderr
    assert "Confirmed with seeds 2 to 3" in done.stdout


def test_who_ends_while_another_trains_leaves_it_to_confirm(swept, engine, tmp_path):
    folder = shutil.copytree(swept[0], tmp_path / "s")
    command = words(folder, "--trials", 6, "--start", 3, "--confirm", 2, "--budget", 0)
    trial = folder / "trials" / "5" / "trial.json"
    trial.write_text(json.dumps(json.loads(trial.read_text()) | {"state": "running", "score": None, "ended": 0}))
    with open(trial.parent / "trial.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = engine(*command)
    assert done.returncode == 0, done.stderr
    assert "another process still trains: the last one to end confirms the best" in done.stderr
    assert not (folder / "confirm").exists()
    # nobody trains now, and the budget leaves the trial to others
    done = engine(*command)
    assert done.returncode == 0 and "Confirmed with seeds 2 to 3" in done.stdout, done.stderr


def test_a_population_has_no_settings_to_confirm(engine, tmp_path):
    done = engine(*words(tmp_path / "s", "--sampler", "pbt", "--confirm", 3))
    assert done.returncode == 2 and "--confirm trains the best settings anew" in done.stderr


def test_what_is_free_makes_no_other_sweep_unless_it_is_given(swept, engine, tmp_path):
    folder = shutil.copytree(swept[0], tmp_path / "s")
    command = words(folder, "--trials", 6, "--start", 3, "--parallel", 1)
    # as tune finds it on another machine
    profile = tmp_path / "profile.yaml"
    profile.write_text("train.collect: blocks\nppo.network.fast_tanh: false\n")
    before = json.loads((folder / "sweep.json").read_text())
    begun = engine(*command[:-2], f"+hardware={profile}", "--out", tmp_path / "other", "--trials", 1)
    assert begun.returncode == 0, begun.stderr
    assert "train.collect" not in json.loads((tmp_path / "other" / "sweep.json").read_text())["settings"]
    assert "train.collect" not in before["settings"] and "ppo.lr_end" in before["settings"]
    given = engine(*command, "train.collect=blocks")
    assert given.returncode == 2 and "another train.collect: nothing there, blocks asked for" in given.stderr, given.stderr


def test_seconds_before_a_kill_count(swept, engine, tmp_path):
    folder = shutil.copytree(swept[0], tmp_path / "s")
    path = folder / "trials" / "2" / "trial.json"
    trial = json.loads(path.read_text())
    # as a worker leaves it that was killed between the run's end and its own
    path.write_text(json.dumps({**trial, "state": "running", "seconds": 0.0, "score": None}))
    done = engine(*words(folder, "--trials", 6, "--start", 3, "--parallel", 1))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "trials" / "2" / "run" / "metrics.jsonl").read_text().splitlines()]
    again = json.loads(path.read_text())
    assert again["state"] == "finished" and again["seconds"] == pytest.approx(rows[-1]["seconds"])


def test_the_same_command_again_trains_nothing(swept, engine):
    folder, _ = swept
    before = [(path, path.stat().st_mtime_ns) for path in (folder / "trials").glob("*/trial.json")]
    done = engine(*words(folder, "--trials", 6, "--start", 3, "--parallel", 1))
    assert done.returncode == 0, done.stderr
    assert before == [(path, path.stat().st_mtime_ns) for path in (folder / "trials").glob("*/trial.json")]


def test_a_killed_sweep_goes_on_to_the_same_trials(swept, tmp_path, engine):
    whole, _ = swept
    folder = tmp_path / "s"
    command = words(folder, "--trials", 6, "--start", 3, "--parallel", 1)
    for wanted in (2, 4):
        process = subprocess.Popen([ENGINE, *command], env={**os.environ, "MAGLEV_HOME": str(HOME)})
        wait_for(lambda: process.poll() is not None or len(list(folder.glob("trials/*/trial.json"))) >= wanted)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert engine(*command).returncode == 0
    assert settings_of(folder) == settings_of(whole)
    assert [trial["score"] for trial in trials_of(folder)] == [trial["score"] for trial in trials_of(whole)]


def test_two_workers_share_a_folder_and_train_no_trial_twice(tmp_path):
    folder = tmp_path / "s"
    command = [ENGINE, *words(folder, "--trials", 8, "--parallel", 2)]
    environment = {**os.environ, "MAGLEV_HOME": str(HOME)}
    pair = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=LONG_S)[1] for process in pair]
    assert [process.returncode for process in pair] == [0, 0], said
    ended = [line.split()[1] for text in said for line in text.splitlines() if line.startswith("trial ")]
    assert sorted(ended) == [str(n) for n in range(8)]
    assert sorted(trial["ended"] for trial in trials_of(folder)) == list(range(1, 9))


def test_a_crash_is_a_failed_trial_and_the_sweep_goes_on(engine, tmp_path):
    # a minibatch beyond the rollout is refused by the run itself
    folder = tmp_path / "s"
    space = ["--space", "ppo.minibatch=32,100000"]
    done = engine("sweep", "ppo", "cartpole", *space, *SMALL, "--trials", 6, "--sampler", "random", "--out", folder)
    assert done.returncode == 0, done.stderr
    states = {trial["settings"][0]: trial["state"] for trial in trials_of(folder)}
    assert f" failed, of which {folder}/trials/*/trial.json say why\n" in done.stdout
    assert states == {"ppo.minibatch=32": "finished", "ppo.minibatch=100000": "failed"}
    failed = [trial for trial in trials_of(folder) if trial["state"] == "failed"]
    assert all("ppo.minibatch" in trial["message"] for trial in failed)


# each of 64 pendulums is at the 50th of an episode's 200 steps when such a trial ends
ENDLESS = ["--bare", "train.steps=3200", "ppo.rollout=16", "ppo.epochs=1", "ppo.minibatch=64"]


def test_a_trial_in_which_no_episode_ended_may_be_the_best_and_is_named(engine, tmp_path):
    folder = tmp_path / "s"
    few = ["--space", "env.count=4,64", "--sampler", "random", "--trials", 3, "--parallel", 1]
    done = engine("sweep", "ppo", "pendulum", *ENDLESS, *few, "--out", folder)
    assert done.returncode == 0, done.stderr
    states = {trial["settings"][0]: trial["state"] for trial in trials_of(folder)}
    assert states == {"env.count=64": "unscored", "env.count=4": "finished"}
    number = next(trial["number"] for trial in trials_of(folder) if trial["state"] == "unscored")
    said = f"trial {number} has no score, for no episode ended, and may be the best: "
    said += f"./maglev eval {folder}/trials/{number}/run judges it; a sweep in another --out with train.eval_every=3200"
    assert said in done.stdout and " failed" not in done.stdout
    assert f"# {said}" in (folder / "best.yaml").read_text() and said in (folder / "report.html").read_text()


def test_evaluations_score_what_ended_no_episode(engine, tmp_path):
    judged = ["train.eval_every=3200", "train.eval_episodes=2", "--space", "ppo.lr", "env.count=64"]
    done = engine("sweep", "ppo", "pendulum", *ENDLESS, *judged, "--trials", 1, "--out", tmp_path / "s")
    assert done.returncode == 0 and trials_of(tmp_path / "s")[0]["state"] == "finished", done.stderr


def test_a_population_without_scores_goes_on_as_it_is_and_the_sweep_says_so(engine, tmp_path):
    folder = tmp_path / "s"
    pbt = ["--space", "ppo.lr=1e-4..1e-2:log", "--sampler", "pbt", "--population", 2, "--trials", 4, "--parallel", 2]
    done = engine("sweep", "ppo", "pendulum", *ENDLESS, "env.count=64", *pbt, "--out", folder)
    assert done.returncode == 2, done.stderr
    assert "maglev: [sweep] trials 0, 1, 2, 3 have no score, for no episode ended, and may be the best: " in done.stderr
    trials = trials_of(folder)
    assert [trial["state"] for trial in trials] == ["unscored"] * 4
    assert [trial["parent"] for trial in trials] == [-1, -1, 0, 1]
    assert [trial["settings"] for trial in trials[:2]] == [trial["settings"] for trial in trials[2:]]


def test_a_trial_that_was_killed_goes_on_and_killed_again_is_left_to_the_same_command(engine, gate, tmp_path):
    folder = tmp_path / "s"
    command = ["sweep", *gate.words, "--space", "ppo.lr=1e-5..1e-1:log", *SMALL]
    command += ["--trials", "2", "--parallel", "1", "--out", str(folder)]
    process = subprocess.Popen(
        [ENGINE, *command], env={**os.environ, "MAGLEV_HOME": str(HOME), **gate.env}, stderr=subprocess.PIPE, text=True
    )
    for begun in (1, 2):
        gate.wait_for(begun, process)
        os.kill(json.loads((folder / "trials" / "0" / "run" / "run.json").read_text())["pid"], signal.SIGKILL)
    # the other trial
    gate.wait_for(3, process)
    gate.open()
    said = process.communicate(timeout=LONG_S)[1]
    assert process.returncode == 2, said
    assert "trial 0 was cut off: ended: signal 9 (Killed)" in said and "; it goes on\n" in said
    assert "1 of the trials were cut off, trial 0: ended: signal 9" in said
    assert [trial["state"] for trial in trials_of(folder)] == ["running", "finished"]
    done = engine(*command, env=gate.env)
    assert done.returncode == 0, done.stderr
    assert [trial["state"] for trial in trials_of(folder)] == ["finished"] * 2
    assert not any(trial["message"] for trial in trials_of(folder))


def test_a_full_disk_stops_the_sweep_and_fails_no_trial(engine, tmp_path):
    folder = tmp_path / "s"
    command = words(folder, "--trials", 3, "--parallel", 1, "train.retry_save=0")
    done = engine(*command, env={"MAGLEV_FAULT": "write:ENOSPC:20+"})
    assert done.returncode == 2, done.stderr
    assert "maglev: [sweep] the disk is full, and trial 0 was cut off: " in done.stderr
    assert "; with room there the same command goes on\n" in done.stderr
    assert [trial["state"] for trial in trials_of(folder)] == ["running"]
    done = engine(*command)
    assert done.returncode == 0, done.stderr
    assert [trial["state"] for trial in trials_of(folder)] == ["finished"] * 3


def test_a_sweep_that_fails_lets_its_trials_save(tmp_path):
    folder = tmp_path / "s"
    halving = ["--scheduler", "asha", "--rung", 90_000_000, "--trials", 2, "--parallel", 2]
    command = words(folder, *halving, "train.steps=1000000000", "train.save_every=1000000000")
    process = subprocess.Popen(
        [ENGINE, *command], env={**os.environ, "MAGLEV_HOME": str(HOME)}, stderr=subprocess.PIPE, text=True
    )
    runs = [folder / "trials" / str(n) / "run" for n in (0, 1)]
    # a run that saves has its metrics open, and cuts off no more what is no row of its own
    wait_for(lambda: all(list(run.glob("checkpoints/step_*/manifest.json")) for run in runs), process)
    # no row that can be read
    with (runs[0] / "metrics.jsonl").open("a") as rows:
        rows.write("x" * (17 << 20))
    # a look takes the longer, the busier the machine, and the next one waits for fifty times as long
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 2 and "has a line of more than 16 MiB" in said, said
    assert [json.loads((run / "run.json").read_text())["state"] for run in runs] == ["stopped"] * 2


def test_asha_stops_most_trials_early_and_promotes_the_best(engine, tmp_path):
    folder = tmp_path / "s"
    # none of nine comes to the last rung
    more = ["train.steps=27000000", "train.log_every=1024", "ppo.epochs=1"]
    space = ["--space", "ppo.lr=1e-7..1e-2:log"]
    halving = ["--scheduler", "asha", "--rung", 10000, "--trials", 9, "--parallel", 1]
    done = engine("sweep", "ppo", "cartpole", *space, *SMALL, *more, *halving, "--out", folder)
    assert done.returncode == 0, done.stderr
    trials = trials_of(folder)
    assert [trial["state"] for trial in trials] == ["stopped"] * 9
    assert all(1 <= len(trial["rungs"]) <= 3 for trial in trials)
    assert "its score is that of a rung" in done.stdout, done.stdout
    # who reached the second rung was among the best third of those at the first when promoted
    first = sorted((trial["rungs"][0] for trial in trials), reverse=True)
    for trial in trials:
        if trial["promoted"] > 1:
            assert trial["rungs"][0] in first[:5]


def test_trials_that_overrun_their_rungs_are_not_lost(engine, tmp_path):
    folder = tmp_path / "s"
    more = ["threads=1", "train.steps=20000", "train.eval_every=15000", "--trials", 4, "--parallel", 1]
    halving = ["--scheduler", "asha", "--rung", 3000, "--keep", 2, "--sampler", "random"]
    space = ["--space", "ppo.lr=1e-3..5e-3:log"]
    done = engine("sweep", "ppo", "cartpole", *space, *more, *halving, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert {trial["state"] for trial in trials_of(folder)} <= {"finished", "stopped"}, done.stderr


def test_a_population_goes_on_from_checkpoints(engine, tmp_path):
    folder = tmp_path / "s"
    pbt = ["--sampler", "pbt", "--population", 2, "--trials", 4, "--parallel", 2]
    done = engine(*words(folder, *pbt))
    assert done.returncode == 0, done.stderr
    trials = trials_of(folder)
    assert [trial["parent"] for trial in trials[:2]] == [-1, -1]
    better = max(trials[:2], key=lambda trial: trial["score"])["number"]
    assert [trial["parent"] for trial in trials[2:]] == [better, better]
    for trial in trials[2:]:
        config = (folder / "trials" / str(trial["number"]) / "run" / "config.yaml").read_text()
        assert f"trials/{better}/run" in config


def test_several_seeds_a_trial_are_scored_by_their_mean(engine, tmp_path):
    folder = tmp_path / "s"
    done = engine(*words(folder, "--trials", 1, "--seeds", 2))
    assert done.returncode == 0, done.stderr
    mean = json.loads((folder / "trials" / "0" / "run" / "seeds.json").read_text())["mean"]
    assert trials_of(folder)[0]["score"] == pytest.approx(mean)


@pytest.mark.parametrize(
    "given, answer",
    [
        (["--space", "ppo.lrr=0..1"], "did you mean"),
        (["--space", "ppo.learning_rate=1..2"], "ppo.learning_rate is ppo.lr here"),
        (["--space", "ppo.lr=1e-5..1e-2", "ppo.lr=1e-3"], "ppo.lr=1e-3 would count in no trial; leave out one of them"),
        (["--space", "ppo.lr=0..1:log"], "no logarithm"),
        (["--space", "ppo.optimizer=adam,sgd"], "known: adam, muon"),
        (["--space", "ppo.network.memory"], "ppo.network.memory] is 0 now, and may be up to 65536"),
        (["--space", "ppo.network.hidden"], "in brackets where it is a list: [64,64],[256,256]"),
        (["--space", "ppo.network.hidden=[64,64]"], "got one, [64,64]; one is given without --space"),
        (["--space", "ppo.network.hidden=64,64"], "'64' is given twice; a value that is a list stands in brackets"),
        (["--space", "ppo.lr=[1e-3,1e-2]"], "a,b,c, got '[1e-3,1e-2]'"),
        (["--space", "seed=1..3"], "does not make a policy better"),
        (["--space", "device"], "[--space device] does not make a policy better; leave it out"),
        (["--space", "train.price=0..10"], "[--space train.price] does not make a policy better; leave it out"),
        (["--space", "trace.every=0..100"], "does not make a policy better"),
        (["--space", "hardware=cpu,ci"], "does not make a policy better"),
        (["--space", "ppo.lr", "--rung", "100"], "--rung is of --scheduler asha; leave it out, or say --scheduler asha"),
        (["--space", "ppo.lr", "--population", "4"], "--population is of --sampler pbt"),
        (["--space", "ppo.lr", "--sampler", "random", "--start", "4"], "--start is of --sampler tpe"),
        (["--space", "train.steps=200..3000", "--scheduler", "asha", "--sampler", "random"], "leave out one of them"),
        ([], "nothing to search"),
        (["--space", "ppo.lr", "--sampler", "tpee"], "did you mean tpe"),
        (["--space", "ppo.lr", "--sampler", "cmaes", "--scheduler", "asha"], "random and tpe"),
    ],
)
def test_a_mistake_gets_one_clear_error(engine, tmp_path, given, answer):
    done = engine("sweep", "ppo", "cartpole", *given, "--out", tmp_path / "s")
    assert done.returncode == 2
    assert answer in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "s").exists()


def test_a_torn_file_is_named_and_its_trial_can_begin_anew(engine, tmp_path):
    folder = tmp_path / "s"
    command = words(folder, "--trials", 2, "--parallel", 1)
    assert engine(*command).returncode == 0
    path = folder / "trials" / "0" / "trial.json"
    whole = path.read_text()
    for cut in (0, 1, len(whole) // 2, len(whole) - 3):
        path.write_text(whole[:cut])
        done = engine(*command)
        assert done.returncode == 2
        assert "trial.json] is damaged; remove" in done.stderr
    path.unlink()
    done = engine(*command)
    assert done.returncode == 0, done.stderr
    assert trials_of(folder)[0]["settings"] == json.loads(whole)["settings"]
    (folder / "sweep.json").write_text("{")
    assert "is damaged" in engine(*command).stderr


def test_another_sweep_is_not_mixed_in(swept, engine):
    folder, _ = swept
    done = engine(*words(folder, "--trials", 6, "--start", 3, "--search-seed", 2))
    assert done.returncode == 2
    assert "another seed: 1 there, 2 asked for" in done.stderr
    done = engine(*words(folder, "--trials", 6, "--start", 3, "--space", "ppo.gamma=0.9..0.99"))
    there = "ppo.lr=1e-05..0.1:log ppo.epochs=1..4 ppo.optimizer=adam,muon"
    assert f"another space: {there} there, {there} ppo.gamma=0.9..0.99 asked for; " in done.stderr, done.stderr
    done = engine(*words(folder, "--trials", 6, "--start", 3, "ppo.gamma=0.5"))
    assert done.returncode == 2 and "another ppo.gamma: " in done.stderr, done.stderr


def test_a_folder_of_something_else_is_left_as_it_is(engine, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = engine("sweep", "ppo", "cartpole", "--space", "ppo.lr", "--trials", 2, "--out", tmp_path)
    assert done.returncode == 2 and "holds no sweep, and is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_is_no_trial_is_named(engine, tmp_path):
    folder = tmp_path / "s"
    command = words(folder, "--trials", 1, "--parallel", 1)
    assert engine(*command).returncode == 0
    (folder / "trials" / "copy").mkdir()
    (folder / "trials" / "copy" / "trial.json").write_text("{}")
    done = engine(*command)
    assert done.returncode == 2 and "trials/copy] is no trial of this sweep" in done.stderr


def test_a_space_from_a_file_and_a_script_for_slurm(engine, tmp_path):
    space = tmp_path / "space.yaml"
    space.write_text("ppo:\n  lr: 1e-5..1e-2:log\n  optimizer: [adam, muon]\n")
    folder = tmp_path / "s"
    done = engine("sweep", "ppo", "cartpole", "--space", space, *SMALL, "--slurm", 4, "--out", folder)
    assert done.returncode == 0, done.stderr
    script = (folder / "sweep.sbatch").read_text()
    assert "#SBATCH --array=1-4" in script
    assert f"exec ./maglev sweep ppo cartpole --space {space}" in script
    assert "--slurm" not in script
    assert [d["name"] for d in json.loads((folder / "sweep.json").read_text())["space"]] == ["ppo.lr", "ppo.optimizer"]


def test_a_name_alone_is_searched_around_what_it_is_and_said(engine, tmp_path):
    space = tmp_path / "space.yaml"
    space.write_text("ppo:\n  network: {hidden: [[16, 16], [8]]}\n")
    words = ["--space", "ppo.lr", "--space", "ppo.rollout", "--space", space]
    more = ["--bare", "train.steps=1000", "--trials", 3, "--parallel", 1, "--out", tmp_path / "s"]
    done = engine("sweep", "ppo", "cartpole", *words, *more, "ppo.epochs=1")
    assert done.returncode == 0, done.stderr
    said = "searches ppo.lr=3e-05..0.003:log ppo.rollout=16..1024:pow2 ppo.network.hidden=[16, 16],[8]\n"
    assert said in done.stderr
    assert f"best settings: ./maglev train ppo cartpole --bare --config {tmp_path}/s/best.yaml\n" in done.stdout
    for trial in trials_of(tmp_path / "s"):
        rollout = int(trial["settings"][1].split("=")[1])
        assert trial["state"] == "finished" and 16 <= rollout <= 1024 and rollout & (rollout - 1) == 0
        assert trial["settings"][2] in ("ppo.network.hidden=[16, 16]", "ppo.network.hidden=[8]")


def test_a_file_that_is_no_space_says_how_one_is_written(engine, tmp_path):
    space = tmp_path / "space.yaml"
    space.write_text("ppo:\n  lr: {min: 1e-5, max: 1e-2}\n")
    done = engine("sweep", "ppo", "cartpole", "--space", space, "--out", tmp_path / "s")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"{space} is to have lines such as ppo.lr: 1e-5..1e-2:log" in done.stderr, done.stderr


def test_a_missing_optuna_is_one_clear_error(engine, tmp_path):
    done = engine(*words(tmp_path / "s", "--backend", "optuna"), env={"MAGLEV_OPTUNA_PYTHON": "/usr/bin/false-python"})
    assert done.returncode == 2
    assert "MAGLEV_OPTUNA_PYTHON" in done.stderr


def test_optuna_stands_behind_the_same_interface(engine, tmp_path):
    python = os.environ.get("MAGLEV_OPTUNA_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import optuna"], capture_output=True, check=False).returncode:
        pytest.skip("Optuna is not installed")
    folder = tmp_path / "s"
    done = engine(
        *words(folder, "--space", "ppo.minibatch=16..64:pow2", "--trials", 3, "--backend", "optuna", "--parallel", 1),
        env={"MAGLEV_OPTUNA_PYTHON": python},
    )
    assert done.returncode == 0, done.stderr
    assert {trial["values"][3] for trial in trials_of(folder)} <= {16, 32, 64}
    assert [trial["state"] for trial in trials_of(folder)] == ["finished"] * 3


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_settings_that_were_tried_are_not_trained_again(engine, tmp_path, sampler):
    folder = tmp_path / "s"
    few = ["sweep", "ppo", "cartpole", "--space", "ppo.optimizer", *SMALL, "--sampler", sampler]
    done = engine(*few, "--trials", 8, "--parallel", 1, "--out", folder)
    assert done.returncode == 0, done.stderr
    trials = trials_of(folder)
    assert len(trials) == 8 and all(trial["state"] == "finished" for trial in trials)
    assert sorted(trial["ended"] for trial in trials) == list(range(1, 9))
    scores = {}
    for trial in trials:
        first = scores.setdefault(trial["settings"][0], trial)
        trained = (folder / "trials" / str(trial["number"]) / "run").is_dir()
        assert trained == (first is trial)
        assert trial["score"] == first["score"] and (trained or f"of trial {first['number']}," in trial["message"])
    copies = [trial for trial in trials if trial["same_as"] >= 0]
    assert len(copies) == 8 - len(scores) and f"{len(copies)} more had settings that were tried" in done.stdout
    assert all(trial["same_as"] == scores[trial["settings"][0]]["number"] for trial in copies)
    # a trial that is taken away begins anew, whoever has its score
    shutil.rmtree(folder / "trials" / str(trials[0]["number"]))
    again = engine(*few, "--trials", 8, "--parallel", 1, "--out", folder)
    assert again.returncode == 0, again.stderr
    # the page and the best settings are of one that was trained
    best = max(trials, key=lambda trial: trial["score"])
    assert f"trial {scores[best['settings'][0]]['number']} of a sweep" in (folder / "best.yaml").read_text()
