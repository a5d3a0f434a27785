"""Each mistake and each fault: one clear line, exit status not 0, and what was saved before is intact."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import ENGINE, HOME
from test_tdmpc2 import SMALL as TDMPC2

SMALL = [
    "--bare",
    "--sinks",
    "jsonl",
    "train.steps=3200",
    "train.save_every=800",
    "env.count=4",
    "ppo.rollout=16",
    "ppo.epochs=1",
]


@pytest.fixture(scope="module")
def trained(engine, tmp_path_factory):
    run = tmp_path_factory.mktemp("trained") / "run"
    done = engine("train", "ppo", "cartpole", *SMALL, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


def complaint(done):
    assert done.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT), done
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["train", "ppo", "cartpol"], "did you mean cartpole"),
        (["train", "ppo", "cartpole", "--env.count", "4"], "settings have no dashes: env.count=<value>"),
        (["train", "ppo", "cartpole", "--processes", "2"], "is the setting processes=<value> here"),
        (["train", "ppo", "cartpole", "eval_freq=1000"], "eval_freq is train.eval_every here"),
        (["train", "poo", "cartpole"], "did you mean ppo"),
        (["trian", "ppo", "cartpole"], "did you mean train"),
        (["train", "ppo"], "expects <algorithm> <environment>"),
        (["train", "ppo", "cartpole", "ppo.lrr=1"], "did you mean ppo.lr"),
        (["train", "ppo", "cartpole", "lr=1"], "ppo.lr"),
        (["train", "ppo", "cartpole", "ppo.lr=fast"], "ppo.lr must be a number"),
        (["train", "ppo", "cartpole", "ppo.gamma=1.5"], "ppo.gamma must be in [0, 1], got '1.5'"),
        (["train", "ppo", "cartpole", "env.count=0"], "env.count must be"),
        (["train", "ppo", "cartpole", "seed=-1"], "seed must be a whole number in [0, 9e+15], got '-1'"),
        (["kernels", "list", "--device", "cuda:9"], "--device is of test, grad and bench"),
        (["train", "tdmpc2", "pendulum", "tdmpc2.mlp_dim=100"], "tdmpc2.mlp_dim must be a multiple of 8, got 100"),
        (["train", "tdmpc2", "cartpole"], "use ppo or dreamer"),
        (["train", "tdmpc2", "pendulum_pixels", "env.image.resize=32"], "env.image.resize=64 where the environment has that setting"),
        (["train", "ppo", "kg", "max_depth=3"], "env.max_steps"),
        (["train", "ppo", "kg", "env.successors=1"], "env.successors must be 0 or at least 2, got 1; use 2"),
        (["train", "tdmpc2", "pendulum", "num_iterations=3"], "tdmpc2.iterations"),
        (["train", "ppo", "cartpole", "ppo.network.kind=cnn"], "needs an image observation"),
        (["train", "ppo", "cartpole", "ppo.minibatch=1e9"], "ppo.minibatch must be at most"),
        (["train", "ppo", "cartpole", "ppo.network.memory=4", "ppo.sequence=12"], "a divisor of ppo.rollout=32, got 12; use 8"),
        (["train", "ppo", "cartpole", "device=tpu"], "must be auto, cpu, cuda"),
        (["train", "ppo", "goodhart", "env.mode=truth"], "ground_truth"),
        (["train", "ppo", "goodhart", "env.min_food=100000", "env.max_food=100000"], "env."),
        (["train", "ppo", "cartpole", "--otu", "x"], "--out"),
        (["train", "ppo", "cartpole", "--seed", "3"], "--seed is the setting seed=<value> here"),
        (["train", "ppo", "cartpole", "--learning-rate", "1"], "<algorithm>.lr=<value>"),
        (["train", "ppo", "cartpole", "total_timesteps=9"], "total_timesteps is train.steps here"),
        (["train", "ppo", "cartpole", "n_timesteps=9"], "n_timesteps is train.steps here"),
        (["train", "ppo", "cartpole", "n_steps=9"], "n_steps is ppo.rollout here"),
        (["train", "tdmpc2", "pendulum", "batch_size=9"], "batch_size is tdmpc2.batch here"),
        (["train", "tdmpc2", "pendulum_pixels", "train.replay_capacity=1e13"], "--shrink"),
        (["train", "PPO", "cartpole"], "did you mean ppo?"),
        (["train", "ppo", "CartPole-v1"], "did you mean cartpole?"),
        (["train", "ppo", "my_envs:Rover-v0"], "it is two words: gymnasium env.id=my_envs:Rover-v0"),
        (["train", "ppo", "cartpole", "zzz=1"], "--help lists the"),
        (["train", "ppo", "cartpole", "--out", ""], "--out needs a value"),
        (["train", "ppo", "cartpole", "--sinks", ""], "--sinks needs a value"),
        (["train", "ppo", "cartpole", "--sinks", "jsonl,,"], "empty name in 'jsonl,,'"),
        (["train", "ppo", "cartpole", "--config", "/"], "[/] is a folder"),
        (["train", "ppo", "cartpole", "env.count=1", "ppo.minibatch=512"], "must be at most"),
        (["train", "ppo", "cartpole", "--seeds", "0"], "--seeds must be a whole number"),
        (["train", "tdmpc2", "pendulum", "env.max_steps=10", "tdmpc2.horizon=12"], "no episode has more than 10"),
        (["train", "ppo", "cartpole", "train.eval_env=max_step=9"], "did you mean env.max_steps"),
        (["train", "ppo", "goodhart", "train.eval_env=view=3"], "changes the environment's observations"),
        (["play", "cartpole", "random", "--fps", "100", "--record", "a.gif"], "at most 50 pictures a second"),
        (["prove", "family", "--queries", "train,train"], "names train twice"),
        (["help", "trian"], "did you mean train"),
        (["enjoy", "runs/a"], "'enjoy' is maglev play RUN here"),
        (["benchmark"], "'benchmark' is maglev bench here"),
        (["report"], "'report' is maglev study judge RUN ... --report FILE.md, of Goodhart;"),
        (["tune", "ppo", "cartpole", "--output", "a.yaml"], "--output is -o here"),
        (["runs", "/nope"], "/nope is no folder"),
        (["train", "ppo", "env=cartpole"], "env is a word of its own: maglev train ppo cartpole"),
        (["train", "algo=ppo", "cartpole"], "algo is a word of its own: maglev train ppo cartpole"),
        (["train", "ppo", "cartpole", "env=pendulum"], "env is a word of its own: maglev train ppo cartpole"),
        (["plan", "ppo", "env=cartpole"], "env is a word of its own: maglev train ppo cartpole"),
        (["train", "ppo", "cartpole", "--sinks", "jsnol"], "did you mean jsonl"),
        (["train", "--resume", "no/such/run"], "no/such/run"),
        (["eval", "no/such/run"], "no/such/run"),
        (["eval", ENGINE], "holds no run"),
    ],
)
def test_wrong_words_are_answered(arguments, expected, engine, tmp_path):
    done = engine(*arguments, cwd=tmp_path)
    assert expected in complaint(done)
    # a mistake leaves nothing behind
    assert not (tmp_path / "runs").exists() or arguments[-1] == "jsnol"


@pytest.mark.parametrize(
    "given, minibatch", [("env.count=1", 32), ("ppo.rollout=16", 128), ("env.count=64", 256)]
)
def test_a_proven_setting_gives_way_to_what_was_asked_for_and_says_so(
    given, minibatch, engine, tmp_path
):
    run = tmp_path / "run"
    done = engine("train", "ppo", "cartpole", given, "train.steps=2048", "--out", run)
    assert done.returncode == 0, done.stderr
    assert f"  minibatch: {minibatch}\n" in (run / "config.yaml").read_text()
    said = [line for line in done.stdout.splitlines() if "of the proven settings" in line]
    assert len(said) == (minibatch != 256)
    assert all(f"ppo.minibatch is {minibatch} here and not 256" in line for line in said)


@pytest.mark.parametrize(
    "words, refused",
    [
        (["train", "cartpole", "ppo", "nothing=1"], "unknown setting 'nothing'"),
        (["plan", "cartpole", "ppo", "nothing=1"], "unknown setting 'nothing'"),
        (["sweep", "cartpole", "ppo"], "nothing to search"),
        (["bench", "run", "cartpole", "ppo", "nothing=1"], "unknown setting 'nothing'"),
    ],
)
def test_a_swapped_pair_is_taken_as_it_was_meant(words, refused, engine, tmp_path):
    first, second = engine(*words, cwd=tmp_path).stderr.strip().splitlines()
    assert first == "maglev: taken as ppo cartpole: the algorithm comes first"
    assert refused in second


def test_a_setting_given_twice_is_told(engine, tmp_path):
    done = engine("train", "ppo", "cartpole", *SMALL, "seed=1", "seed=2", "--sinks", "console",
                  "--out", tmp_path / "run")
    assert done.returncode == 0 and "seed=2 replaces seed=1" in done.stdout


def test_help_shows_what_the_run_will_use_and_the_bare_default(engine):
    text = engine("train", "ppo", "cartpole", "--help").stdout
    assert "bare: without configs/ppo/cartpole.yaml" in text
    assert "(default 32, bare 128; [1, 1e+06] steps)" in text
    assert "(default 128; [1, 1e+06] steps)" in engine("train", "ppo", "cartpole", "--help", "--bare").stdout
    assert "(given 7, built in 128;" in engine("train", "ppo", "cartpole", "--help", "ppo.rollout=7").stdout


@pytest.mark.parametrize("algo, size", [("tdmpc2", "1"), ("dreamer", "1m")])
def test_help_says_of_a_width_of_0_where_it_comes_from(engine, algo, size):
    text = engine("train", algo, "pendulum", "--help", f"{algo}.size={size}").stdout
    settings = text.split("bare: without")[-1].splitlines()
    zero = [line for line in settings if line.startswith(f"  {algo}.") and "width" in line and "(default 0;" in line]
    assert zero and all("; 0: by size (default 0;" in line for line in zero), zero


def test_a_folder_with_other_files_is_neither_used_nor_moved(engine, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for more in ([], ["--overwrite"]):
        done = engine("train", "ppo", "cartpole", *SMALL, "--out", tmp_path, *more)
        assert "holds files of no run, such as 'thesis.tex'" in complaint(done)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_output_that_cannot_be_written_is_an_error(engine, home):
    command = f'exec "{ENGINE}" envs >/dev/full'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert "standard output cannot be written" in complaint(done)


def test_a_home_that_is_none_is_said(engine, tmp_path):
    done = engine("train", "ppo", "cartpole", *SMALL[1:], "--out", tmp_path / "run", env={"MAGLEV_HOME": str(tmp_path)})
    assert done.returncode == 2 and f"[MAGLEV_HOME] {tmp_path} holds no configs/" in done.stderr
    assert not (tmp_path / "run").exists()
    done = engine(
        "train", "ppo", "cartpole", *SMALL, "--bare", "--out", tmp_path / "run", env={"MAGLEV_HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr


def test_what_is_printed_goes_into_no_file_of_a_run(engine, tmp_path):
    run = tmp_path / "run"
    words = ["jsonl,console" if word == "jsonl" else word for word in SMALL]
    # as a supervisor may start it
    command = 'exec "$0" "$@" <&- >&- 2>&-'
    done = subprocess.run(
        ["sh", "-c", command, ENGINE, "train", "ppo", "cartpole", *words, "--out", run],
        env={**os.environ, "MAGLEV_HOME": str(HOME)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        json.loads(line)
    assert re.fullmatch(r"pid \d+", (run / "run.lock").read_text())
    assert engine("eval", run, "--episodes", "1").returncode == 0


def test_a_thread_that_the_system_does_not_give_is_one_error(engine, tmp_path):
    def limit():
        # stacks that do not fit
        resource.setrlimit(resource.RLIMIT_STACK, (4 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    done = engine("train", "ppo", "cartpole", *SMALL, "threads=1", "--out", tmp_path / "run", preexec_fn=limit)
    assert done.returncode == 2 and "raise ulimit -u or lower threads" in complaint(done)


@pytest.mark.parametrize("words", [["envs"], ["train", "dreamer", "cartpole", "--help"]])
def test_a_reader_that_has_seen_enough_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    # as below a program that ignores SIGPIPE, such as the launcher
    done = subprocess.run(
        [ENGINE, *words], stdout=writer, stderr=subprocess.PIPE, restore_signals=False, check=False,
        env={**os.environ, "MAGLEV_HOME": str(HOME)},
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_the_version_is_named(engine):
    done = engine("--version")
    named = r"maglev 0\.\d+\.\d+( \([0-9a-f]{12}(\+changes)?\))?, torch \d"
    assert done.returncode == 0 and re.match(named, done.stdout)
    assert engine("help", "train").stdout == engine("train", "--help").stdout


def test_a_settings_file_is_checked_with_its_line(engine, tmp_path):
    (tmp_path / "bad.yaml").write_text("ppo:\n  lr: 0.1\n  gama: 0.9\n")
    done = engine("train", "ppo", "cartpole", "--config", "bad.yaml", cwd=tmp_path)
    line = complaint(done)
    assert "bad.yaml:3" in line and "ppo.gamma" in line


def test_a_list_within_a_list_is_refused_with_its_setting(engine, tmp_path):
    (tmp_path / "nest.yaml").write_text("ppo:\n  network:\n    hidden: [[64, 64], [32]]\n")
    line = complaint(engine("train", "ppo", "cartpole", "--config", "nest.yaml", cwd=tmp_path))
    assert "nest.yaml:3] ppo.network.hidden must be a list of whole numbers" in line and "not valid YAML" not in line


def test_an_existing_run_is_not_overwritten(trained, engine):
    before = sorted(p.name for p in (trained / "checkpoints").iterdir())
    done = engine("train", "ppo", "cartpole", *SMALL, "--out", trained)
    assert "--overwrite" in complaint(done)
    assert sorted(p.name for p in (trained / "checkpoints").iterdir()) == before


def test_overwrite_moves_the_old_run_aside(trained, engine, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run, symlinks=True)
    done = engine("train", "ppo", "cartpole", *SMALL, "--out", run, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert len([p for p in tmp_path.iterdir() if (p / "run.json").exists()]) == 2


def test_a_truncated_checkpoint_is_passed_over(trained, engine, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run, symlinks=True)
    newest = max((run / "checkpoints").glob("step_*"))
    state = newest / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    # asked for by name it is refused, with its path
    assert newest.name in complaint(engine("eval", run, "--checkpoint", newest))
    # resuming goes back to the one before it and says so
    done = engine("train", "--resume", run, "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    assert newest.name in done.stderr


def test_a_run_without_a_valid_checkpoint_says_so(trained, engine, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run, symlinks=True)
    for state in (run / "checkpoints").glob("step_*/state.safetensors"):
        state.write_bytes(b"")
    done = engine("train", "--resume", run)
    assert done.returncode == 2
    assert "no valid checkpoint" in done.stderr.splitlines()[-1]
    # no verb advises what another refuses
    for words in (["train", "--resume", run], ["eval", run]):
        line = engine(*words).stderr.splitlines()[-1]
        assert "are damaged" in line and "--overwrite" in line and "resume the run" not in line


def test_a_checkpoint_in_place_of_a_run_is_told_by_its_name(trained, engine):
    best = f"{trained}@best"
    for words in (["eval", trained / "checkpoints" / "best"], ["train", "--resume", best]):
        line = complaint(engine(*words))
        assert f"call it {best}" in line and f"train.init_from={best}" in line


def test_a_checkpoint_of_another_environment_is_refused(trained, engine, tmp_path):
    other = tmp_path / "other"
    assert engine("train", "ppo", "acrobot", *SMALL, "--out", other).returncode == 0
    foreign = max((trained / "checkpoints").glob("step_*"))
    line = complaint(engine("eval", other, "--checkpoint", foreign))
    assert "cartpole" in line and "acrobot" in line


def test_another_network_does_not_load(trained, engine, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run, symlinks=True)
    line = complaint(
        engine("train", "--resume", run, "train.steps=6400", "ppo.network.hidden=[32, 32]")
    )
    # the reason comes before what it did to tensors
    reason = line.index("what was changed (ppo.network.hidden: [64, 64] -> [32, 32]): leave it out")
    assert reason < line.index("fc0_weight")


def test_a_folder_that_cannot_be_written_is_named(engine, tmp_path):
    (tmp_path / "file").write_text("")
    line = complaint(engine("train", "ppo", "cartpole", *SMALL, "--out", tmp_path / "file" / "run"))
    assert str(tmp_path / "file") in line


def test_a_disk_full_at_the_start_ends_the_run(engine, tmp_path):
    done = engine(
        "train",
        "ppo",
        "cartpole",
        *SMALL,
        "--out",
        tmp_path / "run",
        env={"MAGLEV_FAULT": "write:ENOSPC:6+"},
    )
    assert done.returncode == 2
    assert "No space left" in done.stderr or "full" in done.stderr


@pytest.mark.parametrize("processes", [(), ("processes=2", "threads=2")])
def test_a_disk_full_later_keeps_earlier_checkpoints(engine, tmp_path, processes):
    run = tmp_path / "run"
    # past the first checkpoint, before the last
    done = engine(
        *("train", "ppo", "cartpole", *SMALL, "--out", run, "train.retry_save=0.5", *processes),
        env={"MAGLEV_FAULT": "write:ENOSPC:40+"},
    )
    assert done.returncode == 2, done.stderr
    assert "No space left" in done.stderr or "full" in done.stderr
    assert "what was learned since step" in done.stderr and "is lost" in done.stderr, done.stderr
    manifests = list((run / "checkpoints").glob("step_*/manifest.json"))
    assert manifests
    # with room again, it goes on from what was kept
    done = engine("train", "--resume", run, "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("processes", [(), ("processes=2", "threads=2")])
def test_one_failed_save_does_not_end_the_run(engine, tmp_path, processes):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", *SMALL, *processes]
    done = engine(*words, "--out", run, env={"MAGLEV_FAULT": "write:ENOSPC:16"})
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "run.json").read_text())["state"] == "finished"


def test_the_end_of_a_run_waits_for_room(engine, tmp_path):
    # rows, saves and a few tries of the last one find none
    fault = ",".join(f"write:ENOSPC:{n}" for n in range(40, 54))
    run = tmp_path / "run"
    done = engine("train", "ppo", "cartpole", *SMALL, "--out", run, env={"MAGLEV_FAULT": fault})
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "run.json").read_text())["state"] == "finished"
    assert (run / "checkpoints" / "step_000000003200" / "manifest.json").exists()


def test_a_person_need_not_wait_for_room(tmp_path):
    run, words = tmp_path / "run", ["jsonl,console" if word == "jsonl" else word for word in SMALL]
    process = subprocess.Popen(
        [ENGINE, "train", "ppo", "cartpole", *words, "--out", run],
        env=os.environ | {"MAGLEV_FAULT": "write:ENOSPC:40+", "MAGLEV_HOME": str(HOME)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if "Ctrl-C ends without it" in line:
            process.send_signal(signal.SIGINT)
            break
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 2 and "is lost" in stderr, stderr


def test_nor_where_a_hook_ended_the_run_and_no_console_shows_it(tmp_path):
    pytest.importorskip("torch")
    words = [word for word in SMALL if "=" in word]
    script = f"""
import sys
sys.path.insert(0, {str(HOME / "python")!r})
import maglev
maglev.train("ppo", "cartpole", {words!r}, bare=True, sinks="jsonl", out={str(tmp_path / "run")!r},
             on_iteration=lambda step: step < 1600)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {"MAGLEV_FAULT": "write:ENOSPC:20+", "MAGLEV_HOME": str(HOME), "MAGLEV_BUILD": str(ENGINE.parent)},
        stderr=subprocess.PIPE,
        text=True,
    )
    told = []
    for line in process.stderr:
        told.append(line)
        if "Ctrl-C ends without it" in line:
            process.send_signal(signal.SIGINT)
            break
    _, stderr = process.communicate(timeout=600)
    assert "Ctrl-C ends without it" in "".join(told), told
    assert process.returncode != 0 and "is lost" in stderr, stderr


@pytest.mark.parametrize("where", ["reward", "observation"])
def test_nan_from_an_environment_stops_before_the_weights(where, examples, tmp_path):
    run = tmp_path / "run"
    shown = ["console,jsonl" if word == "jsonl" else word for word in SMALL]
    done = examples(
        "train", "ppo", "faulty", *shown, f"env.where={where}", "env.step=300", "--out", run
    )
    line = complaint(done)
    # which column, which environment, when: time steps count from 0, an observation belongs to the step it is seen at
    when = {"reward": 299, "observation": 300}[where]
    assert (
        "not finite" in line
        and where in line
        and "environment 0" in line
        and f"time step {when}" in line
    ), line
    assert json.loads((run / "run.json").read_text())["state"] == "failed"
    # why is said once in what is printed, once as the error, and kept
    assert done.stdout.count("not finite") == 1 and done.stderr.count("not finite") == 1
    assert "not finite" in (run / "log.txt").read_text()
    # the newest checkpoint is from before it, and whole
    newest = max((run / "checkpoints").glob("step_*"))
    assert json.loads((newest / "manifest.json").read_text())["identity"]["step"] <= 300 * 4
    assert examples("eval", run, "--steps", "64", "--checkpoint", newest).returncode == 0


def test_a_network_that_does_not_fit_is_refused_with_the_sum_before_it_is_made(engine, tmp_path):
    wide = "ppo.network.hidden=[65536,65536]"
    done = engine("train", "ppo", "cartpole", wide, "--out", tmp_path / "run")
    line = complaint(done)
    assert "GiB planned" in line and "gradients" in line and "smaller network" in line
    assert not (tmp_path / "run").exists()


def test_memory_that_the_system_does_not_give_is_one_line(engine, tmp_path):
    def limited():
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    done = engine(
        "train", "ppo", "cartpole", "ppo.network.hidden=[65536,65536]", "--memory-limit", "none",
        "--out", tmp_path / "run", preexec_fn=limited,
    )
    line = complaint(done)
    assert "[memory]" in line and "internal error" not in line


def test_divergence_is_said_once_and_may_end_the_run(engine, tmp_path):
    diverging = ["train", "ppo", "pendulum", *SMALL, "ppo.epochs=4", "ppo.lr=10"]
    run = tmp_path / "run"
    done = engine(*diverging, "--out", run)
    assert done.returncode == 0, done.stderr
    status = json.loads((run / "run.json").read_text())
    assert status["state"] == "finished" and "learning has diverged" in status["message"]
    assert (run / "log.txt").read_text().count("learning has diverged") == 1
    assert "loss/" in status["message"]
    run = tmp_path / "stopped"
    done = engine(*diverging, "train.on_divergence=stop", "--out", run)
    assert done.returncode == 3, done.stderr
    assert json.loads((run / "run.json").read_text())["state"] == "stopped"
    # a run that learns says nothing of the kind
    run = tmp_path / "sound"
    assert engine("train", "ppo", "mountain_car", *SMALL, "--out", run).returncode == 0
    assert json.loads((run / "run.json").read_text())["message"] == ""


def test_a_folder_of_something_else_is_not_trained_into(engine, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    done = engine("train", "ppo", "cartpole", *SMALL, "--out", tmp_path, "--overwrite")
    assert "thesis.tex" in complaint(done)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_sink_that_is_none_leaves_no_folder_behind(engine, tmp_path):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", "--bare", *SMALL[3:], "--out", run]
    assert "did you mean jsonl" in complaint(engine(*words, "--sinks", "jsonn"))
    assert not run.exists()
    assert engine(*words, "--sinks", "jsonl").returncode == 0


def test_a_run_that_learned_nothing_says_so(engine, tmp_path):
    words = ["train", "dreamer", "cartpole", "--sinks", "jsonl", "train.steps=200", "--out"]
    done = engine(*words, tmp_path / "run", "dreamer.first_steps=1000")
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "no update was made: nothing was learned: the first one comes after 1,000 steps" in log
    assert log.index("no update will be made: the first one comes after 1,000 steps") < log.index("no update was made")
    until = engine(*words, tmp_path / "until", "dreamer.batch=2", "dreamer.length=4", "train.until_return=1e6", "env.count=1")
    assert until.returncode == 0, until.stderr
    assert "train.until_return was never asked" in (tmp_path / "until" / "log.txt").read_text()


def test_updates_that_a_short_replay_kept_from_coming_are_counted(engine, tmp_path):
    settings = ["env.count=8", "env.max_steps=20", "tdmpc2.seed_steps=160", "tdmpc2.updates_per_step=0.25"]
    words = ["train", "tdmpc2", "hockey", "--bare", "--sinks", "jsonl", *TDMPC2, *settings, "tdmpc2.capacity=50"]
    done = engine(*words, "train.steps=400", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "the replay keeps 6 steps of each environment" in log and "tdmpc2.capacity=208 keeps enough" in log
    # 40 at once, and one each 4 steps until the replay held no sequence any more
    assert "of 100 updates that were due were not made" in log


def test_a_models_size_takes_the_place_of_proven_widths(engine, tmp_path):
    parts = {}
    for size in ("1m", "12m"):
        done = engine("plan", "dreamer", "cartpole", f"dreamer.size={size}", "--json")
        parts[size] = json.loads(done.stdout)["parts"]["parameters"]
    assert parts["12m"] > 8 * parts["1m"]


@pytest.mark.parametrize("empty", [["--out", ""], ["--sinks", ""]])
def test_a_flag_without_a_value_is_answered(empty, engine, tmp_path):
    assert empty[0] in complaint(engine("train", "ppo", "cartpole", *SMALL, *empty, cwd=tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_dataset_that_was_not_finished_is_not_there(engine, tmp_path):
    run, data = tmp_path / "run", tmp_path / "data.safetensors"
    done = engine(
        "train", "tdmpc2", "pendulum", "--bare", "--sinks", "jsonl", "env.count=2",
        "train.steps=200", "tdmpc2.seed_steps=400", "--out", run,
    )
    assert done.returncode == 0, done.stderr
    cut = engine("data", run, data, env={"MAGLEV_FAULT": "write:EXIT:1"})
    assert cut.returncode == 137
    assert not data.exists() and list(tmp_path.glob(".data.safetensors.tmp-*"))
    assert engine("data", run, data).returncode == 0
    assert not list(tmp_path.glob(".data.safetensors.tmp-*"))
    assert "data.safetensors" in complaint(engine("data", run, data))
