"""How a run is measured: its steps/s, the share of the time a GPU was busy, where the time went, its memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from day import Day, Failed, each
from runs import note_of


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
    memory: str = ""  # the most that its tensors took, in words


def taken(rows: list[dict], planned: Path) -> str:
    """The most memory of a run's rows of metrics, beside what it was planned to hold."""
    where = "device" if any("memory/device_mib" in row for row in rows) else "tensors"

    def most(column: str) -> float:
        return max((row.get(column) or 0 for row in rows), default=0)

    text = f"tensors {most(f'memory/{where}_mib'):,.0f} MiB"
    if where == "device":
        text += f", {most('memory/device_reserved_mib'):,.0f} MiB with what is kept for later"
    if planned.exists():
        text += f", {json.loads(planned.read_text())['total'] / 2**20:,.0f} MiB planned"
    return text


def speed(run: Path) -> Speed:
    metrics = run / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    memory = taken(rows, run / "memory.json")
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
    return Speed(steps / seconds, shares, end_s - seconds, end_s, memory)


@dataclass(frozen=True)
class Case:
    """A run whose speed is told, of at least about 15 s at the rate that an H100 should have."""

    name: str
    words: list
    steps: int
    quick_steps: int
    samples: int = 3
    updates: float = 0  # a step, once it learns; told where that is what counts


@dataclass(frozen=True)
class Sample:
    speed: Speed
    busy: float | None  # percent
    note: str


def measure(day: Day, case: Case, number: int) -> Sample:
    steps = case.quick_steps if day.quick else case.steps
    with Busy(day) as busy:
        # often enough that a short run's memory is seen behind its graphs
        words = [*case.words, "--bare", f"train.steps={steps}", "train.monitor_every=2"]
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
        for case in cases:
            if samples[case.name]:
                tell_speed(day, case, samples[case.name])
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


def tell_speed(day: Day, case: Case, samples: list[Sample]) -> None:
    samples = sorted(samples, key=lambda sample: sample.speed.rate)
    rates = [sample.speed.rate for sample in samples]
    middle = samples[len(samples) // 2]
    several = f"median of {len(samples)}, {rates[0]:,.0f} to {rates[-1]:,.0f}"
    spread = several if len(samples) > 1 else "one sample"
    updates = f", {case.updates * middle.speed.rate:,.1f} updates/s" if case.updates else ""
    day.tell(
        f"{case.name}: {middle.speed.rate:,.0f} steps/s{updates} ({spread}); "
        f"{where_time_went(day, middle)}; {middle.speed.memory}; {middle.note}"
    )


def offered(day: Day, words: list, precision: str) -> bool:
    """Whether the engine trains so there: it is asked, for what it offers is its own to say."""
    # a limit that every plan fits: memory is not what is asked
    asked = [*words, f"train.precision={precision}", "--device", day.device, "--memory", "1024T"]
    said = day.run(day.engine, "plan", *asked, "--bare", "--no-time", "--json", good=(0, 2))
    if '"parts"' in said:
        return True
    if "is not offered by" in said or f"is not what {day.place}" in said:
        return False
    raise Failed(f"`maglev plan` with {precision} said {said.strip()[:300]}")


def precisions(day: Day, words: list, *wanted: str) -> list[str]:
    """Those wanted that there are; fp32 alone where a processor tries the script itself."""
    names = [name for name in wanted if name == "fp32" or day.place == "cuda"]
    return [name for name in names if offered(day, words, name)]
