"""Files that the engine writes, read with the formats' own readers.

MAGLEV_BUILD names the build folder; without it .build/release of the project is taken.
"""

import json
import os
import pathlib
import subprocess

import numpy
import pytest
import safetensors
import safetensors.torch
import torch
from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

PROJECT = pathlib.Path(__file__).resolve().parents[2]
BUILD = PROJECT / os.environ.get("MAGLEV_BUILD", ".build/release")
MATRIX = numpy.arange(6).reshape(2, 3)
NUMPY_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "U64": "uint64", "I32": "int32",
    "U32": "uint32", "I16": "int16", "U16": "uint16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    subprocess.run([BUILD / "tests" / "write_samples", folder], check=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def events(samples):
    accumulator = EventAccumulator(str(samples), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def test_tensorboard_shows_every_row_of_a_continued_run_once(events):
    loss = events.Scalars("loss/policy")
    assert [event.step for event in loss] == list(range(900))
    assert [event.value for event in loss] == [0.25] * 701 + [0.5] * 199


def test_tensorboard_shows_all_tags_without_figures_that_do_not_exist(events):
    assert set(events.Tags()["scalars"]) == {
        "return_mean", "steps_per_second", "episodes", "loss/policy", "events/food_per_1k",
    }  # fmt: skip
    returns = events.Scalars("return_mean")
    assert [event.step for event in returns] == list(range(1, 900))
    assert returns[-1].value == 899 / 2


def test_prometheus_reads_the_newest_values(samples):
    families = text_string_to_metric_families((samples / "metrics.prom").read_text())
    found = {sample.name: sample for family in families for sample in family.samples}
    assert found["maglev_step"].value == 899 and found["maglev_loss_policy"].value == 0.5
    assert set(found["maglev_step"].labels) == {"run", "algorithm", "environment"}


def test_tensorboard_wall_times_do_not_go_back(events):
    times = [event.wall_time for event in events.Scalars("episodes")]
    assert times == sorted(times) and times[0] > 1.6e9


def test_metric_lines_are_json_and_hold_a_continued_run_once(samples):
    rows = [json.loads(line) for line in (samples / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(900))
    assert list(rows[0]) == [
        "step", "seconds", "steps_per_second", "return_mean", "episodes", "loss/policy", "events/food_per_1k",
    ]  # fmt: skip
    assert rows[0]["return_mean"] is None
    assert [row["loss/policy"] for row in rows] == [0.25] * 701 + [0.5] * 199


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_safetensors_of_every_dtype_load_in_numpy(samples, dtype):
    with safetensors.safe_open(samples / "sample.safetensors", framework="numpy") as file:
        matrix, scalar = file.get_tensor(f"{dtype}.matrix"), file.get_tensor(f"{dtype}.scalar")
    assert matrix.dtype == numpy.dtype(NUMPY_DTYPES[dtype])
    numpy.testing.assert_array_equal(matrix, MATRIX.astype(NUMPY_DTYPES[dtype]))
    assert scalar.shape == () and scalar == 1


def test_safetensors_load_in_torch_with_bfloat16(samples):
    tensors = safetensors.torch.load_file(samples / "sample.safetensors")
    assert tensors["BF16.matrix"].dtype == torch.bfloat16
    assert torch.equal(tensors["BF16.matrix"].float(), torch.arange(6.0).view(2, 3))
    assert torch.equal(tensors["I16.matrix"], torch.arange(6, dtype=torch.int16).view(2, 3))


def test_safetensors_names_and_metadata_are_kept(samples):
    with safetensors.safe_open(samples / "sample.safetensors", framework="numpy") as file:
        assert file.metadata() == {"note": "a text"}
        assert len(file.keys()) == 2 * 13 + 2
        assert file.get_tensor("empty").shape == (0, 4)
        assert file.get_tensor('größe "1"').tolist() == [7]


def write_with_fault(folder, fault):
    return subprocess.run(
        [BUILD / "tests" / "write_samples", folder],
        env=os.environ | {"MAGLEV_FAULT": fault},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_full_disk_is_one_line_that_says_what_to_do(tmp_path):
    result = write_with_fault(tmp_path / "full", "open:ENOSPC:1")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1 and "free space" in result.stderr, result.stderr


def test_a_process_can_be_killed_at_any_operation(tmp_path):
    assert write_with_fault(tmp_path / "killed", "any:EXIT:20").returncode == 137


def test_a_fault_that_is_misspelt_is_refused(tmp_path):
    result = write_with_fault(tmp_path / "odd", "wrote:ENOSPC:1")
    assert result.returncode == 2 and "MAGLEV_FAULT" in result.stderr
