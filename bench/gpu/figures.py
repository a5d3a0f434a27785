"""Stages that measure: steps/s of whole runs, plans and updates, kernels beside their references."""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path

from day import HOME, Day, Failed
from runs import GOODHART, SMALL_DREAMER, note_of


class Busy:
    """Share of time the GPU had a kernel at work, in percent, by nvidia-smi ten times a second."""

    def __init__(self):
        words = [
            "nvidia-smi",
            "--query-gpu=utilization.gpu",
            "--format=csv,noheader,nounits",
            "-lms",
            "100",
        ]
        try:
            self.process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self.process = None

    def median(self) -> float | None:
        """Of the later half: what comes before is the start. None without nvidia-smi."""
        if self.process is None:
            return None
        self.process.terminate()
        samples = [
            float(line)
            for line in self.process.communicate()[0].split()
            if line.replace(".", "").isdigit()
        ]
        return statistics.median(samples[len(samples) // 2 :]) if samples else None


def speed(run: Path) -> tuple[float, dict]:
    """Steps/s from the first row after a quarter of the run to the last, and where a row's time went."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = rows[len(rows) // 4 :]
    if len(rows) < 2:
        raise Failed(f"{run.name}: metrics.jsonl has too few rows")
    steps, seconds = (rows[-1][key] - rows[0][key] for key in ("step", "seconds"))
    shares = {
        key[5:]: sum(row.get(key, 0) for row in rows) / len(rows)
        for key in rows[-1]
        if key.startswith("time/")
    }
    return steps / seconds, shares


def steps_per_second(day: Day, name: str, words: list, steps: int) -> None:
    speeds = []
    for sample in range(1 if day.quick else 3):
        busy = Busy()
        run = day.train(
            f"{name}_{sample}",
            *words,
            "--bare",
            f"train.steps={steps // (100 if day.quick else 1)}",
        )
        rate, shares = speed(run)
        speeds.append((rate, busy.median()))
    rate = statistics.median(rate for rate, _ in speeds)
    shown = ", ".join(f"{key} {100 * share:.0f} %" for key, share in shares.items())
    percent = [busy for _, busy in speeds if busy is not None]
    at_work = f"; GPU busy {statistics.median(percent):.0f} %" if percent else ""
    day.tell(
        f"{name}: {rate:,.0f} steps/s (median of {len(speeds)}){at_work}; {shown}; {note_of(run)}"
    )


def ppo_speed(day: Day) -> None:
    for envs, steps in ((1024, 20_000_000), (16384, 200_000_000), (131072, 800_000_000)):
        if day.quick and envs > 1024:
            continue
        words = [
            "ppo",
            "cartpole",
            f"env.count={envs}",
            "ppo.rollout=32",
            f"ppo.minibatch={envs * 8}",
        ]
        steps_per_second(day, f"cartpole_{envs}x32", words, steps)


def goodhart_speed(day: Day) -> None:
    config = ["--config", HOME / "configs" / "ppo" / "goodhart_original.yaml"]
    for precision in ["fp32"] if day.place == "cpu" else ["fp32", "bf16"]:
        words = ["ppo", "goodhart", *config, f"train.precision={precision}"]
        if day.quick:
            words += ["env.count=4", "ppo.rollout=8", *GOODHART]
        steps_per_second(
            day, f"goodhart_original_{precision}", words, 25600 if day.quick else 12_582_912
        )


def tdmpc2_speed(day: Day) -> None:
    """Plans and updates as graphs; memory must not grow from the first plan to the last."""
    counts = (
        ["--plans", 1, "--updates", 1, "default"]
        if day.quick
        else ["--plans", 10000, "--updates", 200]
    )
    output = day.run(day.build / "tests" / "device_throughput", "--device", day.place, *counts)
    grown = []
    for row in map(json.loads, output.splitlines()):
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
    steps_per_second(day, "dreamer_1m", words, 100_000 if day.quick else 8_000)


def kernel_figures(day: Day) -> None:
    for line in day.run(
        day.engine, "kernels", "bench", *(["gae"] if day.quick else [])
    ).splitlines():
        day.tell(line)
