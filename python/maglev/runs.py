"""Training, and the folders it leaves behind."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from maglev import _engine
from maglev.given import environment_named, listening, path, text
from maglev.networks import trained_weights, training
from maglev.policies import Policy, evaluate, load
from maglev.settings import Settings, assignments


class Run:
    """A run's folder."""

    def __init__(self, folder: str | Path, outcome: str = ""):
        self.folder = Path(folder).resolve()
        self.outcome = outcome  # of the session just made: finished, diverged, or stopped by a callback
        if not (self.folder / "run.json").exists() and not (self.folder / "checkpoints").exists():
            raise _engine.Error(_engine.no_run(str(folder)))

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def status(self) -> dict[str, Any]:
        """run.json: state, steps, return_mean, times."""
        try:
            status: dict[str, Any] = json.loads(self._text("run.json"))
            if not isinstance(status, dict):
                raise ValueError("no object")
        except ValueError as error:
            raise _engine.Error(f"[run] {self.folder}/run.json cannot be read ({error}); a resume writes it anew") from None
        return status

    @property
    def config(self) -> str:
        """Every setting as it was resolved, as YAML."""
        return self._text("config.yaml")

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(errors="replace")
        except OSError as error:
            raise _engine.Error(f"[run] {self.folder}/{name} cannot be read: {error.strerror}") from None

    def __fspath__(self) -> str:
        return str(self.folder)

    def rows(self) -> list[dict[str, Any]]:
        """metrics.jsonl, a dict a row: losses, returns, speeds; evaluations are rows with eval/*."""
        rows = []
        file = self.folder / "metrics.jsonl"
        if not file.exists():
            raise _engine.Error(f"[run] {self.folder} has no metrics.jsonl: it was trained without the sink jsonl")
        lines = file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            row = _object_of(line)
            if row is not None:
                rows.append(row)
            # the last one may still be on its way
            elif number < len(lines):
                warnings.warn(f"[run] {file}: line {number} cannot be read and is left out", stacklevel=2)
        return rows

    def curve(self, name: str = "return_mean") -> tuple[list[int], list[float]]:
        """Steps, and a figure at each of them, where it was told."""
        known = [(row["step"], row[name]) for row in self.rows() if row.get(name) is not None]
        if not known:
            names = sorted({key for row in self.rows() for key in row})
            raise _engine.Error(f"[run] {self.folder} has no figure {name!r}; it has {', '.join(names)}")
        return [step for step, _ in known], [value for _, value in known]

    def weights(self, checkpoint: str = "latest") -> dict[str, torch.Tensor]:
        """What the network has learned, of a run with network=: net.load_state_dict(run.weights()).

        Of a value that PopArt normalises the last layer is that of rewards' own units.
        """
        return trained_weights(self.folder, checkpoint)

    def policy(self, checkpoint: str = "latest", **options: Any) -> Policy:
        """load() of this run."""
        return load(str(self.folder), checkpoint=checkpoint, **options)

    def evaluate(self, checkpoint: str = "latest", **options: Any) -> dict[str, Any]:
        """evaluate() of this run."""
        return evaluate(f"{self.folder}@{checkpoint}", **options)


def _object_of(line: str) -> dict[str, Any] | None:
    """Of a line of JSON; None: it is damaged."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def names_of(sinks: Sequence[str] | str | None) -> list[str]:
    if sinks is None:
        return []
    if not sinks:
        raise _engine.Error('[train] sinks names none; leave it out for the default, ("jsonl",) writes a file alone')
    if isinstance(sinks, str):
        return sinks.split(",")
    try:
        return [text(name, "[train] a sink") for name in sinks]
    except TypeError:
        raise _engine.Error(f'[train] sinks are names, such as ["jsonl"], got {sinks!r}') from None


def _ended(outcome: str, folder: str) -> Run:
    if outcome == "interrupted":
        # it has saved and left; what called it is to end as well
        raise KeyboardInterrupt(f"the run in {folder} was stopped and saved; maglev.resume({folder!r}) goes on")
    return Run(folder, outcome)


def train(
    algorithm: str,
    environment: str,
    settings: Settings = None,
    *,
    network: torch.nn.Module | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    config: str | Path | None = None,
    bare: bool = False,
    sinks: Sequence[str] | str | None = None,
    on_start: Callable[[dict[str, Any]], bool | None] | None = None,
    on_iteration: Callable[[int], bool | None] | None = None,
    on_epoch: Callable[[int, dict[str, Any]], bool | None] | None = None,
    on_row: Callable[[dict[str, Any]], bool | None] | None = None,
    on_episodes: Callable[[list[dict[str, Any]]], bool | None] | None = None,
    on_end: Callable[[dict[str, Any]], bool | None] | None = None,
) -> Run:
    """Trains in this process to the end and gives the run's folder: `maglev train` with the same settings.

    settings: {"train.steps": 200_000, "ppo.lr": 3e-4}, or ["train.steps=200000", "+hardware=auto"].
    network: a module that PPO trains in place of a network of its own, as save_network() has it.
    out: the folder; None: runs/<date>-<algorithm>-<environment>-<n>. overwrite: one that is there is moved aside.
    config: a file of settings. bare: without the proven ones.
    sinks: where metrics go, such as ("jsonl",) for silence; None: all that are on by default.
    on_row: hears of each row of metrics; on_episodes: of the episodes that ended in each iteration, a dict each of
      environment, step, return, length, terminated; on_iteration: before each, of the environment step.
    on_epoch: hears of each pass that an update makes over its data (PPO's epochs 0, 1, ..; 0 where an update is one
      pass), with that pass's figures; iterations are not captured as graphs then.
    on_start, on_end: before the first iteration and behind the last checkpoint, of folder, step, updates and the steps to
      train for.
    Where one returns False the run saves and ends, its outcome "stopped"; resume() goes on. An exception in one ends the
      run as failed; what was saved stays. on_end comes when that is done: it changes nothing of the run any more, and is
      not called where an error ended it.

    Ctrl-C saves and raises KeyboardInterrupt; resume() goes on from there.
    """
    heard = listening(
        start=on_start, iteration=on_iteration, epoch=on_epoch, row=on_row, episodes=on_episodes, end=on_end
    )
    algorithm, environment = text(algorithm, "[train] an algorithm"), environment_named(environment, "train")
    file = path(config, "[train] config") if config is not None else None
    folder = path(out, "[train] out") if out is not None else ""
    with training(network, algorithm, environment, assignments(settings), file, bare) as words:
        outcome, folder = _engine.train(
            algorithm, environment, words, file, bare, folder, overwrite, names_of(sinks), heard
        )
    return _ended(outcome, folder)


def resume(
    run: str | Path | Run,
    settings: Settings = None,
    *,
    sinks: Sequence[str] | str | None = None,
    on_start: Callable[[dict[str, Any]], bool | None] | None = None,
    on_iteration: Callable[[int], bool | None] | None = None,
    on_epoch: Callable[[int, dict[str, Any]], bool | None] | None = None,
    on_row: Callable[[dict[str, Any]], bool | None] | None = None,
    on_episodes: Callable[[list[dict[str, Any]]], bool | None] | None = None,
    on_end: Callable[[dict[str, Any]], bool | None] | None = None,
) -> Run:
    """Goes on with a run from its newest checkpoint, bit for bit: `maglev train --resume`. As train()."""
    folder = run.folder if isinstance(run, Run) else run
    heard = listening(
        start=on_start, iteration=on_iteration, epoch=on_epoch, row=on_row, episodes=on_episodes, end=on_end
    )
    return _ended(*_engine.resume(str(folder), assignments(settings), names_of(sinks), heard))
