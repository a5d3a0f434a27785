"""What a user did wrong, as one line."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class Error(Exception):
    """Where, what was expected, what came, what to do."""


class Refused(Error):
    """Runs that were not sent, each reason once."""

    def __init__(self, reasons: Iterable[str], short: str = ""):
        super().__init__("; ".join(dict.fromkeys(reasons)))
        self.short = short or str(self)  # for who has heard the reasons


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean x or y?", empty where nothing is near."""
    near = difflib.get_close_matches(word, list(known), 2)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def import_package(name: str, tracker: str) -> ModuleType:
    """A package that only who sends to its tracker needs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Error(
            f"[sync] Python's package {name} cannot be imported here ({error}); `./maglev sync --to {tracker}` "
            f"installs it, or pip install -r requirements-{tracker}.txt"
        ) from None
