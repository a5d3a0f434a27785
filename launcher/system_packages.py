"""The compiler and the libraries from the system: found by asking it, installed with apt-get."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import Callable

from launcher.console import Failure, log_name, no_install, numbers, output_of, run_logged, screen

MIN_GCC = 11
# header -> the Debian and Ubuntu package that holds it
HEADERS = {
    "yaml-cpp/yaml.h": "libyaml-cpp-dev",
    "nlohmann/json.hpp": "nlohmann-json3-dev",
    "xxhash.h": "libxxhash-dev",
    "hwy/highway.h": "libhwy-dev",
    "zlib.h": "zlib1g-dev",
    "gtest/gtest.h": "libgtest-dev",
    "box2d/box2d.h": "libbox2d-dev",
}


def missing_compiler(compiler: list[str]) -> str:
    """What is missing of the compiler; empty if nothing is."""
    version = numbers(output_of(*compiler, "-dumpversion"))
    if "CXX" in os.environ:
        return "" if version else f"the compiler CXX={os.environ['CXX']}"
    return "" if version >= (MIN_GCC,) else f"g++ >= {MIN_GCC}"


def missing_headers(compiler: list[str]) -> list[str]:
    """Headers that the compiler does not find; without one, those not in the usual folders."""
    prefixes = [
        prefix for prefix in re.split("[:;]", os.environ.get("CMAKE_PREFIX_PATH", "")) if prefix
    ]
    folders = [f"{prefix}/include" for prefix in prefixes]
    probe = "".join(
        f"#if !__has_include(<{header}>)\nmissing {header}\n#endif\n" for header in HEADERS
    )
    command = [
        *compiler,
        "-std=c++20",
        "-E",
        "-P",
        "-x",
        "c++",
        *[f"-I{folder}" for folder in folders],
        "-",
    ]
    with contextlib.suppress(OSError):
        done = subprocess.run(
            command,
            input=probe,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            answers = done.stdout.splitlines()
            return [header for header in HEADERS if f"missing {header}" in answers]
    folders += ["/usr/include", "/usr/local/include"]
    return [
        header
        for header in HEADERS
        if not any(os.path.exists(f"{folder}/{header}") for folder in folders)
    ]


def missing_system_packages() -> list[tuple[str, str]]:
    """(what is missing, its Debian package)."""
    compiler = os.environ.get("CXX", "g++").split()
    missing = [(header, HEADERS[header]) for header in missing_headers(compiler)]
    if missing_compiler(compiler):
        missing.insert(0, (missing_compiler(compiler), "g++"))
    # asked in a process of its own: an installation must be seen by the next question
    if not output_of(sys.executable, "-c", "import ensurepip; print(1)"):
        missing.append(("python's venv module", "python3-venv"))
    return missing


def has_python_headers() -> bool:
    """Whether a module for this interpreter can be compiled."""
    return os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))


def becomes_root() -> list[str] | None:
    """What a command needs in front of it to run as root unasked; None if there is no way."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and output_of("sudo", "-n", "sh", "-c", "echo yes"):
        return ["sudo", "-n"]
    return None


def by_hand(packages: str) -> str:
    """The command that installs them, for a person to type."""
    command = f"apt-get update && apt-get install -y {packages}"
    return command if os.geteuid() == 0 else f"sudo sh -c '{command}'"


def install_python_headers(log):
    """For who asks for the Python module; else it is left out of a build."""
    if not has_python_headers():
        install(lambda: [] if has_python_headers() else [("Python's headers", "python3-dev")], log)


def install_system_packages(log):
    """Installs what is missing, or names it in one line with the command that does."""
    command = install(missing_system_packages, log)
    # by choice: without it only repeated builds are slower
    if command and not shutil.which("ccache"):
        run_logged([*command, "ccache"], log, lambda line: screen.show("  " + line))


def install(find_missing: Callable[[], list[tuple[str, str]]], log) -> list[str]:
    """Installs what `find_missing` names, (what, Debian package); returns the command that did, empty where nothing
    was missing.
    """
    missing = find_missing()
    if not missing:
        return []
    packages = sorted({package for _, package in missing})
    apt = shutil.which("apt-get")
    prefix = becomes_root() if apt and not no_install() else None
    if prefix is None:
        names = ", ".join(name for name, _ in missing)
        raise Failure(
            f"[setup] missing: {names}; install them with: {by_hand(' '.join(packages))}"
        )

    def show(line: str):
        screen.show("  " + line)

    screen.say(f"installing system packages: {' '.join(packages)}")
    prefix += ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "Acquire::Retries=2"]
    # an update can fail for a source that is not needed here; the installation decides
    run_logged([*prefix, "update"], log, show)
    command = [*prefix, "install", "-y", "--no-install-recommends"]
    status, lines = run_logged([*command, *packages], log, show)
    still = sorted({package for _, package in find_missing()})
    if status != 0 or still:
        said = [line for line in lines if line.startswith("E: ")]
        why = said[0] if said else "its files were not found afterwards"
        raise Failure(
            f"[setup] apt-get could not install {' '.join(still or packages)}: {why} "
            f"(log: {log_name(log.name)})"
        )
    return command
