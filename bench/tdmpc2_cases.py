"""TD-MPC2 beside its official code, replay beside TorchRL's storage, hockey beside its original."""

from __future__ import annotations

from pathlib import Path

import floor
import tdmpc2_floor
from machine import commit, cores
from measure import HOME, PEER_PYTHON, Contender, Unavailable, compare, execute, shown
from programs import PEERS, need, peer_version
from speed_cases import our_envs, pinned

# what the official code's script is told of a configuration; our programs know it by its name
TOLD = {
    "plan": ("horizon", "samples", "policy_trajectories", "iterations", "num_q", "actions"),
    "update": ("horizon", "batch", "num_q", "actions"),
}
TOGETHER = 8  # environments planned together


def flags(what: str, config: tdmpc2_floor.Config) -> list:
    """One configuration as words for the official code's script."""
    words = [f"--{name.replace('_', '-')}={getattr(config, name)}" for name in TOLD[what]]
    return words + (["--episodic"] if config.episodic else [])


def called(name: str, command: list, calls: int = 1, version: str = "") -> Contender:
    """A contender whose program tells one case with `ms`, the least time of a call that does
    `calls` at once."""

    def sample() -> float:
        need(Path(command[0]))
        told = execute(command).reports()
        if len(told) != 1:
            raise Unavailable(f"{shown(command)}: told {len(told)} cases, expected one")
        if "missing" in told[0]:
            raise Unavailable(told[0]["missing"])
        return 1e3 * calls / told[0]["ms"]

    return Contender(name, shown(command), sample, version)


def official(options, what: str, config: tdmpc2_floor.Config, threads: int) -> Contender:
    """The official code's eager plan or update."""
    if not options.tdmpc2:
        raise Unavailable("no --tdmpc2 was given")
    command = [
        *(PEER_PYTHON, PEERS / "tdmpc2_official.py", "--repo", options.tdmpc2),
        *("--threads", threads, *repeats(options), what, *flags(what, config)),
    ]
    torch = peer_version("torch", PEER_PYTHON)
    return called("official", command, version=f"commit {commit(options.tdmpc2)}, torch {torch}")


def repeats(options) -> list:
    return ["--repeats", 1 if options.quick else 5]


def beside_official(options, what: str, kinds: list) -> list:
    """Ours in several kinds, (name, words, calls at once), and the official code, with 1 thread and
    all. The first kind is the one that the ratios are of."""
    results = []
    for config in (tdmpc2_floor.DEFAULT, tdmpc2_floor.REPORT):
        for threads in sorted({1, cores()}):
            options.say(f"tdmpc2_{what}, {config.name}, {threads} thread(s)")
            program = options.programs.beside(f"{what}_throughput")
            command = [program, "--threads", threads, *repeats(options), config.name]
            ours, *others = (
                called(name, [*command, *more], calls)
                for name, more, calls in kinds
            )
            absent = []
            try:
                others.append(official(options, what, config, threads))
            except Unavailable as why:
                absent.append({"name": "official", "why": str(why)})
            result = compare(ours, others, options.pairs, options.say)
            result["missing"] += absent
            flop = config.plan_flop() if what == "plan" else config.update_flop()
            notes = ["figures are calls a second; 8 environments together count as 8 calls"]
            try:
                gemm = execute([PEER_PYTHON, HOME / "bench" / "gemm.py", "--threads", threads])
                tdmpc2_floor.add_floor(
                    result,
                    flop,
                    {"fp32": floor.peak_gflops(options.programs, threads), **gemm.report()},
                )
            except Unavailable as why:
                notes.append(f"no floor: {why}")
            variant = (
                f"{config.name}: horizon {config.horizon}, {config.samples} samples, "
                f"{config.num_q} Q, {threads} thread(s)"
                if what == "plan"
                else f"{config.name}: horizon {config.horizon}, batch {config.batch}, "
                f"{config.num_q} Q, {threads} thread(s)"
            )
            results.append({"variant": variant, **result, "notes": notes})
    return results


def tdmpc2_plan(options) -> list:
    """One plan in float32 and bfloat16, and of 8 environments together."""
    kinds = [
        (f"maglev{told}{together}", ["--precision", precision, "--envs", envs], envs)
        for precision, told in (("fp32", ""), ("bf16", " bf16"))
        for envs, together in ((1, ""), (TOGETHER, f" x{TOGETHER}"))
    ]
    return beside_official(options, "plan", kinds)


def tdmpc2_update(options) -> list:
    """One update from a batch that is there."""
    return beside_official(options, "update", [("maglev", [], 1)])


def storage(seconds: float, name: str, *words) -> Contender:
    """TorchRL's storage, in writes or batches a second."""
    command = [PEER_PYTHON, PEERS / "torchrl_storage.py", "--seconds", seconds, *words]
    version = peer_version("torchrl", PEER_PYTHON)
    return Contender(
        name, shown(command), lambda: execute(command).report()["per_second"], version
    )


def our_replay(options, seconds: float, **case) -> Contender:
    """Ours in the same unit: the line of `bench replay` that has all of `case`."""
    milliseconds = round(1000 * seconds)
    command = [
        *(options.programs.engine, "bench", "replay", "--lines"),
        *("--milliseconds", milliseconds),
    ]

    def sample() -> float:
        need(command[0])
        for line in execute(command).reports():
            if all(line.get(key) == value for key, value in case.items()):
                return line["per_second"]
        raise Unavailable(f"bench replay has no line with {case}")

    return Contender("maglev", shown(command), sample)


def beside_storage(options, variant: str, ours: Contender, peers: list) -> dict:
    options.say(variant)
    made, absent = [], []
    for peer in peers:
        try:
            made.append(peer())
        except Unavailable as why:
            absent.append({"name": "torchrl", "why": str(why)})
    result = compare(ours, made, options.pairs, options.say)
    result["missing"] += absent
    return {"variant": variant, **result, "notes": ["one thread"]}


def replay_write(options) -> list:
    """Rows of a step written to the replay; TorchRL gets them as a list, and as one batch."""
    seconds = 0.05 if options.quick else 0.5
    results = []
    for columns in ("vector", "image"):
        for rows in (8, 16, 32, 64, 128):
            place = ("write", "--columns", columns, "--rows", rows)
            peers = [
                lambda way=way, place=place: storage(
                    seconds, f"torchrl {way}", *place, "--way", way
                )
                for way in ("list", "batched")
            ]
            ours = our_replay(
                options, seconds, work="write", columns=columns, rows=rows, way="maglev direct"
            )
            variant = f"replay_write: {rows} {columns} rows a step"
            results.append(beside_storage(options, variant, ours, peers))
    return results


def replay_sample(options) -> list:
    """256 slices of 3 transitions from episodes of 250."""
    seconds = 0.1 if options.quick else 1.0
    results = []
    for capacity in (20_000, 1_000_000):
        words = ("sample", "--capacity", capacity)
        peers = [
            lambda words=words: storage(seconds, "torchrl", *words),
            lambda words=words: storage(seconds, "torchrl cached", *words, "--cached"),
        ]
        ours = our_replay(options, seconds, work="sample", rows=capacity)
        variant = f"replay_sample: {capacity} rows"
        results.append(beside_storage(options, variant, ours, peers))
    return results


def hockey_env(options) -> list:
    """The game alone on one core, random actions for both players."""
    seconds = 0.05 if options.quick else 0.5
    peers, absent = [], []
    if options.hockey:
        command = [
            *(PEER_PYTHON, PEERS / "hockey_python.py", "--repo", options.hockey),
            *("speed", "--players", "random", "--seconds", 4 * seconds),
        ]
        peers.append(
            Contender(
                "original",
                shown(command),
                lambda: execute(command, one_core=True).report()["steps_per_second"],
                f"commit {commit(options.hockey)}, Box2D {pinned('Box2D')}",
            )
        )
    else:
        absent.append({"name": "original", "why": "no --hockey was given"})
    options.say("hockey_env")
    env = ["hockey", "players=both"]
    ours = our_envs(options.programs, env, 64, 1, seconds, one_core=True)
    result = compare(ours, peers, options.pairs, options.say)
    result["missing"] += absent
    return [{"variant": "64 environments (the original: 1), 1 core", **result, "notes": []}]
