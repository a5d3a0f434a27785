"""What maglev bench says of this build, and the script for a GPU's first day."""

import importlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ENGINE, HOME
from test_processes import alive
from waiting import LONG_S, wait_for


def test_the_signature_is_one_hash_an_algorithm_and_always_the_same(engine):
    # a third of a minute each at rest
    with ThreadPoolExecutor() as both:
        signing = [both.submit(engine, "bench", "--signature", timeout_s=3600) for _ in range(2)]
    first, again = (one.result() for one in signing)
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    table = engine("algos").stdout.split("\n\n")[0].splitlines()[1:]
    signed = dict(line.split() for line in first.stdout.splitlines())
    assert list(signed) == [line.split()[0] for line in table]
    assert len(set(signed.values())) == len(signed)


def test_what_bench_does_not_know_is_answered(engine):
    done = engine("bench", "tmieline", "ppo", "cartpole")
    assert done.returncode == 2 and "knows run, timeline, replay and --signature" in done.stderr


def test_replays_are_measured_with_the_storages_that_are_installed(engine, tmp_path):
    done = engine("bench", "replay", "--milliseconds", 1, "--lines")
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(f["per_second"] > 0 and f["per_cpu_second"] > 0 for f in figures)
    written = [f for f in figures if f["work"] == "write" and f["columns"] == "image"]
    assert [f["rows"] for f in written if f["way"] == "maglev direct"] == [8, 16, 32, 64, 128]
    assert {f["way"] for f in written} == {"maglev direct", "maglev list", "memcpy"}
    assert all(f["bytes"] == f["rows"] * 64 * 64 * 3 for f in written)
    # a checkout without the peers says so in one line
    done = engine("bench", "replay", "--milliseconds", 1, env={"MAGLEV_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("there is no .venv-bench; bench/setup.sh makes it")
    assert "maglev direct" in done.stdout
    refused = engine("bench", "replay", "ppo")
    assert refused.returncode == 2 and "takes no further words, got replay ppo" in refused.stderr


def first_day(out, *arguments):
    command = [HOME / "bench" / "gpu" / "first_day.sh", "--out", out, "--device", "cpu", "--quick"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def test_a_first_day_goes_on_where_it_stopped_and_says_what_failed(tmp_path):
    stages = ["--only", "graphs,divergence,kernel_figures", "--build", ENGINE.parent]
    # 150 s are reserved for the longest of them
    assert "at least 2.8" in first_day(tmp_path, *stages, "--minutes", "2.7").stderr
    done = first_day(tmp_path, *stages)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())["stages"]
    assert {name: stage["state"] for name, stage in report.items()} == dict.fromkeys(
        ("graphs", "divergence", "kernel_figures"), "passed"
    )
    assert any("equal to the bit" in fact for fact in report["graphs"]["facts"])
    assert "learning has diverged" in (tmp_path / "report.md").read_text()
    # what passed is not run again; what cannot run is told and ends the call as failed
    again = first_day(tmp_path, *stages)
    assert "graphs" not in again.stdout.splitlines() and "3 of 3 stages passed" in again.stdout
    # what passed for another device, build or commit says nothing of this one
    report = json.loads((tmp_path / "report.json").read_text())
    report["stages"]["graphs"]["of"]["device"] = "cuda:0"
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert "graphs" in first_day(tmp_path, *stages).stdout.splitlines()
    broken = first_day(tmp_path, "--only", "resume", "--build", tmp_path / "nowhere")
    assert broken.returncode == 1 and "FAILED" in broken.stdout
    assert first_day(tmp_path, "--only", "resmue").returncode == 2


def test_a_first_day_measures_pictures_the_prover_and_pythons_environments(tmp_path):
    stages = ["dreamer_pixels", "prover", "gymnasium"]
    done = first_day(tmp_path, "--only", ",".join(stages), "--build", ENGINE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = facts_of(tmp_path)
    (pixels,) = facts["dreamer_pixels"]
    assert pixels.startswith("pendulum_pixels_1m_fp32: ") and " updates/s (one sample)" in pixels
    assert "MiB planned" in pixels
    rooms = [fact.split(":")[0] for fact in facts["prover"]]
    assert rooms == ["prover_room_12_fp32", "prover_every_slot_fp32"]
    names = [fact.split(":")[0] for fact in facts["gymnasium"]]
    # a machine may do without Gymnasium
    assert names == ["there is no Gymnasium"] or names == [
        f"gymnasium_{algo}_{way}" for way in ("eager", "graphs", "graphs_blocks") for algo in ("ppo", "tdmpc2")
    ]


def test_a_first_day_says_what_settings_cost_and_runs_pythons_tensors(tmp_path):
    stages = ["python_tensors", "rank", "tracing", "overlap", "deterministic", "fused", "dependent"]
    done = first_day(tmp_path, "--only", ",".join(stages), "--build", ENGINE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = facts_of(tmp_path)
    # of one device the processor is asked once
    (ranked,) = facts["rank"]
    assert ranked.startswith("rank on cpu: ") and " ms a candidate, " in ranked
    traced = [fact.split(":")[0] for fact in facts["tracing"] if "within windows" in fact]
    assert traced == [f"traced_{way} {mode}" for mode in ("lite", "full") for way in ("graphs", "eager")]
    pairs = [("overlap", "overlap_dreamer_true"), ("deterministic", "same_bits_cartpole_fp32_true")]
    pairs += [("fused", "fused_fp32_on"), ("fused", "fused_alone_fp32_on"), ("dependent", "dependent_cartpole_fp32_true")]
    for stage, name in pairs:
        assert any(fact.startswith(f"{name} is ") and "times as fast" in fact for fact in facts[stage])


# an engine that does nothing: one kernel is wrong, one run as graphs ends in another state
STAND_IN = """#!{python}
import json, sys
from pathlib import Path

words = sys.argv[1:]
if words[:2] == ["kernels", "test"]:
    print("kernel  device  case           difference")
    print("adam    cpu     small  ok      equal bit for bit")
    print("gae     cpu     short  FAILED  1 of 8 differ in bits, none may")
    print("\\n2 cases, 1 failed")
    sys.exit(1)
run = Path(words[words.index("--out") + 1])
wrong = words[1:3] == ["ppo", "cartpole"] and "train.graph=on" in words
checkpoint = run / "checkpoints" / "step_1"
checkpoint.mkdir(parents=True)
manifest = dict(sequence=1, state_hash="another" if wrong else "same")
(checkpoint / "manifest.json").write_text(json.dumps(manifest))
(run / "log.txt").write_text("")
(run / "settings.txt").write_text(" ".join(words))
"""


def stand_in(folder):
    """A build folder with that engine and cases for ctest."""
    folder.mkdir()
    engine = folder / "maglev-engine"
    engine.write_text(STAND_IN.format(python=sys.executable))
    engine.chmod(0o755)
    cases = [
        "OfTheTable/KernelOnDevice.gives_what_its_reference_gives/gae_on_cpu",
        "Runs/OnDevice.as_a_graph_equals_the_eager_one/plain_on_cpu",
        "emulated.Runs/OnDevice.as_a_graph_equals_the_eager_one/plain_on_cpu",
    ]
    tests = "".join(f"add_test([=[{case}]=] true)\n" for case in cases)
    (folder / "CTestTestfile.cmake").write_text(tests)
    return folder


def facts_of(out):
    stages = json.loads((out / "report.json").read_text())["stages"]
    return {name: stage["facts"] for name, stage in stages.items()}


def test_a_failure_of_a_first_day_hides_no_other(tmp_path):
    build = stand_in(tmp_path / "build")
    done = first_day(tmp_path, "--only", "kernels,algorithms,graphs", "--build", build)
    assert done.returncode == 1, done.stderr
    facts = facts_of(tmp_path)
    # the kernel that is wrong by its name, and the cases of ctest all the same
    assert "gae cpu short FAILED 1 of 8 differ in bits, none may" in facts["kernels"]
    assert "1 cases, 0 failed, 0 do not apply" in facts["kernels"]
    assert facts["kernels"][-1] == "FAILED: 1 of 2: kernels test"
    # neither a kernel's case nor one on an emulated device
    assert facts["algorithms"] == ["1 cases, 0 failed, 0 do not apply"]
    # the first run is wrong, the second is still held to its twin
    assert facts["graphs"][0].startswith("FAILED: ppo_cartpole: the graph's state is another one")
    assert facts["graphs"][1].startswith("tdmpc2_pendulum: equal to the bit")
    assert facts["graphs"][2] == "FAILED: 1 of 2: ppo_cartpole"
    for run in (tmp_path / "runs").iterdir():
        assert "train.precision=fp32" in (run / "settings.txt").read_text()


@pytest.fixture
def figures(monkeypatch):
    """What the stages of a first day that measure are made of."""
    monkeypatch.syspath_prepend(HOME / "bench" / "gpu")
    return importlib.import_module("figures")


def gpu_day(figures, tmp_path):
    return figures.Day(out=tmp_path, build=tmp_path, device="cuda:0", quick=False)


def write_rows(run):
    """Eight rows of a run that is twice as fast once it is warm, the last written at 1000 s."""
    run.mkdir()
    shares = {"time/environment": 0.1, "time/policy": 0.3, "time/learn": 0.5, "time/copy": 0.01}
    seconds = [20, 22, 23, 24, 25, 26, 27, 28]
    rows = [{"step": 100 * i, "seconds": s, **shares} for i, s in enumerate(seconds)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(run / "metrics.jsonl", (1000, 1000))


def test_a_runs_speed_is_of_the_time_behind_its_first_quarter(figures, tmp_path):
    write_rows(tmp_path / "run")
    speed = figures.speed(tmp_path / "run")
    assert speed.rate == 100 and (speed.begin_s, speed.end_s) == (995, 1000)
    told = figures.where_time_went(
        gpu_day(figures, tmp_path), figures.Sample(speed, busy=97.0, note="")
    )
    assert told == (
        "GPU busy 97 % at most (some kernel ran in the sample); "
        "90 % in stages by events in the stream (environment 10 %, policy 30 %, learn 50 %), copy 1 %"
    )


def test_a_runs_memory_is_the_most_of_its_rows_beside_its_plan(figures, tmp_path):
    rows = [{"memory/tensors_mib": 9, "memory/device_mib": of} for of in (5, 70, 60)]
    rows[1]["memory/device_reserved_mib"] = 2048
    plan = tmp_path / "memory.json"
    plan.write_text(json.dumps({"total": 81 << 20}))
    assert figures.taken([{}, *rows], plan) == (
        "tensors 70 MiB, 2,048 MiB with what is kept for later, 81 MiB planned"
    )
    assert figures.taken([{"memory/tensors_mib": 9}], tmp_path / "none") == "tensors 9 MiB"


def test_updates_a_second_are_told_of_a_case_that_counts_them(figures, tmp_path):
    write_rows(tmp_path / "run")
    day = gpu_day(figures, tmp_path)
    case = figures.Case("dreamer", [], steps=1, quick_steps=1, updates=0.25)
    figures.tell_speed(day, case, [figures.Sample(figures.speed(tmp_path / "run"), None, "")])
    assert day.facts[0].startswith("dreamer: 100 steps/s, 25.0 updates/s (one sample); ")


def test_the_engine_says_which_precisions_are_measured(figures, tmp_path):
    day = gpu_day(figures, tmp_path)
    day.build, day.device, day.deadline = ENGINE.parent, "cpu", time.monotonic() + LONG_S
    words = ["dreamer", "pendulum_pixels", "dreamer.size=1m"]
    assert figures.offered(day, words, "fp32") and not figures.offered(day, words, "tf32")
    with pytest.raises(figures.Failed, match="dreamer.sise"):
        figures.offered(day, ["dreamer", "cartpole", "dreamer.sise=1m"], "fp32")
    # what it does not offer yet is measured once it does
    day.device = "cuda:0"
    has = {"fp32": '{"parts": {}}', "tf32": '{"parts": {}}', "bf16": "bf16 is not offered by dreamer"}
    day.run = lambda *asked, **_: next(has[p] for p in has if f"train.precision={p}" in asked)
    assert figures.precisions(day, words, *has) == ["fp32", "tf32"]
    has["bf16"] = has["fp32"]
    assert figures.precisions(day, words, *has) == ["fp32", "tf32", "bf16"]


def test_every_case_gets_a_sample_before_any_gets_another(figures, tmp_path, monkeypatch):
    day, left = gpu_day(figures, tmp_path), [100.0]
    late = importlib.import_module("day").Late

    def forty_seconds(_day, case, number):
        if left[0] < 40:
            raise late("no time")
        left[0] -= 40
        return f"{case.name} {number}"

    told = []
    day.left = lambda: left[0]
    monkeypatch.setattr(figures, "measure", forty_seconds)
    monkeypatch.setattr(figures, "tell_speed", lambda _day, case, taken: told.append((case.name, taken)))
    one, other = (figures.Case(name, [], steps=1, quick_steps=1) for name in ("one", "other"))
    # 20 s are too few for a third
    assert figures.sampled(day, [one, other]) == {"one": ["one 0"], "other": ["other 0"]}
    left[0] = 190.0
    assert figures.sampled(day, [one, other])["one"] == ["one 0", "one 1"]
    # what was measured is told where there was no time for the next
    told.clear()
    left[0] = 50.0
    with pytest.raises(late):
        figures.sampled(day, [one, other])
    assert told == [("one", ["one 0"])]


def test_the_gpus_busy_share_is_of_the_time_between_two_moments(figures, tmp_path, monkeypatch):
    level, tool = tmp_path / "level", tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/bash\nwhile cat {level}; do sleep 0.01; done\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    moments = []
    level.write_text("[N/A]\n")
    with figures.Busy(gpu_day(figures, tmp_path)) as busy:
        # the start, what is measured, and what the process does behind it
        for percent in (100, 40, 0):
            level.with_suffix(".new").write_text(f"{percent}\n")
            level.with_suffix(".new").replace(level)
            # what was said before may be heard later
            wait_for(lambda: busy.samples and busy.samples[-1][1] == percent)
            moments.append(time.time())
            enough = len(busy.samples) + 20
            wait_for(lambda: len(busy.samples) >= enough)
    assert busy.median(moments[1], moments[2]) == 40
    assert busy.median(moments[0], moments[1]) == 100
    assert busy.median(0, 1) is None
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with figures.Busy(gpu_day(figures, tmp_path)) as absent:
        pass
    assert absent.median(0, time.time()) is None


@pytest.fixture
def planned(monkeypatch, tmp_path):
    """Runs first_day.py of three stages on a clock of their own: exit status, and stages begun."""
    monkeypatch.syspath_prepend(HOME / "bench" / "gpu")
    script, stages = importlib.import_module("first_day"), importlib.import_module("stages")
    clock, begun = [0.0], []

    def taking(name, seconds):
        def work(_):
            begun.append(name)
            clock[0] += seconds

        return work

    monkeypatch.setattr(script, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(
        script,
        "STAGES",
        {
            "long": stages.Stage(taking("long", 150), reserved_s=200),
            "longer": stages.Stage(taking("longer", 150), reserved_s=201),
            "short": stages.Stage(taking("short", 10), reserved_s=60),
        },
    )

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["first_day.sh", "--out", str(tmp_path), *words])
        begun.clear()
        return script.main(), list(begun)

    return run


def test_a_stage_of_a_first_day_begins_only_where_its_reservation_fits(planned, tmp_path, capsys):
    with pytest.raises(SystemExit):
        planned("--minutes", "3.5")
    assert "--minutes must be at least 3.6" in capsys.readouterr().err
    # 150 of 300 s are left behind the first: not enough for the second, enough for the third
    assert planned("--minutes", "5") == (3, ["long", "short"])
    assert "no time left for longer: call again" in capsys.readouterr().out
    assert planned("--minutes", "5") == (0, ["longer"])
    assert planned("--minutes", "5") == (0, [])
    # to the second: 201 s are all that is left, and the third is told as not repeated
    assert planned("--again", "--minutes", "5.85") == (3, ["long", "longer"])
    assert "no time left for short" in capsys.readouterr().out
    # a report that was carried to another machine shows of which one each stage is
    report = json.loads((tmp_path / "report.json").read_text())
    report["stages"]["long"]["of"]["machine"] = "another"
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert planned("--only", "short", "--again") == (0, ["short"])
    assert "Of machine another; device cuda:0" in (tmp_path / "report.md").read_text()
    assert planned() == (0, ["long"])


def test_a_stage_that_was_late_is_open_once_more(planned, tmp_path, monkeypatch):
    script, day = importlib.import_module("first_day"), importlib.import_module("day")
    tried = []

    def late(_):
        tried.append(1)
        raise day.Late("`x`: out of time")

    monkeypatch.setitem(script.STAGES, "long", script.STAGES["long"].__class__(late, reserved_s=200))
    assert planned("--only", "long") == (3, []) and len(tried) == 1
    assert planned("--only", "long,short") == (1, ["short"]) and len(tried) == 2
    # behind the others, as what has failed
    assert planned("--only", "long,short") == (1, []) and len(tried) == 3


def test_a_first_day_says_how_long_it_built(figures, tmp_path):
    day, stages = gpu_day(figures, tmp_path), importlib.import_module("stages")
    printed = iter(["[1/812] a.o\n[812/812] maglev-engine\n", "maglev 1 (a), torch 2\n"])
    day.run = lambda *words: next(printed)
    stages.build(day)
    assert day.facts == ["built in 0 s, 812 steps", "maglev 1 (a), torch 2"]


def test_what_is_late_ends_with_all_it_began_and_says_what_it_had_found(figures, tmp_path):
    day, stages = gpu_day(figures, tmp_path), importlib.import_module("stages")
    late = importlib.import_module("day").Late
    # a child in a group of its own, as ninja's compilers are
    child = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(3600)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(3600)"
    # what there is time for on a machine that is slow
    for seconds in (2, 20, 200):
        day.deadline = time.monotonic() + seconds
        with pytest.raises(late) as told:
            day.run(sys.executable, "-c", parent)
        if told.value.output:
            break
    pid = int(told.value.output)
    wait_for(lambda: not alive(pid))

    # cases of ctest until then
    def cut_off(*_, **__):
        lines = ["1/4 Test  #7: A.works ....   Passed    0.1 sec", "2/4 Test  #8: A.fails ....***Failed    0.1 sec"]
        raise late("`ctest`: out of time", "\n".join([*lines, "3/4 Test  #9: A.skips ....***Skipped   0.1 sec"]))

    day.run = cut_off
    with pytest.raises(late):
        stages.tests(day, "A")
    assert day.facts == ["until then 1 passed, 1 failed: A.fails"]


def test_a_stage_reads_what_an_older_and_a_newer_ctest_say(figures, tmp_path):
    day, stages = gpu_day(figures, tmp_path), importlib.import_module("stages")
    day.device = "cpu"
    for said in ("100% tests passed, 0 tests failed out of 20", "100% tests passed out of 20"):
        day.run = lambda *_, said=said, **__: f"1/20 Test #1: A.skips ...***Skipped 0.1 sec\n{said}\n"
        stages.tests(day, "A")
    assert day.facts == ["20 cases, 0 failed, 1 do not apply"] * 2
    day.run = lambda *_, **__: "No tests were found!!!\n"
    with pytest.raises(figures.Failed, match="found no case"):
        stages.tests(day, "A")


def test_figures_of_plans_are_told_among_other_lines_and_where_time_ran_out(figures, tmp_path):
    day, speeds = gpu_day(figures, tmp_path), importlib.import_module("speeds")
    late = importlib.import_module("day").Late
    row = dict(case="default", what="plan", precision="fp32", rows=1, ms=1.5, ms_queued=1.0)
    row |= dict(rows_per_second=666.0, bytes_before=5, bytes_after=5)
    lines = ["[W] a library's warning", json.dumps(row), '{"case": "defau']

    def cut_off(*_):
        raise late("`device_throughput`: out of time", "\n".join(lines))

    day.run = cut_off
    with pytest.raises(late):
        speeds.tdmpc2_speed(day)
    assert day.facts == ["default plan fp32, 1 together: 1.500 ms waited for, 1.000 ms queued, 666 a second"]
    day.run = lambda *_: json.dumps(row | dict(bytes_after=6))
    with pytest.raises(figures.Failed, match="memory grew"):
        speeds.tdmpc2_speed(day)


def test_a_first_day_builds_first_and_again_where_the_build_is_not(figures, tmp_path):
    script = importlib.import_module("first_day")
    of, passed = {"commit": "a"}, {"of": {"commit": "a"}, "state": "passed"}
    late = {**passed, "state": "late"}
    wanted = ["build", "kernels", "ppo"]
    assert script.pending(wanted, {"build": late, "kernels": passed}, of, False) == ["build", "ppo"]
    (tmp_path / "report.json").write_text(json.dumps({"stages": {"build": passed, "ppo": passed}}))
    args = SimpleNamespace(out=tmp_path, build=tmp_path / "gone", device="cpu", quick=True)
    assert list(script.read_report(args)["stages"]) == ["ppo"]
