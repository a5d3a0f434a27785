"""Several processes that share a run learn what one does: each has a part of the environments."""

import contextlib
import gzip
import json
import os
import signal
import struct
import subprocess
import time

import numpy as np
import pytest
from conftest import ENGINE, HOME, skip_without_library
from waiting import LONG_S, wait_for

STEPS = 16 * 16 * 6
COMMON = [
    "--bare",
    "--sinks",
    "jsonl",
    f"train.steps={STEPS}",
    f"train.save_every={STEPS // 6}",
    "train.keep=10",
    "env.count=16",
    "ppo.rollout=16",
    "ppo.epochs=2",
    "threads=4",
    "seed=3",
]
# what takes in rows of all processes: normalisers, PopArt, a mean over the batch
SHARED = [
    "ppo.network.value_head=popart",
    "ppo.network.normalize_obs=true",
    "ppo.normalize_reward=true",
]
# of numbers that are computed alike but added up in another order
CLOSE = {"rtol": 2e-3, "atol": 2e-4}
DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8, "I32": np.int32}


def checkpoints(run):
    return sorted((run / "checkpoints").glob("step_*"))


def state_of(checkpoint):
    """Every tensor of a checkpoint by name."""
    data = next(checkpoint.glob("*.safetensors")).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, row in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = row["data_offsets"]
        part = data[8 + size + begin : 8 + size + end]
        tensors[name] = np.frombuffer(part, DTYPES[row["dtype"]]).reshape(row["shape"])
    return tensors


def hashes_of(checkpoint):
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    return {key: manifest[key] for key in ("tensors", "integers", "reals", "texts")}


def expect_close(a, b):
    for name in a:
        # the state of an environment is bytes
        if name != "envs.slots":
            np.testing.assert_allclose(b[name], a[name], **CLOSE, err_msg=name)


def rows_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def train(engine, run, *words):
    done = engine("train", "ppo", "pendulum", *COMMON, *words, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture
def start():
    """Begins a run of two processes; none is left behind where a test fails."""
    leaders = []

    def begin(run, *words, algo="ppo", env="cartpole"):
        leaders.append(
            subprocess.Popen(
                [ENGINE, "train", algo, env, "--bare", "--sinks", "jsonl", "processes=2", "--out", run, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "MAGLEV_HOME": str(HOME)},
            )
        )
        return leaders[-1]

    yield begin
    for leader in leaders:
        leader.kill()
        leader.communicate()


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        # a thread may end meanwhile
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, open(f"/proc/{pid}/task/{task}/children").read().split())
    return found


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("learner", ["ppo.fused=true", "ppo.fused=false"])
@pytest.mark.parametrize("normalize", ["off", "batch", "minibatch"])
def test_two_learn_what_one_does(engine, tmp_path, learner, normalize):
    # whole rollouts, so that the same rows are learned from together
    words = [*SHARED, learner, "ppo.minibatch=0", f"ppo.normalize_advantage={normalize}"]
    one = train(engine, tmp_path / "one", *words)
    two = train(engine, tmp_path / "two", *words, "processes=2")
    assert len(checkpoints(one)) == len(checkpoints(two)) == 7
    for first, second in zip(checkpoints(one), checkpoints(two)):
        a, b = state_of(first), state_of(second)
        assert a.keys() == b.keys()
        expect_close(a, b)
    # before anything was learned all is the same to the bit, and after the first rollout the actions are
    assert hashes_of(checkpoints(one)[0]) == hashes_of(checkpoints(two)[0])
    slots = [state_of(checkpoints(run)[1])["envs.slots"] for run in (one, two)]
    assert np.array_equal(*slots)
    assert "- processes: 2" in (two / "reproduce.md").read_text()
    # figures are of all of them
    for a, b in zip(rows_of(one), rows_of(two)):
        assert a["step"] == b["step"] and a["episodes"] == b["episodes"]
        for name in ("return_mean", "loss/policy", "loss/value", "value/explained_variance", "policy/entropy"):
            if a.get(name) is not None:
                assert b[name] == pytest.approx(a[name], rel=2e-3, abs=2e-4), name


def test_minibatches_of_two_are_of_both(engine, tmp_path):
    words = [*SHARED, "ppo.minibatch=64"]
    runs = [train(engine, tmp_path / name, *words, f"processes={n}") for name, n in (("one", 1), ("two", 2))]
    steps = [state_of(checkpoints(run)[-1])["algo.optimizer.steps"] for run in runs]
    assert np.array_equal(*steps)


def test_the_reference_holds_two_processes_to_it(engine, tmp_path):
    words = [*SHARED, "ppo.minibatch=64", "processes=2"]
    fused = train(engine, tmp_path / "fused", *words)
    reference = train(engine, tmp_path / "reference", *words, "ppo.fused=false")
    expect_close(state_of(checkpoints(fused)[-1]), state_of(checkpoints(reference)[-1]))


def test_gradients_may_be_rounded_on_their_way(engine, tmp_path):
    words = ["ppo.minibatch=0", "processes=2"]
    exact = state_of(checkpoints(train(engine, tmp_path / "exact", *words))[-1])
    rounded = state_of(checkpoints(train(engine, tmp_path / "rounded", *words, "train.gradients=bf16"))[-1])
    weights = "algo.network.policy_trunk.fc1_weight"
    assert not np.array_equal(exact[weights], rounded[weights])
    np.testing.assert_allclose(rounded[weights], exact[weights], atol=5e-3)


def test_a_resumed_run_ends_as_the_unbroken_one(engine, tmp_path):
    words = [*SHARED, "ppo.minibatch=64", "processes=2", "train.log_every=700"]
    whole = train(engine, tmp_path / "whole", *words)
    broken = train(engine, tmp_path / "broken", *words, f"train.steps={STEPS // 2}", "ppo.lr_end=1")
    done = engine("train", "--resume", broken, "--sinks", "jsonl", f"train.steps={STEPS}")
    assert done.returncode == 0, done.stderr
    assert hashes_of(checkpoints(broken)[-1]) == hashes_of(checkpoints(whole)[-1])
    assert not [w for w in os.listdir(broken) if w.startswith("step_")]


@pytest.mark.parametrize("before, after", [(1, 4), (4, 1), (2, 4)])
def test_a_run_is_resumed_by_more_or_fewer(engine, tmp_path, before, after):
    words = [*SHARED, "ppo.minibatch=64", f"processes={before}"]
    run = train(engine, tmp_path / "run", *words, f"train.steps={STEPS // 2}")
    done = engine("train", "--resume", run, "--sinks", "jsonl", f"train.steps={STEPS}", f"processes={after}")
    assert done.returncode == 0, done.stderr
    assert rows_of(run)[-1]["step"] == STEPS


# off-policy: each keeps the steps of its own environments and draws its share of a batch from them
REPLAYED = {
    "tdmpc2": [
        "env.max_steps=25",
        "tdmpc2.enc_dim=16",
        "tdmpc2.mlp_dim=16",
        "tdmpc2.latent_dim=16",
        "tdmpc2.num_q=2",
        "tdmpc2.samples=24",
        "tdmpc2.elites=6",
        "tdmpc2.policy_trajectories=4",
        "tdmpc2.batch=32",
        "tdmpc2.seed_steps=240",
        "tdmpc2.updates_per_step=0.05",
    ],
    "dreamer": [
        "dreamer.deter=16",
        "dreamer.hidden=8",
        "dreamer.classes=4",
        "dreamer.stoch=4",
        "dreamer.units=8",
        "dreamer.imagination=3",
        "dreamer.batch=4",
        "dreamer.length=6",
        "dreamer.first_steps=240",
        "dreamer.train_ratio=1.5",
    ],
}


def train_replayed(engine, algo, run, *words):
    common = ["--bare", "--sinks", "jsonl", "env.count=8", "threads=2", "seed=3", "train.save_every=240", "train.keep=10"]
    done = engine("train", algo, "pendulum", *common, *REPLAYED[algo], "train.steps=720", *words, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize("algo", REPLAYED)
def test_two_collect_what_one_does_and_learn_from_it_together(engine, tmp_path, algo):
    one = train_replayed(engine, algo, tmp_path / "one")
    two = train_replayed(engine, algo, tmp_path / "two", "processes=2")
    # seeds, noise and what is kept are a matter of the run's rows: until something is learned all is the same, but for
    # Dreamer's networks, whose library may round a row otherwise when fewer come with it
    def same(a, b):
        rounded = algo == "dreamer" and a.dtype.kind == "f"
        return np.allclose(a, b, rtol=1e-6, atol=1e-6) if rounded else np.array_equal(a, b)

    assert hashes_of(checkpoints(one)[0]) == hashes_of(checkpoints(two)[0])
    first, second = (state_of(checkpoints(run)[1]) for run in (one, two))
    assert first.keys() == second.keys()
    assert any(name.startswith("replay.") for name in first)
    for name in first:
        if name.startswith(("replay.", "envs.")) and not name.startswith("replay.extra"):
            assert same(first[name], second[name]), name
    a, b = rows_of(one)[-1], rows_of(two)[-1]
    for name in ("step", "episodes", "replay/rows"):
        assert a[name] == b[name]
    updates = [state_of(checkpoints(run)[-1])["algo.updates"] for run in (one, two)]
    assert np.array_equal(*updates) and updates[0] > 4
    # of the same settings, learned from other sequences
    name = next(name for name in first if name.startswith("algo.") and name.endswith("weight"))
    assert not np.array_equal(*(state_of(checkpoints(run)[-1])[name] for run in (one, two)))


@pytest.mark.parametrize("algo", REPLAYED)
def test_a_resumed_run_with_a_replay_ends_as_the_unbroken_one(engine, tmp_path, algo):
    words = ["processes=2", "train.log_every=240", "train.replay_capacity=728"]
    whole = train_replayed(engine, algo, tmp_path / "whole", *words)
    broken = train_replayed(engine, algo, tmp_path / "broken", *words, "train.steps=480")
    done = engine("train", "--resume", broken, "--sinks", "jsonl", "train.steps=720")
    assert done.returncode == 0, done.stderr
    assert hashes_of(checkpoints(broken)[-1]) == hashes_of(checkpoints(whole)[-1])


@pytest.mark.parametrize("algo", REPLAYED)
def test_a_replay_that_was_not_saved_begins_empty_in_all(engine, tmp_path, algo):
    run = train_replayed(engine, algo, tmp_path / "run", "processes=2", "train.save_replay=false", "train.steps=480")
    done = engine("train", "--resume", run, "--sinks", "jsonl", "train.steps=720")
    assert done.returncode == 0, done.stderr
    # what was collected since, and each environment's newest observation
    assert rows_of(run)[-1]["replay/rows"] == 240 + 8


@pytest.mark.parametrize("algo", REPLAYED)
@pytest.mark.parametrize("before, after", [(1, 2), (2, 1)])
def test_a_replay_is_shared_out_anew(engine, tmp_path, algo, before, after):
    words = [f"processes={before}", "train.replay_capacity=728", "train.steps=480"]
    run = train_replayed(engine, algo, tmp_path / "run", *words)
    kept = state_of(checkpoints(run)[-1])
    done = engine("train", "--resume", run, "--sinks", "jsonl", "train.steps=720", f"processes={after}")
    assert done.returncode == 0, done.stderr
    assert rows_of(run)[-1]["step"] == 720
    now = state_of(checkpoints(run)[-1])
    # what was collected before is still there
    times = kept["replay.reward"].shape[0] - 1
    assert np.array_equal(now["replay.reward"][:times], kept["replay.reward"][:times])


def test_a_replay_larger_than_a_piece_is_saved_as_if_one_had_it(engine, tmp_path):
    # 25 MB of pictures pass between the two by pieces of 16
    words = ["--bare", "--sinks", "jsonl", "env.count=8", "threads=2", "seed=3", "tdmpc2.seed_steps=4000", "train.steps=2000"]
    one, two = (tmp_path / name for name in ("one", "two"))
    for run, *more in ((one,), (two, "processes=2")):
        done = engine("train", "tdmpc2", "pendulum_pixels", *words, "train.replay_capacity=2048", *more, "--out", run)
        assert done.returncode == 0, done.stderr
    assert hashes_of(checkpoints(one)[-1]) == hashes_of(checkpoints(two)[-1])
    # and read so
    for run, number in ((one, 2), (two, 1)):
        done = engine("train", "--resume", run, "--sinks", "jsonl", "train.steps=2200", f"processes={number}")
        assert done.returncode == 0, done.stderr
    assert hashes_of(checkpoints(one)[-1]) == hashes_of(checkpoints(two)[-1])


def test_the_replay_of_two_becomes_a_dataset_which_counts_once(engine, tmp_path):
    run, data = tmp_path / "run", tmp_path / "data.safetensors"
    words = ["--bare", "--sinks", "jsonl", "env.count=8", "threads=2", "tdmpc2.seed_steps=4000", "train.steps=480", "processes=2"]
    assert engine("train", "tdmpc2", "pendulum", *words, "env.max_steps=25", "--out", run).returncode == 0
    assert engine("data", run, data).returncode == 0
    learn = [w for w in REPLAYED["tdmpc2"] if not w.startswith("tdmpc2.seed_steps")]
    learn += ["--bare", "--sinks", "jsonl", f"train.dataset={data}", "train.steps=4", "threads=2"]
    rows = []
    for number in (1, 2):
        learned = tmp_path / str(number)
        done = engine("train", "tdmpc2", "pendulum", *learn, f"processes={number}", "--out", learned)
        assert done.returncode == 0, done.stderr
        rows.append(rows_of(learned)[-1]["replay/rows"])
    assert rows[0] == rows[1]


@pytest.mark.parametrize("before, after", [(1, 2), (2, 1)])
def test_states_of_a_dataset_go_on_in_more_or_fewer(engine, tmp_path, before, after):
    played, run, data = tmp_path / "played", tmp_path / "run", tmp_path / "data.safetensors"
    words = ["--bare", "--sinks", "jsonl", "threads=2"]
    collect = [*words, "env.count=8", "env.max_steps=25", "tdmpc2.seed_steps=4000", "train.steps=480"]
    assert engine("train", "tdmpc2", "pendulum", *collect, "--out", played).returncode == 0
    assert engine("data", played, data).returncode == 0
    learn = [*words, *REPLAYED["dreamer"], f"train.dataset={data}", "train.steps=6", f"processes={before}"]
    done = engine("train", "dreamer", "pendulum", *learn, "--out", run)
    assert done.returncode == 0, done.stderr
    kept = state_of(checkpoints(run)[-1])["replay.rewritten.deter"]
    assert kept.shape[1] == before and kept.any()
    done = engine("train", "--resume", run, "--sinks", "jsonl", "train.steps=7", f"processes={after}")
    assert done.returncode == 0, done.stderr
    now = state_of(checkpoints(run)[-1])["replay.rewritten.deter"]
    assert now.shape[1] == after
    # one more update wrote a few, the others are those of one that there was
    for process in range(after):
        assert (now[:, process] == kept[:, process % before]).all(axis=-1).mean() > 0.8


def test_a_stop_between_updates_is_one_of_all(start, tmp_path):
    # thousands of updates are due at once, and the rest of them is left for later
    words = [w for w in REPLAYED["tdmpc2"] if not w.startswith("tdmpc2.updates")]
    for seconds in (2, 20, 200):
        run = tmp_path / f"after_{seconds}"
        leader = start(run, *words, "env.count=8", "tdmpc2.updates_per_step=1000", algo="tdmpc2", env="pendulum")
        wait_for(lambda: checkpoints(run), leader)
        time.sleep(seconds)
        leader.send_signal(signal.SIGINT)
        _, error = leader.communicate(timeout=LONG_S)
        assert json.loads((run / "run.json").read_text())["state"] == "stopped", error
        owed = hashes_of(checkpoints(run)[-1])["integers"]["trainer.owed_updates"]
        # on a slow machine there may have been none to make yet
        if owed:
            break
    assert owed > 0


def test_a_window_is_traced_in_all_of_them(engine, tmp_path):
    run = train(engine, tmp_path / "run", "processes=2", "trace.window=2-3,5")
    files = sorted(file.name for file in (run / "traces").glob("*.json.gz"))
    assert files == ["iter_2-3.json.gz", "iter_2-3.rank1.json.gz", "iter_5.json.gz", "iter_5.rank1.json.gz"]
    log = (run / "log.txt").read_text()
    for window, what in (("2-3", "iterations 2-3 are"), ("5", "iteration 5 is")):
        said = f"{what} traced in {run}/traces/iter_{window}.json.gz and {run}/traces/iter_{window}.rank1.json.gz\n"
        assert said in log, log
    traces = [json.loads(gzip.decompress((run / "traces" / file).read_bytes())) for file in files[:2]]
    for trace in traces:
        iterations = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["name"] == "iteration"]
        assert len(iterations) == 2 and trace["maglev"]["window"] == "2-3" and trace["maglev"]["reason"] == "window"
        assert trace["maglev"]["run"] == str(run) and trace["maglev"]["settings"]["processes"] == "2"
    # the same steps at the same time, on one clock
    both = tmp_path / "both.json"
    done = engine("trace", "merge", *(run / "traces" / file for file in files[:2]), "-o", both)
    assert done.returncode == 0, done.stderr
    merged = json.loads(both.read_text())["traceEvents"]
    of_pid = {}
    for e in merged:
        if e["ph"] == "X" and e["name"] == "iteration":
            of_pid.setdefault(e["pid"], []).append(e)
    first, second = (sorted(events, key=lambda e: e["ts"]) for events in of_pid.values())
    for a, b in zip(first, second):
        assert a["args"]["step"] == b["args"]["step"]
        assert a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"]


def test_a_window_that_is_cut_short_or_leaps_is_the_same_in_all(engine, tmp_path):
    run = train(engine, tmp_path / "run", "processes=2", "trace.window=0-1,3-1000")
    last = sorted((run / "traces").glob("iter_3-*.json.gz"))
    assert len(last) == 2 and last[1].name == last[0].name.replace(".json", ".rank1.json")
    # from the warm-up of a run that is resumed to where it goes on
    done = engine("train", "--resume", run, f"train.steps={STEPS + 512}")
    assert done.returncode == 0, done.stderr
    first = sorted(file.name for file in (run / "traces").glob("iter_0-*[0-9].json.gz") if "rank" not in file.name)
    second = sorted(file.name for file in (run / "traces").glob("iter_0-*.rank1.json.gz"))
    assert len(first) == 2 and second == [name.replace(".json", ".rank1.json") for name in first]


def test_one_that_is_killed_ends_the_run_which_can_be_resumed(engine, start, tmp_path):
    run = tmp_path / "run"
    leader = start(run, "train.steps=500000000", "train.save_every=20000")
    wait_for(lambda: len(checkpoints(run)) > 1, leader)
    (other,) = children_of(leader.pid)
    os.kill(other, signal.SIGKILL)
    _, error = leader.communicate(timeout=LONG_S)
    assert leader.returncode == 2
    assert "process 1 of the run ended: signal 9" in error
    status = json.loads((run / "run.json").read_text())
    assert status["state"] == "failed"
    steps = status["steps"] + 50_000
    done = engine("train", "--resume", run, "--sinks", "jsonl", f"train.steps={steps}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_none_is_left_when_the_first_ends(start, tmp_path, how):
    run = tmp_path / "run"
    leader = start(run, "train.steps=500000000", "train.save_every=20000")
    wait_for(lambda: len(checkpoints(run)) > 1, leader)
    (other,) = children_of(leader.pid)
    # a terminal or a batch system may tell all of them
    if how == signal.SIGTERM:
        os.kill(other, how)
    leader.send_signal(how)
    leader.communicate(timeout=LONG_S)
    wait_for(lambda: not alive(other))
    if how != signal.SIGKILL:
        assert json.loads((run / "run.json").read_text())["state"] == "stopped"


@pytest.mark.parametrize(
    "words, error",
    [
        (["ppo", "cartpole", "env.count=15", "ppo.minibatch=0"], "env.count must be a multiple of it, got 15"),
        (["ppo", "cartpole", "ppo.minibatch=65"], "ppo.minibatch must be a multiple of processes=2"),
        (["ppo", "cartpole", "ppo.minibatch=1"], "ppo.minibatch must be a multiple of processes=2"),
        (["ppo", "cartpole", "threads=3"], "threads must be a multiple of it, got 3; use 2 or 4"),
        (["tdmpc2", "pendulum", "tdmpc2.batch=129"], "tdmpc2.batch must be a multiple of it, got 129; use 128 or 130"),
        (["dreamer", "pendulum", "dreamer.batch=1"], "dreamer.batch must be a multiple of it, got 1; use 2"),
        (["tdmpc2", "pendulum", "env.count=64", "train.replay_capacity=128"], "128 rows is 2 of each of 64 environment rows"),
        (["ppo", "cartpole", "processes=100"], "processes must be"),
    ],
)
def test_what_cannot_be_shared_is_refused(engine, tmp_path, words, error):
    done = engine("train", words[0], words[1], "--bare", "processes=2", *words[2:], "--out", tmp_path / "run")
    assert done.returncode == 2
    assert error in done.stderr
    assert not (tmp_path / "run").exists()


def test_what_opponents_play_is_one_process(engine, tmp_path):
    done = engine("train", "ppo", "hockey", "--bare", "train.opponents=past", "processes=2", "--out", tmp_path / "run")
    skip_without_library(done)
    assert done.returncode == 2 and "train.opponents is one process" in done.stderr


def test_a_place_that_nobody_gave_is_no_process(engine):
    done = engine("train", "--process", "7:1")
    assert done.returncode == 2
    assert "'7:1' is no place in a run" in done.stderr


def test_bench_measures_one_process(engine):
    done = engine("bench", "run", "ppo", "cartpole", "processes=2")
    assert done.returncode == 2
    assert "processes=2 is for train" in done.stderr


def test_a_plan_refuses_what_training_would(engine):
    done = engine("plan", "ppo", "cartpole", "--bare", "processes=2", "ppo.minibatch=255")
    assert "ppo.minibatch must be a multiple of processes=2, which share its rows, got 255; use 254 or 256" in done.stderr


def test_a_plan_is_of_one_of_them(engine):
    plans = [json.loads(engine("plan", "ppo", "goodhart", "--json", "--no-time", f"processes={n}").stdout) for n in (1, 2)]
    assert plans[1]["parts"]["rollout"] == pytest.approx(plans[0]["parts"]["rollout"] / 2, rel=0.01)
