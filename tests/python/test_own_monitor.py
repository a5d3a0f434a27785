"""maglev.Monitor: what a loop of one's own takes of the machine."""

import math
import os
import sys
import sysconfig
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import BUILD, HOME

if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402

MIB = 2**20


def taken(mib):
    """Memory whose pages were all written to."""
    return b"\x01" * (mib * MIB)


def test_a_loop_tells_what_its_process_takes():
    monitor = maglev.Monitor(every=0, device="cpu")
    first = monitor.sample()
    held = taken(256)
    second = monitor.sample(step=1_000)
    # other tests' memory may be given back meanwhile, and not that much
    assert second["memory/process_mib"] - first["memory/process_mib"] > 128 and len(held) == 256 * MIB
    assert second["machine/processors"] > 0 and second["seconds"] > first["seconds"] > 0
    assert all(isinstance(value, float) and math.isfinite(value) for value in second.values())
    # growth is known from the twelfth sample on, and what is not known is not told
    assert "memory/growth_mib_per_hour" not in second and not any("gpu" in name for name in second)
    for _ in range(9):
        assert "memory/growth_mib_per_hour" not in monitor.sample()
    assert "memory/growth_mib_per_hour" in monitor.sample()
    assert monitor.warnings == []


def test_samples_come_no_more_often_than_asked_for():
    monitor = maglev.Monitor(every=1e9, device="cpu")
    assert monitor.sample()
    assert monitor.sample() == {} and monitor.sample(step=7) == {}
    assert monitor.summary().startswith("1 sample in ")


@pytest.mark.parametrize("planned_mib", [0, 10_000])
def test_memory_that_grows_is_warned_of_once_and_what_was_planned_is_not(planned_mib):
    monitor = maglev.Monitor(every=0, planned_mib=planned_mib, device="cpu")
    held, heard = [], []
    for _ in range(24):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            monitor.sample()
        heard += said
        held.append(taken(8))
    assert [str(one.message) for one in heard] == monitor.warnings
    if planned_mib:
        assert monitor.warnings == []
        return
    (told,) = monitor.warnings
    assert heard[0].filename == __file__
    assert told.startswith("memory grows: the process holds ") and "in tensors on the processor" in told
    assert told.endswith("memory/* of the samples show since when") and "metrics.jsonl" not in told
    assert monitor.summary().endswith(told)


def test_a_summary_has_mean_most_and_last():
    monitor = maglev.Monitor(every=0, device="cpu")
    assert monitor.summary().startswith("0 samples in 0.0 s")
    figures = [monitor.sample() for _ in range(3)]
    head, *rows = monitor.summary().splitlines()
    assert head.startswith("3 samples in ") and head.split()[-3:] == ["mean", "most", "last"]
    rows = {name: [float(value.replace(",", "")) for value in values] for name, *values in map(str.split, rows)}
    assert rows.keys() == set().union(*figures) - {"seconds"}
    for name, (mean, most, last) in rows.items():
        told = [sample[name] for sample in figures if name in sample]
        assert most == pytest.approx(max(told), abs=0.01) and last == pytest.approx(told[-1], abs=0.01)
        assert min(told) - 0.01 <= mean <= most + 0.01


@pytest.mark.filterwarnings("ignore:memory grows")
def test_threads_may_share_one():
    monitor = maglev.Monitor(every=0, device="cpu")
    told = []

    def work():
        for _ in range(20):
            told.append(monitor.sample())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 80 and monitor.summary().startswith("80 samples in ")


def test_numbers_may_be_arrays_and_tensors():
    monitor = maglev.Monitor(every=np.float32(0), planned_mib=torch.tensor(10.0), device=torch.device("cpu"))
    assert monitor.sample(step=np.int64(3)) and monitor.sample(step=torch.tensor(4))


@pytest.mark.parametrize(
    "given, said",
    [
        ({"every": -1}, r"\[monitor\] every must be in 0..1e9 seconds, got -1"),
        ({"every": math.nan}, r"every must be in 0..1e9 seconds, got nan"),
        ({"every": "often"}, r"every must be a number, got 'often'"),
        ({"planned_mib": -5}, r"planned_mib must be in 0..1e9 MiB, got -5"),
        ({"device": "tpu"}, r"\[device\] must be auto, cpu, cuda or cuda:<index>, got 'tpu'"),
    ],
)
def test_mistakes_are_told(given, said):
    with pytest.raises(maglev.Error, match=said):
        maglev.Monitor(**given)


@pytest.mark.parametrize("step", [-1, 1.5, "7"])
def test_a_step_is_a_whole_number(step):
    monitor = maglev.Monitor(every=0, device="cpu")
    with pytest.raises(maglev.Error, match=r"\[monitor\] step must be a whole number"):
        monitor.sample(step)
