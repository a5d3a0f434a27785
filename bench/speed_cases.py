"""Throughput of environments alone, beside the peers."""

from __future__ import annotations

import itertools
from pathlib import Path

from machine import cores
from measure import HOME, PEER_PYTHON, VENV, Contender, Unavailable, compare, execute, shown
from programs import Programs, env_throughput, need, peer_version, train, train_command

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


MINATAR = sorted(folder.name[8:] for folder in (HOME / "envs").glob("minatar_*"))


def minatar_env(options) -> list:
    """MinAtar's games alone on one core, actions drawn beforehand."""
    results, seconds = [], 0.05 if options.quick else 0.5
    for game in MINATAR:
        options.say(f"minatar_env, {game}")
        peers, absent = [], []
        command = [PEER_PYTHON, PEERS / "minatar_python.py", game, 4 * seconds]
        try:
            peers.append(
                Contender(
                    "minatar",
                    shown(command),
                    lambda c=command: execute(c, one_core=True).report()["steps_per_second"],
                    peer_version("minatar", PEER_PYTHON),
                )
            )
        except Unavailable as why:
            absent.append({"name": "minatar", "why": str(why)})
        ours = our_envs(options.programs, [f"minatar_{game}"], 64, 1, seconds, one_core=True)
        result = compare(ours, peers, options.pairs, options.say)
        result["missing"] += absent
        variant = f"{game}, 64 environments (the package: 1), 1 core"
        results.append({"variant": variant, **result, "notes": []})
    return results


def dmc_env(options) -> list:
    """The control suite's tasks alone on one core, actions drawn beforehand: numbers, then pictures."""
    results, seconds = [], 0.1 if options.quick else 2.0
    for domain, task in (("cartpole", "swingup"), ("cheetah", "run"), ("reacher", "easy"), ("walker", "walk")):
        for width in (0, 64):
            shows = f"{width} x {width} pictures" if width else "numbers"
            options.say(f"dmc_env, {domain} {task}, {shows}")
            peers, absent = [], []
            command = [PEER_PYTHON, PEERS / "dm_control_python.py", domain, task, seconds, *([width] if width else [])]
            try:
                peers.append(
                    Contender(
                        "dm_control",
                        shown(command),
                        lambda c=command: execute(c, one_core=True).report()["steps_per_second"],
                        peer_version("dm_control", PEER_PYTHON),
                    )
                )
            except Unavailable as why:
                absent.append({"name": "dm_control", "why": str(why)})
            setting = [f"dmc_{domain}", f"task={task}", *(["observe=image"] if width else [])]
            ours = our_envs(options.programs, setting, 8, 1, seconds, one_core=True)
            result = compare(ours, peers, options.pairs, options.say)
            result["missing"] += absent
            variant = f"{domain} {task}, {shows}, 8 environments (dm_control: 1), 1 core"
            results.append({"variant": variant, **result, "notes": ["the same MuJoCo and OpenGL on both sides"]})
    return results


def gymnasium_env(options) -> list:
    """Python's environments, actions drawn beforehand, beside Gymnasium's two ways to step many at once."""
    results, seconds = [], 0.2 if options.quick else 2.0
    for name in ("CartPole-v1", "Acrobot-v1"):
        for count in options.counts or (8, 64):
            options.say(f"gymnasium_env, {name}, {count} environments")
            peers, absent = [], []
            for mode in ("sync", "async"):
                command = [PEER_PYTHON, PEERS / "gymnasium_vector.py", name, count, mode, seconds]
                try:
                    peers.append(
                        Contender(
                            f"gymnasium, {mode}",
                            shown(command),
                            lambda c=command: execute(c).report()["steps_per_second"],
                            peer_version("gymnasium", PEER_PYTHON),
                        )
                    )
                except Unavailable as why:
                    absent.append({"name": f"gymnasium, {mode}", "why": str(why)})
            ours = our_envs(options.programs, ["gymnasium", f"id={name}"], count, cores(), seconds, one_core=False)
            result = compare(ours, peers, options.pairs, options.say)
            result["missing"] += absent
            results.append({"variant": f"{name}, {count} environments, {cores()} cores", **result, "notes": []})
    return results


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
        if options.goodhart:
            command = [
                *(PEER_PYTHON, PEERS / "goodhart_original.py", options.goodhart),
                *("--threads", cores(), "env", "--count", count),
                *("--seconds", max(1.0, 3 * seconds)),
            ]
            peers.append(
                Contender(
                    "original",
                    shown(command),
                    lambda c=command: execute(c).report()["steps_per_second"],
                )
            )
        else:
            absent.append({"name": "original", "why": "not run here: no --goodhart was given"})
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


def start_up(options) -> list:
    """Whole commands by the clock, as commands a second: one without work, and Pendulum from nothing to -200."""
    options.say("start_up, a command without work")
    version = [need(options.programs.engine), "--version"]
    ours = Contender("maglev", shown(version), lambda: 1 / execute(version).seconds)
    torch = [PEER_PYTHON, "-c", "import torch"]
    peers, absent = [], []
    try:
        peers.append(
            Contender(
                "python, import torch",
                shown(torch),
                lambda: 1 / execute(torch).seconds,
                peer_version("torch", PEER_PYTHON),
            )
        )
    except Unavailable as why:
        absent.append({"name": "python, import torch", "why": str(why)})
    idle = compare(ours, peers, options.pairs, options.say)
    idle["missing"] += absent

    options.say("start_up, Pendulum to -200")
    run, seeds = options.folder / "pendulum", itertools.count(0)
    words = ["ppo", "pendulum", "train.until_return=-200"]
    ours = Contender(
        "maglev",
        shown(train_command(options.programs, run, [*words, "seed=SEED"]), run),
        lambda: 1 / train(options.programs, run, [*words, f"seed={next(seeds)}"]).seconds,
    )
    learnt = compare(ours, [], options.pairs, options.say)
    return [
        {"variant": "a command without work", **idle, "notes": ["commands a second"]},
        {"variant": "Pendulum to -200", **learnt, "notes": ["commands a second, a seed each"]},
    ]
