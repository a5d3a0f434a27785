"""Writes optuna_reference.json: the least value Optuna's samplers find of standard functions, a figure a seed.

    python -m venv v && v/bin/pip install "optuna==5.0.0" cmaes && v/bin/python tests/parity/optuna_fixture.py

base/search/peers_test.cpp holds the embedded samplers to it; the functions are written there once more.
"""

import json
import math
import platform
import warnings
from pathlib import Path

import cmaes
import optuna

SEEDS = range(1, 32)
optuna.logging.set_verbosity(optuna.logging.ERROR)

warnings.filterwarnings("ignore")


def reals(trial, low, high, count=5):
    return [trial.suggest_float(f"x{i}", low, high) for i in range(count)]


def sphere(trial):
    return sum((x - 1) ** 2 for x in reals(trial, -5, 5))


def rosenbrock(trial):
    x = reals(trial, -2, 2)
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def ackley(trial):
    x = [v - 3 for v in reals(trial, -15, 15)]
    mean_square = sum(v * v for v in x) / len(x)
    mean_wave = sum(math.cos(2 * math.pi * v) for v in x) / len(x)
    return -20 * math.exp(-0.2 * math.sqrt(mean_square)) - math.exp(mean_wave) + 20 + math.e


def rastrigin(trial):
    x = [v - 1 for v in reals(trial, -5.12, 5.12)]
    return sum(v * v - 10 * math.cos(2 * math.pi * v) + 10 for v in x)


def branin(trial):
    x, y = trial.suggest_float("x0", -5, 10), trial.suggest_float("x1", 0, 15)
    b, c, t = 5.1 / (4 * math.pi**2), 5 / math.pi, 1 / (8 * math.pi)
    return (y - b * x * x + c * x - 6) ** 2 + 10 * (1 - t) * math.cos(x) + 10


def mixed(trial):
    """A rate by its logarithm, whole numbers, and a kind that shifts and raises the rest."""
    rate = math.log10(trial.suggest_float("x0", 1e-5, 1e-1, log=True))
    count = trial.suggest_int("x1", 1, 30)
    width = math.log2(trial.suggest_int("x2", 8, 512, log=True))
    share = trial.suggest_float("x3", 0, 1)
    kind = ("a", "b", "c", "d").index(trial.suggest_categorical("x4", ["a", "b", "c", "d"]))
    raised = (1, 0.5, 0, 2)[kind]
    numbers = ((count - 20) / 10) ** 2 + (width - 6) ** 2 / 4 + 4 * (share - 0.7) ** 2
    return raised + (rate + 2 + 0.3 * kind) ** 2 + numbers


FUNCTIONS = [sphere, rosenbrock, ackley, rastrigin, branin, mixed]
SAMPLERS = {
    "tpe": (100, lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True)),
    "tpe_independent": (100, lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=False)),
    "cmaes": (300, lambda seed: optuna.samplers.CmaEsSampler(seed=seed)),
}


def least(function, sampler, trials):
    study = optuna.create_study(sampler=sampler)
    study.optimize(function, n_trials=trials)
    return study.best_value


def main():
    results = []
    for name, (trials, make) in SAMPLERS.items():
        for function in FUNCTIONS:
            values = [float(f"{least(function, make(seed), trials):.6g}") for seed in SEEDS]
            results.append({"sampler": name, "function": function.__name__, "trials": trials, "least": values})
    versions = {"optuna": optuna.__version__, "cmaes": cmaes.__version__, "python": platform.python_version()}
    lines = ",\n".join("  " + json.dumps(row) for row in results)
    text = f'{{"versions": {json.dumps(versions)},\n "results": [\n{lines}\n ]}}\n'
    (Path(__file__).parent / "optuna_reference.json").write_text(text)


if __name__ == "__main__":
    main()
