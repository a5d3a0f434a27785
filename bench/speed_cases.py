"""Throughput: environments alone, and PPO end to end, beside the peers."""

from __future__ import annotations

from pathlib import Path

from machine import cores
from measure import PEER_PYTHON, VENV, Contender, Unavailable, compare, execute, shown
from programs import (
    Programs,
    engine_version,
    env_throughput,
    peer_version,
    sb3_command,
    sb3_threads,
    train,
    train_command,
    training_speed,
)

PEERS = Path(__file__).resolve().parent / "peers"


def pinned(name: str) -> str:
    lines = (Path(__file__).resolve().parent / "requirements.txt").read_text().splitlines()
    return next(line.split("==")[1] for line in lines if line.startswith(name + "=="))


def our_envs(
    programs: Programs, env: list, count: int, threads: int, seconds: float, one_core: bool
):
    def sample() -> float:
        rows = env_throughput(programs, env, seconds, one_core)
        if (count, threads) not in rows:
            known = sorted({n for n, t in rows if t == threads})
            raise Unavailable(
                f"env_throughput has no row for {count} environments and {threads} thread(s); "
                f"it has {known} environments"
            )
        return rows[count, threads]

    command = [programs.throughput, "--seconds", seconds, "--repeats", 1, *env]
    return Contender("maglev", shown(command), sample)


def cartpole_env(options) -> list:
    """Environments alone on one core, actions drawn beforehand."""
    results = []
    for count in options.counts or (8, 64, 1024):
        options.say(f"cartpole_env, {count} environments")
        seconds = 0.05 if options.quick else 0.5
        peers, absent = [], []

        puffer = [VENV / "puffer_cartpole", count, seconds]
        if puffer[0].exists():
            peers.append(
                Contender(
                    "pufferlib",
                    shown(puffer),
                    lambda c=puffer: execute(c, one_core=True).report()["steps_per_second"],
                    pinned("pufferlib"),
                )
            )
        else:
            absent.append({"name": "pufferlib", "why": "not built; see .venv-bench/setup.log"})
        envpool = [PEER_PYTHON, PEERS / "envpool_cartpole.py", count, seconds]
        try:
            version = peer_version("envpool", PEER_PYTHON)
            peers.append(
                Contender(
                    "envpool",
                    shown(envpool),
                    lambda c=envpool: execute(c, one_core=True).report()["steps_per_second"],
                    version,
                )
            )
        except Unavailable as why:
            absent.append({"name": "envpool", "why": str(why)})

        ours = our_envs(options.programs, ["cartpole"], count, 1, seconds, one_core=True)
        result = compare(ours, peers, options.pairs, options.say)
        result["missing"] += absent
        results.append(
            {
                "variant": f"{count} environments, 1 core",
                **result,
                "notes": ["all programs pinned to one core"],
            }
        )
    return results


# median steps/s of the original's environment by number of environments, on 2 cores of another day
ORIGINAL_GOODHART = {64: 7313, 256: 9810, 1024: 6393}


def goodhart_env(options) -> list:
    """The Goodhart grid alone, on all cores, 128 x 128 with 64 to 256 of each item."""
    results = []
    seconds = 0.05 if options.quick else 1.0
    for count in (64, 1024):
        options.say(f"goodhart_env, {count} environments")
        peers, absent = [], []
        if options.goodhart_peer:
            command = [
                word.format(envs=count, seconds=max(1.0, 3 * seconds))
                for word in options.goodhart_peer
            ]
            peers.append(
                Contender(
                    "original",
                    "the original's environment, random actions",
                    lambda c=command: execute(c).report()["steps_per_second"],
                )
            )
        else:
            absent.append({"name": "original", "why": "not run here: no --goodhart-peer was given"})
        env = ["goodhart", "mode=ground_truth"]
        ours = our_envs(options.programs, env, count, cores(), seconds, one_core=False)
        result = compare(ours, peers, options.pairs, options.say)
        result["missing"] += absent
        figure = ORIGINAL_GOODHART[count]
        result["stated"] = {
            "name": "the original's environment, measured on 2 cores",
            "median": figure,
            "range": [7000, 10000],
            "same_run": False,
        }
        if result["ours"]["median"]:
            result["stated"]["ratio"] = result["ours"]["median"] / figure
        results.append({"variant": f"{count} environments, {cores()} cores", **result, "notes": []})
    return results


def cartpole_ppo(
    options, case: str, count: int, rollout: int, minibatch: int, updates: int
) -> list:
    """PPO end to end on CartPole with the same settings, steps/s without construction."""
    options.say(case)
    steps = count * rollout * (4 if options.quick else updates)
    words = [
        "ppo",
        "cartpole",
        "--bare",
        f"env.count={count}",
        f"ppo.rollout={rollout}",
        f"ppo.minibatch={minibatch}",
        "ppo.epochs=4",
        "ppo.lr=3e-4",
        f"train.steps={steps}",
        # a checkpoint at the beginning and the end only: the peer writes none
        f"train.save_every={steps}",
    ]
    run = options.folder / case

    def ours_sample() -> float:
        train(options.programs, run, words)
        return training_speed(run)

    ours = Contender("maglev", shown(train_command(options.programs, run, words), run), ours_sample)
    peers, absent = [], []

    try:
        peer = Contender(
            "stable-baselines3", "", lambda: 0.0, peer_version("stable_baselines3", PEER_PYTHON)
        )

        def warm_up():
            # the settings are those of the run that our warm-up left
            threads = sb3_threads(options, run, "CartPole-v1", max(count * rollout, steps // 3))
            command = sb3_command(run, "CartPole-v1", threads, "--speed", steps)
            peer.command = shown(command, run)
            peer.sample = lambda: execute(command).report()["steps_per_second"]

        peer.warm_up = warm_up
        peers.append(peer)
    except Unavailable as why:
        absent.append({"name": "stable-baselines3", "why": str(why)})
    result = compare(ours, peers, options.pairs, options.say)
    result["missing"] += absent
    if ours.samples:
        result["ours"]["version"] = engine_version(run)
    variant = f"{count} environments x {rollout} steps, minibatch {minibatch}, {cores()} cores"
    return [{"variant": variant, **result, "notes": []}]


def cartpole_ppo_8x128(options) -> list:
    return cartpole_ppo(options, "cartpole_ppo_8x128", 8, 128, 256, updates=96)


def cartpole_ppo_1024x32(options) -> list:
    return cartpole_ppo(options, "cartpole_ppo_1024x32", 1024, 32, 8192, updates=20)
