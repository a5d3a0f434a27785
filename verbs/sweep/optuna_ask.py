"""Asks Optuna what to try next: one line of JSON in, one out; verbs/sweep/optuna.cpp is the other end.

in   {"sampler": "tpe", "seed": 7, "space": [{"name", "low", "high", "log", "integer"} or {"name", "choices"}],
      "trials": [{"values": [...], "state": "finished" | "running" | "stopped" | "failed", "score": 1.5 or null}]}
     values as in trial.json: of a choice its index
out  {"values": [...]} or {"error": "one line"}
"""

import json
import os
import sys


def distribution(optuna, dimension):
    d = optuna.distributions
    if "choices" in dimension:
        return d.CategoricalDistribution(range(len(dimension["choices"])))
    if dimension["integer"]:
        return d.IntDistribution(int(dimension["low"]), int(dimension["high"]), log=dimension["log"])
    return d.FloatDistribution(dimension["low"], dimension["high"], log=dimension["log"])


def value_of(dimension, value):
    return int(value) if "choices" in dimension or dimension["integer"] else value


def answer(question):
    try:
        import optuna
    except ImportError:
        # into the Python of an installed engine as it asks for it (docs/installing.md)
        own = os.environ.get("MAGLEV_INSTALLED") == sys.executable
        what = "'maglev-engine[optuna]'" if own else "-r requirements-optuna.txt"
        return {"error": f"Optuna is not installed for this Python: {sys.executable} -m pip install {what}"}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {
        "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
        "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, constant_liar=True),
    }
    space = {d["name"]: distribution(optuna, d) for d in question["space"]}
    study = optuna.create_study(direction="maximize", sampler=samplers[question["sampler"]](question["seed"]))
    states = optuna.trial.TrialState
    for trial in question["trials"]:
        done = trial["state"] in ("finished", "stopped")
        values = zip(question["space"], trial["values"])
        study.add_trial(
            optuna.trial.create_trial(
                state=states.COMPLETE if done else states.FAIL if trial["state"] == "failed" else states.RUNNING,
                value=trial["score"] if done else None,
                params={d["name"]: value_of(d, value) for d, value in values},
                distributions=space,
            )
        )
    params = study.ask(space).params
    return {"values": [float(params[d["name"]]) for d in question["space"]]}


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.stdin.readline()))))
