"""The engine's replay memory for a loop of one's own: steps go in, slices of episodes come out."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike, fspath
from typing import Any, NamedTuple, SupportsFloat, SupportsIndex

import torch

from maglev import _engine
from maglev.environments import Envs, Observation, Seen, columns_in
from maglev.given import Numbers, number, refuse_copies, tensor_of, text, whole

Kind = tuple[SupportsIndex | Sequence[SupportsIndex], torch.dtype]  # shape of a row, dtype

# what add() calls its own
STEP = ("obs", "action", "reward", "terminated", "truncated", "is_first", "mask")
# dtypes of columns of one's own, and what has columns
OWN = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
KINDS = ("observations", "extra")


class Columns(NamedTuple):
    """What environments that are not the engine's show and take, of which a Replay is to be made."""

    observations: Mapping[str, Kind]  # uint8, int32 or float32
    action: Kind  # (shape, dtype), its shape () or (dims,): int32 or int64, or float32
    rows: SupportsIndex = 1  # of a step: environments times agents
    device: str | torch.device = "cpu"  # where it is kept and tensors lie


@dataclass(frozen=True, eq=False)
class Batch:
    """B slices of L transitions, time first. What a transition led to is the next time's: obs[l + 1] of obs[l]."""

    obs: Observation  # [L+1, B, ...], a dict by name where there are several columns
    action: torch.Tensor  # [L, B, ...]: as the environments take them, categories as int64
    reward: torch.Tensor  # [L, B] f32
    terminated: torch.Tensor  # [L, B] bool
    truncated: torch.Tensor  # [L, B] bool
    is_first: torch.Tensor  # [L+1, B] bool
    mask: torch.Tensor | None  # [L+1, B, categories] bool
    extra: dict[str, torch.Tensor]  # [L, B, ...] by name
    time: torch.Tensor  # [B] int64: of each slice's first step, counted from the first that was added
    row: torch.Tensor  # [B] int64: whose steps they are
    probability: torch.Tensor | None  # [B] f32: with which each was drawn, where there are priorities
    weights: torch.Tensor | None  # [B] f32: what each counts for in a loss, so that all count alike; at most 1
    # where it came from, which a copy that was pickled does not know
    _drawn: _engine.ReplayBuffer | None
    _of: Replay | None

    def __reduce__(self) -> Any:
        return Batch, (*(getattr(self, field.name) for field in fields(self)[:-2]), None, None)


class Replay:
    """A ring of steps, of which slices of L transitions are drawn, each within one episode of one row.

    envs: whose rows, columns and device it has; or Columns, for environments of others.
    capacity: rows that are held, of all environments together; the oldest step goes first.
    length, batch: L transitions of a slice, B slices of a batch.
    extra: columns of your own, {"value": ((), torch.float32)}: shape of a row and dtype, written by add() and update().
    sampling: start, every start alike; or trajectory, an episode and then a start in it.
    running: also of episodes that have not ended.
    crossing: slices go on over the ends of episodes, every start alike; is_first says where one begins.
    priorities: slices are drawn in proportion to their priorities to this power, in 0..4, such as 0.6: see update_priorities().
    seed: of what is drawn.
    folder: where observations lie on a disk, for a ring larger than memory; gone with it.
    pinned: of a GPU's, in memory of the host.
    threads: how many gather a batch; 0: as many as this process may use.
    copy: each batch has tensors of its own. False: the sampling thread's, valid until it samples again.

    One thread adds, saves or loads; any number sample, update and ask what there is meanwhile. On a GPU len(), episodes,
    drawable and faults wait for it.
    """

    def __init__(
        self,
        envs: Envs | Columns,
        capacity: SupportsIndex = 100_000,
        length: SupportsIndex = 1,
        batch: SupportsIndex = 256,
        *,
        extra: Mapping[str, Kind] | None = None,
        sampling: str = "start",
        running: bool = True,
        crossing: bool = False,
        priorities: SupportsFloat | None = None,
        seed: SupportsIndex = 1,
        folder: str | PathLike[str] = "",
        pinned: bool = False,
        threads: SupportsIndex = 0,
        copy: bool = True,
    ):
        if sampling not in ("start", "trajectory"):
            raise _engine.Error(f"[replay] sampling must be start or trajectory, got {sampling!r}")
        if priorities is not None and (sampling != "start" or not (running or crossing)):
            raise _engine.Error(
                "[replay] with priorities every start has one as soon as its slice is there; leave sampling and running as they are"
            )
        sizes = {"capacity": capacity, "length": length, "batch": batch}
        about = {
            **rows_of(envs),
            **{name: at_least_one(size, name) for name, size in sizes.items()},
            "extra": [own_column(name, kind) for name, kind in (extra or {}).items()],
            "by_start": sampling == "start",
            "running": bool(running),
            "crossing": bool(crossing),
            "priorities": None if priorities is None else real(priorities, "[replay] priorities", 0, 4),
            "seed": whole(seed, "[replay] seed"),
        }
        self._begin(about, fspath(folder), pinned, threads, copy)

    def _begin(
        self, about: dict[str, Any], folder: str, pinned: bool, threads: SupportsIndex, copy: bool
    ) -> None:
        self._about = about
        self._names = [name for name, _, _ in about["observations"]]
        self._own = [name for name, _, _ in about["extra"]]
        self._copy = copy
        self._thread = threading.local()
        columns = {kind: [(name, shape, getattr(torch, dtype)) for name, shape, dtype in about[kind]] for kind in KINDS}
        where = {"folder": folder, "pinned": bool(pinned), "threads": whole(threads, "[replay] threads")}
        self._engine = _engine.Replay(about | columns | where)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={self._about[name]}" for name in ("rows", "capacity", "length", "batch"))
        return f"Replay({', '.join(self._names)}, {sizes}, held={len(self)}, device={str(self.device)!r})"

    def __len__(self) -> int:
        """Rows that are held, of all environments together."""
        return self._engine.held()

    @property
    def rows(self) -> int:
        """Of a step: the first size of what add() takes."""
        return int(self._about["rows"])

    @property
    def capacity(self) -> int:
        return int(self._about["capacity"])

    @property
    def length(self) -> int:
        return int(self._about["length"])

    @property
    def batch(self) -> int:
        return int(self._about["batch"])

    @property
    def device(self) -> torch.device:
        return torch.device(self._engine.device)

    @property
    def episodes(self) -> int:
        """Finished ones that have a slice to give."""
        return self._engine.episodes()

    @property
    def drawable(self) -> bool:
        """Whether sample() has anything to draw from."""
        return self._engine.drawable()

    @property
    def faults(self) -> int:
        """Slices that were drawn and not of one episode: on a GPU, where add() does not look at flags, what came of
        an episode that began right after the step that ended another.
        """
        return self._engine.faults()

    def add(
        self,
        *,
        obs: Seen,
        action: Numbers,
        reward: Numbers,
        terminated: Numbers,
        truncated: Numbers,
        is_first: Numbers,
        mask: Numbers | None = None,
        **extra: Numbers,
    ) -> None:
        """A step of all rows: what was seen, what was done there, and what came of it. What it led to is the next
        step's `obs`, so a transition can be drawn once the step after it was added.

        obs: [rows, ...], a dict where there are several columns. action: as envs.step takes it. reward, terminated,
        truncated: [rows], what envs.step gave for the action. is_first, mask: of `obs`, so **info of the call that
        gave it. extra: a column of each name, [rows, ...].
        """
        flags = {"is_first": is_first, "action": action, "reward": reward, "terminated": terminated, "truncated": truncated}
        self._engine.add(
            columns_in(self._names, obs),
            None if mask is None else tensor_of(mask, "[add] mask"),
            *(tensor_of(column, f"[add] {name}") for name, column in flags.items()),
            {name: tensor_of(column, f"[add] {name}") for name, column in extra.items()},
        )

    def sample(self, number: SupportsIndex | None = None, *, beta: SupportsFloat = 0.4) -> Batch:
        """A batch of what is held: the next one, or batch `number`, which the same memory and seed give again.

        beta: of `weights`, (N * probability) ** -beta over the largest of the batch, N slices to draw from: 0, what is
        drawn more often counts for more; 1, all slices count alike in the long run (Schaul et al., 2016).
        """
        if self._copy:
            buffer = self._engine.buffer()
        else:
            if not hasattr(self._thread, "buffer"):
                self._thread.buffer = self._engine.buffer()
            buffer = self._thread.buffer
        self._engine.sample(buffer, None if number is None else whole(number, "[sample] number"))
        obs, mask, is_first, action, reward, terminated, truncated, own, slices, chance = buffer.columns()
        if self._about["heads"]:
            action = action.long()
        return Batch(
            obs=obs[0] if len(obs) == 1 else dict(zip(self._names, obs)),
            action=action.squeeze(-1) if self._about["scalar_action"] else action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            is_first=is_first,
            mask=mask,
            extra=dict(zip(self._own, own)),
            time=slices[:, 0].clone(),
            row=slices[:, 1].clone(),
            probability=chance,
            # N is the same for all
            weights=None if chance is None else (chance.min() / chance).pow(real(beta, "[sample] beta", 0, 1)),
            _drawn=buffer,
            _of=self,
        )

    def update(self, batch: Batch, columns: Mapping[str, Numbers], *, first: SupportsIndex = 0) -> None:
        """Writes columns of `extra` back to where a batch of this replay came from: {"value": [L, B, ...]}, of which
        steps `first` and later count. What the ring has given up meanwhile is left alone; of slices that share a step
        the last one counts.
        """
        self._expect_own(batch, "update")
        values = {text(name, "[update] a column"): tensor_of(column, f"[update] {name}") for name, column in columns.items()}
        self._engine.update(batch._drawn, values, whole(first, "[update] first"))

    def update_priorities(self, batch: Batch, td_errors: Numbers, *, epsilon: SupportsFloat = 1e-6) -> None:
        """How much is to be learned from a batch's slices, of which they are drawn by from now on: |td_errors| + epsilon.

        td_errors: [B], of each slice; or [L, B], of each step, as that of the slice which begins there. New slices have the
        largest priority so far. What the ring has given up meanwhile is left alone; of slices that share a step the
        last one counts.
        """
        self._expect_own(batch, "update_priorities")
        errors = tensor_of(td_errors, "[update_priorities] td_errors")
        self._engine.prioritise(batch._drawn, errors, real(epsilon, "[update_priorities] epsilon", 0))

    def _expect_own(self, batch: Batch, call: str) -> None:
        if not isinstance(batch, Batch) or batch._of is not self or batch._drawn is None:
            raise _engine.Error(f"[{call}] takes a batch that this replay gave itself, no copy of one")

    def save(self, path: str | PathLike[str]) -> None:
        """Everything that is held, in a folder of its own; what was saved there before is replaced once it is whole."""
        self._engine.save(fspath(path), json.dumps(self._about))

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        device: str | torch.device = "",
        folder: str | PathLike[str] = "",
        pinned: bool = False,
        threads: SupportsIndex = 0,
        copy: bool = True,
    ) -> Replay:
        """One that was saved, which goes on as it would have: the same steps, the same batches.

        device: where it is to lie; empty: as it did.
        """
        # those that were saved before there were priorities say nothing of them
        about = {"priorities": None} | json.loads(_engine.Replay.about(fspath(path)))
        if str(device):
            about["device"] = str(device)
        replay = cls.__new__(cls)
        replay._begin(about, fspath(folder), pinned, threads, copy)
        replay._engine.load(fspath(path))
        return replay

    def __reduce__(self) -> Any:
        return refuse_copies("a replay stays where it was made", "save() it, and Replay.load() it there")


def at_least_one(value: SupportsIndex, name: str) -> int:
    size = whole(value, f"[replay] {name}")
    most = 2**48 if name == "capacity" else 2**31 - 1
    if not 1 <= size <= most:
        raise _engine.Error(f"[replay] {name} must be in 1..{most}, got {size}")
    return size


def real(value: SupportsFloat, what: str, least: float, most: float = math.inf) -> float:
    given = number(value, what)
    if not least <= given <= most or math.isinf(given):
        raise _engine.Error(f"{what} must be in {least:g}..{most:g}, got {given:g}")
    return given


def column(name: str, kind: Kind) -> tuple[str, list[int], str]:
    """(name, shape of a row, dtype) as it is saved."""
    try:
        shape, dtype = kind
        sizes = list(shape) if isinstance(shape, Sequence) else [shape]
        fits = isinstance(dtype, torch.dtype)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise _engine.Error(f"[replay] {name} must be (shape, dtype), such as ((4,), torch.float32), got {kind!r}")
    return name, [at_least_one(size, f"a size of {name}") for size in sizes], str(dtype).removeprefix("torch.")


def own_column(name: str, kind: Kind) -> tuple[str, list[int], str]:
    if not isinstance(name, str) or not name.isidentifier() or name in STEP:
        raise _engine.Error(
            f"[replay] a column of extra is given to add() by its name, which is to be a word other than {', '.join(STEP)}; "
            f"got {name!r}"
        )
    described = column(name, kind)
    if described[2] not in OWN:
        raise _engine.Error(f"[replay] {name} must be of {', '.join(OWN)}, got {described[2]}")
    return described


def rows_of(envs: Envs | Columns) -> dict[str, Any]:
    """What is kept of a step, how many rows and where."""
    if isinstance(envs, Envs):
        spec = envs.spec
        return {
            "observations": [column(c.name, (c.shape, c.dtype)) for c in spec.observations],
            "heads": spec.heads,
            "low": spec.low,
            "high": spec.high,
            "masked": spec.masked,
            "scalar_action": spec.discrete and spec.action_dims == 1,
            "rows": envs.rows,
            "device": str(envs.device),
        }
    if not isinstance(envs, Columns):
        raise _engine.Error(
            f"[replay] is of environments as maglev.make gives them, or of maglev.Columns(...) for others, got {envs!r}"
        )
    _, shape, dtype = column("action", envs.action)
    numbers = envs.action[1].is_floating_point
    if len(shape) > 1:
        raise _engine.Error(f"[replay] an action's shape is () or (dims,), got {tuple(shape)}")
    if dtype not in ("int32", "int64", "float32"):
        raise _engine.Error(f"[replay] actions are integers, int32 or int64, or numbers, float32; got {dtype}")
    dims = shape[0] if shape else 1
    bound = float("inf")
    return {
        "observations": [column(text(name, "[replay] a column"), kind) for name, kind in envs.observations.items()],
        "heads": [] if numbers else [2**31 - 1] * dims,
        "low": [-bound] * dims if numbers else [],
        "high": [bound] * dims if numbers else [],
        "masked": False,
        "scalar_action": not shape,
        "rows": at_least_one(envs.rows, "rows"),
        "device": str(envs.device),
    }
