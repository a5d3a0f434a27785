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
from pathlib import Path

import torch  # the engine is linked with its libraries

HOME = Path(os.environ.get("MAGLEV_HOME") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("MAGLEV_BUILD") or HOME / ".build" / "release")
# where proven settings and profiles lie
os.environ.setdefault("MAGLEV_HOME", str(HOME))
__path__.append(str(BUILD / "python"))

try:
    from maglev import _engine
except ImportError as error:
    raise ImportError(
        f"[python] the engine's module could not be loaded from {BUILD / 'python'} ({error}); build it with "
        f"{HOME / 'maglev'} python, which also says what is missing, and use that command's Python"
    ) from error

from maglev._engine import Error
from maglev.advantages import gae
from maglev.environments import Envs, make
from maglev.policies import Policy, evaluate, load
from maglev.runs import Run, resume, train
from maglev.settings import algorithms, environments, settings

__version__ = _engine.version


def __getattr__(name: str):
    # only who asks for it needs Gymnasium
    if name == "gymnasium":
        return importlib.import_module("maglev.gymnasium")
    raise AttributeError(f"module 'maglev' has no attribute {name!r}")


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
    "train",
]
