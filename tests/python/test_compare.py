"""maglev compare: groups of runs by their seeds, as a user calls it."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ENGINE
from waiting import wait_for


def make_run(folder, values, column="return_mean", env="cartpole"):
    """A run whose metrics hold `values` at steps 100, 200, ..."""
    folder.mkdir(parents=True)
    status = {"algo": "ppo", "env": env, "state": "finished", "steps": 100 * len(values), "total_steps": 100 * len(values)}
    status |= {"return_mean": 0.0, "started": 1.0, "ended": 2.0, "updated": 2.0, "pid": 1, "host": "", "message": ""}
    (folder / "run.json").write_text(json.dumps(status))
    rows = [{"step": 100 * (i + 1), column: value} for i, value in enumerate(values)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def group(tmp_path, name, finals, **more):
    """Runs by commas whose values over the last tenth are `finals`."""
    return ",".join(str(make_run(tmp_path / f"{name}{i}", [0.0] * 17 + [x, x, x], **more)) for i, x in enumerate(finals))


def compare(engine, *words):
    done = engine("compare", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_groups_of_runs_are_told_apart(engine, tmp_path):
    high, low = group(tmp_path, "high", [10, 11, 12, 13]), group(tmp_path, "low", [1, 2, 3])
    report = compare(engine, high, low)
    assert report["metric"] == "return_mean"
    assert report["groups"][0]["values"] == [10, 11, 12, 13] and report["groups"][1]["mean"] == 2
    (pair,) = report["pairs"]
    assert pair["finding"] == "higher" and pair["difference"] == pytest.approx(9.5) and pair["holm_p"] < 0.01
    assert pair["probability_of_improvement"] == 1 and pair["probability_of_improvement_interval"] == [1, 1]
    done = engine("compare", high, low)
    assert "A is higher than B" in done.stdout and "95 % CI" in done.stdout
    # names stand last, where long ones move no figure away from its heading
    lines = done.stdout.splitlines()
    assert lines[1].endswith("runs") and lines[2].endswith(f"{high}, ppo on cartpole")
    assert any(line.startswith("A - B ") for line in lines)


def test_what_cannot_be_told_apart_is_said_with_what_it_would_take(engine, tmp_path):
    report = compare(engine, group(tmp_path, "a", [10, 11, 12]), group(tmp_path, "b", [10.5, 11.5, 12]))
    (pair,) = report["pairs"]
    assert pair["finding"] == "none" and f"would take {pair['needed_seeds']}" in pair["verdict"]
    # of nine pairs of seeds three and a tie
    assert pair["probability_of_improvement"] == pytest.approx(3.5 / 9)
    assert 0 < pair["power"] < 0.8 and pair["detectable_effect"] > abs(pair["hedges_g"])
    # one seed is no group
    report = compare(engine, str(tmp_path / "a0"), str(tmp_path / "b0"))
    assert report["pairs"][0]["finding"] == "too_few" and report["pairs"][0]["welch_p"] is None
    assert report["pairs"][0]["power"] is None and report["pairs"][0]["needed_seeds"] is None


def test_a_page_draws_performance_profiles(engine, tmp_path):
    a, b = group(tmp_path, "a", [10, 12, 12, 14, 11]), group(tmp_path, "b", [1, 2, 3])
    page = tmp_path / "page.html"
    done = engine("compare", a, b, "--html", page)
    assert done.returncode == 0, done.stderr
    # what is printed is what is printed without it
    assert done.stdout == engine("compare", a, b).stdout
    few = "no performance profile of B: that takes 5 seeds"
    assert f"a page of it: {page}\n" in done.stderr and few in done.stderr, done.stderr
    text = page.read_text()
    assert text.count("<svg") == 1 and few in text and "src=" not in text and "nan" not in text
    assert "A is higher than B" in text and "<th>pair</th>" in text
    report = compare(engine, a, b)
    profile = report["groups"][0]["performance_profile"]
    assert [(step["score"], step["share"]) for step in profile] == [(10, 1), (11, 0.8), (12, 0.6), (14, 0.2)]
    assert [step["interval"] for step in profile] == [[1, 1], [0.4, 1], [0.2, 1], [0, 0.6]]
    assert report["groups"][1]["performance_profile"] is None
    # no seeds are enough: the tables, and a line in the place of the figure
    done = engine("compare", b, "--html", tmp_path / "few.html", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["groups"][0]["performance_profile"] is None
    assert "<svg" not in (tmp_path / "few.html").read_text()
    for words, said in (
        ((a, b, "--html", page), "--overwrite"),
        ((a, b, "--html", tmp_path / "nowhere" / "page.html"), "nowhere"),
        ((a, b, "--overwrite"), "--overwrite goes with --html FILE"),
    ):
        done = engine("compare", *words)
        assert done.returncode == 2 and said in done.stderr and done.stdout == "", done.stderr
    assert engine("compare", a, b, "--html", page, "--overwrite").returncode == 0


def test_seeds_of_both_sides_count(engine, tmp_path):
    few, many = [10, 11, 12], [10.5, 11.5, 12, 12]
    (pair,) = compare(engine, group(tmp_path, "few", few), group(tmp_path, "many", many))["pairs"]
    assert "; 3 and 4 seeds find one of 5.13 deviations" in pair["verdict"] and pair["verdict"].endswith(" each"), pair
    assert pair["detectable_effect"] == pytest.approx(5.13, abs=0.01)


def test_settings_that_differ_are_noted(engine, tmp_path):
    a, b = group(tmp_path, "a", [10, 11, 12]), group(tmp_path, "b", [1, 2, 3])
    # without their settings, nothing is said of them
    assert "settings that differ" not in engine("compare", a, b).stdout
    for runs, lr in ((a, "0.0003"), (b, "0.01")):
        for seed, run in enumerate(runs.split(",")):
            Path(run, "config.yaml").write_text(f"seed: {seed}\nppo:\n  lr: {lr}\n  epochs: 4\n")
    assert "note: settings that differ: ppo.lr (A 0.0003, B 0.01)\n" in engine("compare", a, b).stdout
    assert compare(engine, a, b)["differing_settings"] == {"ppo.lr": ["0.0003", "0.01"]}
    assert "settings that differ" not in engine("compare", a).stdout


def test_unequal_steps_are_told_once(engine, tmp_path):
    runs = [make_run(tmp_path / "short", [1.0] * 10), make_run(tmp_path / "long", [1.0] * 20)]
    for run, steps, lr in zip(runs, (1000, 2000), ("0.0003", "0.01")):
        (run / "config.yaml").write_text(f"ppo:\n  lr: {lr}\ntrain:\n  steps: {steps}\n")
    said = engine("compare", *runs).stdout
    assert "for 2000 steps" in said and "note: settings that differ: ppo.lr (A 0.0003, B 0.01)\n" in said, said
    # one that was stopped where the other ended by its settings
    run = runs[1] / "run.json"
    run.write_text(run.read_text().replace('"steps": 2000', '"steps": 1000'))
    said = engine("compare", *runs).stdout
    assert "for 1000 steps" not in said and "train.steps (A 1000, B 2000)" in said, said


def test_the_mean_is_over_the_end_of_a_run_or_its_last_row(engine, tmp_path):
    run = str(make_run(tmp_path / "run", list(range(1, 21))))
    assert compare(engine, run)["groups"][0]["values"] == [pytest.approx(19)]  # rows 18 to 20 of 20
    assert compare(engine, run, "--over", "0")["groups"][0]["values"] == [20]
    assert compare(engine, run, "--over", "100")["groups"][0]["values"] == [pytest.approx(10.5)]


def test_a_last_value_that_is_long_ago_is_told_with_what_reaches_it(engine, tmp_path):
    run = make_run(tmp_path / "run", [1.0] * 10)
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 1500, "speed": 1}\n')
    done = engine("compare", run)
    said = "no value of return_mean in its last 10 % of steps; --over 34 reaches the last one\n"
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert compare(engine, run, "--over", "34")["groups"][0]["values"] == [1]


def test_evaluations_go_before_returns_of_training(engine, tmp_path):
    a = group(tmp_path, "a", [1, 2, 3], column="eval/return_mean")
    assert compare(engine, a)["metric"] == "eval/return_mean"
    b = group(tmp_path, "b", [1, 2, 3])
    done = engine("compare", a, b)
    assert done.returncode == 2 and "unknown metric 'return_mean'" in done.stderr


def test_seeds_of_one_command_are_a_group(engine, tmp_path):
    folder = tmp_path / "seeds"
    words = ("train", "ppo", "cartpole", "--seeds", "3", "--out", folder, "train.steps=8000", "train.log_every=1000")
    done = engine(*words)
    assert done.returncode == 0, done.stderr
    report = compare(engine, folder)
    assert len(report["groups"][0]["values"]) == 3 and report["pairs"] == []
    assert report["groups"][0]["interval"][0] < report["groups"][0]["mean"]


def test_seeds_that_are_not_there_yet_are_told(engine, tmp_path):
    folder = tmp_path / "seeds"
    make_run(folder / "seed-1", [1.0, 2.0])
    seeds = [{"seed": 1, "state": "finished"}, {"seed": 2, "state": "waiting"}]
    (folder / "seeds.json").write_text(json.dumps({"algorithm": "ppo", "environment": "cartpole", "seeds": seeds}))
    said = f"1 of the 2 seeds of {folder} has trained, and no other counts"
    assert f"note: {said}\n" in engine("compare", folder).stdout
    assert compare(engine, folder)["groups"][0]["notes"] == [said]
    assert engine("runs", folder).stdout.endswith(f"1 of the 2 seeds of {folder} has begun\n")
    make_run(folder / "seed-2", [1.0, 2.0])
    assert "note" not in engine("compare", folder).stdout and "begun" not in engine("runs", folder).stdout


@pytest.mark.parametrize("empty", [False, True])
def test_a_finished_seed_whose_metrics_are_gone_is_told(engine, tmp_path, empty):
    folder = tmp_path / "seeds"
    for seed in (1, 2, 3):
        make_run(folder / f"seed-{seed}", [1.0, 2.0, float(seed)])
    listed = [{"seed": seed, "state": "finished", "return": 1.0} for seed in (1, 2, 3)]
    (folder / "seeds.json").write_text(json.dumps({"algorithm": "ppo", "environment": "cartpole", "seeds": listed}))
    metrics = folder / "seed-2" / "metrics.jsonl"
    metrics.write_text("") if empty else metrics.unlink()
    done = engine("compare", folder, make_run(tmp_path / "other", [1.0, 2.0]))
    assert done.returncode == 2, done.stdout
    assert f"{metrics} holds no row, and the run has finished: bring the file back" in done.stderr


def test_rows_that_cannot_be_read_are_told(engine, tmp_path):
    run = make_run(tmp_path / "run", [float(i) for i in range(1, 21)])
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    metrics.write_text("".join(line[: 99 if i < 10 else 9] + "\n" for i, line in enumerate(lines)))
    said = f"10 of 20 rows of {metrics} cannot be read, and the others end at step 1000 of 2000"
    (group,) = compare(engine, run)["groups"]
    assert group["values"] == [pytest.approx(9.5)] and group["notes"] == [said]
    assert f"note: {said}\n" in engine("compare", run).stdout
    # one in the middle, and an end that was cut off whole
    metrics.write_text("\n".join(lines[:5] + ["{"] + lines[6:]) + "\n")
    assert compare(engine, run)["groups"][0]["notes"] == [f"1 of 20 rows of {metrics} cannot be read"]
    metrics.write_text("\n".join(lines[:5]) + "\n")
    assert compare(engine, run)["groups"][0]["notes"] == [f"rows of {metrics} end at step 500 of 2000"]
    for text, said in (("{\n" * 3, "none of its 3 rows can be read"), ("", "holds no row, and the run has finished")):
        metrics.write_text(text)
        done = engine("compare", run)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_killed_run_came_as_far_as_its_last_row(engine, tmp_path):
    run = tmp_path / "run"
    words = ["train", "ppo", "cartpole", "train.steps=1000000000", "train.log_every=2000", "threads=1"]
    rows = run / "metrics.jsonl"
    with subprocess.Popen([ENGINE, *words, "--sinks", "jsonl", "--out", run], stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: rows.exists() and rows.read_text().count("\n") >= 4, process)
            going = engine("runs", run).stdout.splitlines()[1].split()
        finally:
            process.kill()
    last = json.loads(rows.read_text().splitlines()[-1])
    # as it was told at the beginning: every ten seconds it is told anew
    status = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**status, "steps": 0}))
    assert going[3] == "running" and int(going[4]) > 0
    killed = engine("runs", run).stdout.splitlines()[1].split()
    assert killed[3:6] == ["killed", str(last["step"]), f"{last['return_mean']:.2f}"]
    assert f" {last['step']} " in engine("compare", run).stdout


def test_what_is_wrong_is_said_in_a_line(engine, tmp_path):
    run = make_run(tmp_path / "run", [1.0, 2.0])
    other = make_run(tmp_path / "other", [1.0], env="pendulum")
    torn = make_run(tmp_path / "torn", [1.0, 2.0])
    with open(torn / "metrics.jsonl", "a") as file:
        file.write('{"step": 300, "return_me')
    assert compare(engine, torn)["groups"][0]["values"] == [2.0]
    (tmp_path / "sweep" / "trials").mkdir(parents=True)
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    for words, expected in (
        ([tmp_path / "sweep"], "is a sweep, and none of its trials has a run yet"),
        ([tmp_path / "nobody"], "is not there"),
        ([tmp_path], "holds no run with metrics"),
        ([run, "--metric", "return_men"], "did you mean return_mean"),
        ([f"{run},{other}"], "is ppo on pendulum, not ppo on cartpole"),
        ([run, "--over", "200"], "--over"),
        ([run, run], "is given twice"),
        ([f"{run},{run}/"], "is given twice"),
        ([], "<runs>"),
    ):
        done = engine("compare", *words)
        assert done.returncode == 2 and expected in done.stderr, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) <= 2, done.stderr
