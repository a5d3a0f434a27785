"""Maglev in Python: its environments as tensors, its policies, its training.

    envs = maglev.make("cartpole", 1024)
    obs, info = envs.reset()
    obs, reward, terminated, truncated, info = envs.step(actions)

    run = maglev.train("ppo", "cartpole", {"train.steps": 200_000})
    policy = run.policy()
    action = policy.act(obs)

docs/python.md has it all. Whatever is wrong raises maglev.Error with what was expected.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import torch  # the engine is linked with its libraries

# from a wheel, whose module lies in this folder (docs/installing.md); else from a checkout
WHEEL = Path(__file__).resolve().parents[1] / "maglev_engine"
INSTALLED = WHEEL.is_dir()
HOME = WHEEL if INSTALLED else Path(os.environ.get("MAGLEV_HOME") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("MAGLEV_BUILD") or HOME / ".build" / "release")
if not INSTALLED and not (HOME / "maglev").exists():
    raise ImportError(
        f"[python] {HOME} is no checkout of Maglev: its settings and its build are looked for beside the package; "
        "install it with `pip install -e CHECKOUT`, or set MAGLEV_HOME to the checkout, or install the wheel that "
        "`./maglev wheel` makes in one"
    )
if INSTALLED:
    os.environ |= {"MAGLEV_HOME": str(HOME), "MAGLEV_INSTALLED": sys.executable}
else:
    # where proven settings and profiles lie
    os.environ.setdefault("MAGLEV_HOME", str(HOME))
    os.environ.pop("MAGLEV_INSTALLED", None)
    __path__.append(str(BUILD / "python"))


def how_to_get_module(torch_version: str) -> str:
    """Behind what is wrong with it; torch_version: the one it was built with, where that is known."""
    if INSTALLED:
        wanted = f"torch=={torch_version}" if torch_version else "the torch that `pip check` names"
        return f"install {wanted} here, or a wheel of Maglev that was built with torch {torch.__version__}"
    if torch_version:
        return (
            f"use `{HOME / 'maglev'} python`, or install torch {torch_version} here, or build with this one: "
            f"MAGLEV_TORCH={Path(torch.__file__).parent} {HOME / 'maglev'} python"
        )
    return (
        f"build it with {HOME / 'maglev'} python, which also says what is missing, and use that command's Python, or "
        f"another of version {sys.version_info.major}.{sys.version_info.minor} with the same torch"
    )


try:
    from maglev import _engine
except ImportError as error:
    where = Path(__file__).parent if INSTALLED else BUILD / "python"
    raise ImportError(
        f"[python] the engine's module could not be loaded from {where} ({error}); {how_to_get_module('')}"
    ) from error
# beside another one's libraries tensors may be laid out otherwise
if torch.__version__.split("+")[0] != _engine.torch_version:
    raise ImportError(
        f"[python] this Python has torch {torch.__version__}, the engine's module was built with {_engine.torch_version}; "
        f"{how_to_get_module(_engine.torch_version)}"
    )

from maglev._engine import Error
from maglev.advantages import gae
from maglev.environments import Envs, make
from maglev.monitoring import Monitor
from maglev.networks import save_network
from maglev.policies import Policy, evaluate, load
from maglev.replay import Columns, Replay
from maglev.runs import Run, resume, train
from maglev.settings import algorithms, environments, settings
from maglev.tracing import span, trace
from maglev.tracking import sync

__version__ = _engine.version


def __getattr__(name: str) -> ModuleType:
    # only who asks for them needs Gymnasium and PettingZoo
    if name in ("gymnasium", "pettingzoo"):
        return importlib.import_module(f"maglev.{name}")
    raise AttributeError(f"module 'maglev' has no attribute {name!r}")


def __dir__() -> list[str]:
    # not what is imported here
    return sorted([*__all__, "__version__", "gymnasium", "pettingzoo"])


__all__ = [
    "Columns",
    "Envs",
    "Error",
    "Monitor",
    "Policy",
    "Replay",
    "Run",
    "algorithms",
    "environments",
    "evaluate",
    "gae",
    "load",
    "make",
    "resume",
    "save_network",
    "settings",
    "span",
    "sync",
    "trace",
    "train",
]
