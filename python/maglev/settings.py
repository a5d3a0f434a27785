"""Settings as the command line names them, and what there is to set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch

from maglev import _engine

Settings = Mapping[str, object] | Iterable[str] | None


def text_of(value: object) -> str:
    """A value as a setting's text."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text_of(one) for one in value) + "]"
    if value is None:
        raise _engine.Error("[settings] None is no value; leave the setting out for its default")
    return str(value)


def flattened(settings: Mapping[str, object], section: str = "") -> Iterator[tuple[str, object]]:
    """Settings by their whole names, of sections within each other as config.yaml has them."""
    for name, value in settings.items():
        if section + name == "env.kwargs" and isinstance(value, Mapping):
            # one setting, whose text is JSON
            yield section + name, json.dumps(value)
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
        return [f"{name}={text_of(value)}" for name, value in flattened(settings)]
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
