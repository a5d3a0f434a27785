"""Adding a network is one new folder and no other edit."""

import pytest
from conftest import HOME, returns_of_training

EXAMPLES = sorted(f.name for f in (HOME / "examples" / "networks").iterdir() if f.is_dir())


@pytest.mark.parametrize("network", EXAMPLES)
def test_an_example_network_learns(examples, tmp_path, network):
    words = ["ppo", "cartpole", "train.steps=60000", f"ppo.network.kind={network}"]
    returns = returns_of_training(examples, words, tmp_path / "run")
    # pushing at random keeps the pole up for 22 steps
    assert max(returns) > 100, returns


@pytest.mark.parametrize("network", EXAMPLES)
def test_help_names_an_example_network_and_its_settings(examples, network):
    for words in (["train", "ppo", "cartpole", "--help"], ["algos", "ppo"]):
        text = examples(*words).stdout
        (kind,) = [line for line in text.splitlines() if line.strip().startswith("ppo.network.kind ")]
        assert f"{network}:" in kind, kind
        assert f"| {network}" in kind, kind
        assert f"ppo.network.{network}." in text


# who followed the how-to has copied it there
@pytest.mark.skipif((HOME / "networks" / EXAMPLES[0]).exists(), reason="it is one here")
def test_a_network_of_examples_is_no_network_of_the_engine(engine):
    done = engine("train", "ppo", "cartpole", f"ppo.network.kind={EXAMPLES[0]}")
    assert done.returncode == 2
    assert "unknown ppo.network.kind" in done.stderr, done.stderr
