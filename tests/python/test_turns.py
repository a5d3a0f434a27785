"""conftest.py's turns: a module that is timed has one worker beside it, however many there are."""

import os
import shutil
import subprocess
import sys

from waiting import LONG_S

# it goes on once one beside it has done something
TIMED = """
import glob, time
import pytest
pytestmark = pytest.mark.usefixtures("one_beside")

@pytest.mark.parametrize("i", range(12))
def test_timed(i):
    open("timed", "a").write(f"{time.monotonic()}\\n")
    while not glob.glob("gw*"):
        time.sleep(0.01)
    time.sleep(0.1)
"""
# they begin, each without its turn, once that one has
OTHER = """
import os, time
import pytest

@pytest.fixture(scope="module", autouse=True)
def begun():
    while not os.path.exists("timed"):
        time.sleep(0.01)

@pytest.mark.parametrize("i", range(11))
def test_other(i):
    open(os.environ["PYTEST_XDIST_WORKER"], "a").write(f"{time.monotonic()}\\n")
    time.sleep(0.1)
"""


def test_a_timed_module_has_one_worker_beside_it(home, tmp_path):
    shutil.copy(home / "tests" / "python" / "conftest.py", tmp_path)
    # the longest file is begun first
    for name, text in {"timed": TIMED, "b": OTHER, "c": OTHER, "d": OTHER}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile", "-p", "no:cacheprovider", "--basetemp", tmp_path / "temp"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert "45 passed" in done.stdout, done.stdout + done.stderr

    def times(name):
        return [float(line) for line in (tmp_path / name).read_text().split()]

    timed = times("timed")
    beside = [path.name for path in tmp_path.glob("gw*") if any(timed[0] < t < timed[-1] for t in times(path))]
    assert len(beside) == 1, beside
