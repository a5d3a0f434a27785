"""A run that is killed and resumed ends as the unbroken one: every named value of the state, by hash."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import ENGINE, HOME, newest_manifest
from waiting import LONG_S, wait_for

# every environment, with what makes state: normalisers, PopArt, schedules, several threads, what is
# remembered
CASES = {
    "cartpole": ["ppo.network.value_head=popart", "ppo.network.normalize_obs=true", "threads=2"],
    "acrobot": [
        "ppo.normalize_reward=true",
        "ppo.network.normalize_obs=true",
        "ppo.network.memory=4",
        "ppo.sequence=8",
    ],
    "mountain_car": ["ppo.network.normalize_obs=true", "ppo.clip_grad=module"],
    "pendulum": [
        "ppo.network.normalize_obs=true",
        "ppo.normalize_reward=true",
        "ppo.target_kl=0.01",
    ],
    "goodhart": [
        "env.width=32",
        "env.height=32",
        "env.min_food=4",
        "env.max_food=16",
        "env.min_poison=4",
        "env.max_poison=16",
        "ppo.network.value_head=popart",
        "ppo.network.kind=mlp",
    ],
}
STEPS = 64 * 100
COMMON = [
    "--bare",
    "--sinks",
    "jsonl",
    f"train.steps={STEPS}",
    f"train.save_every={STEPS // 10}",
    "env.count=4",
    "ppo.rollout=16",
    "ppo.minibatch=16",
    "ppo.epochs=2",
    "ppo.lr_end=0.1",
    "ppo.clip_end=0.5",
    "ppo.value_clip=0.3",
    "ppo.value_clip_end=0.5",
    "ppo.entropy=0.01",
    "ppo.entropy_end=0",
    "seed=3",
]


def start(*arguments, env=None):
    return subprocess.Popen(
        [ENGINE, "train", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MAGLEV_HOME": str(HOME), **(env or {})},
        # tests that run under nohup ignore it, and so would what they start
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )


def wait_for_checkpoints(run, count, process):
    wait_for(lambda: len(list((run / "checkpoints").glob("step_*/manifest.json"))) >= count, process)


def killed(engine, operation, *arguments):
    """Ends a run as SIGKILL does, where it would rename a file for the so-and-so-many-th time: ten are of its begin, and
    three or four of each checkpoint."""
    done = engine("train", *arguments, env={"MAGLEV_FAULT": f"rename:EXIT:{operation}"})
    assert done.returncode == 128 + signal.SIGKILL, done.stderr


def metric_rows(run):
    """What metrics.jsonl says of learning; times differ from run to run."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    timed = ("time/", "seconds", "steps_per_second", "memory/", "machine/")
    return [{k: v for k, v in r.items() if not k.startswith(timed)} for r in rows]


@pytest.mark.parametrize("env", CASES)
def test_killed_and_resumed_equals_unbroken(env, engine, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = ["ppo", env, *COMMON, *CASES[env]]
    done = engine("train", *arguments, "--out", whole)
    assert done.returncode == 0, done.stderr

    killed(engine, 20, *arguments, "--out", broken)
    at_kill = newest_manifest(broken)["identity"]["step"]
    assert 0 < at_kill < STEPS, "the kill must come in the middle of the run"

    done = engine("train", "--resume", broken, "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    a, b = newest_manifest(whole), newest_manifest(broken)
    assert a["identity"]["step"] == b["identity"]["step"] == STEPS
    assert a["state_hash"] == b["state_hash"]
    assert metric_rows(whole) == metric_rows(broken)


def test_a_chain_of_kills_ends_as_the_unbroken_run(engine, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = ["ppo", "cartpole", *COMMON, *CASES["cartpole"]]
    assert engine("train", *arguments, "--out", whole).returncode == 0
    steps = [0]
    for begin in (arguments + ["--out", broken], *2 * [["--resume", broken, "--sinks", "jsonl"]]):
        killed(engine, 14, *begin)
        steps.append(newest_manifest(broken)["identity"]["step"])
    assert steps == sorted(set(steps)) and steps[-1] < STEPS, steps
    done = engine("train", "--resume", broken, "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    assert newest_manifest(whole)["state_hash"] == newest_manifest(broken)["state_hash"]


def test_rows_are_those_of_the_unbroken_run_where_saves_fall_between_them(engine, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = ["ppo", "cartpole", *COMMON, "train.log_every=1600", "train.save_every=640"]
    assert engine("train", *arguments, "--out", whole).returncode == 0
    killed(engine, 20, *arguments, "--out", broken)
    assert newest_manifest(broken)["identity"]["step"] % 1600 != 0
    assert engine("train", "--resume", broken, "--sinks", "jsonl").returncode == 0
    assert metric_rows(whole) == metric_rows(broken)
    assert newest_manifest(whole)["state_hash"] == newest_manifest(broken)["state_hash"]


def test_a_run_that_was_killed_behind_its_last_checkpoint_is_finished_by_a_resume(engine, tmp_path):
    run = tmp_path / "run"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", run).returncode == 0
    status = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**status, "state": "running", "ended": 0}))
    done = engine("train", "--resume", run, "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "run.json").read_text())["state"] == "finished"
    assert engine("train", "--resume", run).returncode == 2


def test_resuming_leaves_a_record(engine, tmp_path):
    run = tmp_path / "run"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", run).returncode == 0
    done = engine("train", "--resume", run, "train.steps=12800", "ppo.lr=0.002", "--sinks", "console")
    assert done.returncode == 0, done.stderr
    for text in ((run / "log.txt").read_text(), (run / "reproduce.md").read_text()):
        assert "ppo.lr: 3e-04 -> 0.002" in text and "train.steps: 6400 -> 12800" in text, text
        assert "step 6400" in text and "step_000000006400" in text


@pytest.mark.parametrize(
    "words",
    [["--out", "b"], ["--overwrite"], ["--config", "c.yaml"], ["--bare"], ["--seeds", 2], ["train.init_from=a"]],
)
def test_what_is_for_a_new_run_is_refused_where_one_is_resumed(words, engine, tmp_path):
    run = tmp_path / "a"
    assert engine("train", "ppo", "cartpole", *COMMON, "train.steps=640", "--out", run).returncode == 0
    before = (run / "config.yaml").read_text()
    done = engine("train", "--resume", run, "train.steps=12800", *words, cwd=tmp_path)
    assert done.returncode == 2 and "leave it out" in done.stderr and done.stderr.count("\n") == 1
    assert (run / "config.yaml").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("damage", ["", "{", "[1]", None])
def test_a_run_is_resumed_without_a_sound_status(damage, engine, tmp_path):
    run = tmp_path / "run"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", run).returncode == 0
    if damage is None:
        (run / "run.json").unlink()
        (run / "config.yaml").unlink()
    else:
        (run / "run.json").write_text(damage)
    done = engine("train", "--resume", run, "train.steps=7040", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "run.json").read_text())["state"] == "finished"
    assert newest_manifest(run)["identity"]["step"] == 7040


DAMAGES = {
    "a line": lambda text: text.replace("  lr: 0.001\n", ""),
    "its end": lambda text: text[: text.index("  lr: 0.001")],
    "within a key": lambda text: text[: text.index("  lr: 0.001") + 3],
    "another key": lambda text: text.replace("  lr: 0.001", "  l: 0.001"),
    "everything": lambda text: "",
    "garbage": lambda text: "{{{",
    "the file": lambda text: None,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_is_resumed_with_what_it_was_trained_with_where_its_settings_are_damaged(damage, engine, tmp_path):
    run = tmp_path / "run"
    assert engine("train", "ppo", "cartpole", *COMMON, "ppo.lr=0.001", "--out", run).returncode == 0
    config = run / "config.yaml"
    whole = config.read_text()
    damaged = DAMAGES[damage](whole)
    assert damaged != whole
    config.unlink() if damaged is None else config.write_text(damaged)
    done = engine("eval", run, "--episodes", 2)
    assert done.returncode == 0 and f"{config} " in done.stderr and "newest checkpoint" in done.stderr, done.stderr
    done = engine("train", "--resume", run, "train.steps=7040", "--sinks", "console")
    assert done.returncode == 0, done.stderr
    assert config.read_text() == whole.replace("steps: 6400", "steps: 7040")
    log = (run / "log.txt").read_text()
    assert log.count("changed ") == 1 and "changed train.steps" in log and f"{config} " in log, log
    # what stood there is kept
    before = run / f"config.before-{STEPS}.yaml"
    assert before.read_text() == damaged if damaged is not None else not before.exists()


def test_what_was_edited_in_the_settings_of_a_run_is_taken_and_told(engine, tmp_path):
    run = tmp_path / "run"
    assert engine("train", "ppo", "cartpole", *COMMON, "ppo.lr=0.001", "--out", run).returncode == 0
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("  lr: 0.001", "  lr: 0.002"))
    done = engine("train", "--resume", run, "train.steps=7040", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    for text in ((run / "log.txt").read_text(), (run / "reproduce.md").read_text()):
        assert "ppo.lr: 0.001 -> 0.002" in text and "train.steps: 6400 -> 7040" in text, text
    assert "  lr: 0.002\n" in config.read_text()


@pytest.mark.parametrize("setting, value", [("ppo.minibatch", "1000000"), ("train.opponents", "nobody"), ("device", "tpu")])
def test_what_is_refused_of_edited_settings_is_told_with_the_file(setting, value, engine, tmp_path):
    run = tmp_path / "run"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", run).returncode == 0
    config = run / "config.yaml"
    edited = re.sub(rf"(?m)^( *{setting.split('.')[-1]}): .*", rf"\1: {value}", config.read_text())
    config.write_text(edited)
    done = engine("train", "--resume", run, "train.steps=7040")
    assert done.returncode == 2 and f"{config} is otherwise than the newest checkpoint ({setting}: " in done.stderr, done.stderr
    assert f"-> {value})" in done.stderr and config.read_text() == edited
    if setting == "device":
        done = engine("eval", run, "--episodes", 2)
        assert done.returncode == 2 and f"{config} says where it was trained" in done.stderr, done.stderr


def test_evaluations_and_threads_change_no_bit_and_choose_the_best(engine, tmp_path):
    arguments = ["ppo", "cartpole", *COMMON, "ppo.minibatch=64", "env.count=16", "threads=1"]
    plain = tmp_path / "plain"
    assert engine("train", *arguments, "--out", plain).returncode == 0
    rows = []
    for threads in (1, 2):
        run = tmp_path / str(threads)
        evaluated = [f"threads={threads}", "train.eval_every=1280", "train.eval_episodes=5"]
        done = engine("train", *arguments, *evaluated, "--out", run)
        assert done.returncode == 0, done.stderr
        hashes = {newest_manifest(r)["state_hash"] for r in (plain, run)}
        assert len(hashes) == 1
        rows.append([r for r in metric_rows(run) if "eval/return_mean" in r])
        verdicts = json.loads((run / "checkpoints" / "evaluations.json").read_text())
        best = max(verdicts, key=lambda name: (verdicts[name], name))
        assert (run / "checkpoints" / "best").readlink().name == best
    assert rows[0] == rows[1]
    assert sorted(r["step"] for r in rows[0]) == list(range(1280, STEPS + 1, 1280))


def test_evaluations_have_an_environment_of_their_own_which_a_resume_may_change(engine, tmp_path):
    plain, run = tmp_path / "plain", tmp_path / "run"
    arguments = ["ppo", "cartpole", *COMMON, "train.keep=100"]
    evaluated = [f"train.eval_every={STEPS // 2}", "train.eval_episodes=3", "train.eval_env=max_steps=4"]
    assert engine("train", *arguments, "--out", plain).returncode == 0
    assert engine("train", *arguments, *evaluated, "--out", run).returncode == 0
    assert newest_manifest(plain)["state_hash"] == newest_manifest(run)["state_hash"]
    verdicts = run / "checkpoints" / "evaluations.json"
    assert list(json.loads(verdicts.read_text()).values()) == [4, 4]

    # what is kept is judged by the new measure
    longer = [f"train.steps={STEPS * 3 // 2}", "train.eval_env=max_steps=5", "--sinks", "jsonl"]
    assert engine("train", "--resume", run, *longer).returncode == 0
    assert list(json.loads(verdicts.read_text()).values()) == [5, 5, 5]
    assert "changed train.eval_env" in (run / "log.txt").read_text()


def test_evaluations_say_what_the_environment_counts(engine, tmp_path):
    run = tmp_path / "run"
    evaluated = ["train.eval_every=512", "train.eval_episodes=2", "train.eval_env=mode=ground_truth"]
    small = ["env.count=8", "ppo.rollout=64", "ppo.minibatch=64", "train.steps=512", "env.max_steps=64"]
    done = engine("train", "ppo", "goodhart", *small, "env.mode=proxy", *evaluated, "threads=1", "--out", run)
    assert done.returncode == 0, done.stderr
    row = [r for r in metric_rows(run) if "eval/return_mean" in r][-1]
    figure = {name: row[f"eval/{name}_per_1k"] for name in ("food", "poison", "deaths", "energy")}
    assert figure["energy"] == pytest.approx(figure["food"] - 2 * figure["poison"] - 10, abs=1e-3)
    assert figure["deaths"] >= 0
    assert row["eval/food_per_episode"] == pytest.approx(figure["food"] * row["eval/length_mean"] / 1000)
    # shares of them, of training too
    assert row["eval/efficiency"] == pytest.approx(figure["food"] / (figure["food"] + figure["poison"]))
    row = [r for r in metric_rows(run) if "share/efficiency" in r][-1]
    eaten = row["events/food_per_1k"] + row["events/poison_per_1k"]
    assert row["share/efficiency"] == pytest.approx(row["events/food_per_1k"] / eaten)
    assert "checkpoints are judged" not in done.stdout + done.stderr, "that mode's energy is live"
    done = engine("train", "ppo", "goodhart", *small, "env.mode=proxy", *evaluated[:2], "threads=1", "--out", tmp_path / "frozen")
    assert "checkpoints are judged with env.energy=live (as in training: env.energy=by_mode)" in (tmp_path / "frozen/log.txt").read_text()


def test_a_killed_evaluation_is_made_up_for(engine, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = ["ppo", "cartpole", *COMMON, "train.eval_every=1280", "train.eval_episodes=40"]
    assert engine("train", *arguments, "--out", whole).returncode == 0
    killed(engine, 30, *arguments, "--out", broken)
    assert engine("train", "--resume", broken, "--sinks", "jsonl").returncode == 0

    def evaluations(run):
        rows = [r for r in metric_rows(run) if "eval/return_mean" in r]
        return sorted({(r["step"], r["eval/return_mean"]) for r in rows})

    assert evaluations(whole) == evaluations(broken)
    assert newest_manifest(whole)["state_hash"] == newest_manifest(broken)["state_hash"]


def test_a_signal_during_the_last_evaluation_leaves_it_to_a_resume(engine, tmp_path):
    run = tmp_path / "run"
    # more steps than anybody waits for
    endless = [f"train.eval_every={STEPS}", "train.eval_episodes=1000000", "train.eval_env=max_steps=1000000"]
    process = start("ppo", "pendulum", *COMMON, *endless, "--out", run)
    wait_for(lambda: list((run / "checkpoints").glob(f"step_*{STEPS}")), process)
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG_S) == 130
    assert json.loads((run / "run.json").read_text())["state"] == "stopped"
    done = engine("train", "--resume", run, "--sinks", "jsonl", "train.eval_episodes=5", "train.eval_env=")
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "run.json").read_text())["state"] == "finished"
    assert len(json.loads((run / "checkpoints" / "evaluations.json").read_text())) == 1


@pytest.mark.parametrize("evaluated", [[], ["train.eval_every=5120", "train.eval_episodes=5"]])
def test_a_run_ends_where_the_return_it_was_asked_for_is_reached(evaluated, engine, tmp_path):
    run = tmp_path / "run"
    done = engine(
        "train", "ppo", "cartpole", *COMMON, *evaluated, "train.steps=100000000",
        "train.until_return=15", "train.log_every=640", "--out", run,
    )
    assert done.returncode == 0, done.stderr
    status = json.loads((run / "run.json").read_text())
    assert status["state"] == "finished" and "train.until_return=15" in status["message"]
    assert f"{status['message']}: the run ends at step {status['steps']:,}" in (run / "log.txt").read_text()
    assert newest_manifest(run)["identity"]["step"] == status["steps"] < 10_000_000
    # what it ends with is judged too
    newest = sorted((run / "checkpoints").glob("step_*"))[-1].name
    verdicts = run / "checkpoints" / "evaluations.json"
    assert verdicts.exists() == bool(evaluated)
    assert not evaluated or newest in json.loads(verdicts.read_text())


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU]
)
def test_a_signal_saves_and_leaves(number, engine, tmp_path):
    run = tmp_path / "run"
    process = start("ppo", "cartpole", *COMMON, "train.steps=100000000", "--out", run)
    wait_for_checkpoints(run, 2, process)
    process.send_signal(number)
    assert process.wait(LONG_S) == 130
    status = json.loads((run / "run.json").read_text())
    assert status["state"] == "stopped"
    assert f" signal {int(number)} (" in (run / "log.txt").read_text()
    assert newest_manifest(run)["identity"]["step"] == status["steps"] > 0
    # and it goes on from there
    done = engine(
        "train", "--resume", run, f"train.steps={status['steps'] + 6400}", "--sinks", "jsonl"
    )
    assert done.returncode == 0, done.stderr
    assert newest_manifest(run)["identity"]["step"] >= status["steps"] + 6400


def test_one_request_may_come_as_two_signals(engine, tmp_path):
    run = tmp_path / "run"
    process = start("ppo", "cartpole", *COMMON, "train.steps=100000000", "ppo.rollout=4096", "--out", run)
    wait_for_checkpoints(run, 1, process)
    # as `timeout` tells a process and then its group
    process.send_signal(signal.SIGTERM)
    time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert json.loads((run / "run.json").read_text())["state"] == "stopped"


def test_what_a_signal_waits_for_is_said_at_once_and_another_leaves_at_once(engine, gate, tmp_path):
    run = tmp_path / "run"
    process = start(*gate.words, *COMMON, "--out", run, env=gate.env)
    # before its first iteration it would be gone at once
    gate.wait_for(1, process)
    process.send_signal(signal.SIGTERM)
    said = process.stderr.readline()
    assert said.startswith("maglev: asked to stop: this iteration ends first"), said
    assert process.poll() is None
    # two that come together are one
    time.sleep(0.6)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 128 + signal.SIGTERM
    # what was saved is there
    assert newest_manifest(run)["identity"]["step"] == 0
    gate.open()
    done = engine("eval", run, "--episodes", "1", env=gate.env)
    assert done.returncode == 0, done.stderr


def test_a_signal_to_save_saves_and_goes_on(engine, tmp_path):
    run = tmp_path / "run"
    endless = ["train.steps=1000000000", "train.save_every=1000000000"]
    process = start("ppo", "cartpole", *COMMON, *endless, "--out", run)
    wait_for_checkpoints(run, 1, process)
    process.send_signal(signal.SIGUSR1)
    wait_for_checkpoints(run, 2, process)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 130


@pytest.mark.parametrize("reader", ["gone", "asleep"])
def test_output_that_nobody_reads_neither_ends_nor_stops_a_run(reader, tmp_path):
    run = tmp_path / "run"
    process = subprocess.Popen(
        [ENGINE, "train", "ppo", "cartpole", *COMMON, "--sinks", "console",
         "train.steps=1000000000", "train.save_every=64", "train.log_every=64", "--out", run],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MAGLEV_HOME": str(HOME)},
    )
    # a line of each checkpoint fills the smallest pipe within a hundred
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    wait_for_checkpoints(run, 1, process)
    if reader == "gone":
        process.stdout.close()

    def saved():
        return max(p.name for p in (run / "checkpoints").glob("step_*"))

    wait_for(lambda: saved() >= "step_000000012800", process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 130
    assert json.loads((run / "run.json").read_text())["state"] == "stopped"


def saves_and_goes_on(run):
    """A run that has no end, once it has saved twice."""
    endless = ["train.steps=1000000000", "train.save_every=12800", "train.log_every=6400"]
    process = start("ppo", "cartpole", *COMMON, *endless, "--out", run)
    wait_for_checkpoints(run, 2, process)
    return process


@pytest.mark.parametrize("fate", ["moved", "deleted"])
def test_a_folder_that_goes_away_is_made_anew_and_said_aloud(fate, engine, tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    process = saves_and_goes_on(run)
    # held meanwhile, or it may look when the folder is moved and not yet deleted
    process.send_signal(signal.SIGSTOP)
    run.rename(elsewhere)
    if fate == "deleted":
        shutil.rmtree(elsewhere)
    process.send_signal(signal.SIGCONT)
    wait_for_checkpoints(run, 2, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 130
    message = json.loads((run / "run.json").read_text())["message"]
    assert ("deleted" if fate == "deleted" else str(elsewhere)) in message
    assert metric_rows(run)
    done = engine("eval", run, "--episodes", "3")
    assert done.returncode == 0, done.stderr


def test_a_folder_whose_place_is_taken_ends_no_run(engine, tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    process = saves_and_goes_on(run)
    # as where a file system is not mounted for a while
    process.send_signal(signal.SIGSTOP)
    run.rename(elsewhere)
    run.write_text("in the way")
    process.send_signal(signal.SIGCONT)
    rows = elsewhere / "metrics.jsonl"
    there = rows.read_text().count("\n")
    wait_for(lambda: rows.read_text().count("\n") >= there + 8, process)
    run.unlink()
    wait_for_checkpoints(run, 1, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 130
    assert str(elsewhere) in json.loads((run / "run.json").read_text())["message"]


def test_a_run_whose_place_another_has_taken_ends_at_once_where_it_saves(tmp_path):
    run = tmp_path / "run"
    # no row is due before its end, and a save that fails there is tried again for ten minutes
    endless = ["train.steps=1000000000", "train.save_every=1000000000", "train.log_every=1000000000"]
    process = start("ppo", "cartpole", *COMMON, *endless, "--out", run)
    wait_for_checkpoints(run, 1, process)
    run.rename(tmp_path / "elsewhere")
    other = start("ppo", "cartpole", *COMMON, *endless, "--out", run)
    wait_for_checkpoints(run, 1, other)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 2 and "held by another process" in said, said
    other.send_signal(signal.SIGTERM)
    assert other.wait(LONG_S) == 130


def test_a_run_is_resumed_however_often_it_was(engine, tmp_path):
    run = tmp_path / "run"
    done = engine("train", "ppo", "cartpole", *COMMON, "--out", run)
    assert done.returncode == 0, done.stderr
    # each resume tells of itself there
    with (run / "reproduce.md").open("a") as record:
        record.write(5_000 * ("\n## Continued at step 640\n\n" + 8 * "- changed: nothing, as it was before\n"))
    done = engine("train", "--resume", run, f"train.steps={2 * STEPS}")
    assert done.returncode == 0, done.stderr
    assert f"## Continued at step {STEPS}" in (run / "reproduce.md").read_text()


def test_a_run_begins_with_the_networks_of_another(engine, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", first).returncode == 0
    begin = ["train.steps=64", f"train.init_from={first}"]
    done = engine("train", "ppo", "cartpole", *COMMON, *begin, "--out", second)
    assert done.returncode == 0, done.stderr

    def networks(manifest):
        return {n: t["hash"] for n, t in manifest["tensors"].items() if ".network." in n}

    start_of_second = json.loads(
        (second / "checkpoints" / "step_000000000000" / "manifest.json").read_text()
    )
    assert networks(start_of_second) == networks(newest_manifest(first))
    assert start_of_second["tensors"]["algo.steps_done"] != newest_manifest(first)["tensors"][
        "algo.steps_done"
    ]


@pytest.mark.parametrize("setting, there, here", [("memory", "8", "0"), ("hidden", "[24]", "[16, 16]")])
def test_networks_of_other_shapes_are_told_by_their_settings(setting, there, here, engine, tmp_path):
    first, name = tmp_path / "first", f"ppo.network.{setting}"
    own = {"ppo.network.memory": "0", "ppo.network.hidden": "[16, 16]"}
    had, has = ([f"{n}={v}" for n, v in {**own, name: value}.items()] for value in (there, here))
    assert engine("train", "ppo", "cartpole", *COMMON, *had, "--out", first).returncode == 0
    # what makes no shape is not among them
    begin = ["train.steps=64", "ppo.epochs=1", "ppo.network.log_std=0.5", f"train.init_from={first}"]
    done = engine("train", "ppo", "cartpole", *COMMON, *has, *begin, "--out", tmp_path / "second")
    assert done.returncode == 2 and not (tmp_path / "second").exists()
    assert f"with its networks: {name} is {there} there, {here} here; give what it has: " in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and "weight" not in done.stderr
    assert engine("train", "ppo", "cartpole", *COMMON, *had, *begin, "--out", tmp_path / "third").returncode == 0


def test_networks_that_fit_and_compute_something_else_are_told(engine, tmp_path):
    first = tmp_path / "first"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", first).returncode == 0
    begin = ["train.steps=64", f"train.init_from={first}"]
    for activation, told in (("relu", True), ("tanh", False)):
        out = tmp_path / activation
        done = engine("train", "ppo", "cartpole", *COMMON, *begin, f"ppo.network.activation={activation}", "--out", out)
        assert done.returncode == 0, done.stderr
        said = "were trained otherwise: ppo.network.activation is tanh there, relu here; "
        assert (said in (out / "log.txt").read_text()) == told


def test_networks_of_another_environment_are_told_by_it(engine, tmp_path):
    first = tmp_path / "first"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", first).returncode == 0
    done = engine("train", "ppo", "acrobot", *COMMON, f"train.init_from={first}", "--out", tmp_path / "second")
    assert done.returncode == 2 and not (tmp_path / "second").exists()
    assert "trained on cartpole, this run is on acrobot, and what they show and take must have the same" in done.stderr


def test_a_checkpoint_is_named_and_what_there_is_not_yet_is_said(engine, tmp_path):
    run = tmp_path / "run"
    short = ["train.steps=64", "train.save_every=64", "--out", run]
    assert engine("train", "ppo", "cartpole", *COMMON, *short).returncode == 0
    names = sorted(path.name for path in (run / "checkpoints").glob("step_*"))
    for which in (names[0], run / "checkpoints" / names[-1]):
        done = engine("eval", run, "--episodes", 2, "--checkpoint", which)
        assert done.returncode == 0, done.stderr
    done = engine("eval", run, "--checkpoint", "best")
    assert done.returncode == 2 and "no best checkpoint yet" in done.stderr
    done = engine("eval", run, "--checkpoint", names[0][:-1])
    assert done.returncode == 2 and names[0] in done.stderr


def test_a_finished_run_is_extended(engine, tmp_path):
    short, whole = tmp_path / "short", tmp_path / "whole"
    constant = [a for a in COMMON if "_end=" not in a]
    assert (
        engine(
            "train", "ppo", "acrobot", *constant, f"train.steps={STEPS // 2}", "--out", short
        ).returncode
        == 0
    )
    assert engine("train", "ppo", "acrobot", *constant, "--out", whole).returncode == 0
    again = engine("train", "--resume", short)
    assert again.returncode == 2 and "train.steps=" in again.stderr
    done = engine("train", "--resume", short, f"train.steps={STEPS}", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    a, b = newest_manifest(short), newest_manifest(whole)
    assert a["state_hash"] == b["state_hash"]
    assert (short / f"config.before-{STEPS // 2}.yaml").exists()
    # what was given stays, and what was given later stands behind it
    first, later = (short / "given.txt").read_text().split(f"# resumed at step {STEPS // 2}, with:\n")
    assert f"train.steps={STEPS // 2}\n" in first and later == f"train.steps={STEPS}\n"


def test_schedules_of_an_extended_run_are_over_all_its_steps(engine, tmp_path):
    run, rollout = tmp_path / "run", 64
    settings = [*COMMON, "ppo.lr=0.001", "ppo.lr_end=0", "train.log_every=1"]
    assert engine("train", "ppo", "cartpole", *settings, f"train.steps={4 * rollout}", "--out", run).returncode == 0
    longer = engine("train", "--resume", run, f"train.steps={8 * rollout}", "--sinks", "jsonl")
    assert longer.returncode == 0, longer.stderr
    # 0 would be reached behind the last update of each; the second begins where it would stand in one run
    rates = [row["loss/learning_rate"] for row in metric_rows(run)]
    expected = [1 - begun / 4 for begun in range(4)] + [1 - begun / 8 for begun in range(4, 8)]
    assert rates == pytest.approx([0.001 * share for share in expected], rel=1e-5)


def test_steps_of_two_sessions_are_not_divided_by_the_seconds_of_one(engine, tmp_path):
    run = tmp_path / "run"
    # killed before its first row: some steps of the first one are of the session before
    endless = ["train.steps=100000000", "train.log_every=100000000"]
    process = start("ppo", "cartpole", *COMMON, *endless, "--out", run)
    wait_for_checkpoints(run, 3, process)
    process.kill()
    process.wait()
    step = newest_manifest(run)["identity"]["step"]
    done = engine("train", "--resume", run, f"train.steps={step + 8000}", "train.log_every=2000", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    speeds = [row["steps_per_second"] for row in rows if row["step"] > step]
    assert len(speeds) > 2 and speeds[0] is None and all(speed > 0 for speed in speeds[1:]), speeds


def test_the_number_of_threads_does_not_change_a_run(engine, tmp_path):
    hashes = set()
    for threads in (1, 2, 3):
        run = tmp_path / str(threads)
        done = engine(
            "train",
            "ppo",
            "cartpole",
            *COMMON,
            "env.count=300",
            "ppo.minibatch=1600",
            f"threads={threads}",
            "train.steps=48000",
            "--out",
            run,
        )
        assert done.returncode == 0, done.stderr
        hashes.add(newest_manifest(run)["state_hash"])
    assert len(hashes) == 1


def test_the_seed_changes_a_run(engine, tmp_path):
    hashes = set()
    for seed in (1, 2):
        run = tmp_path / str(seed)
        assert (
            engine("train", "ppo", "cartpole", *COMMON, f"seed={seed}", "--out", run).returncode
            == 0
        )
        hashes.add(newest_manifest(run)["state_hash"])
    assert len(hashes) == 2


def test_a_job_that_is_started_again_goes_on_and_ends_once(engine, tmp_path):
    words = ["train", "ppo", "cartpole", *COMMON, "--out", tmp_path / "run", "--continue"]
    job = subprocess.Popen(
        [ENGINE, *map(str, words), "train.steps=100000000"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "MAGLEV_HOME": str(HOME)},
    )
    wait_for_checkpoints(tmp_path / "run", 1, job)
    job.terminate()
    assert job.wait(LONG_S) == 130
    # as long as it has come and a little more: a change, which is recorded
    reached = newest_manifest(tmp_path / "run")["identity"]["step"]
    words.append(f"train.steps={reached + 640}")
    done = engine(*words)
    assert done.returncode == 0 and "changed train.steps" in done.stdout + (tmp_path / "run" / "log.txt").read_text()
    assert "changed" not in done.stdout.replace("changed train.steps", ""), done.stdout
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "finished"
    log = (tmp_path / "run" / "log.txt").read_text()
    again = engine(*words)
    assert again.returncode == 0 and "is finished" in again.stdout
    assert (tmp_path / "run" / "log.txt").read_text() == log


def test_what_was_stopped_before_it_saved_begins_once_more_and_says_where_the_old_one_went(engine, tmp_path):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", *COMMON, "--out", run, "--continue"]
    assert engine(*words).returncode == 0
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink()
    status = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**status, "state": "stopped", "steps": 0}))
    done = engine(*words, "--sinks", "console")
    assert done.returncode == 0 and newest_manifest(run)["identity"]["step"] == STEPS, done.stderr
    said = f"the run that stood here was moved to {run}.old-1"
    assert said in done.stdout and said in (run / "log.txt").read_text()
    assert (tmp_path / "run.old-1" / "config.yaml").exists()


@pytest.mark.parametrize("told_by", ["its status", "its metrics"])
def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew_unasked(told_by, engine, tmp_path):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", *COMMON, "--out", run]
    assert engine(*words).returncode == 0
    shutil.rmtree(run / "checkpoints")
    if told_by == "its metrics":
        (run / "run.json").unlink()
    done = engine(*words, "--continue")
    assert done.returncode == 2 and "--overwrite" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"] and metric_rows(run)
    done = engine(*words, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert f"was moved to {run}.old-1" in (run / "log.txt").read_text()


def test_a_run_that_was_stopped_is_not_finished_by_asking_for_less_than_it_has_done(engine, tmp_path):
    run = tmp_path / "run"
    process = start("ppo", "cartpole", *COMMON, "train.steps=100000000", "--out", run)
    wait_for_checkpoints(run, 3, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG_S) == 130
    before = (run / "config.yaml").read_text()
    done = engine("train", "--resume", run, "train.steps=64")
    assert done.returncode == 2 and "train.steps=<more than these>" in done.stderr, done.stderr
    assert json.loads((run / "run.json").read_text())["state"] == "stopped"
    assert (run / "config.yaml").read_text() == before


@pytest.mark.parametrize(
    "words, said",
    [
        (["ppo", "cartpole", "--continue"], "--continue goes on in the folder of --out DIR"),
        (["ppo", "acrobot", "--continue", "--out", "RUN"], "was begun with ppo on cartpole"),
        (["--resume", "RUN", "--continue"], "--continue is for a new run"),
    ],
)
def test_going_on_where_there_is_nothing_to_go_on_with_is_one_error(words, said, engine, tmp_path):
    run = tmp_path / "run"
    assert engine("train", "ppo", "cartpole", *COMMON, "--out", run).returncode == 0
    done = engine("train", *[str(run) if word == "RUN" else word for word in words])
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_command_that_is_given_otherwise_changes_the_run_and_back(engine, tmp_path):
    file, run = tmp_path / "c.yaml", tmp_path / "run"
    words = ["train", "ppo", "cartpole", *COMMON, "--out", run, "--continue", "--config", file]
    steps, rate = {}, {}

    def trained(lr, length):
        file.write_text(f"train: {{until_return: {400 + length}}}")
        done = engine(*words, f"ppo.lr={lr}", f"train.steps={length}")
        assert done.returncode == 0, done.stderr
        config = (run / "config.yaml").read_text()
        steps[length], rate[length] = newest_manifest(run)["identity"]["step"], f"lr: {lr}" in config
        assert f"until_return: {400 + length}" in config

    for lr, length in [("0.001", 640), ("0.002", 1280), ("0.001", 1920)]:
        trained(lr, length)
    assert steps == {640: 640, 1280: 1280, 1920: 1920} and all(rate.values()), (steps, rate)
    # less than was done is done
    done = engine(*words, "ppo.lr=0.001", "train.steps=640")
    assert done.returncode == 0 and "is finished" in done.stdout
    begun, *again = (run / "given.txt").read_text().split("# started again at step ")
    assert "ppo.lr=0.001\n" in begun and [text.split(",")[0] for text in again] == ["640", "1280"]
    assert "ppo.lr=0.002\n" in again[0] and "ppo.lr=0.001\n" in again[1] and "train.steps=1920\n" in again[1]


def test_a_command_that_gives_what_a_resume_gave_finds_the_run_finished(engine, tmp_path):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", *COMMON, "--out", run, "--continue"]
    assert engine(*words, "train.steps=64").returncode == 0
    assert engine("train", "--resume", run, "train.steps=128", "ppo.lr=2e-4").returncode == 0
    done = engine(*words, "train.steps=128", "ppo.lr=2e-4")
    assert done.returncode == 0 and "is finished" in done.stdout, done.stderr
    # and what neither of them gave is a change
    done = engine(*words, "train.steps=192", "ppo.lr=3e-4")
    assert done.returncode == 0 and newest_manifest(run)["identity"]["step"] == 192, done.stderr


def test_a_job_that_is_started_again_goes_on_as_it_was_resumed(engine, tmp_path):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", "--bare", "--out", run, "--continue", "--sinks", "jsonl"]
    words += ["train.steps=640", "env.count=4", "ppo.rollout=16"]
    assert engine(*words).returncode == 0
    given = (run / "given.txt").read_text()
    assert engine("train", "--resume", run, "train.steps=1280", "ppo.rollout=16").returncode == 0
    assert (run / "given.txt").read_text() == given + "# resumed at step 640, with:\ntrain.steps=1280\n"
    again = engine(*words)
    assert again.returncode == 0 and "is finished" in again.stdout
    # what tune has found since makes no other run of it
    again = engine(*words, "train.collect=blocks")
    assert again.returncode == 0 and "is finished" in again.stdout, again.stderr


def test_a_run_that_was_killed_as_it_began_begins_again(engine, tmp_path):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", *COMMON, "--out", run, "--continue"]
    assert engine(*words).returncode == 0
    for path in run.iterdir():
        if path.name != "config.yaml":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = engine(*words)
    assert done.returncode == 0 and newest_manifest(run)["identity"]["step"] == STEPS, done.stderr
    # what it says of how to get it again does not go on in itself
    assert "--continue" not in (run / "reproduce.md").read_text()


def test_several_seeds_go_on_as_they_began(engine, tmp_path):
    group = tmp_path / "group"
    words = ["train", "ppo", "cartpole", *COMMON, "--out", group, "--continue", "--seeds", 2]
    # killed as the folder was made
    group.mkdir()
    (group / "settings.yaml").write_text("train: {}")
    done = engine(*words)
    assert done.returncode == 0 and json.loads((group / "seeds.json").read_text())["mean"] > 0, done.stderr
    assert engine(*words).returncode == 0
    # but for how long
    done = engine(*words, "train.steps=7040")
    assert done.returncode == 0, done.stderr
    assert [row["steps"] for row in json.loads((group / "seeds.json").read_text())["seeds"]] == [7040, 7040]
    for change, said in [
        ([*words, "ppo.lr=1e-5"], "change of ppo.lr=1e-05"),
        ([*words[:-1], 1], "holds 2 seeds that began, and 1 is asked for: ask for as many or more"),
        (words[:-2], "holds several seeds: give --seeds as before, or more"),
        ([word if word != "cartpole" else "acrobot" for word in words], "begun with ppo on cartpole"),
        ([*words[:-2], "--out", group / "seed-3", "--seeds", 2], "holds one run"),
    ]:
        done = engine(*change)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_resume_keeps_the_sinks_that_were_chosen(engine, tmp_path):
    def files(run):
        found = {"jsonl": "metrics.jsonl", "tensorboard": "events.out.tfevents.*", "prometheus": "metrics.prom"}
        return {name for name, pattern in found.items() if list(run.glob(pattern))}

    run, quick = tmp_path / "run", ["ppo", "cartpole", "--bare", "env.count=4", "ppo.rollout=16"]
    assert engine("train", *quick, "train.steps=128", "--sinks", "console", "--out", run).returncode == 0
    done = engine("train", "--resume", run, "train.steps=256")
    assert done.returncode == 0 and "metrics go to console, as sinks.txt has it" in done.stdout, done.stdout
    assert files(run) == set()
    # those that a resume is given count from there on; it is seen all the same
    assert engine("train", "--resume", run, "train.steps=384", "--sinks", "prometheus").returncode == 0
    done = engine("train", "--resume", run, "train.steps=512")
    assert done.returncode == 0 and "metrics go to prometheus, console" in done.stdout, done.stdout
    assert files(run) == {"prometheus"}
    done = engine("train", *quick, "train.steps=640", "--continue", "--out", run)
    assert done.returncode == 0 and files(run) == {"prometheus"}, done.stderr


def test_seeds_keep_the_sinks_that_were_chosen(engine, tmp_path):
    group, quick = tmp_path / "group", ["ppo", "cartpole", "--bare", "env.count=4", "ppo.rollout=16"]
    words = ["train", *quick, "train.steps=128", "--seeds", 2, "--sinks", "prometheus", "--out", group]
    assert engine(*words).returncode == 0
    assert engine("train", "--resume", group, "train.steps=256").returncode == 0
    assert len(list(group.glob("seed-*/metrics.prom"))) == 2 and not list(group.glob("seed-*/metrics.jsonl"))
