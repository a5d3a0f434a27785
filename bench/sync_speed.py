"""How long `maglev sync` takes for a run of 2,000 rows, each time a new one: W&B offline, MLflow's database in a folder.

    PYTHON bench/sync_speed.py    a Python that has the packages of requirements-wandb.txt and requirements-mlflow.txt

A process each, which begins from nothing and, of MLflow, makes its database. Three samples and their medians.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
ROWS, COLUMNS, SAMPLES = 2_000, 40, 3


def make_run(folder: Path) -> Path:
    """What training leaves, as far as it is read."""
    folder.mkdir()
    status = {"algo": "ppo", "env": "cartpole", "state": "finished", "started": 1000.0, "ended": 1200.0}
    (folder / "run.json").write_text(json.dumps(status))
    with open(folder / "metrics.jsonl", "w") as file:
        for k in range(1, ROWS + 1):
            figures = {f"group/figure_{c}": 0.5 * k + c for c in range(COLUMNS - 3)}
            file.write(json.dumps({"step": 100 * k, "seconds": 0.1 * k, "episodes": k, **figures}) + "\n")
    return folder


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sample(folder: Path, to: str, *words: str) -> tuple[float, float]:
    """Seconds by the clock and of processors."""
    run = make_run(folder)
    own = {f"WANDB_{name}_DIR": str(folder) for name in ("DATA", "CACHE", "CONFIG")}
    env = {**os.environ, **own, "PYTHONPATH": str(HOME / "python")}
    begin, used = time.monotonic(), processor_s()
    subprocess.run([sys.executable, "-m", "maglev_sync", run, "--to", to, *words], env=env, check=True)
    return time.monotonic() - begin, processor_s() - used


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for to in ("wandb", "mlflow"):
            words = [["--offline"] if to == "wandb" else ["--uri", str(base / f"db{i}")] for i in range(SAMPLES)]
            samples = [sample(base / f"{to}{i}", to, *words[i]) for i in range(SAMPLES)]
            clock, used = (statistics.median(column) for column in zip(*samples))
            print(f"{to}: {clock:.1f} s, {1e3 * used / ROWS:.2f} ms of a processor a row; samples {samples}")


if __name__ == "__main__":
    main()
