"""Who acts: policies of runs, scripted players; and how good they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, Union

import torch
from torch.distributions import Independent, Normal

from maglev import _engine
from maglev.environments import Envs, Info, Seen, Spec, actions_of, columns_of
from maglev.given import Numbers, environment_named, number, refuse_copies, tensor_of, text, whole
from maglev.settings import Settings, assignments

if TYPE_CHECKING:
    from maglev.runs import Run

# a scripted player by name, a run by its folder (FOLDER@CHECKPOINT) or itself, a policy
Player = Union[str, Path, "Run", "Policy"]
# from observations and info to actions
Function = Callable[[Any, Info], Numbers]


def name_of(player: Player) -> str:
    """Who plays, as the engine names them: a name, or a run by its folder."""
    return player.player if isinstance(player, Policy) else str(getattr(player, "folder", player))


class Acting(NamedTuple):
    """How somebody acts."""

    mode: str
    temperature: float
    settings: list[str]  # name=value that are to differ from training; none of the environment's


def acting_of(player: Player, mode: str = "", temperature: float | None = None) -> Acting:
    """How who is named so, or a Policy, acts: as it is given, else a Policy as it does, others sample."""
    if not isinstance(player, Policy):
        return Acting(mode or "sample", 1 if temperature is None else temperature, [])
    mode = mode or player.mode
    if temperature is None:
        temperature = player.temperature if mode == "sample" else 1
    return Acting(mode, temperature, [s for s in player.settings if not s.startswith("env.")])


class Policy:
    """Acts on rows of observations and, where it is recurrent, remembers them from call to call."""

    def __init__(
        self,
        engine: _engine.Actor,
        player: str,
        mode: str,
        temperature: float = 1,
        settings: Settings = None,
        envs: Envs | None = None,
    ):
        self._engine = engine
        self._envs = envs
        self.player = player  # as evaluate() and `maglev eval` name it: FOLDER@CHECKPOINT, or a scripted player
        self.mode = mode
        self.temperature = temperature
        self.settings = assignments(settings)  # that are to differ from training
        self.spec = Spec(engine.spec)
        self._bounds: list[torch.Tensor] = []  # of actions that are numbers, where they were first drawn

    def __repr__(self) -> str:
        return f"Policy({self.name!r}, environment={self.environment!r}, checkpoint={self.checkpoint!r})"

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def environment(self) -> str:
        return self._engine.environment

    @property
    def checkpoint(self) -> str:
        """Where its parameters are from; empty for who is no run."""
        return self._engine.checkpoint

    @property
    def device(self) -> torch.device:
        return torch.device(self._engine.device)

    def __reduce__(self) -> Any:
        return refuse_copies("a policy stays in its process", f"in another maglev.load or envs.player has {self.player!r}")

    def act(self, obs: Seen | None = None, info: Info | None = None, *, clip: bool = True) -> torch.Tensor:
        """Actions [rows, dims], [rows] where an action is one category.

        obs: [rows, ...] of stored columns, as environments of its kind show them, or one observation without rows,
        which gives one action. None, for a player of environments: what these show now.
        info: "is_first" [rows], which rows begin an episode (None: all at the first call, none later), and "mask".
        clip: numbers beyond spec.low and spec.high become the nearest within, as environments take them. False: as drawn.
        """
        if obs is not None:
            columns = columns_of(self.spec, obs)
            info = info or {}
            mask, is_first = info.get("mask"), info.get("is_first")
        elif self._envs is not None:
            columns, mask, is_first = self._envs._engine.shown(False)
        else:
            raise _engine.Error("[act] expects an observation; only players of environments see for themselves")
        columns, mask, is_first, single = self._rows(columns, mask, is_first)
        action = actions_of(self.spec, self._engine.act(columns, mask, is_first))
        if clip and not self.spec.discrete:
            if not self._bounds:
                self._bounds = [torch.tensor(bound, device=action.device) for bound in (self.spec.low, self.spec.high)]
            low, high = self._bounds
            action = action.clamp(low, high)
        return action[0] if single else action

    def _rows(
        self, columns: list[torch.Tensor], mask: Numbers | None, is_first: Numbers | None
    ) -> tuple[list[torch.Tensor], torch.Tensor | None, torch.Tensor | None, bool]:
        """All with a first size of rows, and whether they had none. Refuses what is no number, which no network bears."""
        for column, shown in zip(self.spec.observations, columns):
            if shown.is_floating_point() and not shown.is_cuda and bool(shown.isnan().any()):
                raise _engine.Error(f"[obs] {column.name} holds NaN where numbers are expected")
        single = columns[0].dim() == len(self.spec.observations[0].shape)
        allowed = None if mask is None else tensor_of(mask, '[act] info["mask"]')
        first = None if is_first is None else tensor_of(is_first, '[act] info["is_first"]')
        if single:
            columns = [c.unsqueeze(0) for c in columns]
            allowed = None if allowed is None else allowed.reshape(1, -1)
            first = None if first is None else first.reshape(1)
        return columns, allowed, first, single

    def log_probs(self, obs: Seen, info: Info | None = None) -> torch.Tensor | None:
        """What act draws from at temperature 1: [rows, categories] f32, heads one after the other, -inf where the mask
        forbids. None where actions are numbers, or who acts cannot tell: PPO's policies can, but for those with
        ppo.network.memory, of which an observation alone does not say.
        """
        columns, mask, _, single = self._rows(columns_of(self.spec, obs), (info or {}).get("mask"), None)
        found = self._engine.log_probs(columns, mask)
        return found[0] if single and found is not None else found

    def normal(self, obs: Seen, info: Info | None = None) -> Independent[Any] | None:
        """What act draws numbers from at temperature 1, before it clips them: its log_prob(action) of what act gave with
        clip=False, and its entropy(), are [rows] f32, one number for one observation, as PPO's loss has them. None where
        actions are categories (log_probs is of those), or who acts draws from something else or cannot tell: PPO's
        policies can, but for those with ppo.network.memory.
        """
        columns, mask, _, single = self._rows(columns_of(self.spec, obs), (info or {}).get("mask"), None)
        found = self._engine.normals(columns, mask)
        if found is None:
            return None
        mean, log_std = (part[0] if single else part for part in found)
        return Independent(Normal(mean, log_std.exp()), 1)

    def value(self, obs: Seen, info: Info | None = None) -> torch.Tensor | None:
        """The return that its critic expects: [rows] f32, one number for one observation; discounted, and of rewards as
        they were learned from, which ppo.normalize_reward divides by their deviation. None where it has no critic that
        sees what it sees, or one observation does not say: PPO's policies have one, but where a column is for critics
        alone, or with ppo.network.memory.
        """
        columns, mask, _, single = self._rows(columns_of(self.spec, obs), (info or {}).get("mask"), None)
        found = self._engine.value(columns, mask)
        return found[0] if single and found is not None else found

    def reset(self) -> None:
        """Forgets what it remembers: the next call begins episodes, also of another number of rows."""
        self._engine.reset()


def load(
    run: str | Path | Run,
    *,
    checkpoint: str = "latest",
    mode: str = "mean",
    temperature: float = 1,
    settings: Settings = None,
    device: str | torch.device = "",
    seed: SupportsIndex = 1,
) -> Policy:
    """A run's policy, which needs no environment.

    run: its folder, or a Run. checkpoint: latest, best, or one by name.
    mode: mean, the likeliest action, or sample.
    temperature: of mode sample: draws from logits over it, and by deviations times it; 1: as it learned.
    settings: name=value that are to differ from training, such as where files lie.
    device: empty: where it was trained.
    """
    temperature = number(temperature, "[load] temperature")
    actor = _engine.Actor(
        name_of(run), text(checkpoint, "[load] a checkpoint"), assignments(settings), str(device),
        text(mode, "[load] a mode"), temperature, whole(seed, "[load] seed"),
    )  # fmt: skip
    # FOLDER/checkpoints/CHECKPOINT, or one that lies elsewhere
    saved = Path(actor.checkpoint).resolve()
    own = saved.parent.name == "checkpoints"
    player = f"{saved.parents[1]}@{saved.name}" if own else f"{Path(name_of(run)).resolve()}@{saved}"
    return Policy(actor, player, mode, temperature, settings)


def playing(function: Function, spec: Spec) -> Callable[..., torch.Tensor]:
    """A function of a user's as the engine calls it: columns, mask, is_first and the first row's number."""
    names = [c.name for c in spec.observations]

    def act(
        columns: list[torch.Tensor], mask: torch.Tensor | None, is_first: torch.Tensor, first: int
    ) -> torch.Tensor:
        obs = columns[0] if len(names) == 1 else dict(zip(names, columns))
        info: Info = {"is_first": is_first.view(torch.bool), "rows": slice(first, first + len(is_first))}
        if mask is not None:
            info["mask"] = mask.view(torch.bool)
        return tensor_of(function(obs, info), "[evaluate] the function's actions")

    return act


def evaluate(
    player: Player | Function,
    environment: str = "",
    *,
    settings: Settings = None,
    mode: str = "",
    temperature: float | None = None,
    against: Player = "",
    episodes: SupportsIndex = 100,
    steps: SupportsIndex = 0,
    envs: SupportsIndex = 0,
    seed: SupportsIndex = 1_000_003,
) -> dict[str, Any]:
    """Judges a player as `maglev eval` does: fixed seeds, environments of its own, each one's first episodes.

    player: a run's folder (FOLDER@CHECKPOINT), a scripted player of `environment`, "random", a Policy, or a function
      (obs, info) -> actions of a block of rows, such as a network of yours; info has "is_first", "rows" (which rows of
      all they are) and "mask".
    environment: by name; of a run, or a Policy, it is its own where it is empty.
      What `maglev eval` would tell of it beforehand (a graph that changed, a setting in vain) is a warning.
    mode: mean, the likeliest action, or sample; empty: a Policy's own, else mean.
    temperature: as load's; None: a Policy's own, else 1.
    against: who plays the second agent: a name, which samples, or a Policy, which acts as it does by itself, with its
      mode and settings. Empty: the player plays all agents.
    episodes, or steps > 0: how long. envs: how many environments at once, 0: one an episode, at most 256.
    """
    if temperature is not None:
        temperature = number(temperature, "[evaluate] temperature")
    environment_named(environment, "evaluate")
    if isinstance(player, Policy):
        # a run's knows its environment by itself, with the settings it was trained in
        environment = environment or ("" if player.checkpoint else player.environment)
        settings = [*player.settings, *assignments(settings)]
        mode, temperature, _ = acting_of(player, mode, temperature)
    if callable(player):
        if not environment:
            raise _engine.Error("[evaluate] a function wants to know the environment it plays")
        judged: str | Callable[..., torch.Tensor] = playing(player, Spec(_engine.spec(environment, assignments(settings))))
    else:
        judged = name_of(player)
        for note in _engine.notes(judged, environment, assignments(settings)):
            warnings.warn(note, stacklevel=2)
    lengths = [
        whole(length, f"[evaluate] {name}")
        for name, length in (("episodes", episodes), ("steps", steps), ("envs", envs), ("seed", seed))
    ]
    rival = acting_of(against)
    return _engine.evaluate(
        judged, environment, assignments(settings), mode or "mean", 1 if temperature is None else temperature,
        name_of(against), rival.mode, rival.temperature, rival.settings, *lengths,
    )  # fmt: skip
