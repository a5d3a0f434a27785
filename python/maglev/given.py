"""What callers give, as the engine takes it; what it cannot be taken for is an Error that says where."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any, SupportsFloat, SupportsIndex

import torch
from numpy.typing import ArrayLike

from maglev import _engine

Numbers = torch.Tensor | ArrayLike  # whatever torch.as_tensor takes
Listener = Callable[..., bool | None]


def whole(value: SupportsIndex, what: str) -> int:
    """A whole number that is not negative, NumPy's and tensors' too."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise _engine.Error(f"{what} must be a whole number in 0..2**63-1, got {value!r}")
    return number


def number(value: SupportsFloat, what: str) -> float:
    """NumPy's and tensors' too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _engine.Error(f"{what} must be a number, got {value!r}") from None


def text(value: object, what: str) -> str:
    """A name."""
    if not isinstance(value, str):
        raise _engine.Error(f"{what} is named by a text, got {value!r}")
    return value


def path(value: object, what: str) -> str:
    """A file's or folder's."""
    if not isinstance(value, (str, os.PathLike)):
        raise _engine.Error(f"{what} is a path, got {value!r}")
    return os.fsdecode(value)


def environment_named(value: object, where: str) -> str:
    """An environment's name. One that was made already is not taken: others of its kind are made, in the engine."""
    if isinstance(value, str):
        return value
    raise _engine.Error(
        f"[{where}] an environment is named by a text, got {value!r}; Gymnasium's and yours are \"gymnasium\" with their "
        'id among the settings: {"env.id": "CartPole-v1"}'
    )


def tensor_of(value: Numbers, what: str) -> torch.Tensor:
    """Shares memory where it can."""
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _engine.Error(f"{what} must be a tensor, an array or numbers, got {type(value).__name__}: {error}") from None


def listening(**listeners: Listener | None) -> dict[str, Listener]:
    """Those that there are, by name."""
    for name, listener in listeners.items():
        if listener is not None and not callable(listener):
            raise _engine.Error(f"[train] on_{name} must be a function, got {listener!r}")
    return {name: listener for name, listener in listeners.items() if listener is not None}


def refuse_copies(what: str, instead: str) -> Any:
    """For __reduce__, which pickle, copy and multiprocessing ask."""
    raise _engine.Error(f"[pickle] {what}; {instead}")
