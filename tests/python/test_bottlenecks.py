"""What makes users' runs slow is what `maglev trace analyze` names first, and healthy runs have none of it.

tests/bottlenecks is a program with one mistake a name. What it gains to mend one is measured by bench/bottlenecks.py.
"""

import json
import sys
from pathlib import Path

import pytest
from conftest import BUILD, HOME, runner

sys.path.insert(0, str(HOME))
from launcher.building import usable_processors  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_beside")

MISTAKES = [
    "slow_environment",
    "waiting_environment",
    "shared_server",
    "uneven_environments",
    "allocating_environment",
    "crowded",
    "tiny_minibatches",
    "slow_logger",
    "waiting_metric",
    "checkpoints",
    "evaluation",
    "copies",
]

# of these, what threads do to each other: one processor has no two of them at work
OF_THREADS = {"shared_server", "uneven_environments"}

# proven settings, as long as a window in their middle takes
HEALTHY = {
    "ppo cartpole": (["train.steps=30000"], "40-110"),
    "ppo pendulum": (["train.steps=60000"], "20-50"),
    "ppo goodhart": (["train.steps=100000"], "2-6"),
    "tdmpc2 pendulum": (["train.steps=480", "tdmpc2.seed_steps=300"], "85-115"),
    "dreamer pendulum": (["train.steps=400", "dreamer.first_steps=256"], "70-95"),
}


@pytest.fixture(scope="session")
def bottlenecks():
    """Runs the program with the mistakes."""
    return runner(BUILD / "tests" / "maglev-bottlenecks")


@pytest.fixture(scope="session")
def expected(bottlenecks):
    """What is to be found, and how the live verdict begins, by name."""
    rows = [line.split("\t") for line in bottlenecks("list").stdout.splitlines()]
    return {name: (finding, verdict) for name, finding, verdict in rows}


def findings_of(engine, tmp_path, train, sound):
    """The run's folder and findings. What is named may be of a moment of the machine, but not each time: where it is not
    sound it is run again. Skips where the trace said that other programs had the processors."""
    disturbed = False
    for attempt in range(5):
        run = tmp_path / f"run{attempt}"
        done = train(run)
        assert done.returncode == 0, done.stderr
        traces = list((run / "traces").glob("*.json.gz"))
        assert len(traces) == 1, traces
        report = json.loads(engine("trace", "analyze", traces[0], "--json").stdout)
        assert report["reliable"], report["doubts"]
        found = [finding for finding in report["findings"] if finding["name"] != "other programs"]
        disturbed |= len(found) < len(report["findings"])
        if sound(found):
            return run, found
    if disturbed:
        pytest.skip("other programs have this machine's processors")
    return run, found


def test_the_mistakes_are_these(expected):
    assert list(expected) == MISTAKES


@pytest.mark.parametrize("name", MISTAKES)
def test_names_a_mistake_first(engine, bottlenecks, expected, tmp_path, name):
    if name in OF_THREADS and usable_processors() < 2:
        pytest.skip("there is one processor")
    finding, verdict = expected[name]

    def named_first(found):
        return bool(found) and found[0]["name"] == finding and found[0]["gain"] >= 0.3

    def train(run):
        return bottlenecks(name, run, "trace.window=4-15")

    run, found = findings_of(engine, tmp_path, train, named_first)
    assert named_first(found), found
    # a patch changes what the run has, and is no promise beyond what could be had
    settings = (run / "config.yaml").read_text()
    assert found[0]["patch_gain"] <= found[0]["gain"]
    for word in found[0]["patch"].split():
        setting, value = word.split("=")
        assert f"{setting.split('.')[-1]}: {value}\n" not in settings
    # the verdict of the run itself, where it can know
    said = json.loads((run / "run.json").read_text())["bound_by"]
    assert said.startswith((verdict, "other programs")), said


@pytest.mark.parametrize(
    ("kwargs", "finding"),
    [('{"works_s": 0.003}', "slow environment"), ('{"sleeps_s": 0.003}', "waiting environment")],
)
def test_names_what_an_environment_in_python_is_at(engine, tmp_path, kwargs, finding):
    words = ["ppo", "gymnasium", "--bare", "env.id=gym_samples:Takes-v0", f"env.kwargs={kwargs}", "env.count=4", "env.workers=1"]
    small = ["ppo.rollout=16", "ppo.minibatch=64", "ppo.epochs=1", "train.steps=640", "threads=1", "trace.window=4-8"]

    def named_first(found):
        return bool(found) and found[0]["name"] == finding and found[0]["gain"] >= 0.3

    def train(run):
        return engine("train", *words, *small, "--sinks", "jsonl", "--out", run, cwd=Path(__file__).parent)

    _, found = findings_of(engine, tmp_path, train, named_first)
    assert named_first(found), found
    if finding == "slow environment" and usable_processors() > 1:
        assert found[0]["patch"] == f"env.workers={min(4, usable_processors())}"


@pytest.mark.parametrize("name", HEALTHY)
def test_names_no_mistake_in_a_healthy_run(engine, expected, tmp_path, name):
    settings, window = HEALTHY[name]
    words = ["train", *name.split(), *settings, "--sinks", "jsonl", f"trace.window={window}"]
    mistakes = {finding for finding, _ in expected.values()}

    def healthy(found):
        return not any(finding["name"] in mistakes for finding in found)

    def train(run):
        return engine(*words, "--out", run)

    _, found = findings_of(engine, tmp_path, train, healthy)
    assert healthy(found), found
