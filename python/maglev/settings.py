"""Settings as the command line names them, and what there is to set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch

from maglev import _engine

Settings = Mapping[str, object] | Iterable[str] | None


def text_of(name: str, value: object) -> str:
    """A value as a setting's text."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text_of(name, one) for one in value) + "]"
    if value is None:
        raise _engine.Error(f"[settings] {name}: None is no value; leave the setting out for its default")
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if name == "env.id" and not isinstance(value, str):
        return id_of(value)
    if callable(value):
        raise _engine.Error(
            f"[settings] {name} is a value, got {value!r}; what a schedule ends at is a setting of its own, such as "
            "ppo.lr_end, and what a function is to do meanwhile goes into maglev.train's on_..."
        )
    return str(value)


def id_of(kind: object) -> str:
    """An environment's class, or a function that makes one, as the processes that step it find it."""
    module, name = getattr(kind, "__module__", None), getattr(kind, "__qualname__", None)
    if not callable(kind) or not isinstance(module, str) or not isinstance(name, str):
        raise _engine.Error(f"[settings] env.id is a name, a class or a function that makes one, got {kind!r}")
    if module == "__main__" or not name.isidentifier():
        raise _engine.Error(
            f"[settings] env.id: the processes that step environments do not run the program that {name} is in; put it at "
            'the top of a file beside, my_envs.py, and give "my_envs:NAME", or my_envs.NAME'
        )
    return f"{module}:{name}"


def json_of(arguments: Mapping[str, object]) -> str:
    """What an environment is made with, as JSON; NumPy's numbers and tensors are lists and numbers."""

    def plain(value: object) -> object:
        if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
            return value.tolist()
        raise _engine.Error(
            f"[settings] env.kwargs goes to other processes as JSON: numbers, texts, lists and dicts, got {value!r}; let a "
            "function make the environment from these (env.id=my_envs:make)"
        )

    try:
        return json.dumps(arguments, default=plain)
    except (TypeError, ValueError) as error:
        raise _engine.Error(f"[settings] env.kwargs is no JSON: {error}") from None


def flattened(settings: Mapping[str, object], section: str = "") -> Iterator[tuple[str, object]]:
    """Settings by their whole names, of sections within each other as config.yaml has them."""
    for name, value in settings.items():
        if section + name == "env.kwargs" and isinstance(value, Mapping):
            # one setting, whose text is JSON
            yield section + name, json_of(value)
        elif isinstance(value, Mapping):
            yield from flattened(value, f"{section}{name}.")
        else:
            yield section + name, value


def assignments(settings: Settings) -> list[str]:
    """name=value of a mapping, whose values may be mappings of a section; a list of such words is taken as it is."""
    if settings is None:
        return []
    if isinstance(settings, str):
        raise _engine.Error(f"[settings] must be a dict or a list of name=value, got the text {settings!r}")
    if isinstance(settings, Mapping):
        return [f"{name}={text_of(name, value)}" for name, value in flattened(settings)]
    try:
        return [str(word) for word in settings]
    except TypeError:
        raise _engine.Error(f"[settings] must be a dict or a list of name=value, got {settings!r}") from None


def environments() -> dict[str, str]:
    """Environments of this build by name: what each is."""
    return _engine.environments()


def algorithms() -> dict[str, str]:
    """Algorithms by name: what each is."""
    return _engine.algorithms()


class Setting(str):
    """A setting's value as text; `help` says what it is for, its range and its unit."""

    help: str


def settings(algorithm: str, environment: str, *, bare: bool = False) -> dict[str, Setting]:
    """Every setting that `train` of these two has, with the value it has there.

    bare: without the proven settings of configs/<algorithm>/<environment>.yaml.
    """
    found = {}
    for name, (value, about) in _engine.settings(algorithm, environment, bare).items():
        found[name] = Setting(value)
        found[name].help = about
    return found
