"""What the Python tests share: the checkout, its build, and how its engine is run.

./maglev test sets MAGLEV_HOME, MAGLEV_BUILD and MAGLEV_ENGINE; else the release build is taken.
"""

import contextlib
import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

HOME = Path(os.environ.get("MAGLEV_HOME", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("MAGLEV_BUILD", HOME / ".build" / "release"))
ENGINE = Path(os.environ.get("MAGLEV_ENGINE", BUILD / "maglev-engine"))


@pytest.fixture(scope="session")
def home() -> Path:
    """The checkout."""
    return HOME


@pytest.fixture(scope="session")
def build_folder() -> Path:
    """The build under test."""
    return BUILD


@contextlib.contextmanager
def turn_of(worker, tmp_path_factory):
    """The turn to run tests, of a worker by its number; each has its own."""
    with open(tmp_path_factory.getbasetemp().parent / f"turn_of_{worker}", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))


@pytest.fixture(autouse=True)
def turn(tmp_path_factory):
    """Each test has its worker's turn, so that another worker can have it wait."""
    with turn_of(WORKER, tmp_path_factory) if WORKERS > 2 else contextlib.nullcontext():
        yield


@pytest.fixture(scope="module")
def one_beside(tmp_path_factory):
    """A third worker waits while tests of the module run: what says that other programs have the processors needs some."""
    with turn_of((WORKER + 1) % WORKERS, tmp_path_factory) if WORKERS > 2 else contextlib.nullcontext():
        yield


def runner(program):
    """run("train", "ppo", ...) gives the finished process; what takes longer than timeout_s hangs."""
    assert program.exists(), f"{program} is not built: run ./maglev build"

    def run(*arguments, timeout_s=600, **options):
        return subprocess.run(
            [program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "MAGLEV_HOME": str(HOME), **options.pop("env", {})},
            **options,
        )

    return run


@pytest.fixture(scope="session")
def engine():
    """Runs the engine."""
    return runner(ENGINE)


@pytest.fixture(scope="session")
def examples():
    """Runs the engine with the environments of examples/ and tests/ besides."""
    return runner(BUILD / "maglev-examples")


def skip_without_library(done):
    """Skips where an environment's library, or what its pictures need, is not on this machine."""
    if done.returncode and ("is not in this build" in done.stderr or "pictures need OpenGL" in done.stderr):
        pytest.skip(done.stderr)


def newest_manifest(run):
    """Of the checkpoint a run saved last."""
    manifests = [json.loads(path.read_text()) for path in run.glob("checkpoints/step_*/manifest.json")]
    return max(manifests, key=lambda m: m["sequence"])


@pytest.fixture
def gate(tmp_path):
    """What keeps a run from going on; skips where there is no Gymnasium."""
    from waiting import Gate

    made = Gate(tmp_path / "gate")
    yield made
    # what a test that failed left there ends
    made.open()


@pytest.fixture
def browser(tmp_path):
    """A page of a browser, closed behind the test; skips where there is none."""
    from browser import Browser

    with contextlib.closing(Browser(tmp_path / "profile")) as made:
        yield made


def returns_of_training(engine, words, run):
    """Mean returns of every metrics row of `train` with these words into the folder `run`."""
    done = engine("train", *words, "--sinks", "jsonl", "--out", run)
    assert done.returncode == 0, done.stderr
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["return_mean"] for line in lines]
