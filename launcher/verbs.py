"""What ./maglev does with its arguments: its own verbs; all else is handed over to the engine."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from launcher.building import (
    ENGINE,
    MODULE,
    build,
    build_is_current,
    build_jobs,
    configuration_of,
    engine_sources,
    fresh_build_seconds,
    locked,
    source_fingerprint,
    usable_processors,
)
from launcher.console import BUILD, HOME, Failure, duration, log_name, read_json, screen, start
from launcher.environment import (
    BY_CHOICE,
    SETUP_LOG,
    SETUP_SECONDS,
    SETUP_STATE,
    TRACKERS,
    VENV,
    VENV_PYTHON,
    ensure_setup,
    ensure_tracker,
    has_tracker,
    setup_is_current,
)
from launcher.plugins import NAMED, keep_folders, plugin_folders, plugin_rooms
from launcher.system_packages import has_python_headers, install_python_headers
from launcher.torch_package import torch_version
from launcher.wheel import write_wheel

LAUNCHER_VERBS = ("setup", "build", "test", "wheel", "python", "sync", "clean", "help")
HELP = """\
Maglev trains reinforcement-learning agents on one C++ engine. This command sets everything up,
builds it when sources changed, and runs it.

  ./maglev train ppo goodhart      train an agent; settings follow as name=value, e.g. seed=1
  ./maglev test                    build and run every test

verbs of this launcher
  setup                            make .venv, install what is missing
  build [--preset NAME]            set up and build everything (presets: {presets})
  test [-k NAME] [--cpp|--python] [--preset NAME]
                                   build, run ctest, then pytest; -k: tests whose name holds NAME
  wheel                            dist/*.whl, which pip installs where there is no compiler (docs/installing.md)
  python [ARGUMENTS]               .venv's Python, in which `import maglev` works (docs/python.md)
  sync RUN.. --to wandb|mlflow     what runs wrote, to an experiment tracker (docs/tracking.md; sync --help)
  clean [--all]                    remove .build; with --all .venv and .carry too; runs/ stays
  help [VERB]                      this text, or what a verb takes
  --version                        which maglev and torch this is

environment
  MAGLEV_TORCH=DIR                 use this torch package (.../site-packages/torch) and install none
  MAGLEV_MUJOCO=DIR                use this mujoco package (.../site-packages/mujoco) and install none
  MAGLEV_GYMNASIUM=DIR             use this gymnasium package (.../site-packages/gymnasium) and install none
  MAGLEV_PYKEEN=DIR                use this pykeen package (.../site-packages/pykeen) and install none
  MAGLEV_PLUGINS=DIR[:DIR...]      build the plug-ins of these folders too (DIR/envs, ...), from now on; empty: none
  MAGLEV_TORCH_INDEX=URL           one more package index for torch, e.g. one of CPU builds
  MAGLEV_CMAKE_ARGS="-DX=Y ..."    further arguments for CMake
  MAGLEV_JOBS=N                    compile jobs (default: usable processors, bounded by memory)
  MAGLEV_NO_INSTALL=1              install nothing: name what is missing and stop
  NO_COLOR=1                       no colours
"""


def presets() -> list[str]:
    return [
        preset["name"]
        for preset in read_json(HOME / "CMakePresets.json").get("configurePresets", [])
        if not preset.get("hidden")
    ]


def take_option(arguments: list[str], name: str) -> str | None:
    """Removes `name VALUE` or `name=VALUE` from the arguments and returns the value."""
    for i, word in enumerate(arguments):
        if word == name:
            if i + 1 == len(arguments):
                raise Failure(f"[command] {name} needs a value")
            del arguments[i]
            return arguments.pop(i)
        if word.startswith(name + "="):
            return arguments.pop(i)[len(name) + 1 :]
    return None


def take_flag(arguments: list[str], name: str) -> bool:
    if name in arguments:
        arguments.remove(name)
        return True
    return False


def take_preset(arguments: list[str]) -> str:
    preset = take_option(arguments, "--preset") or "release"
    if preset not in presets():
        raise Failure(f"[command] preset must be one of {', '.join(presets())}, got {preset!r}")
    return preset


def expect_none(verb: str, arguments: list[str]):
    if arguments:
        raise Failure(
            f"[command] ./maglev {verb} does not take {arguments[0]!r}, see ./maglev --help"
        )


def engine_environment(preset: str) -> dict:
    return {
        # what an installed engine is told (docs/installing.md), whose Python may have started this
        **{name: value for name, value in os.environ.items() if name != "MAGLEV_INSTALLED"},
        "MAGLEV_HOME": str(HOME),
        "MAGLEV_BUILD": str(BUILD / preset),
        "MAGLEV_ENGINE": str(BUILD / preset / ENGINE),
    }


def engine_verbs() -> list[str]:
    """A folder with sources in verbs/ is a verb; a word of C++ has _ behind it there."""
    found = [path for room in plugin_rooms("verbs") for path in room.glob("*/*.cpp")]
    return sorted({path.parent.name.rstrip("_") for path in found})


def show_version() -> int:
    """The engine's own words, where it is built."""
    engine = BUILD / "release" / ENGINE
    if engine.exists():
        return subprocess.run([engine, "--version"], check=False).returncode
    version = re.search(
        r"project\(maglev VERSION (\S+)", (HOME / "CMakeLists.txt").read_text()
    ).group(1)
    print(f"maglev {version} (not built yet)")
    return 0


def show_help() -> int:
    print(HELP.format(presets=", ".join(presets())))
    engine = BUILD / "release" / ENGINE
    if engine.exists():
        print(f"verbs of the engine ({log_name(engine)} --help)\n", flush=True)
        return subprocess.run(
            [engine, "--help"], env=engine_environment("release"), check=False
        ).returncode
    print(
        "verbs of the engine: "
        + (", ".join(engine_verbs()) or "none in this checkout")
        + "\n(not built yet; each explains itself with ./maglev VERB --help)"
    )
    return 0


def run_tests(arguments: list[str]) -> int:
    preset = take_preset(arguments)
    name = take_option(arguments, "-k")
    only_cpp, only_python = take_flag(arguments, "--cpp"), take_flag(arguments, "--python")
    expect_none("test", arguments)
    with locked():
        setup = ensure_setup(tests=True)
        build(preset, "all", setup, fast=False)
    env = engine_environment(preset)
    env["PATH"] = f"{VENV / 'bin'}:{os.path.dirname(setup['cmake'])}:{env.get('PATH', '')}"

    suites = []
    if only_cpp or not only_python:
        ctest = [
            str(Path(setup["cmake"]).with_name("ctest")),
            "--test-dir",
            str(BUILD / preset),
            "--output-on-failure",
            "-j",
            str(usable_processors()),
        ]
        suites.append(("ctest", ctest + (["-R", name] if name else [])))
    if only_python or not only_cpp:
        pytest = [str(VENV_PYTHON), "-m", "pytest", "tests/python", "-q"]
        # each process has files of its own. Three keep two processors busy: a third of a test's time is waiting
        if usable_processors() > 1:
            pytest += ["-n", "3", "--dist", "loadfile"]
        suites.append(("pytest", pytest + (["-k", name] if name else [])))

    outcome = r"\d+ (passed|failed|errors?|skipped|deselected)\b.* in "
    summaries, failed, ran = [], False, False
    for suite, command in suites:
        child = start(command, env)
        summary = ""
        for line in child.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if re.search(r"% tests passed\b|No tests were found|" + outcome, line):
                summary = line.strip(" =\n")
        status = child.wait()
        # pytest exits with 5 when a filter leaves it nothing to run
        empty = "No tests were found" in summary or (suite == "pytest" and status == 5)
        ran = ran or not empty
        failed = failed or (status != 0 and not empty)
        summaries.append(summary or f"{suite} ended with status {status} and no summary")
    print()
    for summary in summaries:
        print(summary)
    if not ran:
        raise Failure(
            "[test] no test was run" + (f": none has {name!r} in its name" if name else ""),
            status=1,
        )
    return 1 if failed else 0


def clean(arguments: list[str]) -> int:
    everything = take_flag(arguments, "--all")
    expect_none("clean", arguments)
    with locked():
        for path in BUILD.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in ("lock", NAMED.name):
                path.unlink()
        if everything:
            NAMED.unlink(missing_ok=True)
            shutil.rmtree(VENV, ignore_errors=True)
            shutil.rmtree(HOME / ".carry", ignore_errors=True)
    return 0


def make_wheel() -> int:
    with locked():
        announce_first_run(
            BUILD / "release" / ENGINE, setup_is_current(read_json(SETUP_STATE), False)
        )
        setup = ensure_setup()
        with open(SETUP_LOG, "a") as log:
            install_python_headers(log)
        for target in (ENGINE, MODULE):
            build("release", target, setup, fast=True)
        for one in BY_CHOICE:
            if not setup[one.package]:
                screen.say(
                    f"whoever installs it has none of {one.gives}: {one.name} was not found here"
                )
        wheel = write_wheel(BUILD / "release", Path(setup["torch"]))
    print(log_name(wheel))
    return 0


def announce_first_run(engine: Path, set_up: bool):
    """The first line of the first run: what will happen, and how long it takes."""
    if engine.exists():
        return
    files = len(engine_sources())
    seconds = fresh_build_seconds() + (0 if set_up else SETUP_SECONDS)
    what = f"compiles {files} files" if set_up else f"fetches torch, compiles {files} files"
    screen.say(
        f"first run: {what}; about {duration(seconds)} on {build_jobs()} processor(s), "
        "later ones start at once"
    )


def bring_up_to_date(target: str):
    """Sets up and builds what is not there yet; nothing to do is the usual case, and takes no lock."""
    setup = read_json(SETUP_STATE)
    if setup_is_current(setup, False) and build_is_current(
        "release", target, source_fingerprint(), configuration_of("release", setup)[1]
    ):
        return
    with locked():
        announce_first_run(BUILD / "release" / ENGINE, setup_is_current(setup, False))
        setup = ensure_setup()
        build("release", target, setup, fast=True)


def python_environment() -> dict:
    """In which python/'s packages are found."""
    env = engine_environment("release")
    env["PYTHONPATH"] = os.pathsep.join(
        [str(HOME / "python"), *filter(None, [env.get("PYTHONPATH")])]
    )
    return env


def run_sync(arguments: list[str]) -> int:
    """Hands over to python/maglev_sync; returns only by exception. It wants neither engine nor torch."""
    python = sys.executable
    to = take_option(list(arguments), "--to")
    # what is asked for wrongly is said without a set-up
    if to in TRACKERS and not any(word in ("--help", "-h") for word in arguments):
        python = str(VENV_PYTHON)
        if not has_tracker(to):
            with locked():
                ensure_tracker(to)
    os.execve(python, [python, "-m", "maglev_sync", *arguments], python_environment())


def run_python(arguments: list[str]) -> int:
    """Hands over to .venv's interpreter, the package maglev on its path; returns only by exception."""
    # what is built needs them no more
    if not has_python_headers() and not any((BUILD / "release" / "python").glob("_engine*")):
        with locked(), open(SETUP_LOG, "a") as log:
            install_python_headers(log)
    bring_up_to_date(MODULE)
    os.execve(VENV_PYTHON, [str(VENV_PYTHON), *arguments], python_environment())


def run_engine(arguments: list[str]) -> int:
    """Hands over to the engine; returns only by exception."""
    engine = BUILD / "release" / ENGINE
    known = engine_verbs()
    # a mistyped verb must not cost a set-up; once built, the engine itself answers
    if (
        not engine.exists()
        and not arguments[0].startswith("-")
        and arguments[0].replace("-", "_") not in known
    ):
        near = difflib.get_close_matches(arguments[0], [*known, *LAUNCHER_VERBS], 2)
        hint = f"did you mean {' or '.join(near)}?" if near else "see ./maglev --help"
        raise Failure(
            f"[command] unknown verb {arguments[0]!r}, "
            f"known are {', '.join([*LAUNCHER_VERBS, *known])}; {hint}"
        )
    bring_up_to_date(ENGINE)
    os.execve(engine, [str(engine), *arguments], engine_environment("release"))


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("--help", "-h"):
        return show_help()
    if arguments[0] == "--version":
        return show_version()
    own = [verb for verb in LAUNCHER_VERBS if verb != "sync"]  # which explains itself
    if arguments[0] == "help" and (len(arguments) == 1 or arguments[1] in own):
        return show_help()
    if arguments[0] == "help":
        arguments = [arguments[1], "--help"]
    verb, rest = arguments[0], arguments[1:]
    if verb == "python":
        return run_python(rest)
    if verb == "sync":
        return run_sync(rest)
    if verb in LAUNCHER_VERBS and any(word in ("--help", "-h") for word in rest):
        return show_help()
    if verb == "setup":
        expect_none(verb, rest)
        with locked():
            keep_folders(plugin_folders())
            setup = ensure_setup(whole=True)
        screen.say(f"set up: torch {torch_version(Path(setup['torch']))[0]} from {setup['torch']}")
        return 0
    if verb == "build":
        preset = take_preset(rest)
        expect_none(verb, rest)
        with locked():
            build(preset, "all", ensure_setup(), fast=False)
        return 0
    if verb == "test":
        return run_tests(rest)
    if verb == "wheel":
        expect_none(verb, rest)
        return make_wheel()
    if verb == "clean":
        return clean(rest)
    return run_engine(arguments)
