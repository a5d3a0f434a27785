"""Runs of Maglev in an experiment tracker: what training wrote into run folders, sent to Weights & Biases or MLflow.

    ./maglev sync runs/a --to wandb
    maglev_sync.sync("runs/a", to="mlflow", uri="runs/mlflow")

It reads files alone: neither torch nor the engine is imported, and training never waits for it. docs/tracking.md has it
all.
"""

from __future__ import annotations

from maglev_sync.errors import Error
from maglev_sync.sending import Sent
from maglev_sync.several import sync

__all__ = ["Error", "Sent", "sync"]
