"""Runs in experiment trackers: `./maglev sync` as a function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import maglev_sync
from maglev_sync import Sent

from maglev import _engine
from maglev.runs import Run


def sync(runs: str | Path | Run | Sequence[str | Path | Run], to: str, **options: Any) -> list[Sent]:
    """Sends runs to a tracker, "wandb" or "mlflow": what is not there yet of their settings, rows and ends.

    options: those of maglev_sync.sync, such as project="carts", follow=True, checkpoints=True, offline=True,
      uri="runs/mlflow".
    """
    try:
        return maglev_sync.sync(runs, to, **options)
    except (maglev_sync.Error, OSError) as error:
        raise _engine.Error(str(error)) from None
