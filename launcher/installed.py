"""The command `maglev` of a wheel (docs/installing.md): all is there, and handed over to the engine."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from typing import NoReturn

from launcher.console import HOME, Failure
from launcher.torch_package import interpreters_torch, torch_version

DISTRIBUTION = "maglev-engine"
ENGINE = HOME / "maglev-engine"
# verbs and variables of ./maglev that are of no use without sources
FOR_SOURCES = ("setup", "build", "test", "wheel", "clean")
VARIABLES_FOR_SOURCES = ("MAGLEV_PLUGINS", "MAGLEV_TORCH")
HELP = """\
Maglev trains reinforcement-learning agents on one C++ engine. This one was installed: there is nothing to build.

  maglev train ppo goodhart        train an agent; settings follow as name=value, e.g. seed=1

verbs of this launcher
  python [ARGUMENTS]               the Python it is installed for, in which `import maglev` works
  sync RUN.. --to wandb|mlflow     what runs wrote, to an experiment tracker (sync --help)
  help [VERB]                      this text, or what a verb takes
  --version                        which maglev and torch this is

verbs of the engine
"""


def refuse_what_wants_sources(words: list[str]):
    wanting = [f"maglev {word}" for word in words if word in FOR_SOURCES]
    wanting += [
        f"{name}={os.environ[name]}" for name in VARIABLES_FOR_SOURCES if os.environ.get(name)
    ]
    if wanting:
        raise Failure(
            f"[command] {wanting[0]} wants a checkout, where ./maglev builds the engine: this one was installed from a "
            "wheel, without sources; what is built there ./maglev wheel makes a wheel of"
        )


def asked_torch() -> str:
    """The version that the engine was built with."""
    lines = importlib.metadata.requires(DISTRIBUTION) or []
    return next(line.removeprefix("torch==") for line in lines if line.startswith("torch=="))


def engine_environment() -> dict:
    """Raises Failure where this Python's torch is not the one that the engine was built with."""
    torch = interpreters_torch()
    version, _, variant = torch_version(torch)[0].partition("+") if torch else ("", "", "")
    # a build for a GPU names its CUDA, as torch does
    own_variant = importlib.metadata.version(DISTRIBUTION).partition("+")[2]
    asked = asked_torch()
    if version != asked or own_variant not in ("", variant):
        raise Failure(
            f"[torch] this engine was built with torch {asked}{'+' * bool(own_variant)}{own_variant}, and "
            f"{sys.executable} has {'+'.join(filter(None, [version, variant])) or 'none'}: "
            f"{sys.executable} -m pip install torch=={asked}, or take a wheel that was built with that one"
        )
    env = {**os.environ, "MAGLEV_HOME": str(HOME), "MAGLEV_INSTALLED": sys.executable}
    # the engine looks beside itself; in some environments there are two folders of packages
    if torch.parent != HOME.parent:
        folders = [torch / "lib", *torch.parent.glob("nvidia/*/lib")]
        before = filter(None, [env.get("LD_LIBRARY_PATH")])
        env["LD_LIBRARY_PATH"] = os.pathsep.join([*map(str, folders), *before])
    return env


def run_python(arguments: list[str], env: dict) -> NoReturn:
    os.execve(sys.executable, [sys.executable, *arguments], env)


def main(arguments: list[str]) -> int:
    refuse_what_wants_sources(arguments[:2] if arguments[:1] == ["help"] else arguments[:1])
    if arguments in ([], ["--help"], ["-h"], ["help"], ["help", "python"], ["help", "help"]):
        print(HELP, flush=True)
        return subprocess.run([ENGINE, "--help"], env=engine_environment(), check=False).returncode
    if arguments[0] == "help":
        arguments = [arguments[1], "--help"]
    verb, *rest = arguments
    if verb == "sync":
        run_python(["-m", "maglev_sync", *rest], dict(os.environ))
    env = engine_environment()
    if verb == "python":
        run_python(rest, env)
    os.execve(ENGINE, [str(ENGINE), *arguments], env)
