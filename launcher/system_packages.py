"""The compiler and the C++ libraries that come from the system: found by asking the compiler, installed by apt."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess

from launcher.console import Failure, log_name, no_install, numbers, output_of, run_logged, screen

MIN_GCC = 11
# header -> the Debian and Ubuntu package that holds it
HEADERS = {
    "yaml-cpp/yaml.h": "libyaml-cpp-dev",
    "CLI/CLI.hpp": "libcli11-dev",
    "nlohmann/json.hpp": "nlohmann-json3-dev",
    "xxhash.h": "libxxhash-dev",
    "gtest/gtest.h": "libgtest-dev",
    "gmock/gmock.h": "libgmock-dev",
    "rapidcheck.h": "librapidcheck-dev",
}


def missing_system_packages() -> list[tuple[str, str]]:
    """(what is missing, its Debian package), found by asking the compiler for each header."""
    compiler = os.environ.get("CXX", "g++").split()
    compiler_missing = not output_of(*compiler, "-dumpversion")
    if "CXX" not in os.environ and numbers(output_of("g++", "-dumpversion") or "0") < (MIN_GCC,):
        compiler_missing = True
    prefixes = re.split("[:;]", os.environ.get("CMAKE_PREFIX_PATH", ""))
    includes = [f"-I{prefix}/include" for prefix in prefixes if prefix]
    probe = "".join(
        f"#if !__has_include(<{header}>)\nmissing {header}\n#endif\n" for header in HEADERS
    )
    with contextlib.suppress(OSError):
        done = subprocess.run(
            [*compiler, "-std=c++20", "-E", "-P", "-x", "c++", *includes, "-"],
            input=probe,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        probe = done.stdout
    absent = [header for header in HEADERS if f"missing {header}\n" in probe + "\n"]
    missing = (
        [(f"{os.environ['CXX']} (CXX)" if "CXX" in os.environ else f"g++ >= {MIN_GCC}", "g++")]
        if compiler_missing
        else []
    )
    missing += [(header, HEADERS[header]) for header in absent]
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        missing.append(("python's venv module", "python3-venv"))
    return missing


def install_system_packages(log):
    missing = missing_system_packages()
    if not missing:
        return
    packages = sorted({package for _, package in missing})
    names = ", ".join(name for name, _ in missing)
    command = f"apt-get update && apt-get install -y {' '.join(packages)}"
    apt = shutil.which("apt-get")
    root = os.geteuid() == 0
    sudo = not root and shutil.which("sudo")
    may = (
        apt
        and not no_install()
        and (
            root
            or (
                sudo
                and subprocess.run(
                    ["sudo", "-n", "true"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                ).returncode
                == 0
            )
        )
    )
    if not may:
        by_hand = command if root else "sudo sh -c '" + command + "'"
        raise Failure(f"[setup] missing: {names}; install them with: {by_hand}")

    screen.say(f"installing system packages: {' '.join(packages)}")
    prefix = [] if root else ["sudo", "-n"]
    prefix += ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "Acquire::Retries=2"]
    show = lambda line: screen.show("  " + line)
    # an update can fail for a source that is not needed here; the installation decides
    run_logged(prefix + ["update"], log, show)
    status, lines = run_logged(
        prefix + ["install", "-y", "--no-install-recommends"] + packages, log, show
    )
    still = (
        sorted({package for _, package in missing_system_packages() if package != "python3-venv"})
        if status == 0
        else packages
    )
    if status != 0 or still:
        why = next(
            (line for line in reversed(lines) if line.startswith("E: ")),
            "its files were not found afterwards",
        )
        raise Failure(
            f"[setup] apt-get could not install {' '.join(still)}: {why} (log: {log_name(log.name)})"
        )
    if not shutil.which("ccache"):
        run_logged(prefix + ["install", "-y", "--no-install-recommends", "ccache"], log, show)
