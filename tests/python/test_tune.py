"""maglev tune and train +hardware, as a user calls them. Nothing here looks at how fast anything was."""

import json
import os
import signal
import subprocess

import pytest
from conftest import ENGINE, HOME
from waiting import LONG_S, wait_for

PROFILES = ("ci", "cpu", "cuda", "debug", "production")


@pytest.fixture
def cache(tmp_path):
    """A cache folder of this test's own."""
    return {"env": {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}}


def config(run):
    """The settings of a run folder, flat."""
    flat, path = {}, []
    for line in (run / "config.yaml").read_text().splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, value = line.strip().partition(":")
        path[depth:] = [name]
        if value.strip():
            flat[".".join(path)] = value.strip().strip('"')
    return flat


def tuned(engine, *words, budgets=(8, 80, 800), **options):
    """What a tune has to say, and its budget: the first one in which this machine comes to a figure."""
    for budget in budgets:
        done = engine("tune", *words, "--budget", f"{budget}s", timeout_s=2 * budget + LONG_S, **options)
        if "give a larger --budget" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return done, budget


def test_what_is_tuned_is_told_kept_and_used(engine, tmp_path, cache):
    words = ["ppo", "cartpole", "env.count=8", "train.steps=4096"]
    profile = tmp_path / "mine.yaml"
    done, budget = tuned(engine, *words, "--json", "-o", profile, **cache)
    tune = ["tune", *words, "--budget", f"{budget}s", "--json", "-o", profile]
    found = json.loads(done.stdout)
    rows = found["rows"]
    assert rows[0]["settings"] == {} and rows[0]["state"] == "measured"
    assert rows[0]["steps_per_second"] > 0 and rows[0]["peak_bytes"] > rows[0]["planned_bytes"] > 0
    assert all(row["why"] for row in rows if row["state"] != "left out")
    assert found["settings"] in [row["settings"] for row in rows]
    assert set().union(*(row["settings"] for row in rows)) <= {
        "threads", "train.collect", "ppo.fused", "ppo.network.fast_tanh",
    }  # fmt: skip
    assert len(list((tmp_path / "cache/maglev/tune").iterdir())) == 1
    # a second call reads it, and the profile is not written over unasked
    refused = engine(*tune, **cache)
    assert refused.returncode == 2 and "--overwrite" in refused.stderr
    again = engine(*tune, "--overwrite", **cache)
    assert again.returncode == 0 and "--retune" in again.stderr
    assert json.loads(again.stdout) == found
    text = profile.read_text()
    assert text.startswith("# Found by ./maglev tune ppo cartpole")
    # auto is what was found, seeds and rates are no other work; the command line has the last word
    run = tmp_path / "auto"
    done = engine("train", *words, "seed=9", "ppo.lr=1e-4", "+hardware=auto", "--out", run, **cache)
    assert done.returncode == 0, done.stderr
    settings = config(run)
    assert settings["hardware"] == "auto" and settings["env.count"] == "8"
    assert all(settings[name] == value for name, value in found["settings"].items())
    assert "tuned here on" in (run / "log.txt").read_text()
    run = tmp_path / "file"
    done = engine("train", *words, f"+hardware={profile}", "threads=2", "--out", run, **cache)
    assert done.returncode == 0, done.stderr
    assert config(run)["threads"] == "2" and config(run)["hardware"] == str(profile)
    # one that ran out of time stands until there is more
    (kept,) = (tmp_path / "cache/maglev/tune").iterdir()
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "unfinished": True, "budget": budget - 0.5}))
    run = tmp_path / "cut"
    done = engine("train", *words, "+hardware=auto", "--out", run, **cache)
    assert done.returncode == 0 and f"no time for all, in {budget} s" in (run / "log.txt").read_text(), done.stderr
    done = engine("tune", *words, "--budget", f"{budget - 1}s", "--json", **cache)
    assert done.returncode == 0 and json.loads(done.stdout)["rows"] == rows, done.stderr
    done, longer = tuned(engine, *words, "--json", budgets=(budget, 10 * budget), **cache)
    assert "measured again" in done.stderr
    assert json.loads(kept.read_text())["budget"] == longer


def test_variables_in_a_settings_file_are_refused_with_what_does_it_instead(engine, tmp_path):
    file = tmp_path / "production.yaml"
    file.write_text('threads: 2\nenv_vars:\n  CUDA_LAUNCH_BLOCKING: "1"\n')
    for words in (["--config", file], [f"+hardware={file}"]):
        done = engine("train", "ppo", "cartpole", *words, "--out", tmp_path / "run")
        assert done.returncode == 2 and "train.synchronise=true" in done.stderr, done.stderr


def test_what_does_not_fit_is_never_run(engine, cache):
    limited = ["ppo", "cartpole", "env.count=64", "train.memory_limit=1MiB", "threads=1"]
    done, _ = tuned(engine, *limited, "--learning", "env.count", "--json", budgets=(6, 60, 600), **cache)
    rows = json.loads(done.stdout)["rows"]
    # what was named comes first, however short the budget
    assert "env.count" in rows[1]["settings"] and "searched: env.count (64|" in done.stderr
    refused = [row for row in rows if row["state"] == "does not fit"]
    assert refused and all("does not fit" in row["why"] for row in refused)
    assert all(row["peak_bytes"] == 0 for row in refused)
    assert all(row["planned_bytes"] <= 1 << 20 for row in rows if row["state"] == "measured")


def test_what_a_budget_left_out_is_named(engine, cache):
    # many more than there are seconds for: a fifth of one each at least
    named = ["threads=1", "--learning", "env.count,ppo.rollout,ppo.minibatch,ppo.epochs"]
    done, _ = tuned(engine, "ppo", "cartpole", *named, budgets=(2, 4, 8, 16, 32, 64, 128), **cache)
    left_out = done.stdout.split(" more not measured, no time left (--budget gives more): ")[1].splitlines()[0]
    assert "=" in left_out


def test_what_cannot_be_kept_is_told_even_so(engine, tmp_path, cache):
    (tmp_path / "cache").write_text("no folder")
    words = ["ppo", "cartpole", "env.count=8", "train.steps=4096", "threads=1"]
    done, _ = tuned(engine, *words, **cache)
    assert "what was found is not kept" in done.stderr
    assert "measured in" in done.stdout and "+hardware=auto" not in done.stdout


def test_nothing_tuned_says_how_to_tune_and_trains(engine, tmp_path, cache):
    run = tmp_path / "run"
    words = ["ppo", "cartpole", "train.steps=2048", "+hardware=auto", "--out", run]
    done = engine("train", *words, **cache)
    assert done.returncode == 0, done.stderr
    assert "./maglev tune ppo cartpole" in (run / "log.txt").read_text()


def test_a_swapped_pair_is_taken_as_it_was_meant(engine, cache):
    done = engine("tune", "cartpole", "ppo", "train.memory_limit=1K", "--budget", "1s", **cache)
    assert done.returncode == 2 and "taken as ppo cartpole" in done.stderr
    assert "does not fit" in done.stderr


def test_mistakes_are_one_line_each(engine, tmp_path, cache):
    for words, said in [
        (["tune", "ppo", "cartpole", "--budget", "soon"], "such as 120s or 2m"),
        (["tune", "ppo", "cartpole", "--learning", "env.cuont"], "did you mean env.count"),
        (["tune", "ppo", "cartpole", "--learning", "ppo.lr"], "switches and choices"),
        (["tune", "ppo", "cartpole", "+hardware=auto"], "leave it out"),
        (["tune", "ppo", "cartpole", "-o", tmp_path], "is a folder"),
        (["tune", "ppo"], "<algorithm> <environment>"),
        (["tune", "ppo", "cartpole", "processes=3"], "[ppo] ppo.minibatch must be a multiple of processes=3"),
        (["train", "ppo", "cartpole", "+hardware=debgu"], "did you mean debug"),
        (["train", "ppo", "cartpole", "+hardware=x/none.yaml"], "cannot be read"),
        (["train", "ppo", "cartpole", "hardware=ci"], "+hardware=ci"),
        (["train", "--resume", tmp_path, "+hardware=ci"], "is for a new one"),
    ]:
        done = engine(*words, **cache)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)
        assert done.stderr.count("\n") == 1 and done.stdout == ""


@pytest.mark.parametrize(
    "verb", [["tune", "ppo", "cartpole"], ["bench", "timeline", "ppo", "cartpole"]], ids=lambda w: w[0]
)
def test_an_interrupted_measurement_leaves_nothing_behind(tmp_path, cache, verb):
    env = {**cache["env"], "TMPDIR": str(tmp_path), "MAGLEV_HOME": str(HOME)}
    process = subprocess.Popen([ENGINE, *verb], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: list(tmp_path.glob("maglev-bench-*/run/metrics.jsonl")), process)
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG_S) == 130
    assert not list(tmp_path.glob("maglev-*"))


def test_the_profiles_that_ship_are_those_of_the_docs(home):
    there = sorted(path.stem for path in (home / "configs/hardware").glob("*.yaml"))
    assert there == sorted(PROFILES)
    page = (home / "docs/tuning.md").read_text()
    assert all(f"`{name}`" in page for name in there)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("algo, env", [("ppo", "cartpole"), ("tdmpc2", "pendulum"), ("dreamer", "pendulum")])
def test_every_profile_suits_every_algorithm(engine, algo, env, name):
    done = engine("plan", algo, env, f"+hardware={name}", "--json")
    if name == "cuda" and done.returncode == 2:
        assert "torch sees no CUDA device" in done.stderr or "no device code" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    others = {"ppo", "tdmpc2", "dreamer"} - {algo}
    told = f"left out, for {algo} has none" in done.stderr
    assert told == (name == "debug") and f" {algo}." not in done.stderr
    assert not told or all(f"{other}.fused" in done.stderr for other in others)


def test_ci_is_one_thread_and_the_same_twice(engine, tmp_path):
    rows = []
    for number in range(2):
        run = tmp_path / str(number)
        done = engine("train", "ppo", "cartpole", "+hardware=ci", "--out", run)
        assert done.returncode == 0, done.stderr
        lines = (run / "metrics.jsonl").read_text().splitlines()
        rows.append([json.loads(line)["loss/policy"] for line in lines])
        settings = config(run)
        assert settings["threads"] == "1" and settings["hardware"] == "ci"
        assert settings["train.deterministic"] == "true" and int(settings["train.steps"]) <= 4096
    assert rows[0] == rows[1] != []


def test_debug_ends_where_a_figure_is_not_finite(engine, tmp_path):
    run = tmp_path / "run"
    words = ["ppo", "pendulum", "--bare", "env.count=4", "ppo.rollout=100", "ppo.minibatch=100"]
    wild = ["ppo.epochs=4", "ppo.lr=10", "train.steps=3200"]
    done = engine("train", *words, *wild, "+hardware=debug", "--out", run)
    assert done.returncode == 3, done.stderr  # it diverged
    settings = config(run)
    assert settings["train.on_divergence"] == "stop" and settings["train.synchronise"] == "true"
    assert settings["ppo.fused"] == "false" and settings["train.graph"] == "off"
    assert settings["threads"] == "1" and settings["train.collect"] == "lockstep"
