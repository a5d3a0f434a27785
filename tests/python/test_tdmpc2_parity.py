"""The TD-MPC2 this engine ships against its public formulas in f64: same weights, same batch, same numbers, within 1e-5."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARITY = ROOT / "tests" / "parity"
sys.path.insert(0, str(PARITY))

from tdmpc2_fixture import CASES  # noqa: E402

FUNCTIONS = {"two_hot_loss", "two_hot_inverse", "simnorm", "action", "entropy", "scaled_entropy", "running_scale"}
QUANTITIES = {f"{path}/{what}" for path in ("plain", "aten", "fused") for what in (
    "plan_mean", "plan_action", "plan_noisy_action", "grad", "params", "target", "scale", "figures")}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Lines of tdmpc2_replay by case: {case: {quantity: worst difference, or "verdict": "ok"}}."""
    folder = tmp_path_factory.mktemp("tdmpc2")
    subprocess.run([sys.executable, PARITY / "tdmpc2_fixture.py", folder], check=True)
    build = pathlib.Path(os.environ.get("MAGLEV_BUILD", ROOT / ".build" / "release"))
    done = subprocess.run([build / "tests" / "tdmpc2_replay", folder], stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1), f"tdmpc2_replay ended with status {done.returncode}"
    cases = {}
    for case, word, *figure in (line.split(maxsplit=2) for line in done.stdout.splitlines()):
        cases.setdefault(case, {})["verdict" if not figure else word] = figure[0] if figure else word
    return cases


@pytest.mark.parametrize("case", CASES)
def test_tdmpc2_computes_what_its_formulas_say(replayed, case):
    result = dict(replayed[case])
    verdict = result.pop("verdict")
    assert set(result) == (FUNCTIONS if case == "functions" else QUANTITIES)
    assert verdict == "ok", result
