"""Set-up: .venv with torch, numpy and what else is missing.

.venv/maglev.json says what set-up chose and from which requirements; it is written last, so that an
interrupted set-up is done again.
"""

from __future__ import annotations

import ctypes.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, NamedTuple

from launcher.console import (
    BUILD,
    HOME,
    Failure,
    digest,
    log_name,
    no_install,
    numbers,
    output_of,
    read_json,
    run_logged,
    screen,
    write_json,
)
from launcher.system_packages import by_hand, install_system_packages
from launcher.torch_package import interpreters_torch, torch_version

VENV = HOME / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
SETUP_STATE = VENV / "maglev.json"
SETUP_LOG = BUILD / "setup.log"
# raise it when set-up itself changes, so that existing checkouts run it again
SETUP_VERSION = 1
# what fetching and unpacking torch took, for the first line people read
SETUP_SECONDS = 55
MACHINES = ("Linux on x86_64", "Linux on aarch64")
MIN_PYTHON = (3, 10)
MIN_CMAKE = (3, 25)
# the oldest torch the engine is run with where the pinned one cannot be had
MIN_TORCH = (2, 11)


def launching_torch() -> Path | None:
    """The torch of the interpreter that runs this script, if recent enough and not our own."""
    torch = interpreters_torch()
    if not torch or VENV in torch.parents or numbers(torch_version(torch)[0])[:2] < MIN_TORCH:
        return None
    return torch


def link_torch(torch: Path):
    """Lets .venv see a torch that is installed elsewhere, together with the packages beside it."""
    folders = [str(torch.parent)]
    if torch == launching_torch():
        folders += [
            path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")
        ]
    for site in VENV.glob("lib/python3*/site-packages"):
        (site / "maglev_torch.pth").write_text("\n".join(dict.fromkeys(folders)) + "\n")


def unlink_torch():
    for link in VENV.glob("lib/python3*/site-packages/maglev_torch.pth"):
        link.unlink()


def linked() -> bool:
    return any(VENV.glob("lib/python3*/site-packages/maglev_torch.pth"))


# runs inside .venv: prints the requirements that are not met; with "any", every version will do
UNMET = """
import importlib.metadata, sys
from pip._vendor.packaging.requirements import Requirement
for line in sys.stdin:
    line = line.split("#")[0].strip()
    if not line: continue
    wanted = Requirement(line)
    if wanted.marker and not wanted.marker.evaluate(): continue
    try: found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError: print(line); continue
    if sys.argv[1] != "any" and not wanted.specifier.contains(found, prereleases=True): print(line)
"""
PACKAGE_FOLDER = """
import importlib.util, sys
spec = importlib.util.find_spec(sys.argv[1])
print(list(spec.submodule_search_locations)[0] if spec else "")
"""


def package_folder(name: str) -> str:
    """Where .venv's interpreter finds a package; empty where it finds none."""
    return output_of(str(VENV_PYTHON), "-c", PACKAGE_FOLDER, name)


def unmet(requirements: list[str], exact: bool = False) -> list[str]:
    done = subprocess.run(
        [VENV_PYTHON, "-c", UNMET, "any" if linked() and not exact else "exact"],
        input="\n".join(requirements),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout.splitlines() if done.returncode == 0 else requirements


def requirement_lines(name: str) -> list[str]:
    lines = [line.split("#")[0].strip() for line in (HOME / name).read_text().splitlines()]
    return [line for line in lines if line]


def pip_install(
    requirements: list[str], log, what: str, alone: bool = False, exact: bool = False
) -> str:
    """Installs what is not met; returns why it failed, or an empty string. Never replaces torch.

    With `exact` these versions alone will do; with `alone` too, and the packages they ask for are left out.
    """
    wanted = unmet(requirements, exact=exact or alone)
    if not wanted:
        return ""
    if no_install():
        raise Failure(
            f"[setup] missing Python packages: {', '.join(wanted)}; unset MAGLEV_NO_INSTALL or run "
            f"{log_name(VENV_PYTHON)} -m pip install {shlex.join(wanted)}"
        )
    command = [
        VENV_PYTHON,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        # of torch's thousands of modules few are ever imported, and these are compiled then
        "--no-compile",
        "--progress-bar",
        "off",
        "--retries",
        "2",
    ]
    if os.environ.get("MAGLEV_TORCH_INDEX"):
        command += ["--extra-index-url", os.environ["MAGLEV_TORCH_INDEX"]]
    if not any(line.startswith("torch") for line in wanted):
        version = torch_version(Path(package_folder("torch") or "/"))[0]
        if version:
            constraint = BUILD / "constraints.txt"
            constraint.write_text(f"torch=={version}\n")
            command += ["-c", constraint]
    if alone:
        command.append("--no-deps")
    screen.say(f"installing {what}: {', '.join(line.split(';')[0].strip() for line in wanted)}")
    status, lines = run_logged(command + wanted, log, lambda line: screen.show("  " + line))
    if status == 0:
        return ""
    reasons = [line[len("ERROR: ") :] for line in lines if line.startswith("ERROR: ")]
    if any("Retrying (" in line for line in lines):
        reasons.append("the package index cannot be reached")
    return (
        f"could not fetch {', '.join(line.split(';')[0].strip() for line in wanted)}: "
        f"{reasons[-1] if reasons else 'pip failed'} (log: {log_name(SETUP_LOG)})"
    )


def check_machine():
    """Raises Failure where torch has no packages, and kernels no vectors."""
    # a system of 32 bits may run on a processor of 64, as on a Raspberry Pi
    bits = 64 if sys.maxsize > 2**32 else 32
    machine = f"{platform.system()} on {platform.machine()}"
    if machine not in MACHINES or bits != 64:
        raise Failure(
            f"[setup] Maglev runs with 64 bits as {' or '.join(MACHINES)}; "
            f"this Python has {bits} bits, {machine}"
        )


def check_python():
    if sys.version_info < MIN_PYTHON:
        raise Failure(
            f"[setup] Python >= {MIN_PYTHON[0]}.{MIN_PYTHON[1]} is needed, this is "
            f"{sys.version_info[0]}.{sys.version_info[1]}: start it as python3.x ./maglev"
        )


def make_venv(log):
    """A working .venv: kept if its pip runs, made anew otherwise."""
    if output_of(str(VENV_PYTHON), "-m", "pip", "--version"):
        return
    screen.say("making .venv")
    # started from an activated .venv, the environment must not be rebuilt with itself
    python = (
        getattr(sys, "_base_executable", None)
        if VENV in Path(sys.executable).parents
        else sys.executable
    )
    status, lines = run_logged([python or "python3", "-m", "venv", "--clear", VENV], log)
    if status != 0:
        reason = next((line for line in reversed(lines) if line.strip()), "no output")
        raise Failure(
            f"[setup] {python} -m venv .venv failed: {reason} (log: {log_name(SETUP_LOG)})"
        )


def install_python_packages(log) -> Path:
    """Fills .venv; returns the folder of the torch package in use."""
    chosen = os.environ.get("MAGLEV_TORCH")
    if chosen:
        torch = Path(chosen).resolve()
        if not torch_version(torch)[0]:
            raise Failure(
                f"[setup] MAGLEV_TORCH={chosen} is no torch package: expected "
                ".../site-packages/torch with lib/libtorch_cpu.so in it"
            )
    else:
        torch = launching_torch()
        # a build for this machine's GPU beats the pinned one
        if torch and not torch_version(torch)[1]:
            torch = None
    make_venv(log)
    link_torch(torch) if torch else unlink_torch()

    requirements = requirement_lines("requirements.txt")
    have = {
        "cmake": numbers(output_of("cmake", "--version")) >= MIN_CMAKE,
        "ninja": bool(output_of("ninja", "--version")),
    }
    requirements = [line for line in requirements if not have.get(re.split("[=<>; ]", line)[0])]
    torch_lines = [] if torch else [line for line in requirements if line.startswith("torch==")]
    others = [line for line in requirements if not line.startswith("torch==")]
    if torch:
        screen.say(f"using torch {torch_version(torch)[0]} from {torch}")
    why = pip_install(torch_lines, log, "the tensor library (a large download)")
    if why and launching_torch():
        torch = launching_torch()
        screen.say(f"{why}; using torch {torch_version(torch)[0]} from {torch} instead")
        link_torch(torch)
        why = ""
    why = why or pip_install(others, log, "Python packages")
    if why:
        raise Failure(f"[setup] {why}")
    return Path(package_folder("torch") or "/")


class ByChoice(NamedTuple):
    """Packages that the engine reads or runs, and goes on without where they cannot be had."""

    package: str  # its folder; requirements-<package>.txt says what is fetched, MAGLEV_<PACKAGE> names another
    name: str
    gives: str  # what there is not without it
    proof: str  # a file that the folder has
    remark: Callable[[], str] = lambda: ""  # what to say once it is there


def opengl_remark() -> str:
    if any(ctypes.util.find_library(name) for name in ("EGL", "OSMesa")):
        return ""
    return (
        "MuJoCo's environments can show numbers; pictures need OpenGL without a window: "
        f"{by_hand('libegl1 libgl1-mesa-dri')}"
    )


# the library and the models that lie in dm_control, not what their Python sides import, some of which has no wheels for
# newer interpreters; text files; and what Python processes of the engine import
BY_CHOICE = (
    ByChoice("mujoco", "MuJoCo", "MuJoCo's environments", "libmujoco.so.*", opengl_remark),
    ByChoice("gymnasium", "Gymnasium", "Python's environments", "envs/registration.py"),
    ByChoice("pykeen", "PyKEEN", "PyKEEN's knowledge graphs", "datasets/umls/train.txt"),
)


def install_by_choice(one: ByChoice, log) -> str:
    """Returns the package's folder; empty, and a line says why, where it cannot be had."""
    variable = f"MAGLEV_{one.package.upper()}"
    chosen = os.environ.get(variable)
    if chosen:
        if not list(Path(chosen).glob(one.proof)):
            raise Failure(
                f"[setup] {variable}={chosen} is no {one.package} package: expected "
                f".../site-packages/{one.package} with {one.proof} in it"
            )
        return str(Path(chosen).resolve())
    try:
        wanted = requirement_lines(f"requirements-{one.package}.txt")
        why = pip_install(wanted, log, one.name, alone=True)
    except Failure as failure:
        why = str(failure)
    if why:
        screen.say(f"without {one.gives}: {why.removeprefix('[setup] ')}")
        return ""
    if one.remark():
        screen.say(one.remark())
    return package_folder(one.package)


# whose packages `./maglev sync` fetches when it first sends to one: requirements-<name>.txt
TRACKERS = ("wandb", "mlflow")


def ensure_tracker(name: str):
    """The packages of an experiment tracker in .venv, which needs nothing else for it; the lock is held."""
    check_python()
    with open(SETUP_LOG, "a") as log:
        make_venv(log)
        wanted = requirement_lines(f"requirements-{name}.txt")
        why = pip_install(wanted, log, f"what {name} needs", exact=True)
    if why:
        raise Failure(f"[setup] {why}")


def has_tracker(name: str) -> bool:
    """Whether there is nothing to fetch; takes no lock."""
    return VENV_PYTHON.exists() and not unmet(
        requirement_lines(f"requirements-{name}.txt"), exact=True
    )


def tool(name: str, version: tuple[int, ...]) -> str:
    """Path of a build tool: .venv's if it was installed there, else the system's."""
    own = VENV / "bin" / name
    path = str(own) if own.exists() else shutil.which(name)
    if not path or numbers(output_of(path, "--version")) < version:
        raise Failure(
            f"[setup] {name} was not found after set-up: remove .venv and run ./maglev setup"
        )
    return path


def setup_key() -> str:
    return digest(
        SETUP_VERSION,
        (HOME / "requirements.txt").read_text(),
        *((HOME / f"requirements-{one.package}.txt").read_text() for one in BY_CHOICE),
    )


def tests_key() -> str:
    return digest(setup_key(), (HOME / "requirements-test.txt").read_text())


def setup_is_current(state: dict, tests: bool) -> bool:
    names = ("torch", *(one.package for one in BY_CHOICE))
    chosen = {name: os.environ.get(f"MAGLEV_{name.upper()}") for name in names}
    return (
        state.get("key") == setup_key()
        and (not tests or state.get("tests") == tests_key())
        and all(
            not path or str(Path(path).resolve()) == state.get(name)
            for name, path in chosen.items()
        )
        and all(not state[name] or os.path.exists(state[name]) for name in names)
        and all(
            os.path.exists(path)
            for path in (
                VENV_PYTHON,
                state["torch"] + "/lib/libtorch_cpu.so",
                state["cmake"],
                state["ninja"],
            )
        )
    )


def ensure_setup(tests: bool = False, whole: bool = False) -> dict:
    """Sets up what is not set up yet; with `whole` also tries again what is by choice.

    Called with the lock held; returns the state.
    """
    state = read_json(SETUP_STATE)
    missing = [one for one in BY_CHOICE if not state.get(one.package)]
    if setup_is_current(state, tests) and not (whole and missing):
        return state
    check_machine()
    check_python()
    with open(SETUP_LOG, "w") as log:
        if not setup_is_current(state, False):
            # without a state file an interrupted set-up is repaired by the next one
            SETUP_STATE.unlink(missing_ok=True)
            install_system_packages(log)
            torch = install_python_packages(log)
            if not torch_version(torch)[0] or unmet(["numpy"]):
                # packages that pip holds for installed but whose files are gone
                screen.say("the packages in .venv are damaged, installing them again")
                shutil.rmtree(VENV, ignore_errors=True)
                torch = install_python_packages(log)
            state = {
                "key": setup_key(),
                "torch": str(torch),
                "cmake": tool("cmake", MIN_CMAKE),
                "ninja": tool("ninja", (1,)),
            }
            state |= {one.package: install_by_choice(one, log) for one in BY_CHOICE}
            write_json(SETUP_STATE, state)
        elif whole and missing:
            state |= {one.package: install_by_choice(one, log) for one in missing}
            write_json(SETUP_STATE, state)
        if tests:
            why = pip_install(requirement_lines("requirements-test.txt"), log, "test packages")
            if why:
                raise Failure(f"[setup] {why}")
            state["tests"] = tests_key()
            write_json(SETUP_STATE, state)
    return state
