"""Many environments of one kind, stepped together by the engine's threads or on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray

from maglev import _engine
from maglev.given import Numbers, environment_named, refuse_copies, tensor_of, whole
from maglev.settings import Settings, assignments

if TYPE_CHECKING:
    from maglev.policies import Player, Policy

Observation = torch.Tensor | dict[str, torch.Tensor]
Seen = Numbers | Mapping[str, Numbers]  # observations as they may be given
Info = dict[str, Any]  # tensors by name: is_first, mask, events


class Column(NamedTuple):
    """A column of observations: a row of it has this shape."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    privileged: bool  # for a critic, never for a policy
    cells: bool  # codes of cells, packed; Envs.encode unpacks them
    vocabulary: tuple[int, ...]  # of tokens: how many each position has; empty: plain numbers


class Spec:
    """What an environment shows and takes."""

    observations: tuple[Column, ...]
    heads: tuple[int, ...]  # categories of each part of an action; empty: numbers
    action_names: tuple[str, ...]  # what each category is called, part behind part; empty: by their numbers
    low: tuple[float, ...]  # bounds of actions that are numbers
    high: tuple[float, ...]
    masked: bool  # info["mask"] says which categories are allowed
    max_steps: int  # after which an episode is truncated; 0: no limit
    events: tuple[str, ...]  # what it counts
    tasks: tuple[str, ...]
    solved_at: float  # a mean return; 0: no such figure
    render_fps: float  # steps a second at which people are to see it; 0: not said

    def __init__(self, spec: dict[str, Any]):
        self.observations = tuple(
            Column(
                c["name"],
                getattr(torch, c["dtype"]),
                tuple(c["shape"]),
                c["privileged"],
                c["cells"],
                tuple(c["vocabulary"]),
            )
            for c in spec["observations"]
        )
        self.heads = tuple(spec["heads"])
        self.action_names = tuple(spec["action_names"])
        self.low, self.high = tuple(spec["low"]), tuple(spec["high"])
        self.masked = spec["masked"]
        self.max_steps = spec["max_steps"]
        self.events = tuple(spec["events"])
        self.tasks = tuple(spec["tasks"])
        self.solved_at = spec["solved_at"]
        self.render_fps = spec["render_fps"]

    def __repr__(self) -> str:
        return f"Spec({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def discrete(self) -> bool:
        return bool(self.heads)

    @property
    def action_dims(self) -> int:
        return len(self.heads) or len(self.low)


class Envs:
    """`num_envs` environments; each of an environment's agents is a row, environment by environment.

    A row whose episode ended begins the next one in the step that follows: that step ignores the row's action, gives
    reward 0 and the new episode's first observation, and info["is_first"] says so (Gymnasium's AutoresetMode.NEXT_STEP).
    So the observation that comes with `terminated` or `truncated` is the episode's last.

    One thread at a time. As a context manager they are closed at its end.
    """

    def __init__(
        self, name: str, engine: _engine.Envs, copy: bool, settings: Settings = None, events: bool = False, seed: int = 1
    ):
        self.name = name
        self.settings = assignments(settings)  # that are to differ from what the environment begins with
        self._engine = engine
        self._copy = copy
        self._events = events
        self._seed = seed  # of what sample() draws
        self._sampler: _engine.Actor | None = None
        self._names = [c["name"] for c in engine.spec["observations"]]
        self.spec = Spec(engine.spec)

    def __repr__(self) -> str:
        return f"Envs({self.name!r}, num_envs={self.num_envs}, rows={self.rows}, device={str(self.device)!r})"

    @property
    def num_envs(self) -> int:
        return self._engine.count

    @property
    def rows(self) -> int:
        """num_envs times agents: the first size of every tensor."""
        return self._engine.rows

    @property
    def agents(self) -> int:
        return self._engine.agents

    @property
    def device(self) -> torch.device:
        return torch.device(self._engine.device)

    @property
    def players(self) -> list[str]:
        """Those that player() knows by name besides runs."""
        return self._engine.players

    def reset(self, seed: SupportsIndex | None = None) -> tuple[Observation, Info]:
        """All begin their first episodes: of `seed`, else once more those that they began with."""
        if seed is None:
            self._engine.reset()
        else:
            self._seed = whole(seed, "[reset] seed")
            self._engine.reset(self._seed)
            self._sampler = None
        return self._shown()

    def step(self, actions: Numbers) -> tuple[Observation, torch.Tensor, torch.Tensor, torch.Tensor, Info]:
        """(obs, reward [rows] f32, terminated [rows] bool, truncated [rows] bool, info).

        actions: [rows, dims] or, where an action has one part, [rows]; integers, or numbers that the environment clips
        to its bounds.
        """
        shown, reward, terminated, truncated = self._engine.step(tensor_of(actions, "[step] actions"), self._copy)
        obs, info = self._named(*shown)
        return obs, reward, terminated, truncated, info

    def encode(self, obs: Seen) -> Observation:
        """What networks take of an observation: images [rows, C, H, W] f32, bytes as 0..1 and cells in the colours
        their policy sees, the rest as one vector [rows, D] f32; a dict of "image" and "vector" where there are both.
        """
        image, vector, _ = self._engine.encode(self._columns(obs))
        parts = {name: part for name, part in (("image", image), ("vector", vector)) if part is not None}
        return parts if len(parts) > 1 else next(iter(parts.values()))

    def sample(self) -> torch.Tensor:
        """Random actions, of those that are allowed; reset(seed) begins their numbers anew."""
        if self._sampler is None:
            self._sampler = _engine.Actor(self._engine, "random", [], "sample", 1, self._seed)
        columns, mask, is_first = self._engine.shown(False)
        return actions_of(self.spec, self._sampler.act(columns, mask, is_first))

    def player(
        self, name: Player, *, mode: str = "", temperature: float | None = None, seed: SupportsIndex = 1
    ) -> Policy:
        """Who plays here: one of `players`, a run's folder (FOLDER@CHECKPOINT), a Run or a Policy. Its act() needs no
        observation: it sees what is there.

        mode: mean, the likeliest action, or sample; empty: a Policy's own, else sample.
        temperature: as load's; None: a Policy's own, else 1.
        """
        from maglev.policies import Policy, acting_of, name_of

        how = acting_of(name, mode, temperature)
        actor = _engine.Actor(
            self._engine, name_of(name), how.settings, how.mode, how.temperature, whole(seed, "[player] seed")
        )
        settings = [*self.settings, *how.settings]
        return Policy(actor, name_of(name), how.mode, how.temperature, settings, envs=self)

    def totals(self) -> dict[str, Any]:
        """Episodes that ended since the last call: how many, their returns and lengths; steps, events and shares. Of each
        environment's first agent.
        """
        return self._engine.totals()

    def render(
        self, index: SupportsIndex = 0, *, width: SupportsIndex = 320, height: SupportsIndex = 320
    ) -> NDArray[np.uint8]:
        """One environment as it draws itself: [height, width, 3] uint8."""
        sizes = whole(width, "[render] width"), whole(height, "[render] height")
        picture: NDArray[np.uint8] = self._engine.picture(whole(index, "[render] an environment"), *sizes).numpy()
        return picture

    def close(self) -> None:
        """Lets go of them, and ends the processes that step environments of Python, where nobody has others of the same
        kind. Whoever closes them twice changes nothing; what they would do from then on is an error.
        """
        self._engine.close()

    def __reduce__(self) -> Any:
        return refuse_copies("environments stay where they were made", "make others there")

    def __enter__(self) -> Envs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keep(self) -> _engine.State:
        """All that the next steps follow from, to come back to with restore(): for searches, and to try something."""
        return self._engine.keep()

    def restore(self, state: _engine.State) -> tuple[Observation, Info]:
        """As it was when `state` was kept; the same actions give the same from there."""
        if not isinstance(state, _engine.State):
            raise _engine.Error(f"[restore] takes what keep() gave, got {state!r}")
        self._engine.restore(state)
        return self._shown()

    def _shown(self) -> tuple[Observation, Info]:
        return self._named(*self._engine.shown(self._copy))

    def _named(
        self, columns: list[torch.Tensor], mask: torch.Tensor | None, is_first: torch.Tensor
    ) -> tuple[Observation, Info]:
        info: Info = {"is_first": is_first}
        if mask is not None:
            info["mask"] = mask
        if self._events:
            info["events"] = self._engine.events()
        return (columns[0] if len(columns) == 1 else dict(zip(self._names, columns))), info

    def _columns(self, obs: Seen) -> list[torch.Tensor]:
        return columns_of(self.spec, obs)


def actions_of(spec: Spec, actions: torch.Tensor) -> torch.Tensor:
    """[rows, dims] of the engine as torch has actions: categories as int64, [rows] where there is one."""
    if not spec.discrete:
        return actions
    return (actions.squeeze(1) if spec.action_dims == 1 else actions).long()


def columns_of(spec: Spec, obs: Seen) -> list[torch.Tensor]:
    """The columns of an observation, in order."""
    return columns_in([c.name for c in spec.observations], obs)


def columns_in(names: list[str], obs: Seen) -> list[torch.Tensor]:
    """The same of columns by name."""
    if not isinstance(obs, Mapping):
        if len(names) != 1:
            raise _engine.Error(f"[obs] expects a dict of {', '.join(names)}, got one tensor")
        return [tensor_of(obs, "[obs] an observation")]
    missing = [name for name in names if name not in obs]
    if missing:
        raise _engine.Error(f"[obs] lacks {', '.join(missing)}; it has {', '.join(map(str, obs))}")
    return [tensor_of(obs[name], f"[obs] {name}") for name in names]


def make(
    name: str,
    num_envs: SupportsIndex = 1,
    settings: Settings = None,
    *,
    seed: SupportsIndex = 1,
    device: str | torch.device = "auto",
    threads: SupportsIndex = 0,
    copy: bool = True,
    events: bool = False,
) -> Envs:
    """Environments by name, `maglev.environments()` lists them.

    settings: {"env.size": 32} or ["env.size=32"], as on the command line.
    device: auto, cpu, cuda or cuda:<index>, where they step and tensors lie.
    threads: how many step them; 0: as many as this process may use.
    copy: each step gives tensors of its own. False: two sets in turn, valid until the step after the next.
    events: info["events"] [rows, events] f32 is what the row's environment counted in the step, of spec.events; 0 after
        reset() and restore().
    """
    words = assignments(settings)
    if any(word.startswith("env.count=") for word in words):
        raise _engine.Error("[make] how many environments is num_envs here, the second argument, not env.count")
    begins = whole(seed, "[make] seed")
    engine = _engine.Envs(
        environment_named(name, "make"), whole(num_envs, "[make] num_envs"), words, begins, str(device),
        whole(threads, "[make] threads"), bool(events),
    )  # fmt: skip
    return Envs(name, engine, copy, words, bool(events), begins)
