"""maglev.trace and maglev.span: where the time of a loop of one's own goes."""

import gzip
import json
import os
import sys
import sysconfig
import threading
from pathlib import Path

import numpy
import pytest
from conftest import BUILD, HOME

if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402


def spans(file):
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]


def test_a_loop_is_recorded_with_the_engines_stages_within(engine, tmp_path):
    file = tmp_path / "loop.json.gz"
    envs = maglev.make("cartpole", 8)
    obs, _ = envs.reset()

    @maglev.span("policy")
    def policy(depth=1):
        # a function may call itself
        return policy(depth - 1) if depth else envs.sample()

    with maglev.span("before"):
        pass
    with maglev.trace(file) as traced:
        for number in range(3):
            with maglev.span("iteration", step=number * 8):
                envs.step(policy())
    with maglev.span("behind"):
        pass
    assert traced.notes[0].startswith(f"traced in {file}")
    names = [event["name"] for event in spans(file)]
    assert {name: names.count(name) for name in ("iteration", "policy", "env_step", "before", "behind")} == {
        "iteration": 3,
        "policy": 6,
        "env_step": 3,
        "before": 0,
        "behind": 0,
    }
    whole = sorted((event for event in spans(file) if event["name"] == "iteration"), key=lambda event: event["ts"])
    for step in (event for event in spans(file) if event["name"] == "env_step"):
        assert any(one["ts"] <= step["ts"] and step["ts"] + step["dur"] <= one["ts"] + one["dur"] for one in whole)
    assert [event["args"]["step"] for event in whole] == [0, 8, 16]
    done = engine("trace", "analyze", file)
    assert done.returncode == 0 and "3 iterations" in done.stdout and "policy" in done.stdout, done.stderr


def test_threads_have_spans_of_their_own(tmp_path):
    file = tmp_path / "threads.json"
    within, over = threading.Event(), threading.Event()

    def work():
        with maglev.span("worker"):
            within.set()
            over.wait()

    with maglev.trace(file):
        thread = threading.Thread(target=work)
        thread.start()
        within.wait()
        with maglev.span("here"):
            pass
        over.set()
        thread.join()
    threads = {event["name"]: event["tid"] for event in spans(file)}
    assert threads["worker"] != threads["here"]
    # one that is open as its trace ends is of none, and what it ends in is still there
    within.clear(), over.clear()
    with maglev.trace(file, overwrite=True):
        thread = threading.Thread(target=work)
        thread.start()
        within.wait()
    over.set()
    thread.join()
    assert "worker" not in {event["name"] for event in spans(file)}


def test_what_is_raised_within_leaves_the_file(tmp_path):
    file = tmp_path / "raised.json"
    with pytest.raises(ZeroDivisionError):
        with maglev.trace(file), maglev.span("fails"):
            raise ZeroDivisionError
    assert [event["name"] for event in spans(file) if event["name"] == "fails"] == ["fails"]


def test_mistakes_are_told(tmp_path):
    file = tmp_path / "there.json"
    file.write_text("mine")
    with pytest.raises(maglev.Error, match="is there already; name another, or replace it by overwrite=True"):
        maglev.trace(file)
    assert file.read_text() == "mine"
    with pytest.raises(maglev.Error, match="did you mean full"):
        maglev.trace(tmp_path / "a.json", mode="ful")
    with pytest.raises(maglev.Error, match="cannot be created"):
        maglev.trace(tmp_path / "no" / "folder.json")
    with maglev.trace(tmp_path / "one.json"):
        with pytest.raises(maglev.Error, match="is being traced; end that first"):
            with maglev.trace(tmp_path / "two.json"):
                pass
    assert not (tmp_path / "two.json").exists()
    for name, step, said in (
        ("", None, "a name has 1 to 120 bytes, got 0"),
        ("x" * 121, None, "got 121"),
        (7, None, "a name is text, got 7"),
        ("x", -1, "a whole number from 0 on, got -1"),
        ("x", True, "a whole number from 0 on, got True"),
        ("x", 0.5, "a whole number from 0 on, got 0.5"),
    ):
        with pytest.raises(maglev.Error, match=said):
            maglev.span(name, step=step)
    outer, inner = maglev.span("outer"), maglev.span("inner")
    with pytest.raises(maglev.Error, match="'outer' ends before it has begun"):
        outer.__exit__()
    outer.__enter__(), inner.__enter__()
    with pytest.raises(maglev.Error, match="'outer' ends before 'inner', which began within it"):
        outer.__exit__()
    inner.__exit__(), outer.__exit__()
    # one that nobody ended is forgotten where it is freed, also by another thread
    left = [maglev.span("left", step=numpy.int64(3))]
    left[0].__enter__()
    thread = threading.Thread(target=left.clear)
    thread.start()
    thread.join()
    with outer, pytest.raises(maglev.Error, match="'outer' has begun already"):
        outer.__enter__()
