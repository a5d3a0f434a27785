"""A torch package as files: importing it takes seconds."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path


def torch_version(torch: Path) -> tuple[str, bool]:
    """(version, has CUDA) of a torch package, not imported; ("", False) if it is none."""
    if not (torch / "lib" / "libtorch_cpu.so").exists():
        return "", False
    values = {}
    with contextlib.suppress(Exception):
        exec((torch / "version.py").read_text(), values)  # the package's own constants
    return str(values.get("__version__", "")), bool(values.get("cuda"))


def interpreters_torch() -> Path | None:
    """The torch package of the interpreter that runs this script, not imported."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if not spec or not spec.submodule_search_locations:
        return None
    return Path(list(spec.submodule_search_locations)[0])
