"""A run on several machines, which here are programs of one that know each other by addresses alone."""

import json
import os
import re
import signal
import subprocess

import pytest
from conftest import ENGINE, HOME
from test_processes import REPLAYED, alive, checkpoints, children_of, hashes_of, rows_of
from waiting import LONG_S, ask_twice, wait_for

STEPS = 16 * 16 * 4
PPO = [
    "--bare",
    "--sinks",
    "jsonl",
    f"train.steps={STEPS}",
    f"train.save_every={STEPS // 4}",
    "train.log_every=300",
    "train.keep=10",
    "env.count=16",
    "ppo.rollout=16",
    "ppo.minibatch=64",
    "ppo.network.normalize_obs=true",
    "ppo.network.value_head=popart",
    "seed=3",
]


class Machines:
    """Programs, each in a folder of its own; none is left behind where a test fails."""

    def __init__(self, folder):
        self.folder = folder
        self.programs = []

    def start(self, *words, **environment):
        where = self.folder / f"machine{len(self.programs)}"
        (where / "tmp").mkdir(parents=True)
        self.programs.append(
            subprocess.Popen(
                [ENGINE, *words],
                cwd=where,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "MAGLEV_HOME": str(HOME), "TMPDIR": str(where / "tmp"), **environment},
            )
        )
        return self.programs[-1]

    def lead(self, *words):
        """A run that waits for machines, and where it does."""
        leader = self.start("train", *words, "--listen", "127.0.0.1:0")
        line = leader.stdout.readline()
        where = re.search(r"\./maglev join (\S+)$", line.strip())
        assert where, line + leader.stderr.read()
        return leader, where[1]

    def together(self, *words, machines=2):
        """Runs it to its end, on so many machines."""
        leader, address = self.lead(*words, f"machines={machines}")
        others = [self.start("join", address) for _ in range(machines - 1)]
        for program in [leader, *others]:
            _, error = program.communicate(timeout=LONG_S)
            assert program.returncode == 0, error
        # what was given to the others is theirs for as long as they read it
        for where in self.folder.glob("machine*/tmp"):
            assert not list(where.iterdir())
        return leader, others


@pytest.fixture
def machines(tmp_path):
    some = Machines(tmp_path)
    yield some
    for program in some.programs:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("algo, processes, count", [("ppo", 2, 2), ("ppo", 4, 2), ("ppo", 4, 4), ("tdmpc2", 2, 2), ("dreamer", 2, 2)])
def test_a_run_is_the_same_to_the_bit_on_one_machine_and_on_several(engine, machines, tmp_path, algo, processes, count):
    words = ["ppo", "pendulum", *PPO] if algo == "ppo" else [
        algo, "pendulum", "--bare", "--sinks", "jsonl", "env.count=8", "seed=3", "train.save_every=240", "train.keep=10",
        "train.steps=480", *REPLAYED[algo],
    ]  # fmt: skip
    one, several = tmp_path / "one", tmp_path / "several"
    done = engine("train", *words, f"processes={processes}", f"threads={processes}", "--out", one)
    assert done.returncode == 0, done.stderr
    threads = processes // count
    machines.together(*words, f"processes={processes}", f"threads={threads}", "--out", several, machines=count)
    assert len(checkpoints(one)) == len(checkpoints(several)) > 2
    for a, b in zip(checkpoints(one), checkpoints(several)):
        assert hashes_of(a) == hashes_of(b)
    for a, b in zip(rows_of(one), rows_of(several)):
        for name in ("step", "episodes", "return_mean", "policy/entropy"):
            assert a.get(name) == b.get(name)
    assert f"- machines: {count}" in (several / "reproduce.md").read_text()


def test_a_run_goes_on_on_more_machines_or_fewer_and_begins_with_another_ones_networks(engine, machines, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = engine("train", "ppo", "pendulum", *PPO, "processes=2", "threads=2", "--out", whole)
    assert done.returncode == 0, done.stderr
    half = [*PPO, f"train.steps={STEPS // 2}", "ppo.lr_end=1", "processes=2"]
    machines.together("ppo", "pendulum", *half, "threads=1", "--out", broken)
    # the others have nothing of its folder
    machines.together("--resume", broken, f"train.steps={STEPS * 3 // 4}", "--sinks", "jsonl")
    done = engine("train", "--resume", broken, f"train.steps={STEPS}", "machines=1", "threads=2", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    assert hashes_of(checkpoints(broken)[-1]) == hashes_of(checkpoints(whole)[-1])

    begun = [*PPO, "processes=2", f"train.init_from={whole}"]
    done = engine("train", "ppo", "pendulum", *begun, "threads=2", "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    machines.together("ppo", "pendulum", *begun, "threads=1", "--out", tmp_path / "two")
    for a, b in zip(checkpoints(tmp_path / "one"), checkpoints(tmp_path / "two")):
        assert hashes_of(a) == hashes_of(b)


def begun(machines, run, *words):
    """A run that goes on for ever, its first process and another machine's, once it has saved."""
    words = ["--bare", "--sinks", "jsonl", "train.steps=500000000", "train.save_every=20000", *words]
    leader, address = machines.lead("ppo", "cartpole", *words, "processes=4", "machines=2", "threads=2", "--out", run)
    other = machines.start("join", address)
    wait_for(lambda: len(checkpoints(run)) > 1, leader)
    return leader, other


def processes_of(*programs):
    return [pid for program in programs for pid in (program.pid, *children_of(program.pid))]


def ended(program):
    output, error = program.communicate(timeout=LONG_S)
    return program.returncode, output, error


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGXCPU])
def test_the_first_one_is_asked_to_stop_and_all_end_well(machines, tmp_path, how):
    leader, other = begun(machines, tmp_path / "run")
    every = processes_of(leader, other)
    # a batch system tells all of them, some twice
    leader.send_signal(how)
    ask_twice(other.pid, how)
    code, _, error = ended(leader)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "stopped", error
    code, output, error = ended(other)
    assert code == 0, error
    assert "machine 2 of 2: processes 2 to 3 of 4 (from 0) of the run at 127.0.0.1:" in output
    assert "the run has ended" in output
    wait_for(lambda: not any(map(alive, every)))


def test_a_machine_that_is_lost_ends_the_run_which_goes_on_without_it(engine, machines, tmp_path):
    run = tmp_path / "run"
    leader, other = begun(machines, run)
    every = processes_of(leader, other)
    other.kill()
    code, _, error = ended(leader)
    assert code == 2
    assert "machine 2 of the run, " in error and " is gone: it was ended there" in error
    wait_for(lambda: not any(map(alive, every)))
    status = json.loads((run / "run.json").read_text())
    assert status["state"] == "failed"
    steps = status["steps"] + 50_000
    done = engine("train", "--resume", run, "--sinks", "jsonl", f"train.steps={steps}", "machines=1", "threads=4")
    assert done.returncode == 0, done.stderr


def test_where_the_first_machine_is_lost_the_others_end_and_say_so(machines, tmp_path):
    leader, other = begun(machines, tmp_path / "run")
    every = processes_of(leader, other)
    leader.kill()
    leader.communicate()
    code, _, error = ended(other)
    assert code == 1 and "machine 1 of the run, " in error and " is gone" in error
    wait_for(lambda: not any(map(alive, every)))


def test_a_process_of_another_machine_says_why_it_failed(machines, tmp_path):
    run = tmp_path / "run"
    leader, other = begun(machines, run)
    (child,) = children_of(other.pid)
    os.kill(child, signal.SIGKILL)
    for program in (leader, other):
        code, _, error = ended(program)
        assert code in (1, 2) and re.search(r"process 3 of the run on \S+ ended: signal 9", error), error


HAS_FMA = "avx2" in open("/proc/cpuinfo").read() and not os.environ.get("MAGLEV_SIMD", "").startswith("sse")


@pytest.mark.skipif(not HAS_FMA, reason="this processor has no multiply-adds to do without")
def test_machines_whose_networks_come_to_differ_are_told_before_anything_is_saved(machines, tmp_path):
    run = tmp_path / "run"
    leader, address = machines.lead("ppo", "cartpole", *PPO, "processes=2", "machines=2", "threads=1", "--out", run)
    # as a processor without multiply-adds, on which an optimiser's steps round otherwise
    other = machines.start("join", address, MAGLEV_SIMD="sse4")
    for program in (leader, other):
        code, _, error = ended(program)
        assert code != 0 and "process 1 has other networks than the first one" in error, error
    # but for what was saved before they learned
    assert [int(path.name.removeprefix("step_")) for path in checkpoints(run)] == [0]


@pytest.mark.skipif(not HAS_FMA, reason="this processor has no multiply-adds")
def test_processors_with_multiply_adds_have_the_same_networks_whatever_their_vectors(machines, tmp_path):
    words = ["ppo", "cartpole", *PPO, "processes=2", "machines=2", "threads=1", "--out", tmp_path / "run"]
    leader, address = machines.lead(*words)
    other = machines.start("join", address, MAGLEV_SIMD="avx2")
    for program in (leader, other):
        code, _, error = ended(program)
        assert code == 0, error
    assert len(checkpoints(tmp_path / "run")) > 2


def test_what_only_the_first_machine_has_is_said_by_the_others(engine, machines, tmp_path):
    run, data = tmp_path / "run", tmp_path / "data.safetensors"
    words = ["--bare", "--sinks", "jsonl", "env.count=8", "env.max_steps=25", "threads=2", "train.steps=480"]
    assert engine("train", "tdmpc2", "pendulum", *words, "tdmpc2.seed_steps=4000", "--out", run).returncode == 0
    assert engine("data", run, data).returncode == 0
    learn = [w for w in REPLAYED["tdmpc2"] if not w.startswith("tdmpc2.seed_steps")]
    learn += ["--bare", f"train.dataset={data}", "train.steps=40", "env.count=8", "processes=2", "machines=2"]
    leader, address = machines.lead("tdmpc2", "pendulum", *learn, "--out", tmp_path / "learned")
    # as where it was never copied to
    moved = data.rename(tmp_path / "elsewhere.safetensors")
    other = machines.start("join", address)
    for program in (leader, other):
        code, _, error = ended(program)
        assert code != 0 and str(data) in error, error
    assert moved.exists()


@pytest.mark.parametrize(
    "words, error",
    [
        (["processes=2", "machines=2"], "machines=2: give --listen PORT, where this one waits for the others"),
        (["machines=2", "--listen", "0"], "processes must be a multiple of it, got 1; use 2"),
        (["processes=3", "machines=2", "--listen", "0"], "processes must be a multiple of it, got 3; use 2 or 4"),
        (["processes=2", "--listen", "0"], "--listen is where other machines come to: give machines=N"),
        (["processes=4", "machines=2", "threads=3", "--listen", "0"], "of 2 there, got 3; use 2 or 4"),
        (["processes=2", "machines=2", "--listen", "here"], "an address is [HOST:]PORT, e.g. 10.0.0.4:29500, got 'here'"),
        (["processes=2", "machines=2", "--listen", "nowhere.invalid:0"], "nowhere.invalid:0 is no address"),
        (["processes=2", "machines=2", "--seeds", "2"], "runs side by side are of one machine each"),
        (["processes=2", "machines=65"], "machines must be"),
    ],
)
def test_what_is_said_wrong_is_refused(engine, tmp_path, words, error):
    done = engine("train", "ppo", "cartpole", "--bare", *words, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert error in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_a_run_is_refused_before_machines_are_waited_for(engine, tmp_path):
    words = ["ppo", "cartpole", *PPO, "--out", tmp_path / "run"]
    assert engine("train", *words).returncode == 0
    done = engine("train", *words, "processes=2", "machines=2", "--listen", "127.0.0.1:0")
    assert done.returncode == 2 and "already holds a run" in done.stderr
    assert "waits for" not in done.stdout


@pytest.mark.parametrize(
    "words, error",
    [
        (["127.0.0.1:1", "--wait", "1s"], "nobody listens at 127.0.0.1:1"),
        (["29500"], "an address is HOST:PORT, e.g. 10.0.0.4:29500, got '29500'"),
        (["nowhere.invalid:29500"], "nowhere.invalid:29500 is no address"),
        ([], "HOST:PORT"),
    ],
)
def test_a_run_that_is_not_there_is_not_joined(engine, words, error):
    done = engine("join", *words)
    assert done.returncode == 2
    assert error in done.stderr
