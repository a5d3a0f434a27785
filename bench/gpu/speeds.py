"""Stages that measure: steps/s of whole runs, plans and updates, kernels and their references, provers' candidates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from day import HOME, Day, Failed, Late
from figures import Case, precisions, sampled
from runs import GOODHART, PPO, SMALL_DREAMER, SMALL_PROVER, SMALL_TDMPC2


def ppo_speed(day: Day) -> None:
    """CartPole at three sizes, a quick day at the first."""
    # 15 s and more at 25, 50 and 60 M steps/s
    sizes = {1024: 384_000_000, 16384: 768_000_000, 131072: 960_000_000}
    cases = []
    for envs, steps in list(sizes.items())[: 1 if day.quick else None]:
        shape = [f"env.count={envs}", "ppo.rollout=32", f"ppo.minibatch={envs * 8}"]
        words = ["ppo", "cartpole", *shape, "train.precision=fp32"]
        cases.append(Case(f"cartpole_{envs}x32_fp32", words, steps, quick_steps=200_000))
    sampled(day, cases)


def goodhart_speed(day: Day) -> None:
    """The original's settings in each precision, the fastest first."""
    # about 30 to 45 s at 380, 200 and 100 thousand steps/s
    steps = {"bf16": 12_582_912, "tf32": 9_000_000, "fp32": 3_000_000}
    words = ["ppo", "goodhart", "--config", HOME / "configs" / "ppo" / "goodhart_original.yaml"]
    if day.quick:
        words += ["env.count=4", "ppo.rollout=8", *GOODHART]
    cases = [
        Case(
            f"goodhart_original_{precision}",
            [*words, f"train.precision={precision}"],
            steps[precision],
            quick_steps=256,
            samples=3 if precision == "bf16" else 1,
        )
        for precision in precisions(day, words, *steps)
    ]
    sampled(day, cases)


def tdmpc2_speed(day: Day) -> None:
    """Plans and updates as graphs; memory must not grow from the first plan to the last."""
    # every figure in some 90 s, and growth over 10,000 plans in some 40 s more
    measured = ["--plans", 2000, "--updates", 200]
    growth = ["--plans", 10000, "--updates", 1, "--precision", "bf16", "default"]
    for words in [["--plans", 1, "--updates", 1, "default"]] if day.quick else [measured, growth]:
        told(day, tell_plans, day.build / "tests" / "device_throughput", "--device", day.place, *words)


def told(day: Day, tell: Callable[[Day, str], None], *words) -> None:
    """What a command prints, as far as it came."""
    try:
        tell(day, day.run(*words))
    except Late as late:
        tell(day, late.output)
        raise


def tell_plans(day: Day, output: str) -> None:
    """A line for each figure among whatever libraries print besides; Failed where memory grew."""
    grown = []
    # the last line may be cut off
    for line in re.findall(r"^\{.*\}$", output, re.M):
        row = json.loads(line)
        case = f"{row['case']} {row['what']} {row['precision']}, {row['rows']} together"
        day.tell(
            f"{case}: {row['ms']:.3f} ms waited for, {row['ms_queued']:.3f} ms queued, "
            f"{row['rows_per_second']:,.0f} a second"
        )
        if row["bytes_after"] > row["bytes_before"]:
            grown.append(f"{case}, from {row['bytes_before']} to {row['bytes_after']} bytes")
    if grown:
        raise Failed(f"memory grew over the calls of {'; '.join(grown)}")


@dataclass(frozen=True)
class Updates:
    """Of Dreamer: how many steps each learns from, and how many are replayed a step."""

    batch: int = 16
    length: int = 64
    train_ratio: int = 256

    @property
    def a_step(self) -> float:
        return self.train_ratio / (self.batch * self.length)

    def words(self) -> list[str]:
        return [f"dreamer.{name}={value}" for name, value in vars(self).items()]


def dreamer_cases(day: Day, env: str, size: str, steps: int) -> list[Case]:
    """An update of 16 x 64 rows every 4 steps behind the first 1,024, in each precision there is."""
    updates = Updates(4, 8, 32) if day.quick else Updates()
    shape = [*SMALL_DREAMER[1:], "dreamer.depth=2"] if day.quick else [f"dreamer.size={size}"]
    words = ["dreamer", env, "env.count=4", *shape, *updates.words(), "dreamer.capacity=100000"]
    return [
        Case(
            f"{env}_{size}_{precision}",
            [*words, f"train.precision={precision}"],
            steps,
            quick_steps=200,
            samples=3 if precision == "fp32" else 1,
            updates=updates.a_step,
        )
        for precision in precisions(day, words, "fp32", "tf32", "bf16")
    ]


def dreamer_speed(day: Day) -> None:
    """At size 1m from vectors."""
    sampled(day, dreamer_cases(day, "cartpole", "1m", 6_000))


def dreamer_pixels_speed(day: Day) -> None:
    """At sizes 1m and 12m from pictures of 64 x 64 x 3, a quick day at the first."""
    # 20 and 40 s at 64 and 25 updates/s; the steps before the first are left out with a quarter
    sizes = {"1m": 6_144, "12m": 5_120}
    cases = []
    for size, steps in list(sizes.items())[: 1 if day.quick else None]:
        cases += dreamer_cases(day, "pendulum_pixels", size, steps)
    sampled(day, cases)


def prover_speed(day: Day) -> None:
    """The published prover's rollout and network on family: with room for 12 goals a row, and for every slot's."""
    words = ["ppo", "kg", "--config", HOME / "configs" / "ppo" / "kg_report.yaml"]
    if day.quick:
        words += SMALL_PROVER
    # about 20 s at 16,000 and 8,000 steps/s; on average a row has 7 goals there
    room = [*words, "ppo.network.proof.room=12"]
    cases = [
        Case(
            f"prover_room_12_{precision}",
            [*room, f"train.precision={precision}"],
            steps=327_680,
            quick_steps=256,
            samples=3 if precision == "fp32" else 1,
        )
        for precision in precisions(day, room, "fp32", "tf32", "bf16")
    ]
    every = [*words, "train.precision=fp32"]
    cases.append(Case("prover_every_slot_fp32", every, 163_840, quick_steps=256, samples=1))
    sampled(day, cases)


def rank(day: Day) -> None:
    """A prover's candidates judged on the device: milliseconds for each, beside the processor's."""
    words = ["ppo", "kg", "--config", HOME / "configs" / "ppo" / "kg_report.yaml", "--bare", "train.precision=fp32"]
    # proofs of a policy that hardly learned are as long as any
    small = [*SMALL_PROVER, "train.steps=256"]
    run = day.train("ranked", *words, *(small if day.quick else ["train.steps=32768"]))
    asked = ["--queries", 4 if day.quick else 40, "--corruptions", 5 if day.quick else 100, "--width", 1, "--json"]
    figures = {}
    for device in dict.fromkeys((day.device, "cpu")):
        said = day.run(day.engine, "rank", run, f"device={device}", *asked)
        report = json.loads(said[said.index("{") :])
        figures[device] = report
        day.tell(
            f"rank on {report['device']}: {report['milliseconds_per_candidate']:.3f} ms a candidate, "
            f"{report['candidates']} candidates"
        )
    counts = {report["candidates"] for report in figures.values()}
    if len(counts) != 1:
        raise Failed(f"devices were asked for different candidates: {sorted(counts)}")


def has_gymnasium(day: Day) -> bool:
    """Whether the engine's Python can import it; told where not."""
    said = day.run(day.engine, "envs", "gymnasium", "env.id=CartPole-v1", good=(0, 2))
    if "observation" in said:
        return True
    if "No module named 'gymnasium'" not in said:
        raise Failed(f"`maglev envs gymnasium` said {said.strip()[:300]}")
    day.tell("there is no Gymnasium: nothing was measured")
    return False


def gymnasium_speed(day: Day) -> None:
    """Environments that Python steps on the host beside networks on the device: eagerly, with graphs, and
    with these and a half stepping beside the other's acting."""
    if not has_gymnasium(day):
        return
    ppo = ["ppo", "gymnasium", "env.id=CartPole-v1"]
    ppo += PPO if day.quick else ["env.count=64", "ppo.rollout=128", "ppo.minibatch=2048"]
    tdmpc2 = ["tdmpc2", "gymnasium", "env.id=Pendulum-v1"]
    tdmpc2 += [*SMALL_TDMPC2, "tdmpc2.seed_steps=100"] if day.quick else ["env.count=4"]
    cases = []
    for graph, collect, way in (
        ("off", "lockstep", "eager"),
        ("on", "lockstep", "graphs"),
        ("on", "blocks", "graphs_blocks"),
    ):
        how = ["train.precision=fp32", f"train.graph={graph}", f"train.collect={collect}"]
        # 15 s and more at 100,000 and 300 steps/s; the second plans and learns at each
        cases.append(Case(f"gymnasium_ppo_{way}", [*ppo, *how], 1_572_864, 8_192, samples=2))
        cases.append(Case(f"gymnasium_tdmpc2_{way}", [*tdmpc2, *how], 6_000, 240, samples=1))
    sampled(day, cases)


def kernel_figures(day: Day) -> None:
    def tell(day: Day, output: str) -> None:
        for line in output.splitlines():
            day.tell(line)

    words = ["kernels", "bench", *(["gae"] if day.quick else []), "--device", day.place]
    told(day, tell, day.engine, *words)
