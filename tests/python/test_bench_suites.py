"""maglev bench: suites are measured, kept and compared; timings themselves are not judged."""

import json
import os
import subprocess
import sys


def suites(engine, names, *words, rounds=6):
    return engine("bench", "--suite", names, "--rounds", rounds, *words)


def test_suites_are_measured_kept_and_compared(engine, tmp_path):
    kept, page = tmp_path / "old.json", tmp_path / "page.html"
    done = suites(engine, "memory,precision", "--json", kept)
    assert done.returncode == 0, done.stderr
    old = json.loads(kept.read_text())
    assert {one["suite"] for one in old["timings"]} == {"memory", "precision"}
    for one in old["timings"]:
        assert len(one["seconds"]) == 6 and one["low"] <= one["median"] <= one["high"]
    # a machine that was a million times as fast once makes every work a regression
    old["timings"] = [one for one in old["timings"] if one["suite"] == "memory"]
    for one in old["timings"]:
        one["seconds"] = [s / 1e6 for s in one["seconds"]]
    kept.write_text(json.dumps(old))
    slower = suites(engine, "memory", "--baseline", kept, "--html", page)
    assert slower.returncode == 1, slower.stderr
    assert slower.stdout.count("slower: ") == len(old["timings"])
    assert "slower: memory/copy takes" in slower.stdout
    assert "memory/copy" in page.read_text() and "src=" not in page.read_text()
    # and a slower one none
    for one in old["timings"]:
        one["seconds"] = [s * 1e12 for s in one["seconds"]]
    kept.write_text(json.dumps(old))
    assert suites(engine, "memory", "--baseline", kept).returncode == 0
    # too few rounds judge nothing, neither now nor then
    few = suites(engine, "memory", "--baseline", kept, rounds=5)
    assert few.returncode == 2 and "--rounds 6 or more" in few.stderr
    for one in old["timings"]:
        one["seconds"] = one["seconds"][:5]
    kept.write_text(json.dumps(old))
    few = suites(engine, "memory", "--baseline", kept)
    assert few.returncode == 2 and f"{kept} has memory/copy in 5 rounds" in few.stderr
    few = suites(engine, "memory", rounds=3)
    assert few.returncode == 0 and "range" in few.stdout and "95% interval" not in few.stdout


def test_devices_that_are_not_here_leave_the_others(engine):
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = engine("bench", "--suite", "memory", "--rounds", 3, "--devices", "cuda,cpu", env=hidden)
    assert done.returncode == 2 and "memory  copy" in done.stdout, done.stderr
    assert "not measured: [device] cuda was asked for" in done.stdout
    alone = engine("bench", "--suite", "memory", "--rounds", 3, "--devices", "cuda", env=hidden)
    assert alone.returncode == 2 and "cuda was asked for" in alone.stderr


def test_what_cannot_be_measured_is_refused_before_anything_is(engine, tmp_path):
    torn = tmp_path / "torn.json"
    torn.write_text('{"timings": [')
    refusals = {
        ("--suite", "ops,evn"): "--suite takes names by commas of ops, precision",
        ("--devices", "tpu"): "must be auto, cpu, cuda or cuda:<index>",
        ("--devices", "cuda", "cpu"): "names by commas: --devices cuda,cpu",
        ("--suite", "ops", "memory"): "names by commas: --suite ops,memory",
        ("--signature", "--rounds", 3): "--rounds is of bench --suite and says nothing to --signature",
        ("--suite", "ops", "--seconds", 3): "--seconds is of bench timeline",
        ("replay", "--json", tmp_path / "x"): "says nothing to replay",
        ("run", "ppo"): "run wants <algorithm> <environment>",
        ("run", "ppo", "cartpole", "--devices", "cpu"): "--devices is of bench --suite and says nothing to run",
        ("run", "ppo", "cartpole", "--at-least", "fast"): "--at-least",
        ("run", "ppo", "cartpole", "--against", "ppo.epcohs=2"): "did you mean ppo.epochs",
        ("run", "ppo", "cartpole", "--against", "ppo.epochs"): "--against takes name=value",
        ("run", "ppo", "cartpole", "ppo.epochs=2", "--against", "ppo.epochs=2"): "is what 'as given' is already",
        ("run", "ppo", "cartpole", "--against", "train.steps=5"): "as long as --seconds says",
        ("run", "ppo", "cartpole", "--against", "train.price=2.5"): "changes nothing that is measured",
        ("run", "ppo", "cartpole", "--against", "threads=1", "--at-least", 3): "--at-least is of one run",
        ("run", "ppo", "cartpole", "--against", "threads=1", "--log", tmp_path): "folder",
        ("run", "ppo", "cartpole", "--note", "x"): "--note is written by --log",
        ("--suite", "ops", "--log", tmp_path / "log"): "--log is of bench run",
        ("--baseline", torn): "must hold timings as bench --json writes them",
    }
    for words, answer in refusals.items():
        done = engine("bench", *words)
        assert done.returncode == 2 and answer in done.stderr, done.stderr


def test_actions_are_timed_for_every_algorithm_alone_and_for_eight(engine, tmp_path):
    kept = tmp_path / "planner.json"
    done = engine("bench", "--suite", "planner", "--rounds", 3, "--json", kept)
    assert done.returncode == 0, done.stderr
    names = {one["name"] for one in json.loads(kept.read_text())["timings"]}
    assert names == {f"{algo}_pendulum_{rows}" for algo in ("dreamer", "ppo", "tdmpc2") for rows in (1, 8)}


def test_a_run_is_timed_with_its_settings_and_held_to_what_it_was(engine, tmp_path):
    kept = tmp_path / "run.json"
    words = ("bench", "run", "ppo", "cartpole", "--rounds", 6, "env.count=8", "ppo.rollout=32", "threads=1")
    done = engine(*words, "--json", kept, "--at-least", 1)
    assert done.returncode == 0 and "steps/s (cpu, 1 thread, fp32)" in done.stdout, done.stderr
    old = json.loads(kept.read_text())
    # how long it took to be set up is no part of the figure
    assert old["warmup_seconds"] > 0 and f"warm-up {old['warmup_seconds']:.1f} s" in done.stdout
    (one,) = old["timings"]
    assert one["suite"] == "run" and one["name"] == "ppo_cartpole" and len(one["seconds"]) == 6
    one["seconds"] = [s / 1e6 for s in one["seconds"]]
    kept.write_text(json.dumps(old))
    slower = engine(*words, "--baseline", kept)
    assert slower.returncode == 1 and "slower: run/ppo_cartpole takes" in slower.stdout
    assert "was measured with" not in slower.stderr
    missed = engine(*words, "--at-least", 1e11)
    assert missed.returncode == 1 and "slower than --at-least 100000000000" in missed.stdout
    other = engine(*words, "ppo.epochs=1", "--baseline", kept)
    assert 'was measured with ppo.epochs="' in other.stderr and other.stderr.count("was measured") == 1
    # what training refuses is refused
    assert engine(*words, "train.memory_limit=100K").returncode == 2


def test_two_settings_of_a_run_are_measured_in_turn_and_remembered(engine, tmp_path):
    kept, log = tmp_path / "both.json", tmp_path / "history.jsonl"
    words = ("bench", "run", "ppo", "cartpole", "--rounds", 6, "env.count=8", "ppo.rollout=32", "threads=1")
    done = engine(*words, "--against", "ppo.epochs=1000", "--json", kept, "--log", log, "--note", "more epochs")
    assert done.returncode == 0, done.stderr
    turns = [line.split(": ")[0] for line in done.stderr.splitlines() if line.endswith("steps/s")]
    assert turns == ["as given", "ppo.epochs=1000", "ppo.epochs=1000", "as given"] * 3
    assert "ppo.epochs=1000, round by round: " in done.stdout
    first, second = json.loads(kept.read_text())["arms"]
    assert first["changes"] == [] and second["changes"] == ["ppo.epochs=1000"]
    assert first["settings"]["threads"] == second["settings"]["threads"] == "1"
    assert second["verdict"] == "slower" and len(second["ratios"]) == 6 and second["ratio"] < 0.8
    for arm in (first, second):
        assert len(arm["seconds"]) == 6 and arm["low"] <= arm["steps_per_second"] <= arm["high"]
        assert arm["steps_per_iteration"] == 256 and 10 < arm["peak_mib"] < 10_000
    # a run by itself goes into the same history
    done = engine(*words, "--log", log)
    assert done.returncode == 0 and "iteration " in done.stdout and "peak memory " in done.stdout, done.stderr
    beside, alone = [json.loads(line) for line in log.read_text().splitlines()]
    assert beside["what"] == alone["what"] == "ppo cartpole" and beside["note"] == "more epochs"
    assert "ppo.epochs=1000" in beside["settings"] and "ppo.epochs=1000" not in alone["settings"]
    assert beside["ratio"] == second["ratio"] and "ratio" not in alone
    assert beside["peak_mib"] == second["peak_mib"]
    assert beside["before"]["steps_per_second"] == first["steps_per_second"]


def test_each_side_goes_into_the_history_with_its_own_precision(engine, tmp_path):
    log = tmp_path / "history.jsonl"
    words = ("bench", "run", "ppo", "cartpole", "--rounds", 3, "env.count=8", "ppo.rollout=32", "threads=1")
    done = engine(*words, "--against", "train.precision=bf16", "--log", log)
    assert done.returncode == 0 and "too few rounds" in done.stdout, done.stderr
    (line,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert line["machine"].endswith(", 3 rounds in turn, cpu, 1 thread, bf16")
    assert line["verdict"] == "too few rounds" and "range" in line and "interval" not in line


def test_a_side_that_cannot_be_trained_is_named(engine):
    words = ("bench", "run", "ppo", "cartpole", "--rounds", 3, "env.count=8", "ppo.rollout=32", "threads=1")
    done = engine(*words, "--against", "train.memory_limit=100K")
    assert done.returncode == 2 and "train.memory_limit=100K: " in done.stderr, done.stderr


def test_a_machine_that_is_not_at_rest_is_told(engine):
    # enough of them to be seen among however many processors
    work = "print(flush=True)\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE) for _ in range(2 + os.cpu_count() // 20)]
    try:
        for process in busy:
            process.stdout.readline()
        done = engine("bench", "--suite", "memory", "--rounds", 3)
    finally:
        for process in busy:
            process.kill()
            process.communicate()
    assert done.returncode == 0 and "the machine was not at rest: other programs kept" in done.stderr, done.stderr


def test_a_timeline_is_of_medians(engine, tmp_path):
    kept = tmp_path / "timeline.json"
    small = ("env.count=8", "ppo.rollout=32", "threads=1", "ppo.network.hidden=[16]")
    done = engine("bench", "timeline", "ppo", "cartpole", "--bare", "--seconds", 1, "--json", kept, *small)
    assert done.returncode == 0, done.stderr
    measured = [stage for stage in json.loads(kept.read_text())["stages"] if "left_out" not in stage]
    assert measured[0]["stage"] == "naive" and len(measured) > 2
    for stage in measured:
        speeds = [one["steps_per_second"] for one in stage["rounds"]]
        assert len(speeds) == 3 and stage["steps_per_second"] == sorted(speeds)[1]
    # all of them in turn
    assert [line.split(":")[0] for line in done.stderr.splitlines()].count("naive") == 3
