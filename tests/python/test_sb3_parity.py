"""The PPO this engine ships against stable-baselines3's: same rollouts, same permutations, same figures within 1e-5."""

import pytest
from replays import replay_of  # makes what follows importable

from sb3_cases import CASES, settings

QUANTITIES = {"values", "log_probs", "last_rewards", "advantages", "returns", "explained_variance", "policy_loss", "value_loss", "entropy",
              "approx_kl", "clip_fraction", "loss", "gradient_norm", "stops", "weights"}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sb3")
    # its logger makes a folder for each training, else in the system's temporary one
    return replay_of("sb3", folder, SB3_LOGDIR=str(folder / "logs"))


@pytest.mark.parametrize("case", CASES)
def test_ppo_computes_what_stable_baselines3_computes(replayed, case):
    result = dict(replayed[case])
    verdict = result.pop("verdict")
    quantities = QUANTITIES | ({"one_action"} if settings(case)["env"] in ("masked", "kg") else set())
    assert set(result) == quantities | {f"reference_{quantity}" for quantity in quantities}
    assert verdict == "ok", result
