"""The stages of first_day.py: building, the project's own tests, and the table of all stages."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from day import Day, Failed, Late, each
from runs import divergence, graphs, python_tensors, resume
from setting_pairs import dependent, deterministic, fused, overlap, tracing
from speeds import (
    dreamer_pixels_speed,
    dreamer_speed,
    goodhart_speed,
    gymnasium_speed,
    kernel_figures,
    ppo_speed,
    prover_speed,
    rank,
    tdmpc2_speed,
)

CONTEXTS = 6  # tests at once on a GPU


def build(day: Day) -> None:
    begin = time.monotonic()
    output = day.run("bench/gpu/gather_and_build.sh", "build", day.build.name)
    # ninja counts [3/812]; nothing where all was built
    steps = re.findall(r"^\[\d+/(\d+)\]", output, re.M)
    took_s = time.monotonic() - begin
    day.tell(f"built in {took_s:.0f} s, {steps[-1] if steps else 'no'} steps")
    day.tell(day.run(day.engine, "--version").strip().splitlines()[0])


def tests(day: Day, pattern: str) -> None:
    """Cases of ctest; on a GPU none of them may have seen no device."""
    # each is a process with a context of its own, and those of one GPU take turns
    at_once = min(os.cpu_count() or 1, CONTEXTS if day.place == "cuda" else 1000)
    words = ["ctest", "--test-dir", day.build, "-V", "-j", at_once, "-R", pattern]
    # the same cases on an emulated device say nothing of this one
    try:
        output = day.run(*words, "-E", r"^emulated\.", good=(0, 8))
    except Late as late:
        # what failed until then is what to mend first
        ended = r"^\s*\d+/\d+ Test\s+#\d+: (\S+).*"
        failed = re.findall(ended + r"\*\*\*(?!Skipped)", late.output, re.M)
        passed = len(re.findall(ended + "Passed", late.output, re.M))
        day.tell(f"until then {passed} passed, {len(failed)} failed: {', '.join(failed) or 'none'}")
        raise
    # a newer ctest counts none where none failed
    found = re.search(r"tests passed(?:, (\d+) tests failed)? out of (\d+)", output)
    if not found or int(found[2]) == 0:
        raise Failed(f"`ctest -R {pattern}` found no case")
    failures = int(found[1] or 0)
    skipped = len(re.findall(r"\*\*\*Skipped", output))
    day.tell(f"{found[2]} cases, {failures} failed, {skipped} do not apply")
    if failures:
        failed = re.findall(
            r"^\s*\d+ - (\S+).*\((?:Failed|Timeout|SEGFAULT|Subprocess.*)\)", output, re.M
        )
        raise Failed(", ".join(failed) or "see log.txt")
    if day.place == "cuda" and "no CUDA device on this machine" in output:
        raise Failed("cases saw no CUDA device: see log.txt")


def kernels_by_the_engine(day: Day) -> None:
    lines = day.run(day.engine, "kernels", "test", good=(0, 1)).strip().splitlines()
    failed = [" ".join(line.split()) for line in lines if " FAILED " in line]
    for line in [lines[-1], *failed]:
        day.tell(line)
    if failed or not lines[-1].endswith(" 0 failed"):
        raise Failed(lines[-1])


def kernel_parity(day: Day) -> None:
    each(
        day,
        {
            "kernels test": partial(kernels_by_the_engine, day),
            "ctest": partial(tests, day, f"KernelOnDevice.*{day.place}"),
        },
    )


def environments(day: Day) -> None:
    # a build with device code has no emulated device, and its cases say that there is no GPU
    tests(day, "CudaEnv" if day.place == "cuda" else "EmulatedEnv|CudaEnv")


def algorithms(day: Day) -> None:
    # suites by their whole names: KernelOnDevice is of the stage `kernels`
    tests(day, rf"(^|/|\.)(AnAlgorithm|OnDevice|Copied|Acting_on_|Proving_on_).*{day.place}|DeviceEvent|DependentLaunch_on_{day.place}")


@dataclass(frozen=True)
class Stage:
    """What a stage does, and for how long at most: no call begins it that has less left."""

    work: Callable[[Day], None]
    reserved_s: int


# In the order they are run: what everything rests on, figures, then what can wait. What is built is built in one call, and
# the rest of it is for the stages behind.
STAGES = {
    "build": Stage(build, 540),
    "kernels": Stage(kernel_parity, 150),
    "environments": Stage(environments, 60),
    "algorithms": Stage(algorithms, 240),
    "graphs": Stage(graphs, 150),
    "ppo": Stage(ppo_speed, 200),
    "goodhart": Stage(goodhart_speed, 240),
    "tdmpc2": Stage(tdmpc2_speed, 220),
    "dependent": Stage(dependent, 400),
    "resume": Stage(resume, 180),
    "divergence": Stage(divergence, 60),
    "dreamer": Stage(dreamer_speed, 150),
    "dreamer_pixels": Stage(dreamer_pixels_speed, 420),
    "prover": Stage(prover_speed, 300),
    "gymnasium": Stage(gymnasium_speed, 240),
    "kernel_figures": Stage(kernel_figures, 150),
    "python_tensors": Stage(python_tensors, 120),
    "rank": Stage(rank, 240),
    "tracing": Stage(tracing, 240),
    "overlap": Stage(overlap, 300),
    "deterministic": Stage(deterministic, 300),
    "fused": Stage(fused, 420),
}
