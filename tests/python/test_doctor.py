"""What maglev doctor says of a machine, of its settings and of variables that do nothing."""

import json
import platform
import re
import resource

from conftest import ENGINE, HOME

FAKE_GPUS = ENGINE.parent / "tests" / "libfake_gpus.so"


def told(engine, *words, **env):
    done = engine("doctor", "--quick", "--json", *words, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_gpus_are_those_that_the_drivers_libraries_know(engine):
    report = told(engine, MAGLEV_NVML=str(FAKE_GPUS), MAGLEV_ROCM_SMI=str(FAKE_GPUS))
    gpus = report["machine"]["gpus"]
    assert [gpu["name"] for gpu in gpus] == ["Fake H100", "Fake MI300X", "Fake MI210"]
    assert gpus[0]["driver"] == "550.54" and gpus[0]["memory_free_bytes"] == 70 << 30
    assert gpus[0]["precisions"] == ["fp32", "tf32", "bf16", "fp16", "fp8"]
    assert any("4 of 16 PCI Express lanes" in warning for warning in report["warnings"])
    # a library that does not start has none
    broken = told(engine, MAGLEV_NVML=str(FAKE_GPUS), MAGLEV_FAKE_GPUS="broken")
    assert "Fake H100" not in [gpu["name"] for gpu in broken["machine"]["gpus"]]


def test_variables_that_do_nothing_are_named_with_a_reason(engine):
    report = told(engine, TORCH_CUDNN_BENCHMARK="1", OMP_NUM_THREADS="3", MKL_CBWR="AVX2")
    assert report["ignored"]["TORCH_CUDNN_BENCHMARK"]["value"] == "1"
    assert "threads=<count>" in report["ignored"]["OMP_NUM_THREADS"]["why"]
    assert report["settings"]["MKL_CBWR"] == {"value": "AVX2", "origin": "user's environment"}
    assert report["settings"]["threads_an_operation"] == {"value": "1", "origin": "auto"}


def test_the_variables_of_ours_are_those_that_are_read(engine):
    asked = re.compile(r"""(?:getenv|environ(?:\.get)?|library_named)[\[(]\s*"(MAGLEV_[A-Z_]+)""")
    files = [f for folder in ("base", "engine", "verbs", "launcher", "tests") for f in (HOME / folder).rglob("*.*")]
    read = set()
    for file in files:
        if file.suffix in (".cpp", ".h", ".py"):
            read |= set(asked.findall(file.read_text()))
    assert len(read) > 15
    # none that is read does nothing, and one that is not does
    report = told(engine, MAGLEV_TRACE_MODES="full", MAGLEV_FAULT="")
    assert "did you mean MAGLEV_TRACE_MODE?" in report["ignored"]["MAGLEV_TRACE_MODES"]["why"]
    assert "MAGLEV_FAULT" not in report["ignored"]
    source = (HOME / "verbs" / "doctor" / "environment.cpp").read_text()
    assert sorted(name for name in read if f'"{name}"' not in source) == []


def test_what_binds_the_threads_is_a_warning(engine):
    report = told(engine, OMP_PROC_BIND="close")
    if report["machine"]["processors"]["present"] > 1:
        assert report["machine"]["processors"]["affinity"] == 1
        assert any(w.startswith("OMP_PROC_BIND binds") for w in report["warnings"])


def test_a_device_that_is_not_here_is_a_finding_and_the_rest_is_told(engine):
    done = engine("doctor", "--quick", "--json", "device=cuda:77", "threads=1")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert "a run with these settings is refused: [device] cuda:77 was asked for" in report["warnings"][0]
    assert "machine" in report and report["build"]["torch"]
    # the processor was not what was asked for
    device = report["a_run_uses"]["device"]
    assert device["value"] == "cpu" and device["why"].startswith("cuda:77 was asked for, but ")
    wrong = engine("doctor", "--quick", "device=gpu")
    assert wrong.returncode == 2 and "[device] must be auto, cpu, cuda" in wrong.stderr


def test_instructions_that_there_are_not_are_a_finding_and_end_every_other_command(engine):
    asked, near = ("neo", "neon") if platform.machine() == "aarch64" else ("avx51", "avx512, avx2")
    wrong = {"MAGLEV_SIMD": asked}
    said = f"[simd] MAGLEV_SIMD: unknown instructions '{asked}'; did you mean {near}?"
    done = engine("doctor", "--quick", "--json", env=wrong)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["warnings"][0].startswith(f"every other command is refused: {said}; ")
    assert report["settings"]["MAGLEV_SIMD"] == {"value": "the best there is", "origin": "library default"}
    done = engine("envs", env=wrong)
    assert done.returncode == 2 and done.stderr == f"maglev: {said}\n"
    assert engine("--version", env=wrong).returncode == 0


def test_values_that_mean_nothing_do_not_hold(engine):
    report = told(engine, ATEN_CPU_CAPABILITY="avx9", MKL_CBWR="FOO")
    assert "no value that it has, and ignored" in report["ignored"]["ATEN_CPU_CAPABILITY"]["why"]
    assert "no value that it has, and taken as AUTO" in report["ignored"]["MKL_CBWR"]["why"]
    assert "MKL_CBWR" not in report["settings"]


def test_a_limit_on_addresses_is_told(engine):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    done = engine("doctor", "--quick", "--json", preexec_fn=limited)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    memory = report["machine"]["memory"]
    assert 0 < memory["address_space_bytes"] < 4 << 30
    if memory["available_bytes"] > 4 << 30 and memory["limit_bytes"] == 0:
        assert any("`ulimit -v unlimited` lifts it" in warning for warning in report["warnings"])
