"""Adding an algorithm is one new folder and no other edit; trying an idea in PPO is a diff of one file."""

import re
import subprocess

import pytest
from conftest import HOME, newest_manifest, returns_of_training

# what each learns, and what it reaches there that acting at random does not
LEARNS = {
    # pushing at random keeps the pole up for 22 steps
    "reinforce": (["cartpole", "env.count=16"], 200000, 100),
    # swinging at random is -1,200; the mean is of all episodes since the first one
    "sac": (
        ["pendulum", "env.count=4", "sac.hidden=64", "sac.batch=64", "sac.lr=1e-3", "sac.first_steps=800"],
        8000,
        -950,
    ),
}
# a run of some seconds, whose replay is as large however long it is to be
SAC = ["sac", "pendulum", "env.count=4", "sac.hidden=16", "sac.batch=16", "sac.first_steps=2000"]
SAC += ["sac.updates_per_step=0.25", "train.replay_capacity=3000"]
SHORT = {"reinforce": ["reinforce", "cartpole", "env.count=4"], "sac": SAC, "priorities": [*SAC, "sac.priorities=0.6"]}


def test_every_example_is_here():
    assert sorted(LEARNS) == sorted(f.name for f in (HOME / "examples" / "algos").iterdir() if f.is_dir())


@pytest.mark.parametrize("algo", LEARNS)
def test_an_example_algorithm_learns(examples, tmp_path, algo):
    words, steps, aim = LEARNS[algo]
    returns = returns_of_training(examples, [algo, *words, f"train.steps={steps}"], tmp_path / "run")
    assert returns[-1] > aim, returns


@pytest.mark.parametrize("words", SHORT.values(), ids=list(SHORT))
def test_an_example_algorithm_continues_to_the_bit(examples, tmp_path, words):
    saves = ["train.save_every=4096", "train.log_every=2048"]
    common = [*words, *saves, "--sinks", "jsonl"]

    whole = examples("train", *common, "train.steps=12288", "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    begun = examples("train", *common, "train.steps=4096", "--out", tmp_path / "parts")
    assert begun.returncode == 0, begun.stderr
    more = examples("train", "--resume", tmp_path / "parts", "train.steps=12288")
    assert more.returncode == 0, more.stderr
    assert newest_manifest(tmp_path / "parts")["state_hash"] == newest_manifest(tmp_path / "whole")["state_hash"]


def test_the_idea_of_the_docs_is_a_diff_of_one_file():
    text = (HOME / "docs" / "adding_an_algorithm.md").read_text()
    (diff,) = re.findall(r"```diff\n(.*?)```", text, re.DOTALL)
    assert diff.count("+++ ") == 1
    done = subprocess.run(
        ["git", "-C", HOME, "apply", "--check", "-"],
        input=diff,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
