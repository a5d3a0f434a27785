"""Beside Gymnasium: the engine's environments as its vector environments, for code that expects those, and the engine's
policies in single environments of Gymnasium's.

envs = maglev.gymnasium.VectorEnv("cartpole", 1024)     # in place of gymnasium.make_vec("CartPole-v1", 1024)
action = maglev.gymnasium.Spaces(env).act(policy, obs, info)
"""

from __future__ import annotations

import functools
import importlib.util
import math
from types import ModuleType
from typing import Any, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray

import gymnasium
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from maglev import HOME, _engine
from maglev.environments import Column, Envs, Info, Observation, Spec, make
from maglev.given import Numbers, tensor_of
from maglev.policies import Policy
from maglev.settings import Settings

Array = NDArray[Any]

RANGES = {torch.uint8: (0, 255), torch.int32: (np.iinfo(np.int32).min, np.iinfo(np.int32).max)}


def _box(column: Column) -> spaces.Box:
    low, high = RANGES.get(column.dtype, (-np.inf, np.inf))
    dtype = torch.empty(0, dtype=column.dtype).numpy().dtype
    return spaces.Box(low, high, column.shape, dtype)


def _action_space(spec: Spec) -> spaces.Space[Any]:
    if not spec.discrete:
        return spaces.Box(np.array(spec.low, np.float32), np.array(spec.high, np.float32))
    return spaces.Discrete(spec.heads[0]) if len(spec.heads) == 1 else spaces.MultiDiscrete(list(spec.heads))


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """As maglev.make, in arrays. A row is an agent: `num_envs` counts those of all environments. Observations are what
    the environment shows: an array, or a dict of them where it shows several; cells in colours as their policy sees
    them, [channels, height, width] f32. What only a critic may see is left out.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        name: str,
        num_envs: SupportsIndex = 1,
        settings: Settings = None,
        *,
        render_mode: str | None = None,
        **options: Any,
    ):
        super().__init__()
        if render_mode not in (None, "rgb_array"):
            raise _engine.Error(f"[render] render_mode must be rgb_array or None, got {render_mode!r}")
        self.envs: Envs = make(name, num_envs, settings, **options)
        self.render_mode = render_mode
        if self.envs.spec.render_fps:
            self.metadata = {**self.metadata, "render_fps": self.envs.spec.render_fps}
        self.num_envs = self.envs.rows
        self._shown = [c for c in self.envs.spec.observations if not c.privileged]
        self._fresh = True
        obs, _ = self.envs.reset()
        boxes: dict[str, spaces.Space[Any]] = {c.name: self._cells_box(obs) if c.cells else _box(c) for c in self._shown}
        self.single_observation_space = (
            next(iter(boxes.values())) if len(boxes) == 1 else spaces.Dict(boxes)
        )
        self.single_action_space = _action_space(self.envs.spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Without a seed: first the episodes of the seed it was made with, then others each time."""
        if not (seed is None or isinstance(seed, (int, np.integer))):
            raise _engine.Error(f"[reset] seed must be one integer, of which each environment has its own, got {seed!r}")
        super().reset(seed=seed)
        if options and "reset_mask" in options:
            raise _engine.Error("[reset] single environments are not reset: each begins again by itself")
        if seed is None and not self._fresh:
            seed = int(self.np_random.integers(2**31))
        self._fresh = False
        obs, info = self.envs.reset(seed)
        return self._arrays(obs), self._infos(info)

    def step(self, actions: Numbers) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.envs.step(actions)
        return (
            self._arrays(obs),
            reward.cpu().numpy(),
            terminated.cpu().numpy(),
            truncated.cpu().numpy(),
            self._infos(info),
        )

    def render(self) -> tuple[Array, ...] | None:
        """A picture of each environment, where render_mode is rgb_array."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self.envs.render(i) for i in range(self.envs.num_envs))

    def close_extras(self, **_: Any) -> None:
        self.envs.close()

    def _cells_box(self, obs: Observation) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, tuple(self._image(obs).shape[1:]), np.float32)

    def _image(self, obs: Observation) -> torch.Tensor:
        encoded = self.envs.encode(obs)
        return encoded["image"] if isinstance(encoded, dict) else encoded

    def _arrays(self, obs: Observation) -> Any:
        named = obs if isinstance(obs, dict) else {self._shown[0].name: obs}
        arrays = {
            c.name: (self._image(obs).contiguous() if c.cells else named[c.name]).cpu().numpy()
            for c in self._shown
        }
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays

    @staticmethod
    def _infos(info: Info) -> dict[str, Any]:
        # masks as spaces take them
        return {
            name: flags.cpu().numpy().astype(np.int8) if name == "mask" else flags.cpu().numpy()
            for name, flags in info.items()
        }


@functools.cache
def _spaces() -> ModuleType:
    """Beside what steps environments for the engine: there alone it is said how spaces become columns and heads."""
    spec = importlib.util.spec_from_file_location("maglev_spaces", HOME / "envs" / "gymnasium" / "maglev_spaces.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Spaces:
    """One environment of Gymnasium's beside policies that were trained in its kind: what it shows as the columns that
    these see, what they choose as the action that it takes.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]):
        if not isinstance(env, gymnasium.Env):
            raise _engine.Error(f"[gymnasium] Spaces are of one environment, as gymnasium.make gives it, got {env!r}")
        self.name = env.spec.id if env.spec else type(env.unwrapped).__name__
        try:
            self._observations = _spaces().Observations(env.observation_space)
            self._actions = _spaces().Actions(env.action_space)
        except _spaces().Unsuited as error:
            raise self._error(str(error)) from None
        self._shown = {c["name"]: (c["dtype"], tuple(c["shape"])) for c in self._observations.columns()}

    def columns(self, obs: Any) -> dict[str, Array]:
        """An observation's columns by name, as they are stored, without rows: pictures u8 [H, W, C], all numbers f32 [D],
        with categories as one-hot.
        """
        written = bytearray()
        try:
            self._observations.write(written, obs)
        except _spaces().Unsuited as error:
            raise self._error(str(error)) from None
        columns, place = {}, 0
        for name, (kind, shape) in self._shown.items():
            dtype, count = np.dtype(np.uint8 if kind == "u8" else np.float32), math.prod(shape)
            columns[name] = np.frombuffer(written, dtype, count, place).reshape(shape)
            place += count * dtype.itemsize
        return columns

    def action(self, chosen: Numbers) -> Any:
        """What step() takes, of one row's action: the space's type, shape and first category, within its bounds."""
        numbers = tensor_of(chosen, "[gymnasium] an action").detach().cpu().numpy().reshape(-1)
        heads, dims = self._actions.heads, len(self._actions.heads) or len(self._actions.low)
        if numbers.size != dims:
            raise self._error(f"takes an action of {dims} {'number' if dims == 1 else 'numbers'}, got {numbers.size}")
        if heads and not (np.issubdtype(numbers.dtype, np.integer) and (numbers >= 0).all() and (numbers < heads).all()):
            raise self._error(f"takes categories, from 0 on and below {heads}, got {numbers}")
        return self._actions.read(numbers.astype(np.int32 if heads else np.float32).tobytes())

    def act(self, policy: Policy, obs: Any, info: dict[str, Any] | None = None) -> Any:
        """What `policy` does here, as step() takes it. One that remembers is reset() as an episode begins.

        info: of reset() or step(), for its "action_mask" where the policy was trained with one.
        """
        sees = {c.name: ("u8" if c.dtype == torch.uint8 else "f32", c.shape) for c in policy.spec.observations}
        if sees != self._shown or list(policy.spec.heads) != self._actions.heads:
            raise self._error(
                f"shows {self._shown} and takes {self._actions.heads or 'numbers'}, where the policy of {policy.player} "
                f"sees {sees} and gives {list(policy.spec.heads) or 'numbers'}; it wants the environment it was trained "
                "in, behind the same wrappers, and what env.image.* makes of pictures is the engine's (maglev.make, "
                "maglev.evaluate)"
            )
        seen: Info = {}
        if policy.spec.masked:
            if info is None or "action_mask" not in info:
                raise self._error("has to say which actions are allowed: give the info that came with the observation")
            seen["mask"] = np.asarray(info["action_mask"]).astype(bool)
        return self.action(policy.act(self.columns(obs), seen))

    def _error(self, what: str) -> _engine.Error:
        return _engine.Error(f"[gymnasium] {self.name} {what}")
