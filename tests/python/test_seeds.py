"""Several seeds in one command: a run each, one table, and going on where each is."""

import json
import os
import shutil
import signal
import subprocess

import pytest
from conftest import ENGINE, HOME
from waiting import LONG_S, ask_twice, wait_for_line

SMALL = ["--bare", "train.steps=3200", "env.count=4", "ppo.rollout=16", "ppo.epochs=1"]


@pytest.fixture(scope="module")
def group(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds") / "group"
    done = engine("train", "ppo", "cartpole", *SMALL, "seed=7", "--seeds", "3", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_each_seed_has_a_run_and_the_table_sums_them_up(group):
    folder, done = group
    result = json.loads((folder / "seeds.json").read_text())
    assert [row["seed"] for row in result["seeds"]] == [7, 8, 9]
    returns = [row["return"] for row in result["seeds"]]
    assert len(set(returns)) == 3
    assert result["mean"] == pytest.approx(sum(returns) / 3)
    low, high = result["interval_95"]
    # Student's t with two degrees of freedom
    assert high - low == pytest.approx(2 * 4.3027 * result["deviation"] / 3**0.5, rel=1e-3)
    for seed, value in zip((7, 8, 9), returns):
        assert f"seed: {seed}\n" in (folder / f"seed-{seed}" / "config.yaml").read_text()
        assert f"{value:.2f}" in done.stdout
    assert f"returns of training: mean {result['mean']:.2f}, deviation" in done.stdout


def test_where_seeds_are_evaluated_their_last_evaluations_are_summed_up(engine, tmp_path):
    folder = tmp_path / "group"
    judged = ["train.eval_every=1600", "train.eval_episodes=3"]
    done = engine("train", "ppo", "cartpole", *SMALL, *judged, "--seeds", "2", "--out", folder)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "seeds.json").read_text())
    last = []
    for run in sorted(folder.glob("seed-?")):
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        last.append([row["eval/return_mean"] for row in rows if "eval/return_mean" in row][-1])
    assert [row["evaluation"] for row in result["seeds"]] == pytest.approx(last)
    assert result["mean_of"] == "evaluation"
    assert result["mean"] == pytest.approx(sum(last) / 2)
    assert f"last evaluations: mean {result['mean']:.2f}" in done.stdout


def test_runs_lists_a_group_as_one_row_and_its_seeds_by_themselves(group, engine):
    folder, _ = group
    result = json.loads((folder / "seeds.json").read_text())
    mean = result["mean"]
    listed = engine("runs", folder.parent).stdout
    assert "3 of 3 seeds finished" in listed and f"{mean:.2f}" in listed
    assert engine("runs", folder).stdout.count("cartpole") == 3
    # a column is of one figure, also where evaluations are summed up
    judged = {**result, "mean_of": "evaluation", "mean": 1234.5}
    try:
        (folder / "seeds.json").write_text(json.dumps(judged))
        assert f"{mean:.2f}" in engine("runs", folder.parent).stdout
    finally:
        (folder / "seeds.json").write_text(json.dumps(result, indent=2) + "\n")


def test_a_seed_is_the_run_it_would_be_by_itself(group, engine, tmp_path):
    folder, _ = group
    alone = tmp_path / "alone"
    done = engine("train", "ppo", "cartpole", *SMALL, "seed=8", "--out", alone)
    assert done.returncode == 0, done.stderr
    state = "checkpoints/step_*/state.safetensors"
    newest, same = max(alone.glob(state)), max((folder / "seed-8").glob(state))
    assert newest.read_bytes() == same.read_bytes()


def test_what_is_done_is_not_done_again(group, engine):
    folder, _ = group
    before = {path: path.stat().st_mtime_ns for path in folder.glob("seed-*/metrics.jsonl")}
    done = engine("train", "--resume", folder)
    assert done.returncode == 0, done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in folder.glob("seed-*/metrics.jsonl")}


def pid_of(folder):
    return json.loads((folder / "run.json").read_text())["pid"]


def two_seeds(folder, gate, side_by_side=2):
    """A command that trains two seeds, so many at once, which stand before a gate."""
    words = ["train", *gate.words, *SMALL, f"threads={side_by_side}", "--seeds", "2", "--out", folder]
    process = subprocess.Popen(
        [ENGINE, *map(str, words)],
        env={**os.environ, "MAGLEV_HOME": str(HOME), **gate.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    gate.wait_for(side_by_side, process)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGXCPU])
def test_seeds_that_were_stopped_go_on(number, engine, gate, tmp_path):
    folder = tmp_path / "group"
    process = two_seeds(folder, gate)
    # one request, which a batch system sends to every process, and each run hears of from its parent too
    for pid in [pid_of(folder / f"seed-{n}") for n in (1, 2)]:
        os.kill(pid, number)
    ask_twice(process.pid, number)
    wait_for_line(process.stderr, "maglev: asked to stop: each run ends its iteration first and saves")
    gate.open()
    out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, err
    assert f"./maglev train --resume {folder}" in out
    assert [seed["state"] for seed in json.loads((folder / "seeds.json").read_text())["seeds"]] == 2 * ["stopped"]
    done = engine("train", "--resume", folder, env=gate.env)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "seeds.json").read_text())
    assert [(row["state"], row["steps"]) for row in result["seeds"]] == 2 * [("finished", 3200)]


def test_a_seed_that_was_killed_is_named_and_does_not_end_as_a_stop_does(engine, gate, tmp_path):
    folder = tmp_path / "group"
    process = two_seeds(folder, gate, side_by_side=1)
    os.kill(pid_of(folder / "seed-1"), signal.SIGKILL)
    gate.wait_for(2, process)
    gate.open()
    out, err = process.communicate(timeout=LONG_S)
    # 130 is what a cluster's script begins again upon
    assert process.returncode == 2, err
    assert "[seeds] seed 1: ended: signal 9 (Killed), by the system where memory did not suffice" in err
    assert "returns of training of 1 of 2 seeds: mean " in out
    assert f"resume with ./maglev train --resume {folder}" in out
    states = [seed["state"] for seed in json.loads((folder / "seeds.json").read_text())["seeds"]]
    assert states == ["killed", "finished"]
    done = engine("train", "--resume", folder, env=gate.env)
    assert done.returncode == 0 and "returns of training: mean " in done.stdout, done.stderr


def test_a_seed_that_trains_on_beside_one_that_ended_is_no_other_processs(gate, tmp_path):
    folder = tmp_path / "group"
    process = two_seeds(folder, gate)
    os.kill(pid_of(folder / "seed-1"), signal.SIGKILL)
    # what became of it is told while the other one trains
    said = wait_for_line(process.stderr, "seed 1: killed")
    gate.open()
    said += process.communicate(timeout=LONG_S)[1]
    assert "seed 2: finished" in said and "another process trains it" not in said, said


def test_runs_that_a_killed_group_left_behind_are_waited_for(gate, tmp_path):
    folder = tmp_path / "group"
    process = two_seeds(folder, gate, side_by_side=1)
    process.kill()
    process.communicate()
    # its run ends the iteration before it saves and leaves
    resumed = subprocess.Popen(
        [ENGINE, "train", "--resume", folder],
        env={**os.environ, "MAGLEV_HOME": str(HOME), **gate.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_line(resumed.stderr, "seed 1: another process trains it, and is waited for")
    gate.open()
    _, said = resumed.communicate(timeout=LONG_S)
    assert resumed.returncode == 0, said
    result = json.loads((folder / "seeds.json").read_text())
    assert [row["state"] for row in result["seeds"]] == 2 * ["finished"]


def test_seeds_go_on_where_nobody_reads_what_is_said_of_them(tmp_path):
    folder = tmp_path / "group"
    reader, writer = os.pipe()
    os.close(reader)
    subprocess.run(
        [ENGINE, "train", "ppo", "cartpole", *SMALL, "threads=1", "--seeds", "2", "--out", folder],
        env={**os.environ, "MAGLEV_HOME": str(HOME)}, stdout=writer, stderr=writer, check=False, timeout=LONG_S,
    )  # fmt: skip
    os.close(writer)
    result = json.loads((folder / "seeds.json").read_text())
    assert [row["state"] for row in result["seeds"]] == 2 * ["finished"]


def test_a_damaged_status_keeps_no_seed_from_going_on(engine, tmp_path):
    folder = tmp_path / "group"
    done = engine("train", "ppo", "cartpole", *SMALL, "--seeds", "2", "--out", folder)
    assert done.returncode == 0, done.stderr
    (folder / "seed-1/run.json").write_text('{"state": "fin')
    done = engine("train", "--resume", folder, "train.steps=6400")
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "seeds.json").read_text())
    assert [(row["state"], row["steps"]) for row in result["seeds"]] == 2 * [("finished", 6400)]


def test_what_cannot_be_written_of_the_group_ends_no_seed(gate, tmp_path):
    folder = tmp_path / "group"
    process = two_seeds(folder, gate)
    (folder / "seeds.json").unlink()
    (folder / "seeds.json").mkdir()
    os.kill(pid_of(folder / "seed-1"), signal.SIGKILL)
    gate.open()
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 2 and "seeds.json] cannot be replaced" in err, err
    assert json.loads((folder / "seed-2/run.json").read_text())["state"] == "finished"


def test_one_run_is_not_begun_where_several_seeds_are(group, engine):
    folder, _ = group
    for more in ([], ["--overwrite"]):
        done = engine("train", "ppo", "cartpole", *SMALL, "--out", folder, *more)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert f"[{folder}] holds several seeds, and a run wants a folder of its own: go on with them" in done.stderr


def test_seeds_train_longer_and_end_as_if_they_had_begun_so(engine, tmp_path):
    short, whole = tmp_path / "short", tmp_path / "whole"
    words = ["train", "ppo", "cartpole", *SMALL, "--seeds", "2", "--out"]
    assert engine(*words, short).returncode == 0
    assert engine(*words, whole, "train.steps=4800").returncode == 0
    for setting, said in [("train.steps=1600", "<more than these>"), ("ppo.lr=0.1", "leave out 'ppo.lr=0.1'")]:
        done = engine("train", "--resume", short, setting)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = engine("train", "--resume", short, "train.steps=4800")
    assert done.returncode == 0, done.stderr
    result = json.loads((short / "seeds.json").read_text())
    assert [(row["state"], row["steps"]) for row in result["seeds"]] == 2 * [("finished", 4800)]
    for seed in ("seed-1", "seed-2"):
        newest = [max((folder / seed).glob("checkpoints/step_*/state.safetensors")) for folder in (short, whole)]
        assert newest[0].read_bytes() == newest[1].read_bytes()
    assert "steps: 3200\n" in (short / "settings.before-3200.yaml").read_text()
    given = (short / "given.txt").read_text()
    assert "train.steps=3200\n" in given and given.endswith("# resumed at 3200 steps each, with:\ntrain.steps=4800\n")


@pytest.mark.parametrize("how", ["--resume", "--continue"])
def test_seeds_are_added_and_are_those_that_had_begun_so(how, engine, tmp_path):
    few, many = tmp_path / "few", tmp_path / "many"
    words = ["train", "ppo", "cartpole", *SMALL, "seed=4", "--out"]
    assert engine(*words, few, "--seeds", 1).returncode == 0
    assert engine(*words, many, "--seeds", 3).returncode == 0
    before = (few / "seed-4" / "metrics.jsonl").stat().st_mtime_ns
    done = engine(*(["train", "--resume", few] if how == "--resume" else [*words, few, "--continue"]), "--seeds", 3)
    assert done.returncode == 0, done.stderr
    # the first is as it was, the others as if they had been asked for at once
    assert (few / "seed-4" / "metrics.jsonl").stat().st_mtime_ns == before
    results = [json.loads((folder / "seeds.json").read_text()) for folder in (few, many)]
    assert [row["seed"] for row in results[0]["seeds"]] == [4, 5, 6]
    assert [row["return"] for row in results[0]["seeds"]] == [row["return"] for row in results[1]["seeds"]]
    assert results[0]["mean"] == results[1]["mean"]
    fewer = engine("train", "--resume", few, "--seeds", 2)
    assert fewer.returncode == 2 and "holds 3 seeds that began, and 2 are asked for: ask for as many or more" in fewer.stderr


def test_seeds_that_never_began_can_be_left_out_again(engine, tmp_path):
    folder = tmp_path / "group"
    assert engine("train", "ppo", "cartpole", *SMALL, "seed=4", "--seeds", 1, "--out", folder).returncode == 0
    result = json.loads((folder / "seeds.json").read_text())
    # as one finds them who asked for too many, and stopped them
    result["seeds"] += [{"seed": seed, "state": "waiting", "steps": 0} for seed in range(5, 44)]
    (folder / "seeds.json").write_text(json.dumps(result))
    done = engine("train", "--resume", folder, "--seeds", 2)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "seeds.json").read_text())
    assert [(row["seed"], row["state"]) for row in result["seeds"]] == [(4, "finished"), (5, "finished")]


def test_what_lies_where_a_new_seed_would_is_not_taken_for_it(engine, tmp_path):
    folder = tmp_path / "group"
    assert engine("train", "ppo", "cartpole", *SMALL, "seed=4", "--seeds", 1, "--out", folder).returncode == 0
    assert engine("train", "ppo", "cartpole", *SMALL, "ppo.lr=1e-2", "--out", folder / "seed-5").returncode == 0
    before = (folder / "seeds.json").read_bytes()
    done = engine("train", "--resume", folder, "--seeds", 2)
    assert done.returncode == 2 and f"[{folder}/seed-5] is in the way: it is none of the seeds" in done.stderr, done.stderr
    assert (folder / "seeds.json").read_bytes() == before


def test_a_group_without_a_seed_cannot_be_read(engine, tmp_path):
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "seeds.json").write_text('{"algorithm": "ppo", "environment": "cartpole", "seeds": []}')
    for more in ([], ["--seeds", 2]):
        done = engine("train", "--resume", tmp_path / "group", *more)
        assert done.returncode == 2 and "seeds.json cannot be read" in done.stderr, done.stderr


def test_seeds_that_were_stopped_as_they_were_to_train_longer_still_do(engine, tmp_path):
    folder = tmp_path / "group"
    assert engine("train", "ppo", "cartpole", *SMALL, "--seeds", "2", "--out", folder).returncode == 0
    settings = folder / "settings.yaml"
    settings.write_text(settings.read_text().replace("steps: 3200\n", "steps: 4800\n"))
    # one has got there already
    done = engine("train", "--resume", folder / "seed-1", "train.steps=4800")
    assert done.returncode == 0, done.stderr
    assert "1 of 2 seeds finished" in engine("runs", tmp_path).stdout
    before = (folder / "seed-1" / "metrics.jsonl").stat().st_mtime_ns
    done = engine("train", "--resume", folder)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "seeds.json").read_text())
    assert [(row["state"], row["steps"]) for row in result["seeds"]] == 2 * [("finished", 4800)]
    assert (folder / "seed-1" / "metrics.jsonl").stat().st_mtime_ns == before


def test_a_seed_whose_checkpoints_are_gone_is_not_begun_anew_unasked(engine, tmp_path):
    folder = tmp_path / "group"
    assert engine("train", "ppo", "cartpole", *SMALL, "--seeds", "2", "--out", folder).returncode == 0
    shutil.rmtree(folder / "seed-2" / "checkpoints")
    # what is done is done
    assert engine("train", "--resume", folder).returncode == 0
    done = engine("train", "--resume", folder, "train.steps=4800")
    assert done.returncode == 2 and "seed-2] had done 3200 steps" in done.stderr, done.stderr
    assert not list(folder.glob("*.old-*"))
    # what was refused is not asked of the next resume
    assert "steps: 3200\n" in (folder / "settings.yaml").read_text()
    # nor a seed whose whole folder is gone
    shutil.rmtree(folder / "seed-2")
    done = engine("train", "--resume", folder)
    assert done.returncode == 2 and "seed-2] had done 3200 steps" in done.stderr, done.stderr


def test_settings_that_are_refused_stop_all_seeds_with_one_complaint(engine, tmp_path):
    folder = tmp_path / "group"
    done = engine(
        "train", "ppo", "cartpole", *SMALL, "train.dataset=nope", "--seeds", "4", "--out", folder
    )
    assert done.returncode == 2
    assert done.stderr.count("train.dataset is for an algorithm that learns from a replay") == 1


def test_a_seed_that_nobody_trained_is_missed_before_the_others_begin(group, engine, tmp_path):
    folder, _ = group
    begin = [f"train.init_from={folder}", "seed=8", "--seeds", "3", "--out", tmp_path / "more"]
    done = engine("train", "ppo", "cartpole", *SMALL, *begin)
    assert done.returncode == 2 and "has no checkpoint of seed" in done.stderr
    assert not (tmp_path / "more").exists()


def test_a_group_is_no_run_and_its_runs_are_named(group, engine):
    folder, _ = group
    done = engine("eval", folder, "--imagine", "dreams.gif")
    assert done.returncode == 2 and f"e.g. {folder}/seed-7" in done.stderr, done.stderr
    for words in (["verify", folder], ["league", folder]):
        done = engine(*words)
        assert done.returncode == 2 and f"[{folder}] is several seeds; name one of its runs" in done.stderr, done.stderr
        best = max(json.loads((folder / "seeds.json").read_text())["seeds"], key=lambda row: row["return"])
        assert f"with their scores: {folder}/seed-{best['seed']} ({best['return']:.4g}), " in done.stderr, done.stderr


def test_eval_judges_each_seed_and_sums_up(group, engine):
    folder, _ = group
    words = ("--episodes", 3, "--actions", "mean")
    done = engine("eval", folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [run["run"] for run in report["runs"]] == [f"{folder}/seed-{n}" for n in (7, 8, 9)]
    means = [run["results"][0]["return_mean"] for run in report["runs"]]
    (over,) = report["results"]
    assert over["actions"] == "mean" and over["seeds"] == 3 and over["return_mean"] == pytest.approx(sum(means) / 3)
    # each as by itself
    alone = json.loads(engine("eval", f"{folder}/seed-8", *words, "--json").stdout)
    assert alone["results"][0]["returns"] == report["runs"][1]["results"][0]["returns"]
    assert json.loads((folder / "seed-9" / "eval.json").read_text())["run"] == f"{folder}/seed-9"
    shown = engine("eval", folder, *words).stdout
    assert shown.count("ppo on cartpole, step ") == 3
    assert f"mean over 3 seeds: return {over['return_mean']:.2f}, deviation " in shown


def test_a_checkpoint_is_named_of_each_seed_at_once(group, engine):
    folder, _ = group
    words = ("--episodes", 2, "--actions", "mean", "--json")
    done = engine("eval", f"{folder}@best", *words)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    saved = [folder / f"seed-{n}" / "checkpoints" for n in (7, 8, 9)]
    assert [run["checkpoint"] for run in runs] == [str(path / (path / "best").readlink()) for path in saved]
    flag = json.loads(engine("eval", folder, "--checkpoint", "best", *words).stdout)["runs"]
    assert [run["results"][0]["returns"] for run in runs] == [run["results"][0]["returns"] for run in flag]
    done = engine("eval", f"{folder}@best", "--checkpoint", "latest")
    assert done.returncode == 2 and "names a checkpoint already" in done.stderr, done.stderr


def test_the_best_seed_plays(group, engine):
    folder, _ = group
    rows = json.loads((folder / "seeds.json").read_text())["seeds"]
    best = max(rows, key=lambda row: row["return"])
    for name in (folder, f"{folder}@best"):
        done = engine("play", name, "--fast")
        assert done.returncode == 0 and "episode 1: " in done.stdout, done.stderr
        said = f"{folder}/seed-{best['seed']} plays, the best seed by its return of training, {best['return']:.2f}"
        assert said in done.stderr, done.stderr
    done = engine("play", folder.parent / "nothing")
    assert done.returncode == 2 and "is no run; name the folder of one" in done.stderr, done.stderr


def test_several_runs_are_no_environment_and_its_player(group, engine):
    folder, _ = group
    for words in ([f"{folder}/seed-7", f"{folder}/seed-8"], [folder, folder, folder]):
        done = engine("eval", *words)
        assert done.returncode == 2 and "judges one run at a time, or the seeds of one folder" in done.stderr, done.stderr
        assert "unknown environment" not in done.stderr


def test_a_folder_that_holds_something_is_left_alone(group, engine):
    folder, _ = group
    done = engine("train", "ppo", "cartpole", *SMALL, "--seeds", "2", "--out", folder)
    assert done.returncode == 2 and "--resume" in done.stderr
