"""maglev verify: what a run should stand, check by check, and the exit status."""

import json
import shutil

import pytest

SMALL_WORLD = [
    *("env.width=32", "env.height=32", "env.min_food=8", "env.max_food=16"),
    *("env.min_poison=8", "env.max_poison=16", "env.count=64", "ppo.rollout=64", "ppo.minibatch=1024"),
    "ppo.network.hidden=[64,64]",
]


def trained(engine, folder, *words):
    done = engine("train", "ppo", *words, "--out", folder, "seed=1", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    return folder


def verified(engine, run):
    done = engine("verify", run, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["passed"] else 1)
    return {row["check"]: row["outcome"] for row in report["checks"]}, report


@pytest.fixture(scope="module")
def forager(engine, tmp_path_factory):
    """A trained one: what it learned is what the grid is about."""
    folder = tmp_path_factory.mktemp("verify") / "forager"
    return trained(engine, folder, "goodhart", "train.steps=600000")


def test_a_trained_forager_passes_every_check(forager, engine):
    outcomes, report = verified(engine, forager)
    assert set(outcomes.values()) == {"passed"}, report["checks"]
    assert {"towards food", "off poison", "survival", "windows follow", "privileged view"} <= set(outcomes)
    done = engine("verify", forager, "threads=1")
    assert done.returncode == 0 and "13 passed, 0 failed, 0 skipped" in done.stdout
    assert done.stdout.rstrip().endswith(f"{report['checkpoint']}, step {report['step']}")
    done = engine("verify", forager, "env.energy=live")
    assert done.returncode == 2 and "only threads=N may be given, got 'env.energy=live'" in done.stderr


def test_who_knows_the_truth_gains_by_it_and_who_follows_the_proxy_is_paid_and_loses(forager, engine, tmp_path):
    # the thesis, by trained policies
    run = trained(engine, tmp_path / "proxy", "goodhart", "env.mode=proxy", "train.steps=600000")
    outcomes, report = verified(engine, run)
    assert outcomes["better than random"] == outcomes["towards food"] == "passed", report["checks"]
    assert outcomes["off poison"] == "skipped" and outcomes["survival"] == "failed", report["checks"]
    gained = {}
    for name, folder in (("truth", forager), ("proxy", run)):
        words = ("--steps", 100_000, "--envs", 64, "--actions", "sample", "--json")
        done = engine("eval", folder, *words, "env.energy=live", "env.keep_world=true")
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)["results"]
        gained[name] = row["events_per_1k"]
    assert gained["truth"]["energy"] > 20 > 0 > gained["proxy"]["energy"], gained
    interest = {name: row["food"] + 0.5 * row["poison"] for name, row in gained.items()}
    assert interest["proxy"] > interest["truth"] and gained["proxy"]["poison"] > 5 * gained["truth"]["poison"]


def test_a_rollout_that_loses_what_was_seen_is_found(engine, tmp_path):
    words = ("env.mode=proxy", "env.uint8_rollout=true", "train.steps=8192")
    outcomes, report = verified(engine, trained(engine, tmp_path / "lossy", "goodhart", *words, *SMALL_WORLD))
    assert outcomes["stored"] == "failed"
    (what,) = [row["what"] for row in report["checks"] if row["check"] == "stored"]
    assert "% of what is seen in window" in what


def test_one_that_has_learned_nothing_is_no_better_than_random(engine, tmp_path):
    outcomes, _ = verified(engine, trained(engine, tmp_path / "new", "cartpole", "train.steps=64", "ppo.lr=0"))
    assert outcomes["better than random"] == "failed"
    assert outcomes["outputs"] == outcomes["determinism"] == outcomes["reload"] == "passed"


def test_actions_that_are_numbers_are_checked_too(engine, tmp_path):
    outcomes, _ = verified(engine, trained(engine, tmp_path / "p", "pendulum", "train.steps=2048"))
    assert outcomes["outputs"] == outcomes["observations"] == "passed"


def test_a_damaged_checkpoint_is_found(forager, engine, tmp_path):
    run = tmp_path / "damaged"
    shutil.copytree(forager, run, symlinks=True)
    newest = sorted(run.glob("checkpoints/step_*"))[-1] / "state.safetensors"
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)
    outcomes, _ = verified(engine, run)
    assert outcomes["checkpoint"] == "failed" and outcomes["reload"] == "passed"


def test_a_run_whose_only_checkpoint_is_damaged_fails_one_check(forager, engine, tmp_path):
    run = tmp_path / "damaged"
    shutil.copytree(forager, run, symlinks=True)
    for state in run.glob("checkpoints/step_*/state.safetensors"):
        state.write_bytes(state.read_bytes()[:-7])
    outcomes, report = verified(engine, run)
    assert outcomes.pop("checkpoint") == "failed" and set(outcomes.values()) == {"skipped"}
    assert report["checkpoint"] is None and "state.safetensors" in report["checks"][0]["what"]
    done = engine("verify", run)
    assert done.returncode == 1 and "0 passed, 1 failed, 12 skipped" in done.stdout
    # without any there is nothing to check
    shutil.rmtree(run / "checkpoints")
    done = engine("verify", run)
    assert done.returncode == 2 and "holds no valid checkpoint" in done.stderr


@pytest.mark.parametrize("words, named", [(["nowhere"], "nowhere"), ([], "<run>"), (["x", "env.mode=proxy"], "env.mode")])
def test_bad_input_is_one_error(words, named, engine):
    done = engine("verify", *words)
    assert done.returncode == 2 and named in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


PENDULUM = ["pendulum", "train.steps=4096", "train.save_every=1024", "train.log_every=1024", "ppo.network.hidden=[8]"]


def compared(engine, run, other, status):
    done = engine("verify", run, "--against", other, "--json")
    assert done.returncode == status, done.stderr
    report = json.loads(done.stdout)
    assert report["same"] == (status == 0)
    return {row["compared"]: (row["same"], row["what"]) for row in report["compared"]}


def test_two_runs_are_the_same_or_it_is_told_where_they_part(engine, tmp_path):
    first = trained(engine, tmp_path / "first", *PENDULUM, "threads=1", "train.keep=9")
    again = trained(engine, tmp_path / "again", *PENDULUM, "threads=2", "train.keep=9")
    found = compared(engine, first, again, status=0)
    assert found["settings"] == (False, "threads 1 and 2"), "told, and of no matter to what was learned"
    assert found["versions"][0], found["versions"]
    assert found["metrics"][0] and found["checkpoints"] == (True, "5 are the same, the last at step 4096")

    # from the second save on its rate is another: what is resumed with another setting parts there
    parts = tmp_path / "parts"
    shutil.copytree(first, parts, symlinks=True)
    for step in (2048, 3072, 4096):
        shutil.rmtree(parts / f"checkpoints/step_{step:012d}")
    (parts / "checkpoints/best").unlink(missing_ok=True)
    done = engine("train", "--resume", parts, "ppo.lr=1e-4")
    assert done.returncode == 0, done.stderr
    found = compared(engine, first, parts, status=1)
    assert "ppo.lr" in found["settings"][1]
    assert "the same up to step 1024; then at step 2048 " in found["metrics"][1]
    at = found["checkpoints"][1]
    assert at.startswith("the same up to step 1024; then at step 2048 ") and "the first is " in at, at
    assert " numbers, most where they are " in at, at
    assert found["versions"][0], "what a resume adds is none"

    done = engine("verify", first, "--against", again)
    assert done.returncode == 0 and done.stdout.endswith("the same to the bit in what both have\n")
    # one goes on, has no checkpoint of the same step, and tells of less
    longer = tmp_path / "longer"
    shutil.copytree(again, longer)
    shutil.rmtree(longer / "checkpoints")
    metrics = longer / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows = [{name: value for name, value in row.items() if name != "loss/entropy"} for row in rows]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[-1], "step": 9999}]))
    found = compared(engine, first, longer, status=0)
    assert "checkpoints" not in found
    assert found["metrics"][1].endswith("; the other goes on to step 9999; the first alone has loss/entropy")
    # no step in common
    uneven = ["env.count=10", "ppo.rollout=100", "ppo.minibatch=100"]
    other = trained(engine, tmp_path / "other", "pendulum", "train.steps=1000", *uneven)
    shutil.rmtree(other / "checkpoints/step_000000000000")
    done = engine("verify", first, "--against", other)
    assert done.returncode == 2 and "neither a row of metrics nor a checkpoint at the same step" in done.stderr
