"""config.yaml as numbers, truth values, lists and texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from maglev_sync.errors import Error, import_package

WHOLE = re.compile(r"[-+]?\d+")
REAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def typed(value: Any) -> Any:
    """As the engine means it: 3e-4 is a number and off a choice, where YAML 1.1 has a text and a truth value."""
    if isinstance(value, dict):
        return {name: typed(part) for name, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    if value in ("true", "false"):
        return value == "true"
    if isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, str) and REAL.fullmatch(value):
        return float(value)
    return value


def read_settings(run: Path, tracker: str) -> dict[str, Any]:
    """Nested by name, as texts; empty where the run has no config.yaml."""
    path = run / "config.yaml"
    if not path.exists():
        return {}
    # both trackers' packages bring it
    yaml = import_package("yaml", tracker)
    try:
        settings = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise Error(
            f"[{path}] must be YAML, got {reason}; a resume writes it anew from the newest checkpoint"
        ) from None
    return settings if isinstance(settings, dict) else {}


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Dotted names: {"ppo": {"lr": "3e-4"}} as {"ppo.lr": "3e-4"}."""
    names: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            names |= flat(value, f"{prefix}{name}.")
        else:
            names[prefix + name] = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
    return names
