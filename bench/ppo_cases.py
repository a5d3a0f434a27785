"""PPO end to end with the same settings as the peers: steps/s without construction."""

from __future__ import annotations

import math
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import floor
from machine import cores
from measure import HOME, PEER_PYTHON, VENV, Contender, Unavailable, compare, execute, shown
from programs import (
    PEERS,
    engine_version,
    fastest,
    need,
    peer_command,
    peer_threads,
    peer_version,
    settings_of,
    train,
    train_command,
    training_speed,
)

# a sample takes about this long, whoever is measured and however slow
SAMPLE_S = 8
# updates of a warm-up, which finds a peer's threads and how many updates a sample takes
TRIAL_UPDATES = 2


@dataclass
class Shape:
    """One size of run: environments, steps an update of each, rows of a minibatch."""

    count: int
    rollout: int
    minibatch: int

    @property
    def rows(self) -> int:
        return self.count * self.rollout

    def __str__(self) -> str:
        return f"{self.count} environments x {self.rollout} steps, minibatch {self.minibatch}"


SMALL = Shape(8, 128, 256)
LARGE = Shape(1024, 32, 8192)
PLANES = Shape(256, 32, 512)
GYMNASIUM = {
    "cartpole": "CartPole-v1",
    "pendulum": "Pendulum-v1",
    "minatar_breakout": "minatar_breakout",
    "gymnasium": "CartPole-v1",
    "atari": "BreakoutNoFrameskip-v4",
}
# what of Python's is one of ours
OURS = {"atari": "gymnasium"}


def updates_of(options, speed: float, rows: int) -> int:
    """Updates of `rows` that fill a sample at `speed` steps/s."""
    fitting = TRIAL_UPDATES if options.quick else math.ceil(SAMPLE_S * speed / rows)
    return max(TRIAL_UPDATES, fitting)


def sampled(
    options, name: str, version: str, command_for, rows: int, ways: dict | None = None
) -> Contender:
    """A contender whose warm-up finds the fastest of `ways` (1 and all threads where none are
    given), and how many updates a sample takes; `command_for(way, updates)`."""
    peer = Contender(name, "", lambda: 0.0, version)
    ways = ways or {f"{threads} thread(s)": threads for threads in peer_threads(options)}

    def warm_up():
        way, speed = fastest(options, name, ways, lambda w: command_for(w, TRIAL_UPDATES))
        command = command_for(way, updates_of(options, speed, rows))
        peer.command = shown(command, options.folder)
        peer.sample = lambda: execute(command).report()["steps_per_second"]

    peer.warm_up = warm_up
    return peer


# the library's own choice of kernels by processor, and those that another processor's beat it with
OPENBLAS_KERNELS = ("", "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids")


def rl_tools(options, shape: Shape, blas: str) -> Path:
    """Its program for this shape and library, built when it is missing or older than our source."""
    program = VENV / "rl_tools" / f"pendulum_ppo_{shape.count}_{blas}"
    source = PEERS / "rl_tools" / "pendulum_ppo.cpp"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        options.say(f"  building rl-tools with {blas}")
        command = ["bash", PEERS / "rl_tools" / "build.sh", options.rl_tools, program.parent]
        words = [str(w) for w in (*command, shape.count, shape.rollout, shape.minibatch, blas)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=HOME, check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            why = (errors or done.stderr.strip().splitlines() or ["no message"])[0]
            raise Unavailable(f"did not build: {why[:200]}")
    return program


def peers_of(
    options, env: str, run: Path, shape: Shape, only: tuple = ()
) -> tuple[list, list]:
    """Those that can be measured, of `only` where any are named, and {name, why} of the others."""
    peers, absent = [], []

    def python_peer(name: str, module: str, script: str, *words, places: dict | None = None):
        """`places`: words besides, by where it has its games; the fastest is found with the threads."""
        ways = {
            f"{threads} thread(s){place}": (threads, more)
            for threads in peer_threads(options)
            for place, more in (places or {"": ()}).items()
        }

        def command_for(way, updates):
            threads, more = way
            speed = ("--speed", updates * shape.rows, *words, *more)
            return peer_command(script, run, GYMNASIUM[env], threads, *speed)

        version = peer_version(module, PEER_PYTHON) if module else ""
        peers.append(sampled(options, name, version, command_for, shape.rows, ways))

    def sb3():
        places = {"": (), ", games in processes": ("--processes",)} if env == "atari" else None
        python_peer("stable-baselines3", "stable_baselines3", "sb3_ppo.py", places=places)

    def cleanrl():
        if not options.cleanrl:
            raise Unavailable("no --cleanrl was given")
        python_peer("cleanrl", "", "cleanrl_ppo.py", "--source", options.cleanrl)

    def only_vectors():
        if env in ("minatar_breakout", "atari"):
            raise Unavailable("is measured on vectors")

    def torchrl():
        only_vectors()
        python_peer("torchrl", "torchrl", "torchrl_ppo.py")

    def puffer():
        if env != "cartpole":
            raise Unavailable(f"has no C environment like {env}")
        source = VENV / "puffer_source"
        if not source.exists():
            raise Unavailable("not built; see .venv-bench/setup.log")
        python_peer("pufferlib", "", "puffer_ppo.py", "--source", source)

    def rltools():
        if env != "pendulum":
            raise Unavailable(f"is measured on pendulum, not on {env}")
        if not options.rl_tools:
            raise Unavailable("no --rl-tools was given")
        ways = {}
        for blas, kernels in (("openblas", OPENBLAS_KERNELS), ("mkl", ("",))):
            try:
                program = rl_tools(options, shape, blas)
            except Unavailable as why:
                absent.append({"name": f"rl-tools with {blas}", "why": str(why)})
                continue
            variable = {"openblas": "OPENBLAS_NUM_THREADS", "mkl": "MKL_NUM_THREADS"}[blas]
            for kernel in kernels:
                for threads in peer_threads(options):
                    words = ["env", "-u", "OPENBLAS_CORETYPE", f"{variable}={threads}"]
                    words += [f"OPENBLAS_CORETYPE={kernel}"] if kernel else []
                    told = f"{blas} {kernel or 'by itself'} {threads} thread(s)"
                    ways[told] = [*words, program]
        if not ways:
            raise Unavailable("built with no library")

        peers.append(sampled(options, "rl-tools", "", lambda w, n: [*w, n], shape.rows, ways))

    def sample_factory():
        only_vectors()
        python = VENV / "sample_factory" / "bin" / "python"
        version = peer_version("sample_factory", python, "sample-factory")
        ways = {"serial": ("serial", 1), "serial, all threads": ("serial", cores())}
        for threads in peer_threads(options):
            for mode in ("sync", "async"):
                ways[f"{mode} {threads} worker(s)"] = (mode, threads)

        def command_for(way, updates):
            mode, threads = way
            speed = ("--speed", updates * shape.rows, "--mode", mode)
            return peer_command(
                "sample_factory_ppo.py", run, GYMNASIUM[env], threads, *speed, python=python
            )

        peers.append(sampled(options, "sample-factory", version, command_for, shape.rows, ways))

    for name, attempt in (
        ("stable-baselines3", sb3),
        ("cleanrl", cleanrl),
        ("torchrl", torchrl),
        ("pufferlib", puffer),
        ("sample-factory", sample_factory),
        ("rl-tools", rltools),
    ):
        if options.peers and name not in options.peers:
            continue
        if only and name not in only:
            continue
        try:
            attempt()
        except Unavailable as why:
            absent.append({"name": name, "why": str(why)})
    return peers, absent


def our_run(options, run: Path, words: list, rows: int, trial: int = 40) -> Contender:
    """Ours: its warm-up of `trial` updates of `rows` finds how many a sample takes."""
    ours = Contender("maglev", "", lambda: 0.0)

    def trained(updates: int) -> float:
        steps = updates * rows
        # a checkpoint at the beginning and the end only: the peers write none
        length = [f"train.steps={steps}", f"train.save_every={steps}"]
        train(options.programs, run, [*words, *length])
        ours.command = shown(train_command(options.programs, run, [*words, *length]), run)
        return training_speed(run)

    def warm_up():
        # the first row of metrics begins the clock
        updates = 1 + updates_of(options, trained(trial), rows)
        ours.sample = lambda: trained(updates)

    ours.warm_up = warm_up
    return ours


def finished(options, env: str, run: Path, variant: str, result: dict, notes: list) -> list:
    """The result with our version and the arithmetic floor."""
    if result["ours"]["samples"]:
        result["ours"]["version"] = engine_version(run)
        try:
            floor.add_floor(result, env, settings_of(run), floor.peak_gflops(options.programs))
        except Unavailable as why:
            notes = [*notes, str(why)]
    return [{"variant": f"{variant}, {cores()} cores", **result, "notes": notes}]


def ppo(options, case: str, env: str, shape: Shape, more: tuple = (), only: tuple = ()) -> list:
    """Our PPO and the peers', of `only` where any are named, with the same settings."""
    options.say(case)
    words = [
        *("ppo", OURS.get(env, env), "--bare", *more),
        f"env.count={shape.count}",
        f"ppo.rollout={shape.rollout}",
        f"ppo.minibatch={shape.minibatch}",
        "ppo.epochs=4",
        "ppo.lr=3e-4",
    ]
    run = options.folder / case
    peers, absent = peers_of(options, env, run, shape, only)
    # a network given by a file is a larger one; the peers read the settings that the trial leaves
    trial = TRIAL_UPDATES if more else 40
    ours = our_run(options, run, words, shape.rows, trial)
    result = compare(ours, peers, options.pairs, options.say)
    result["missing"] += absent
    return finished(options, env, run, str(shape), result, [])


def cartpole_ppo_8x128(options) -> list:
    return ppo(options, "cartpole_ppo_8x128", "cartpole", SMALL)


def cartpole_ppo_1024x32(options) -> list:
    return ppo(options, "cartpole_ppo_1024x32", "cartpole", LARGE)


def cartpole_memory_ppo_8x128(options) -> list:
    """Without velocities, with a memory of 64 units; of the peers one has such a PPO."""
    more = ("env.velocities=false", "ppo.network.memory=64")
    only = ("stable-baselines3",)
    return ppo(options, "cartpole_memory_ppo_8x128", "cartpole", SMALL, more, only)


def pendulum_ppo_8x128(options) -> list:
    return ppo(options, "pendulum_ppo_8x128", "pendulum", SMALL)


def pendulum_ppo_1024x32(options) -> list:
    return ppo(options, "pendulum_ppo_1024x32", "pendulum", LARGE)


def gymnasium_ppo_8x128(options) -> list:
    """Python's CartPole on both sides."""
    return ppo(options, "gymnasium_ppo_8x128", "gymnasium", SMALL)


def atari_ppo_8x128(options) -> list:
    """Breakout by examples/python/atari.py and configs/ppo/atari.yaml at a constant rate, values not clipped, in the peers'
    Python."""
    folders = [str(HOME / "examples" / "python"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    proven = HOME / "configs" / "ppo" / "atari.yaml"
    more = ("--config", proven, "env.id=atari:Game", f"env.python={PEER_PYTHON}")
    more += ("ppo.lr_end=1", "ppo.value_clip=0")
    return ppo(options, "atari_ppo_8x128", "atari", SMALL, more, ("stable-baselines3", "cleanrl"))


def minatar_ppo_256x32(options) -> list:
    """The network of configs/ppo/minatar_breakout.yaml at a constant rate."""
    proven = HOME / "configs" / "ppo" / "minatar_breakout.yaml"
    more = ("--config", proven, "ppo.lr_end=1")
    return ppo(options, "minatar_ppo_256x32", "minatar_breakout", PLANES, more)


def goodhart_ppo(options) -> list:
    """The original's network and settings, ours in float32 and bfloat16, and the original in both.

    192 environments; 32 steps an update stand in for its 128: the work a sample is the same.
    """
    options.say("goodhart_ppo")
    count, rollout = (16, 8) if options.quick else (192, 32)
    rows = count * rollout
    words = [
        *("ppo", "goodhart", "--bare"),
        *("--config", HOME / "configs" / "ppo" / "goodhart_original.yaml"),
        *(f"env.count={count}", f"ppo.rollout={rollout}"),
        f"train.log_every={rows}",
    ]
    run = options.folder / "goodhart_ppo"
    ours = our_run(options, run, words, rows, trial=TRIAL_UPDATES)
    low_words = [*words, "train.precision=bf16"]
    low = our_run(options, options.folder / "goodhart_bf16", low_words, rows, trial=TRIAL_UPDATES)
    low.name = "maglev bf16"
    peers, absent = [], []
    try:
        help_text = execute([need(options.programs.engine), "train", "ppo", "goodhart", "--help"])
    except Unavailable as why:
        absent.append({"name": low.name, "why": str(why)})
    else:
        if "train.precision" in help_text.output:
            peers.append(low)
        else:
            absent.append({"name": "bf16", "why": "this build has no train.precision"})
    if options.goodhart:
        script = [PEER_PYTHON, PEERS / "goodhart_original.py", options.goodhart]
        for name, more in (("original", []), ("original bf16", ["--bf16"])):

            def command_for(threads, trained, more=more):
                shape = ("--count", count, "--rollout", rollout, "--updates", trained)
                return [*script, "--threads", threads, "ppo", *shape, *more]

            peers.append(sampled(options, name, "", command_for, rows))
    else:
        absent.append({"name": "original", "why": "not run here: no --goodhart was given"})
    result = compare(ours, peers, options.pairs, options.say)
    result["missing"] += absent
    variant = f"{count} environments x {rollout} steps, whole batch, the original's network"
    note = "each program's first update is not counted"
    return finished(options, "goodhart", run, variant, result, [note])
