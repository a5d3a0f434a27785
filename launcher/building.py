"""Configures with CMake and builds with Ninja when sources changed; one at a time.

.build/<preset>/maglev.json says from which configuration and sources each target was built.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Iterator

from launcher.console import (
    BUILD,
    HOME,
    Failure,
    digest,
    duration,
    log_name,
    output_of,
    read_json,
    run_logged,
    screen,
    write_json,
)
from launcher.environment import BY_CHOICE
from launcher.plugins import ROOMS, keep_folders, kept_folders, plugin_folders, plugin_rooms
from launcher.system_packages import has_python_headers

ENGINE = "maglev-engine"
MODULE = "maglev_python"
# targets that a build may lack, and why
LACKING = {
    ENGINE: "there is no engine to build: MAGLEV_TRAIN is off for {preset} (MAGLEV_CMAKE_ARGS?)",
    MODULE: "there is no Python module to build: {preset} has no engine, or found no libtorch_python",
}
# one translation unit with torch's headers takes up to this much memory
BYTES_PER_JOB = 1_700_000_000
# what a fresh engine costs one processor by source files, of which CMake groups many into one step of the build; what a
# step costs, and how many of a build's own weigh as much as that
SECONDS_PER_FILE = 2.2
SECONDS_PER_STEP = 5.5
STEPS_TO_TRUST = 10


def usable_processors() -> int:
    """Processors this process may use: affinity, and the quota of its control group."""
    count = float(len(os.sched_getaffinity(0)))
    groups = [Path("/sys/fs/cgroup")]
    with contextlib.suppress(OSError):
        own = [
            line.split("::")[1]
            for line in Path("/proc/self/cgroup").read_text().splitlines()
            if "::" in line
        ]
        groups += [Path("/sys/fs/cgroup" + path) for path in own]
    for group in groups:
        with contextlib.suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text().split()
            count = min(count, float(quota) / float(period))
    return max(1, int(count))


def build_jobs() -> int:
    chosen = os.environ.get("MAGLEV_JOBS", "")
    if chosen:
        if not chosen.isdigit() or int(chosen) < 1:
            raise Failure(f"[build] MAGLEV_JOBS must be a whole number above 0, got {chosen!r}")
        return int(chosen)
    memory = float("inf")
    with contextlib.suppress(OSError, AttributeError):
        available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        memory = int(available.group(1)) * 1024
    with contextlib.suppress(OSError, ValueError):
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return int(max(1, min(usable_processors(), memory // BYTES_PER_JOB)))


def engine_sources() -> list[Path]:
    """What a fresh engine compiles, but for a few generated files."""
    return [
        path
        for room in (HOME / "base", HOME / "engine", *plugin_rooms(*ROOMS))
        for path in room.rglob("*.cpp")
        if not path.name.endswith("_test.cpp")
    ]


def fresh_build_seconds() -> float:
    """What the first build takes, before CMake has said in how many steps."""
    return len(engine_sources()) * SECONDS_PER_FILE / build_jobs()


def time_left(done: int, total: int, elapsed_s: float) -> float:
    """Seconds a build still takes: what files are known to cost, then more and more its own pace."""
    known = STEPS_TO_TRUST * SECONDS_PER_STEP / build_jobs()
    return (total - done) * (known + elapsed_s) / (STEPS_TO_TRUST + done)


def file_stamps(root: Path, left_out: tuple[str, ...] = ()) -> Iterator[str]:
    """A line for each file below `root`, another once it is edited; none of its folders `left_out`."""
    for folder, folders, files in os.walk(root):
        top = folder == str(root)
        folders[:] = [
            name
            for name in folders
            if name[0] != "." and name != "__pycache__" and not (top and name in left_out)
        ]
        for name in files:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                status = os.stat(path)
                yield f"{path} {status.st_mtime_ns} {status.st_size}"


def source_fingerprint() -> str:
    """Changes when a file that a build may read is edited, added or removed, or is committed: the
    engine names its commit, and those of its plug-ins."""
    plugins = plugin_folders()
    entries = [output_of("git", "-C", root, "rev-parse", "HEAD") for root in (str(HOME), *plugins)]
    entries += file_stamps(HOME, left_out=("runs", "docs", "dist"))
    # what else lies in a folder of plug-ins may be much, and is no source
    for folder in plugins:
        for room in ROOMS:
            entries += file_stamps(Path(folder) / room)
    return digest(*sorted(entries))


def build_state_file(preset: str) -> Path:
    return BUILD / preset / "maglev.json"


def build_is_current(preset: str, target: str, fingerprint: str, configuration: str) -> bool:
    state = read_json(build_state_file(preset))
    return (
        state.get("configuration") == configuration
        and state.get("plugins", []) == plugin_folders() == kept_folders()
        and fingerprint in (state.get(target), state.get("all"))
        and (target != ENGINE or (BUILD / preset / ENGINE).exists())
        and (target != MODULE or any((BUILD / preset / "python").glob("_engine*")))
    )


def configuration_of(preset: str, setup: dict) -> tuple[list[str], str]:
    """CMake's arguments, and a key that changes with all that needs a fresh configuration."""
    # a build keeps the ccache it began with: another PATH is no reason to compile everything anew
    state = read_json(build_state_file(preset))
    ccache = state.get("ccache", shutil.which("ccache") or "")
    if ccache and not os.path.exists(ccache):
        ccache = shutil.which("ccache") or ""
    arguments = [
        f"-DCMAKE_MAKE_PROGRAM={setup['ninja']}",
        f"-DMAGLEV_TORCH={setup['torch']}",
        *(f"-DMAGLEV_{one.package.upper()}={setup[one.package]}" for one in BY_CHOICE),
        f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}",
    ]
    arguments += shlex.split(os.environ.get("MAGLEV_CMAKE_ARGS", ""))
    environment = [
        os.environ.get(name, "") for name in ("CXX", "CXXFLAGS", "LDFLAGS", "CMAKE_PREFIX_PATH")
    ]
    return arguments, digest(
        (HOME / "CMakePresets.json").read_text(),
        setup["cmake"],
        setup["key"],
        str(has_python_headers()),
        *environment,
        *arguments,
    )


def build_environment() -> dict:
    env = dict(os.environ)
    env["NINJA_STATUS"] = "[%f/%t] "
    # ccache handles precompiled headers only with these; the base folder lets clones share results
    env.setdefault(
        "CCACHE_SLOPPINESS", "pch_defines,time_macros,include_file_mtime,include_file_ctime"
    )
    env.setdefault("CCACHE_BASEDIR", str(HOME))
    return env


def fail_build(lines: list[str], what: str, log: Path):
    screen.say("")
    for line in lines:
        # paths are relative to the build folder where ccache rewrote them
        print(line.replace("../../", ""), file=sys.stderr)
    raise Failure(f"[build] {what} failed, see the messages above (log: {log_name(log)})", status=1)


def build(preset: str, target: str, setup: dict, fast: bool):
    """Brings `target` up to date; `fast` trusts an unchanged source tree. The lock is held."""
    plugins = plugin_folders()
    fingerprint = source_fingerprint()
    arguments, configuration = configuration_of(preset, setup)
    if fast and build_is_current(preset, target, fingerprint, configuration):
        keep_folders(plugins)
        return
    folder = BUILD / preset
    folder.mkdir(parents=True, exist_ok=True)
    log_path = folder / "build.log"
    state = read_json(build_state_file(preset))
    env = build_environment()
    started = time.monotonic()
    with open(log_path, "w") as log:
        configured = (
            state.get("configuration") == configuration and (folder / "CMakeCache.txt").exists()
        )
        if not configured or state.get("plugins", []) != plugins:
            # what is not finished is done again; other plug-ins alone compile nothing else anew
            if configured:
                write_json(build_state_file(preset), {**state, "plugins": None})
            else:
                build_state_file(preset).unlink(missing_ok=True)
            screen.show(f"configuring {preset}")
            words = [] if configured else ["--fresh"]
            words += ["--preset", preset, *arguments, f"-DMAGLEV_PLUGINS={';'.join(plugins)}"]
            status, lines = run_logged([setup["cmake"], *words], log, env=env)
            if status != 0:
                begin = next(
                    (i for i, line in enumerate(lines) if line.startswith("CMake Error")), 0
                )
                fail_build(lines[begin:], "CMake's configuration", log_path)
            launcher = next(word for word in arguments if "COMPILER_LAUNCHER=" in word)
            state = {
                "configuration": configuration,
                "ccache": launcher.split("=")[1],
                "plugins": plugins,
            }
            write_json(build_state_file(preset), state)
        # those that CMake refuses are named for this command alone
        keep_folders(plugins)

        messages = []
        ninja_started = last_report = time.monotonic()
        steps = 0

        def on_line(line: str):
            nonlocal last_report, steps
            step = re.match(r"\[(\d+)/(\d+)\] (.*)", line)
            if not step:
                messages.append(line)
                return
            steps, total = int(step[1]), int(step[2])
            left = duration(time_left(steps, total, time.monotonic() - ninja_started))
            screen.progress(f"building {preset}", steps, total, f"{left} left  {step[3]}")
            if not screen.live and time.monotonic() - last_report > 30:
                last_report = time.monotonic()
                screen.say(f"building {preset} {steps}/{total}, about {left} left")

        if not screen.live and not fast:
            screen.say(f"building {preset} with {build_jobs()} jobs")
        command = [setup["ninja"], "-C", folder, "-j", str(build_jobs()), target]
        status, _ = run_logged(command, log, on_line, env)
        if status != 0:
            if target in LACKING and any("unknown target" in line for line in messages):
                raise Failure("[build] " + LACKING[target].format(preset=preset))
            # ninja repeats the command below FAILED; the messages are what matters
            shown = [
                line
                for line, before in zip(messages, [""] + messages)
                if not before.startswith("FAILED: ")
            ]
            fail_build(
                [line for line in shown if not line.startswith("ninja: Entering")],
                "the build",
                log_path,
            )
        # taken before the build began: an edit made meanwhile builds again next time
        state[target] = fingerprint
        write_json(build_state_file(preset), state)
    warnings = sum(" warning: " in line for line in messages)
    note = f", {warnings} warnings (log: {log_name(log_path)})" if warnings else ""
    if steps or not fast:
        screen.say(f"built {preset} in {time.monotonic() - started:.1f} s ({steps} steps{note})")


@contextlib.contextmanager
def locked():
    """One set-up or build at a time in this checkout."""
    try:
        BUILD.mkdir(exist_ok=True)
        file = open(BUILD / "lock", "w")
    except OSError as error:
        raise Failure(f"[build] {BUILD} cannot be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            screen.say("waiting for another ./maglev to finish its set-up or build")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
