"""Stages that measure: steps/s of whole runs, plans and updates, kernels and their references."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from day import HOME, Day, Failed, Late, each
from runs import GOODHART, SMALL_DREAMER, note_of


class Busy:
    """In how much of the time some kernel ran, as nvidia-smi says ten times a second in a block.

    *Threads*: one of its own stamps each line as it arrives.
    """

    def __init__(self, day: Day):
        self.samples: list[tuple[float, float]] = []  # wall time, percent
        index = (day.device.split(":") + ["0"])[1]
        words = ["nvidia-smi", f"--id={index}", "--query-gpu=utilization.gpu"]
        self.words = [*words, "--format=csv,noheader,nounits", "-lms", "100"]
        self.process = None

    def __enter__(self) -> Busy:
        try:
            self.process = subprocess.Popen(
                self.words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            return self
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_) -> None:
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def read(self) -> None:
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.samples.append((time.time(), float(line)))

    def median(self, begin_s: float, end_s: float) -> float | None:
        """Of the samples between two wall times; None where there are none."""
        within = [percent for at_s, percent in self.samples if begin_s <= at_s <= end_s]
        return statistics.median(within) if within else None


@dataclass(frozen=True)
class Speed:
    """Of a run from the row after a quarter of it to its last; what comes before is the start."""

    rate: float  # steps/s
    shares: dict  # of that time, by what it went into
    begin_s: float  # wall time
    end_s: float


def speed(run: Path) -> Speed:
    metrics = run / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows = rows[len(rows) // 4 :]
    if len(rows) < 2:
        raise Failed("metrics.jsonl has too few rows")
    steps, seconds = (rows[-1][key] - rows[0][key] for key in ("step", "seconds"))
    # the first row tells of the time before it
    shares = {
        key[5:]: statistics.mean(row.get(key, 0) for row in rows[1:])
        for key in rows[-1]
        if key.startswith("time/")
    }
    # a row is written when it is there, and nothing behind the last: the file is as old as that
    end_s = metrics.stat().st_mtime
    return Speed(steps / seconds, shares, end_s - seconds, end_s)


@dataclass(frozen=True)
class Case:
    """A run whose speed is told, of at least about 15 s at the rate that an H100 should have."""

    name: str
    words: list
    steps: int
    quick_steps: int
    samples: int = 3


@dataclass(frozen=True)
class Sample:
    speed: Speed
    busy: float | None  # percent
    note: str


def measure(day: Day, case: Case, number: int) -> Sample:
    steps = case.quick_steps if day.quick else case.steps
    with Busy(day) as busy:
        words = [*case.words, "--bare", f"train.steps={steps}"]
        run = day.train(f"{case.name}_{number}", *words)
    measured = speed(run)
    return Sample(measured, busy.median(measured.begin_s, measured.end_s), note_of(run))


def sampled(day: Day, cases: list[Case]) -> dict[str, list[Sample]]:
    """One sample of every case, then rounds of further ones while the stage's time allows.

    What was measured is told also where a later sample was late.
    """
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    took_s: dict[str, float] = {}

    def sample(case: Case) -> None:
        left_s = day.left()
        samples[case.name].append(measure(day, case, len(samples[case.name])))
        took_s[case.name] = left_s - day.left()

    try:
        each(day, {case.name: partial(sample, case) for case in cases})
        for number in range(1, 1 if day.quick else max(case.samples for case in cases)):
            for case in cases:
                if number < case.samples and day.left() > 1.1 * took_s[case.name]:
                    sample(case)
    finally:
        for name, taken in samples.items():
            if taken:
                tell_speed(day, name, taken)
    return samples


def where_time_went(day: Day, sample: Sample) -> str:
    shares = sample.speed.shares
    stages = {key: shares.get(key, 0) for key in ("environment", "policy", "learn")}
    clock = "events in the stream" if day.place == "cuda" else "the host's clock"
    of_each = ", ".join(f"{key} {100 * share:.0f} %" for key, share in stages.items())
    text = f"{100 * sum(stages.values()):.0f} % in stages by {clock} ({of_each})"
    text += f", copy {100 * shares.get('copy', 0):.0f} %"
    if sample.busy is None:
        return text
    # an upper bound: one kernel on one multiprocessor makes the GPU busy
    return f"GPU busy {sample.busy:.0f} % at most (some kernel ran in the sample); {text}"


def tell_speed(day: Day, name: str, taken: list[Sample]) -> None:
    samples = sorted(taken, key=lambda sample: sample.speed.rate)
    rates = [sample.speed.rate for sample in samples]
    middle = samples[len(samples) // 2]
    several = f"median of {len(samples)}, {rates[0]:,.0f} to {rates[-1]:,.0f}"
    spread = several if len(samples) > 1 else "one sample"
    day.tell(
        f"{name}: {middle.speed.rate:,.0f} steps/s ({spread}); "
        f"{where_time_went(day, middle)}; {middle.note}"
    )


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


def precisions(day: Day, *wanted: str) -> list[str]:
    """Those wanted; fp32 alone where a processor tries the script itself."""
    return [name for name in wanted if name == "fp32" or day.place == "cuda"]


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
        for precision in precisions(day, *steps)
    ]
    sampled(day, cases)


def tdmpc2_speed(day: Day) -> None:
    """Plans and updates as graphs; memory must not grow from the first plan to the last."""
    counts = (
        ["--plans", 1, "--updates", 1, "default"]
        if day.quick
        else ["--plans", 10000, "--updates", 200]
    )
    words = [day.build / "tests" / "device_throughput", "--device", day.place, *counts]
    try:
        tell_plans(day, day.run(*words))
    except Late as late:
        tell_plans(day, late.output)
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


def dreamer_speed(day: Day) -> None:
    """Steps/s at size 1m with vectors, an update of 16 x 64 rows every 4 steps, as graphs."""
    small = SMALL_DREAMER[1:] if day.quick else ["dreamer.size=1m", "dreamer.train_ratio=256"]
    words = ["dreamer", "cartpole", "env.count=4", *small]
    # on a GPU it offers no bf16
    cases = [
        Case(
            f"dreamer_1m_{precision}",
            [*words, f"train.precision={precision}"],
            steps=6_000,
            quick_steps=1_000,
            samples=3 if precision == "fp32" else 1,
        )
        for precision in precisions(day, "fp32", "tf32")
    ]
    sampled(day, cases)


def kernel_figures(day: Day) -> None:
    words = ["kernels", "bench", *(["gae"] if day.quick else []), "--device", day.place]
    for line in day.run(day.engine, *words).splitlines():
        day.tell(line)
