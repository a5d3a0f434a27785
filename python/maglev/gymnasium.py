"""The engine's environments as Gymnasium's vector environments, for code that expects those.

envs = maglev.gymnasium.VectorEnv("cartpole", 1024)     # in place of gymnasium.make_vec("CartPole-v1", 1024)
"""

from __future__ import annotations

import numpy as np
import torch

import gymnasium
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from maglev import _engine
from maglev.environments import Column, Envs, Observation, Spec, make

RANGES = {torch.uint8: (0, 255), torch.int32: (np.iinfo(np.int32).min, np.iinfo(np.int32).max)}


def _box(column: Column) -> spaces.Box:
    low, high = RANGES.get(column.dtype, (-np.inf, np.inf))
    dtype = torch.empty(0, dtype=column.dtype).numpy().dtype
    return spaces.Box(low, high, column.shape, dtype)


def _action_space(spec: Spec) -> spaces.Space:
    if not spec.discrete:
        return spaces.Box(np.array(spec.low, np.float32), np.array(spec.high, np.float32))
    return spaces.Discrete(spec.heads[0]) if len(spec.heads) == 1 else spaces.MultiDiscrete(list(spec.heads))


class VectorEnv(gymnasium.vector.VectorEnv):
    """As maglev.make, in arrays. A row is an agent: `num_envs` counts those of all environments. Observations are what
    the environment shows: an array, or a dict of them where it shows several; cells in colours as their policy sees
    them, [channels, height, width] f32. What only a critic may see is left out.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, name: str, num_envs: int = 1, *, render_mode: str | None = None, **options):
        super().__init__()
        if render_mode not in (None, "rgb_array"):
            raise _engine.Error(f"[render] render_mode must be rgb_array or None, got {render_mode!r}")
        self.envs: Envs = make(name, num_envs, **options)
        self.render_mode = render_mode
        if self.envs.spec.render_fps:
            self.metadata = {**self.metadata, "render_fps": self.envs.spec.render_fps}
        self.num_envs = self.envs.rows
        self._shown = [c for c in self.envs.spec.observations if not c.privileged]
        self._fresh = True
        obs, _ = self.envs.reset()
        boxes: dict[str, spaces.Space] = {c.name: self._cells_box(obs) if c.cells else _box(c) for c in self._shown}
        self.single_observation_space = (
            next(iter(boxes.values())) if len(boxes) == 1 else spaces.Dict(boxes)
        )
        self.single_action_space = _action_space(self.envs.spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
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

    def step(self, actions):
        obs, reward, terminated, truncated, info = self.envs.step(actions)
        return (
            self._arrays(obs),
            reward.cpu().numpy(),
            terminated.cpu().numpy(),
            truncated.cpu().numpy(),
            self._infos(info),
        )

    def render(self):
        """A picture of each environment, where render_mode is rgb_array."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self.envs.render(i) for i in range(self.envs.num_envs))

    def close_extras(self, **_):
        self.envs.close()

    def _cells_box(self, obs: Observation) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, tuple(self._image(obs).shape[1:]), np.float32)

    def _image(self, obs: Observation) -> torch.Tensor:
        encoded = self.envs.encode(obs)
        return encoded["image"] if isinstance(encoded, dict) else encoded

    def _arrays(self, obs: Observation):
        named = obs if isinstance(obs, dict) else {self._shown[0].name: obs}
        arrays = {
            c.name: (self._image(obs).contiguous() if c.cells else named[c.name]).cpu().numpy()
            for c in self._shown
        }
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays

    @staticmethod
    def _infos(info: dict) -> dict:
        return {name: flags.cpu().numpy() for name, flags in info.items()}
