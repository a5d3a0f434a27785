"""The PPO this engine ships against stable-baselines3's: same rollouts, same permutations, same figures within 1e-5."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARITY = ROOT / "tests" / "parity"
sys.path.insert(0, str(PARITY))

from sb3_cases import CASES, settings  # noqa: E402

QUANTITIES = {"values", "log_probs", "last_rewards", "advantages", "returns", "explained_variance", "policy_loss", "value_loss", "entropy",
              "approx_kl", "clip_fraction", "loss", "gradient_norm", "stops", "weights"}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Lines of sb3_replay by case: {case: {quantity: worst difference, or "verdict": "ok"}}."""
    folder = tmp_path_factory.mktemp("sb3")
    # its logger makes a folder for each training, else in the system's temporary one
    logs = {**os.environ, "SB3_LOGDIR": str(folder / "logs")}
    subprocess.run([sys.executable, PARITY / "sb3_fixture.py", folder], check=True, env=logs)
    build = pathlib.Path(os.environ.get("MAGLEV_BUILD", ROOT / ".build" / "release"))
    done = subprocess.run([build / "tests" / "sb3_replay", folder], stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1), f"sb3_replay ended with status {done.returncode}"
    cases = {}
    for case, word, *figure in (line.split(maxsplit=2) for line in done.stdout.splitlines()):
        cases.setdefault(case, {})["verdict" if not figure else word] = figure[0] if figure else word
    return cases


@pytest.mark.parametrize("case", CASES)
def test_ppo_computes_what_stable_baselines3_computes(replayed, case):
    result = dict(replayed[case])
    verdict = result.pop("verdict")
    quantities = QUANTITIES | ({"one_action"} if settings(case)["env"] in ("masked", "kg") else set())
    assert set(result) == quantities | {f"reference_{quantity}" for quantity in quantities}
    assert verdict == "ok", result
