"""Adding an algorithm is one new folder and no other edit; trying an idea in PPO is a diff of one file."""

import re
import subprocess

import pytest
from conftest import HOME, newest_manifest, returns_of_training

EXAMPLES = sorted(f.name for f in (HOME / "examples" / "algos").iterdir() if f.is_dir())


@pytest.mark.parametrize("algo", EXAMPLES)
def test_an_example_algorithm_learns(examples, tmp_path, algo):
    words = [algo, "cartpole", "train.steps=200000", "env.count=16"]
    returns = returns_of_training(examples, words, tmp_path / "run")
    # pushing at random keeps the pole up for 22 steps
    assert max(returns) > 100, returns


@pytest.mark.parametrize("algo", EXAMPLES)
def test_an_example_algorithm_continues_to_the_bit(examples, tmp_path, algo):
    common = [algo, "cartpole", "env.count=4", "train.save_every=4096", "--sinks", "jsonl"]

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
