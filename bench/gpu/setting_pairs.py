"""Stages that say what a setting costs or gains: runs with it beside runs without, of one shape."""

from __future__ import annotations

import json
import statistics
from functools import partial

from day import HOME, Day, Failed, each
from figures import Case, Sample, precisions, sampled
from runs import GOODHART, PPO, SMALL_DREAMER, SMALL_TDMPC2
from speeds import tell_plans, told

WINDOW = 8  # iterations that are traced at a time, of four times as many


def told_beside(day: Day, samples: dict[str, list[Sample]], pairs: list[tuple[str, str]]) -> None:
    """How much faster the second of each pair is than the first, by their medians."""

    def rate(name: str) -> float | None:
        rates = [sample.speed.rate for sample in samples.get(name, [])]
        return statistics.median(rates) if rates else None

    for first, second in pairs:
        before, now = rate(first), rate(second)
        if before and now:
            day.tell(f"{second} is {now / before:.2f} times as fast as {first}")


def of_setting(day: Day, cases: list[Case], setting: str, values: tuple[str, str]) -> None:
    """Every case with the first and the second value of `setting`, in turn."""
    both = [
        Case(f"{case.name}_{value}", [*case.words, f"{setting}={value}"], case.steps, case.quick_steps, case.samples)
        for case in cases
        for value in values
    ]
    samples: dict[str, list[Sample]] = {}
    try:
        samples = sampled(day, both)
    finally:
        told_beside(day, samples, [tuple(f"{case.name}_{value}" for value in values) for case in cases])


def tdmpc2_words(day: Day, envs: int = 4) -> list:
    """TD-MPC2 on pendulum, an update for each step of an environment behind the first few."""
    size = [*SMALL_TDMPC2[1:], "tdmpc2.seed_steps=100"] if day.quick else ["tdmpc2.seed_steps=500"]
    return ["tdmpc2", "pendulum", f"env.count={envs}", *size]


def overlap(day: Day) -> None:
    """Updates on a stream beside the steps, for those that learn from a replay."""
    dreamer = [*SMALL_DREAMER, "dreamer.depth=2"] if day.quick else ["env.count=4", "dreamer.size=1m"]
    cases = [
        # about 20 s each at 300 and 250 steps/s
        Case("overlap_tdmpc2", [*tdmpc2_words(day), "train.precision=fp32"], 6_000, 1_000, samples=2),
        Case(
            "overlap_dreamer",
            ["dreamer", "cartpole", *dreamer, "dreamer.capacity=100000", "train.precision=fp32"],
            6_000,
            400,
            samples=2,
        ),
    ]
    of_setting(day, cases, "train.overlap", ("false", "true"))


def fused(day: Day) -> None:
    """TD-MPC2's whole plans and updates by the engine's kernels, and by ATen and autograd, in each precision."""
    words = tdmpc2_words(day)
    cases = [
        # ATen's is the slow one: about 60 s at 50 steps/s
        Case(f"fused_{precision}", [*words, f"train.precision={precision}"], 3_000, 240, samples=1)
        for precision in precisions(day, words, "fp32", "bf16")
    ]
    # few enough rows that ends of layers are within their products
    alone = tdmpc2_words(day, envs=1)
    cases += [
        Case(f"fused_alone_{precision}", [*alone, f"train.precision={precision}"], 1_200, 160, samples=1)
        for precision in precisions(day, alone, "bf16") or ["fp32"]
    ]
    of_setting(day, cases, "tdmpc2.fused", ("off", "on"))


def dependent(day: Day) -> None:
    """Kernels by dependent launches and by ordinary ones: TD-MPC2's plans in turn, then acting and learning of PPO."""
    plans = ["--plans", 1, "--updates", 1, "default"] if day.quick else ["--plans", 1000, "--updates", 100]
    precision = [] if day.quick else ["--precision", "bf16"]
    for _ in range(1 if day.quick else 3):
        for flag in ([], ["--dependent"]):
            program = day.build / "tests" / "device_throughput"
            told(day, tell_plans, program, "--device", day.place, *precision, *plans, *flag)
    words = ["ppo", "goodhart", "--config", HOME / "configs" / "ppo" / "goodhart_original.yaml"]
    if day.quick:
        words += ["env.count=4", "ppo.rollout=8", *GOODHART]
    small = PPO if day.quick else ["env.count=1024", "ppo.rollout=32", "ppo.minibatch=8192"]
    fastest = precisions(day, words, "bf16", "fp32")[0]
    cases = [
        # about 20 s each at 500,000 and 20 M steps/s
        Case(f"dependent_goodhart_{fastest}", [*words, f"train.precision={fastest}"], 10_000_000, 256, samples=2),
        Case("dependent_cartpole_fp32", ["ppo", "cartpole", *small, "train.precision=fp32"], 400_000_000, 40_960, 2),
    ]
    of_setting(day, cases, "train.dependent_launch", ("false", "true"))


def deterministic(day: Day) -> None:
    """What the same bits each time cost, with convolutions and without."""
    words = ["ppo", "goodhart", "--config", HOME / "configs" / "ppo" / "goodhart_original.yaml"]
    if day.quick:
        words += ["env.count=4", "ppo.rollout=8", *GOODHART]
    precision = precisions(day, words, "bf16", "fp32")[0]
    layers = ["env.count=16384", "ppo.rollout=32", "ppo.minibatch=131072"]
    cases = [
        # about 20 s at 380,000 and 15 s at 50 M steps/s
        Case(f"same_bits_goodhart_{precision}", [*words, f"train.precision={precision}"], 8_388_608, 256, samples=2),
        Case(
            "same_bits_cartpole_fp32",
            ["ppo", "cartpole", *(PPO if day.quick else layers), "train.precision=fp32"],
            768_000_000,
            40_960,
            samples=2,
        ),
    ]
    of_setting(day, cases, "train.deterministic", ("false", "true"))


def traced_run(day: Day, name: str, words: list, iteration_steps: int, mode: str) -> None:
    """Iterations within windows beside those between them, in one run; what was written is read again."""
    iterations = (4 if day.quick else 8) * 4 * WINDOW
    run = day.train(
        f"traced_{name}_{mode}",
        *words,
        "--bare",
        "train.precision=fp32",
        f"train.steps={iterations * iteration_steps}",
        f"train.log_every={iteration_steps}",
        "train.save_every=1000000000000",
        f"trace.every={4 * WINDOW}",
        f"trace.length={WINDOW}",
        f"trace.mode={mode}",
    )
    seconds = [json.loads(line)["seconds"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    inside, outside = [], []
    for iteration in range(4 * WINDOW, len(seconds)):
        place = iteration % (4 * WINDOW) // WINDOW
        # files may be written in those right behind a window
        if place != 1:
            (inside if place == 0 else outside).append(seconds[iteration] - seconds[iteration - 1])
    files = sorted((run / "traces").glob("*.json.gz"))
    if not inside or not outside or not files:
        raise Failed(f"{len(seconds)} rows and {len(files)} traces of {iterations} iterations")
    within_ms, between_ms = 1e3 * statistics.median(inside), 1e3 * statistics.median(outside)
    day.tell(
        f"traced_{name} {mode}: {within_ms:.2f} ms an iteration within windows, {between_ms:.2f} ms between them, "
        f"{100 * (within_ms / between_ms - 1):+.1f} %; {len(files)} files, {files[0].stat().st_size / 2**20:.1f} MiB the first"
    )
    analysis = json.loads(day.run(day.engine, "trace", "analyze", files[0], "--json"))
    devices = len(analysis.get("devices", []))
    if mode == "full" and day.place == "cuda" and devices == 0:
        raise Failed("a trace in mode full shows nothing of the GPU")
    day.tell(f"traced_{name} {mode}: `trace analyze` reads it, {devices} devices in it")


def tracing(day: Day) -> None:
    """What windows of a trace cost the iterations in them: the engine's spans alone, and torch's profiler besides."""
    envs, rollout = (64, 16) if day.quick else (1024, 32)
    cartpole = ["ppo", "cartpole", f"env.count={envs}", f"ppo.rollout={rollout}", f"ppo.minibatch={envs * rollout // 4}"]
    eager = [*cartpole, "train.graph=off"]
    each(
        day,
        {
            f"{name} {mode}": partial(traced_run, day, name, words, envs * rollout, mode)
            for mode in ("lite", "full")
            for name, words in (("graphs", cartpole), ("eager", eager))
        },
    )
