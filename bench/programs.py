"""Our programs and how their figures are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from machine import cores
from measure import HOME, PEER_PYTHON, TIMEOUT_S, Finished, Unavailable, execute

PEERS = Path(__file__).resolve().parent / "peers"


@dataclass
class Programs:
    engine: Path
    throughput: Path

    @staticmethod
    def found(engine: str, throughput: str) -> Programs:
        """Those named, or those of the release build. What is missing is said when it is needed."""
        build = HOME / ".build" / "release"
        return Programs(
            Path(engine or build / "maglev-engine").resolve(),
            Path(throughput or build / "tests" / "env_throughput").resolve(),
        )

    def beside(self, name: str) -> Path:
        """Another program of the build that env_throughput is of."""
        return self.throughput.parent / name


def need(program: Path) -> Path:
    if not os.access(program, os.X_OK):
        raise Unavailable(f"{program.name} is not built; `./maglev test` builds all programs")
    return program


def env_throughput(programs: Programs, settings: list, seconds: float, one_core: bool) -> dict:
    """{(environments, threads): steps/s} of one environment."""
    command = [need(programs.throughput), "--seconds", seconds, "--repeats", 1, *settings]
    rows = {}
    for line in execute(command, one_core).output.splitlines():
        fields = line.split()
        # environment, environments, threads, median, "M", ...
        if len(fields) > 4 and fields[1].isdigit() and fields[4] == "M":
            rows[int(fields[1]), int(fields[2])] = float(fields[3]) * 1e6
    return rows


def train(programs: Programs, folder: Path, words: list) -> Finished:
    """Trains into `folder`, made anew, on the processor and with metrics to a file only."""
    shutil.rmtree(folder, ignore_errors=True)
    return execute(train_command(programs, folder, words))


def train_command(programs: Programs, folder: Path, words: list) -> list:
    return [
        need(programs.engine),
        "train",
        *words,
        "device=cpu",
        "--sinks",
        "jsonl",
        "--out",
        folder,
    ]


def training_speed(folder: Path) -> float:
    """Steps/s between the first row of metrics.jsonl and the last: construction is left out."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if len(rows) < 2:
        raise Unavailable("the run is too short: metrics.jsonl has fewer than 2 rows")
    return (rows[-1]["step"] - rows[0]["step"]) / (rows[-1]["seconds"] - rows[0]["seconds"])


def evaluate(programs: Programs, folder: Path, words: list) -> dict:
    """The result of `eval`, with the wall time of the whole command as `eval_s`."""
    done = execute([need(programs.engine), "eval", folder, *words, "--json"])
    return {**json.loads(done.output)["results"][0], "eval_s": done.seconds}


def engine_version(folder: Path) -> str:
    """What the engine that made this run was built from and with."""
    lines = (folder / "reproduce.md").read_text().splitlines()
    told = dict(line[2:].split(": ", 1) for line in lines if line.startswith("- ") and ": " in line)
    return f"commit {told.get('git commit', '?')}, torch {told.get('torch', '?')}"


def peer_version(module: str, python: Path, package: str = "") -> str:
    """Version of a Python peer; throws Unavailable when it cannot be imported."""
    name = package or module
    code = f"import importlib.metadata as m; import {module}; print(m.version('{name}'))"
    command = [str(python), "-W", "ignore", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unavailable("there is no .venv-bench; run bench/setup.sh") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise Unavailable(f"not installed in .venv-bench ({last}); see .venv-bench/setup.log")
    return done.stdout.split()[-1]


def settings_of(folder: Path) -> dict:
    """config.yaml of a run, read by the peers' Python, which has YAML."""
    code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
    return json.loads(execute([PEER_PYTHON, "-c", code, folder / "config.yaml"]).output)


def sb3_command(folder: Path, env: str, threads: int, *words) -> list:
    """SB3's PPO with the settings of our run in `folder`."""
    return peer_command("sb3_ppo.py", folder, env, threads, *words)


def peer_command(
    script: str, folder: Path, env: str, threads: int, *words, python: Path = PEER_PYTHON
) -> list:
    """A peer's PPO with the settings of our run in `folder`."""
    return [
        *(python, PEERS / script, "--config", folder / "config.yaml"),
        *("--env", env, "--threads", threads, *words),
    ]


def fastest(options, name: str, ways: dict, command_for: Callable) -> tuple[object, float]:
    """The fastest of `ways`, {what people read: what `command_for` takes}, and its steps/s."""
    best, fastest_speed, told, limit_s = None, 0.0, [], TIMEOUT_S
    for label, way in ways.items():
        try:
            done = execute(command_for(way), limit_s=limit_s)
            speed = done.report()["steps_per_second"]
        except Unavailable as why:
            told.append(f"{label} gave up ({why})")
            continue
        told.append(f"{label} {speed:.0f} steps/s")
        if speed > fastest_speed:
            best, fastest_speed = way, speed
        # threads that wait for each other on a busy machine can take forever
        limit_s = 3 * done.seconds + 10
    if best is None:
        raise Unavailable("; ".join(told))
    options.say(f"  {name} warm-up: " + ", ".join(told))
    return best, fastest_speed


def peer_threads(options) -> list[int]:
    """Threads a peer may be given: those asked for, else 1 and all."""
    return [options.peer_threads] if options.peer_threads else sorted({1, cores()})


def fastest_threads(options, name: str, command_for: Callable[[int], list]) -> tuple[int, float]:
    """The faster of 1 and all threads, and steps/s with them."""
    ways = {f"{threads} thread(s)": threads for threads in peer_threads(options)}
    return fastest(options, name, ways, command_for)
