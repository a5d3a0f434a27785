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

HOME = Path(os.environ.get("MAGLEV_HOME") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("MAGLEV_BUILD") or HOME / ".build" / "release")
if not (HOME / "maglev").exists():
    raise ImportError(
        f"[python] {HOME} is no checkout of Maglev: its settings and its build are looked for beside the package; "
        "install it with `pip install -e CHECKOUT`, or set MAGLEV_HOME to the checkout"
    )
# where proven settings and profiles lie
os.environ.setdefault("MAGLEV_HOME", str(HOME))
__path__.append(str(BUILD / "python"))

try:
    from maglev import _engine
except ImportError as error:
    raise ImportError(
        f"[python] the engine's module could not be loaded from {BUILD / 'python'} ({error}); build it with "
        f"{HOME / 'maglev'} python, which also says what is missing, and use that command's Python, or another of "
        f"version {sys.version_info.major}.{sys.version_info.minor} with the same torch"
    ) from error
# beside another one's libraries tensors may be laid out otherwise
if torch.__version__.split("+")[0] != _engine.torch_version:
    raise ImportError(
        f"[python] this Python has torch {torch.__version__}, the engine's module was built with {_engine.torch_version}; "
        f"use `{HOME / 'maglev'} python`, or install torch {_engine.torch_version} here, or build with this one: "
        f"MAGLEV_TORCH={Path(torch.__file__).parent} {HOME / 'maglev'} python"
    )

from maglev._engine import Error
from maglev.advantages import gae
from maglev.environments import Envs, make
from maglev.policies import Policy, evaluate, load
from maglev.runs import Run, resume, train
from maglev.settings import algorithms, environments, settings
from maglev.tracking import sync

__version__ = _engine.version


def __getattr__(name: str) -> ModuleType:
    # only who asks for it needs Gymnasium
    if name == "gymnasium":
        return importlib.import_module("maglev.gymnasium")
    raise AttributeError(f"module 'maglev' has no attribute {name!r}")


def __dir__() -> list[str]:
    # not what is imported here
    return sorted([*__all__, "__version__", "gymnasium"])


__all__ = [
    "Envs",
    "Error",
    "Policy",
    "Run",
    "algorithms",
    "environments",
    "evaluate",
    "gae",
    "load",
    "make",
    "resume",
    "settings",
    "sync",
    "train",
]
