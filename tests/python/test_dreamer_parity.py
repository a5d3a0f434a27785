"""The loss of the Dreamer this engine ships and its gradients against its public formulas, both in f64, within 1e-9."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARITY = ROOT / "tests" / "parity"
sys.path.insert(0, str(PARITY))

from dreamer_fixture import CASES, DEFAULTS, weight_shapes  # noqa: E402

FIGURES = {
    "deter", "stoch", "observation", "reward", "going_on", "dynamics", "representation", "divergence", "mean_return", "range",
    "policy", "value", "replay_value", "total",
}  # fmt: skip


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Lines of dreamer_replay by case: {case: {quantity: worst difference, or "verdict": "ok"}}."""
    folder = tmp_path_factory.mktemp("dreamer")
    subprocess.run([sys.executable, PARITY / "dreamer_fixture.py", folder], check=True)
    build = pathlib.Path(os.environ.get("MAGLEV_BUILD", ROOT / ".build" / "release"))
    done = subprocess.run([build / "tests" / "dreamer_replay", folder], stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1), f"dreamer_replay ended with status {done.returncode}"
    cases = {}
    for case, word, *figure in (line.split(maxsplit=2) for line in done.stdout.splitlines()):
        cases.setdefault(case, {})["verdict" if not figure else word] = figure[0] if figure else word
    return cases


@pytest.mark.parametrize("case", CASES)
def test_dreamer_computes_what_its_formulas_say(replayed, case):
    result = dict(replayed[case])
    verdict = result.pop("verdict")
    weights = {f"grad.{name}" for name in weight_shapes(DEFAULTS | CASES[case])}
    assert set(result) == FIGURES | weights
    assert verdict == "ok", {k: v for k, v in result.items() if not float(v) <= 1e-9}
