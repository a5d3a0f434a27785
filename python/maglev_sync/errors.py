"""What a user did wrong, as one line."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

# from a wheel (docs/installing.md), or in a checkout
INSTALLED = (Path(__file__).resolve().parents[1] / "maglev_engine").is_dir()
COMMAND = "maglev" if INSTALLED else "./maglev"


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
        how = (
            f"{sys.executable} -m pip install 'maglev-engine[{tracker}]'"
            if INSTALLED
            else f"`./maglev sync --to {tracker}` installs it, or pip install -r requirements-{tracker}.txt"
        )
        raise Error(f"[sync] Python's package {name} cannot be imported here ({error}); {how}") from None
