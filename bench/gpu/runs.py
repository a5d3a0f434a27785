"""Whole runs on the device that must end as others do (graphs, resuming, divergence), and tensors there from Python."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from day import HOME, Day, Failed, Late, each

PPO = "env.count=64 ppo.rollout=16 ppo.minibatch=256".split()
SMALL_TDMPC2 = """
env.count=4 tdmpc2.enc_dim=64 tdmpc2.mlp_dim=64 tdmpc2.latent_dim=32 tdmpc2.samples=64
tdmpc2.policy_trajectories=8 tdmpc2.elites=8 tdmpc2.batch=32 tdmpc2.seed_steps=1000
""".split()
GOODHART = "env.width=32 env.height=32 env.max_food=16 env.min_food=4 env.max_poison=16 env.min_poison=4".split()
SMALL_DREAMER = """
env.count=4 dreamer.deter=32 dreamer.hidden=16 dreamer.stoch=4 dreamer.classes=4 dreamer.units=16
dreamer.batch=4 dreamer.length=8 dreamer.train_ratio=32
""".split()
SMALL_PROVER = """
env.data=countries_s1 env.count=4 ppo.rollout=8 ppo.minibatch=32 ppo.network.proof.embedding=16
ppo.network.proof.width=16 ppo.network.proof.blocks=1
""".split()


@dataclass(frozen=True)
class Run:
    """What `train` is given, and its environment steps."""

    words: list
    steps: int


RUNS = {
    "ppo_cartpole": Run(["ppo", "cartpole", *PPO], 40960),
    "ppo_pendulum": Run(
        ["ppo", "pendulum", *PPO, "ppo.network.normalize_obs=true", "ppo.normalize_reward=true"],
        40960,
    ),
    "ppo_goodhart": Run(["ppo", "goodhart", "ppo.network.kind=cnn", *PPO, *GOODHART], 20480),
    "tdmpc2_pendulum": Run(["tdmpc2", "pendulum", *SMALL_TDMPC2], 2000),
    "dreamer_cartpole": Run(["dreamer", "cartpole", *SMALL_DREAMER], 2000),
}


# two runs that are compared choose nothing by a clock: `auto` measures which precision is fastest
FIXED = ["train.precision=fp32", "train.deterministic=true", "seed=3"]


def as_run_today(day: Day, run: Run) -> Run:
    steps = run.steps // (8 if day.quick else 1)
    return Run([*run.words, "--bare", f"train.steps={steps}", *FIXED], steps)


def each_run(day: Day, check: Callable[[Day, str, Run], None]) -> None:
    """`check` of every run; a quick day has one of PPO and one that learns from a replay."""
    chosen = list(RUNS.items())[:: 3 if day.quick else 1]
    each(day, {name: partial(check, day, name, as_run_today(day, run)) for name, run in chosen})


def state_hash(run: Path) -> str:
    manifests = [json.loads(p.read_text()) for p in run.glob("checkpoints/step_*/manifest.json")]
    return max(manifests, key=lambda m: m["sequence"])["state_hash"]


def note_of(run: Path) -> str:
    lines = [line for line in (run / "log.txt").read_text().splitlines() if "iterations " in line]
    return lines[0].split("iterations ", 1)[1] if lines else "iterations run eagerly"


def graph_equals_eager(day: Day, name: str, run: Run) -> None:
    eager = day.train(f"{name}_eager", *run.words, "train.graph=off", "threads=1")
    graph = day.train(f"{name}_graph", *run.words, "train.graph=on", "threads=2")
    if state_hash(eager) != state_hash(graph):
        raise Failed(f"the graph's state is another one than the eager run's ({note_of(graph)})")
    if day.place == "cuda" and "replayed as graphs" not in note_of(graph):
        raise Failed(f"nothing was captured: {note_of(graph)}")
    day.tell(f"{name}: equal to the bit; {note_of(graph)}")


def graphs(day: Day) -> None:
    """A run replayed as graphs ends as the eager one, on another number of threads."""
    each_run(day, graph_equals_eager)


def killed_on_its_way(day: Day, folder: Path, words: list) -> bool:
    """Trains and kills it at its third checkpoint; false where it had ended before."""
    with open(day.out / "log.txt", "a") as log:
        process = subprocess.Popen(
            [str(word) for word in day.training(folder, *words)],
            cwd=HOME,
            stdout=log,
            stderr=log,
            env=day.environment,
        )
    try:
        while process.poll() is None:
            if len(list(folder.glob("checkpoints/step_*/manifest.json"))) >= 3:
                break
            if day.left() < 0:
                raise Late("no third checkpoint appeared in time")
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        status = process.wait()
    if status not in (0, -signal.SIGKILL):
        raise Failed(f"ended by itself with status {status} before it was killed: see log.txt")
    return status != 0


def resumed_equals_unbroken(day: Day, name: str, run: Run) -> None:
    words = [*run.words, f"train.save_every={run.steps // 8}"]
    whole = day.train(f"{name}_whole", *words)
    broken = day.folder(f"{name}_broken")
    killed = killed_on_its_way(day, broken, words)
    day.run(day.engine, "train", "--resume", broken, "--sinks", "jsonl")
    if state_hash(broken) != state_hash(whole):
        raise Failed("the resumed run ends in another state than the unbroken one")
    unbroken = "" if killed else ", but it had ended before it was killed"
    day.tell(f"{name}: equal to the bit{unbroken}")


def resume(day: Day) -> None:
    """A killed run goes on to the same bits."""
    each_run(day, resumed_equals_unbroken)


def divergence(day: Day) -> None:
    """Numbers that are not finite are told, by run.json and by the exit status."""
    folder = day.folder("diverges")
    settings = [
        "ppo",
        "pendulum",
        "--bare",
        *PPO,
        "ppo.lr=10",
        "train.steps=200000",
        "train.precision=fp32",
        "train.on_divergence=stop",
    ]
    day.run(*day.training(folder, *settings), good=(3,))
    status = json.loads((folder / "run.json").read_text())
    if "learning has diverged" not in status["message"]:
        raise Failed(f"a learning rate of 10 ended as '{status['state']}': {status['message']}")
    day.tell(f"told at step {status['steps']}: {status['message'][:160]}")


def python_tensors(day: Day) -> None:
    """Environments and policies as Python has them: tensors on the device, stepped and acted on from there."""
    if importlib.util.find_spec("pytest") is None:
        day.tell("there is no pytest: nothing was tested")
        return
    # a build that was brought along may be of another Python; any other fault is one
    modules = [path.name for path in (day.build / "python").glob("_engine.*.so")]
    ours = sysconfig.get_config_var("EXT_SUFFIX")
    if modules and f"_engine{ours}" not in modules:
        day.tell(f"nothing was tested: the build has {', '.join(modules)}, and this Python takes _engine{ours}")
        return
    output = day.run(
        sys.executable, "-m", "pytest", "-q", "tests/python/test_python_device.py", MAGLEV_TEST_DEVICE=day.device
    )
    found = re.search(r"(\d+) passed", output)
    if not found or (day.place == "cuda" and "skipped" in output):
        raise Failed(f"not all cases were run: {output.strip().splitlines()[-1]}")
    day.tell(f"{found[1]} cases on {day.device}")
