"""Whole runs on the device that must end as others do: graphs, resuming, divergence."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

from day import HOME, Day, Failed

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
# name: (what `train` is given, environment steps)
RUNS = {
    "ppo_cartpole": (["ppo", "cartpole", *PPO], 40960),
    "ppo_pendulum": (
        ["ppo", "pendulum", *PPO, "ppo.network.normalize_obs=true", "ppo.normalize_reward=true"],
        40960,
    ),
    "ppo_goodhart": (["ppo", "goodhart", "ppo.network.kind=cnn", *PPO, *GOODHART], 20480),
    "tdmpc2_pendulum": (["tdmpc2", "pendulum", *SMALL_TDMPC2], 2000),
    "dreamer_cartpole": (["dreamer", "cartpole", *SMALL_DREAMER], 2000),
}


def runs(day: Day) -> dict:
    chosen = dict(list(RUNS.items())[:: 3 if day.quick else 1])
    return {
        name: [
            *words,
            "--bare",
            f"train.steps={steps // (8 if day.quick else 1)}",
            "train.deterministic=true",
            "seed=3",
        ]
        for name, (words, steps) in chosen.items()
    }


def state_hash(run: Path) -> str:
    manifests = [json.loads(p.read_text()) for p in run.glob("checkpoints/step_*/manifest.json")]
    return max(manifests, key=lambda m: m["sequence"])["state_hash"]


def note_of(run: Path) -> str:
    lines = [line for line in (run / "log.txt").read_text().splitlines() if "iterations " in line]
    return lines[0].split("iterations ", 1)[1] if lines else "iterations run eagerly"


def graphs(day: Day) -> None:
    """With everything deterministic a run replayed as graphs ends as the eager one, on any number of threads."""
    for name, words in runs(day).items():
        eager = day.train(f"{name}_eager", *words, "train.graph=off", "threads=1")
        graph = day.train(f"{name}_graph", *words, "train.graph=on", "threads=2")
        if state_hash(eager) != state_hash(graph):
            raise Failed(
                f"{name}: the graph's state is another one than the eager run's ({note_of(graph)})"
            )
        if day.place == "cuda" and "replayed as graphs" not in note_of(graph):
            raise Failed(f"{name}: nothing was captured: {note_of(graph)}")
        day.tell(f"{name}: equal to the bit; {note_of(graph)}")


def resume(day: Day) -> None:
    """A killed run goes on to the same bits."""
    for name, words in runs(day).items():
        every = int(words[-3].split("=")[1]) // 8
        words = [*words, f"train.save_every={every}"]
        whole = state_hash(day.train(f"{name}_whole", *words))
        broken = day.folder(f"{name}_broken")
        command = [str(word) for word in day.training(broken, *words)]
        with open(day.out / "log.txt", "a") as log:
            process = subprocess.Popen(
                command,
                cwd=HOME,
                stdout=log,
                stderr=log,
                env=day.environment,
            )
        while (
            process.poll() is None
            and len(list(broken.glob("checkpoints/step_*/manifest.json"))) < 3
        ):
            if time.monotonic() > day.deadline:
                process.kill()
                raise Failed(f"{name}: no checkpoint appeared in time")
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        killed = process.wait() != 0
        day.run(day.engine, "train", "--resume", broken, "--sinks", "jsonl")
        if state_hash(broken) != whole:
            raise Failed(f"{name}: the resumed run ends in another state than the unbroken one")
        day.tell(
            f"{name}: equal to the bit"
            + ("" if killed else ", but it had ended before it was killed")
        )


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
        "train.on_divergence=stop",
    ]
    day.run(*day.training(folder, *settings), good=(3,))
    status = json.loads((folder / "run.json").read_text())
    if "learning has diverged" not in status["message"]:
        raise Failed(f"a learning rate of 10 ended as '{status['state']}': {status['message']}")
    day.tell(f"told at step {status['steps']}: {status['message'][:160]}")
