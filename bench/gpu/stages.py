"""The stages of first_day.py: what each checks or measures, and what it tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """What a stage expected and did not get, in one line."""


class Late(Failed):
    """A command was still running when its stage's time was over."""


@dataclass
class Day:
    """Where everything is, and what the stage at work has to tell."""

    out: Path
    build: Path
    device: str
    quick: bool
    facts: list = field(default_factory=list)
    deadline: float = 0

    @property
    def place(self) -> str:
        return self.device.split(":")[0]

    @property
    def engine(self) -> Path:
        return self.build / "maglev-engine"

    @property
    def environment(self) -> dict:
        return {
            **os.environ,
            "MAGLEV_HOME": str(HOME),
            "MAGLEV_BUILD": str(self.build),
            "MAGLEV_ENGINE": str(self.engine),
        }

    def run(self, *words, good: tuple = (0,)) -> str:
        """Output of a command within the stage's time; all of it goes to log.txt. Throws Failed."""
        words = [str(word) for word in words]
        try:
            process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=HOME,
                env=self.environment,
                start_new_session=True,
            )
        except OSError as error:
            raise Failed(f"`{words[0]}` cannot be started: {error}") from error
        late = False
        try:
            output, _ = process.communicate(timeout=max(1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            # its compilers and tests too, or they would run beside the next stage
            os.killpg(process.pid, signal.SIGKILL)
            output, late = process.communicate()[0], True
        with open(self.out / "log.txt", "a") as log:
            log.write(f"$ {' '.join(words)}\n{output}\n")
        if late or process.returncode not in good:
            lines = [line for line in output.splitlines() if line.strip()]
            ended = "out of time" if late else f"exit status {process.returncode}"
            what = f"`{' '.join(words)[:200]}`: {ended}; {' | '.join(lines[-3:])[:600]}"
            raise Late(what) if late else Failed(what)
        return output

    def folder(self, name: str) -> Path:
        """Of a run, made anew."""
        folder = self.out / "runs" / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def train(self, name: str, *settings) -> Path:
        folder = self.folder(name)
        self.run(*self.training(folder, *settings))
        return folder

    def training(self, folder: Path, *settings) -> list:
        words = [self.engine, "train", *settings, f"device={self.device}", "--sinks", "jsonl"]
        return [*words, "--out", folder]

    def tell(self, fact: str) -> None:
        self.facts.append(fact)
        print("   ", fact, flush=True)


# -- building and the project's own tests -------------------------------------------------------------------------


def build(day: Day) -> None:
    day.run("bench/gpu/gather_and_build.sh", "build", day.build.name)
    day.tell(day.run(day.engine, "--version").strip().splitlines()[0])


def tests(day: Day, pattern: str) -> None:
    """Cases of ctest; on a GPU none of them may have seen no device."""
    words = ["ctest", "--test-dir", day.build, "-V", "-j", os.cpu_count() or 1, "-R", pattern]
    output = day.run(*words, good=(0, 8))
    found = re.search(r"(\d+) tests failed out of (\d+)", output)
    if not found or int(found[2]) == 0:
        raise Failed(f"`ctest -R {pattern}` found no case")
    skipped = len(re.findall(r"\*\*\*Skipped", output))
    day.tell(f"{found[2]} cases, {found[1]} failed, {skipped} do not apply")
    if int(found[1]):
        failed = re.findall(
            r"^\s*\d+ - (\S+).*\((?:Failed|Timeout|SEGFAULT|Subprocess.*)\)", output, re.M
        )
        raise Failed(", ".join(failed) or "see log.txt")
    if day.place == "cuda" and "no CUDA device on this machine" in output:
        raise Failed("cases saw no CUDA device: see log.txt")


def kernel_parity(day: Day) -> None:
    day.tell(day.run(day.engine, "kernels", "test").strip().splitlines()[-1])
    tests(day, f"KernelOnDevice.*{day.place}")


def environments(day: Day) -> None:
    tests(day, "CudaEnv" if day.place == "cuda" else "EmulatedEnv")


def algorithms(day: Day) -> None:
    tests(day, f"(AnAlgorithm|OnDevice|Copied|ANetwork).*{day.place}|DeviceEvent")


# -- whole runs ----------------------------------------------------------------------------------------------------

PPO = "env.count=64 ppo.rollout=16 ppo.minibatch=256".split()
SMALL_TDMPC2 = """
env.count=4 tdmpc2.enc_dim=64 tdmpc2.mlp_dim=64 tdmpc2.latent_dim=32 tdmpc2.samples=64
tdmpc2.policy_trajectories=8 tdmpc2.elites=8 tdmpc2.batch=32 tdmpc2.seed_steps=1000
""".split()
GOODHART = "env.width=32 env.height=32 env.max_food=16 env.min_food=4 env.max_poison=16 env.min_poison=4".split()
SMALL_DREAMER = """
env.count=4 dreamer.deter=32 dreamer.hidden=16 dreamer.stoch=4 dreamer.classes=4 dreamer.units=16
dreamer.batch=4 dreamer.length=8 dreamer.train_ratio=32
""".split()
# name: (what `train` is given, environment steps)
RUNS = {
    "ppo_cartpole": (["ppo", "cartpole", *PPO], 40960),
    "ppo_pendulum": (
        ["ppo", "pendulum", *PPO, "ppo.network.normalize_obs=true", "ppo.normalize_reward=true"],
        40960,
    ),
    "ppo_goodhart": (["ppo", "goodhart", "ppo.network.kind=cnn", *PPO, *GOODHART], 20480),
    "tdmpc2_pendulum": (["tdmpc2", "pendulum", *SMALL_TDMPC2], 2000),
    "dreamer_cartpole": (["dreamer", "cartpole", *SMALL_DREAMER], 2000),
}


def runs(day: Day) -> dict:
    chosen = dict(list(RUNS.items())[:: 3 if day.quick else 1])
    return {
        name: [
            *words,
            "--bare",
            f"train.steps={steps // (8 if day.quick else 1)}",
            "train.deterministic=true",
            "seed=3",
        ]
        for name, (words, steps) in chosen.items()
    }


def state_hash(run: Path) -> str:
    manifests = [json.loads(p.read_text()) for p in run.glob("checkpoints/step_*/manifest.json")]
    return max(manifests, key=lambda m: m["sequence"])["state_hash"]


def note_of(run: Path) -> str:
    lines = [line for line in (run / "log.txt").read_text().splitlines() if "iterations " in line]
    return lines[0].split("iterations ", 1)[1] if lines else "iterations run eagerly"


def graphs(day: Day) -> None:
    """With everything deterministic a run replayed as graphs ends as the eager one, on any number of threads."""
    for name, words in runs(day).items():
        eager = day.train(f"{name}_eager", *words, "train.graph=off", "threads=1")
        graph = day.train(f"{name}_graph", *words, "train.graph=on", "threads=2")
        if state_hash(eager) != state_hash(graph):
            raise Failed(
                f"{name}: the graph's state is another one than the eager run's ({note_of(graph)})"
            )
        if day.place == "cuda" and "replayed as graphs" not in note_of(graph):
            raise Failed(f"{name}: nothing was captured: {note_of(graph)}")
        day.tell(f"{name}: equal to the bit; {note_of(graph)}")


def resume(day: Day) -> None:
    """A killed run goes on to the same bits."""
    for name, words in runs(day).items():
        every = int(words[-3].split("=")[1]) // 8
        words = [*words, f"train.save_every={every}"]
        whole = state_hash(day.train(f"{name}_whole", *words))
        broken = day.folder(f"{name}_broken")
        command = [str(word) for word in day.training(broken, *words)]
        with open(day.out / "log.txt", "a") as log:
            process = subprocess.Popen(
                command,
                cwd=HOME,
                stdout=log,
                stderr=log,
                env=day.environment,
            )
        while (
            process.poll() is None
            and len(list(broken.glob("checkpoints/step_*/manifest.json"))) < 3
        ):
            if time.monotonic() > day.deadline:
                process.kill()
                raise Failed(f"{name}: no checkpoint appeared in time")
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        killed = process.wait() != 0
        day.run(day.engine, "train", "--resume", broken, "--sinks", "jsonl")
        if state_hash(broken) != whole:
            raise Failed(f"{name}: the resumed run ends in another state than the unbroken one")
        day.tell(
            f"{name}: equal to the bit"
            + ("" if killed else ", but it had ended before it was killed")
        )


def divergence(day: Day) -> None:
    """Numbers that are not finite are told, by run.json and by the exit status."""
    folder = day.folder("diverges")
    settings = [
        "ppo",
        "pendulum",
        "--bare",
        *PPO,
        "ppo.lr=10",
        "train.steps=200000",
        "train.on_divergence=stop",
    ]
    day.run(*day.training(folder, *settings), good=(3,))
    status = json.loads((folder / "run.json").read_text())
    if "learning has diverged" not in status["message"]:
        raise Failed(f"a learning rate of 10 ended as '{status['state']}': {status['message']}")
    day.tell(f"told at step {status['steps']}: {status['message'][:160]}")


# -- figures -------------------------------------------------------------------------------------------------------


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
    for row in map(json.loads, output.splitlines()):
        day.tell(
            f"{row['case']} {row['what']} {row['precision']}, {row['rows']} together: {row['ms']:.3f} ms waited for, "
            f"{row['ms_queued']:.3f} ms queued, {row['rows_per_second']:,.0f} a second"
        )
        if row["bytes_after"] > row["bytes_before"]:
            raise Failed(
                f"memory grew from {row['bytes_before']} to {row['bytes_after']} bytes over these calls"
            )


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


STAGES: dict[str, Callable[[Day], None]] = {
    "build": build,
    "kernels": kernel_parity,
    "environments": environments,
    "algorithms": algorithms,
    "graphs": graphs,
    "resume": resume,
    "divergence": divergence,
    "ppo": ppo_speed,
    "goodhart": goodhart_speed,
    "tdmpc2": tdmpc2_speed,
    "dreamer": dreamer_speed,
    "kernel_figures": kernel_figures,
}
