"""A run that is killed and resumed ends as the unbroken one: every named value of the state, by hash."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import ENGINE, HOME

# every environment, with what makes state: normalisers, PopArt, schedules, several threads
CASES = {
    "cartpole": ["ppo.network.value_head=popart", "ppo.network.normalize_obs=true", "threads=2"],
    "acrobot": ["ppo.normalize_reward=true", "ppo.network.normalize_obs=true"],
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
    "ppo.entropy=0.01",
    "ppo.entropy_end=0",
    "seed=3",
]


def newest_manifest(run):
    manifests = [
        json.loads(p.read_text()) for p in (run / "checkpoints").glob("step_*/manifest.json")
    ]
    return max(manifests, key=lambda m: m["sequence"])


def start(*arguments):
    return subprocess.Popen(
        [ENGINE, "train", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MAGLEV_HOME": str(HOME)},
    )


def wait_for_checkpoints(run, count, process, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if len(list((run / "checkpoints").glob("step_*/manifest.json"))) >= count:
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    raise AssertionError("no checkpoint appeared")


def metric_rows(run):
    """What metrics.jsonl says of learning; times differ from run to run."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in r.items() if not k.startswith(("time/", "seconds", "steps_per_second"))}
        for r in rows
    ]


@pytest.mark.parametrize("env", CASES)
def test_killed_and_resumed_equals_unbroken(env, engine, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = ["ppo", env, *COMMON, *CASES[env]]
    done = engine("train", *arguments, "--out", whole)
    assert done.returncode == 0, done.stderr

    process = start(*arguments, "--out", broken)
    wait_for_checkpoints(broken, 3, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
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
    process = start(*arguments, "--out", broken)
    for count in (2, 4, 6):
        step_before = 0 if count == 2 else newest_manifest(broken)["identity"]["step"]
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            manifests = list((broken / "checkpoints").glob("step_*/manifest.json"))
            if manifests and newest_manifest(broken)["identity"]["step"] > step_before:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = start("--resume", broken, "--sinks", "jsonl")
    assert process.wait(timeout=120) == 0, process.stderr.read()
    assert newest_manifest(whole)["state_hash"] == newest_manifest(broken)["state_hash"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_leaves(number, engine, tmp_path):
    run = tmp_path / "run"
    process = start("ppo", "cartpole", *COMMON, "train.steps=100000000", "--out", run)
    wait_for_checkpoints(run, 1, process)
    time.sleep(0.3)
    process.send_signal(number)
    assert process.wait(timeout=20) == 130
    status = json.loads((run / "run.json").read_text())
    assert status["state"] == "stopped"
    assert newest_manifest(run)["identity"]["step"] == status["steps"] > 0
    # and it goes on from there
    done = engine(
        "train", "--resume", run, f"train.steps={status['steps'] + 6400}", "--sinks", "jsonl"
    )
    assert done.returncode == 0, done.stderr
    assert newest_manifest(run)["identity"]["step"] >= status["steps"] + 6400


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
