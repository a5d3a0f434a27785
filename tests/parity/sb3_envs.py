"""Environments of this engine as stable-baselines3 plays them: a VecEnv whose steps the program env_pipe makes."""

import os
import pathlib
import subprocess

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

ROOT = pathlib.Path(__file__).resolve().parents[2]


def env_pipe():
    """The program, of the build that MAGLEV_BUILD names or of the release build."""
    return ROOT / os.environ.get("MAGLEV_BUILD", ".build/release") / "tests" / "env_pipe"


class PipeEnvs(VecEnv):
    """`count` environments `env` with settings {name: value}. Observations are a dict of columns; `vocabulary` is that of
    tokens, else empty. They draw by `seed`, and reset() gives what they show without beginning anew."""

    render_mode = None

    def __init__(self, env, count, seed, settings, program=None):
        words = [program or env_pipe(), env, count, seed, *(f"{name}={value}" for name, value in settings.items())]
        self.process = subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        columns, told = {}, {}
        while (line := self.process.stdout.readline().decode().split()) != ["end"]:
            if not line:
                raise RuntimeError(f"env_pipe {env} ended with status {self.process.wait()}")
            if line[0] == "column":
                columns[line[1]] = gym.spaces.Box(*bounds(line[2]), tuple(map(int, line[3:])), np.dtype(line[2]))
            else:
                told[line[0]] = [int(size) for size in line[1:]]
        self.vocabulary, heads, self.mask_width = told["vocabulary"], told["heads"], told["mask"][0]
        actions = gym.spaces.Discrete(heads[0]) if len(heads) == 1 else gym.spaces.MultiDiscrete(heads)
        super().__init__(count, gym.spaces.Dict(columns), actions)
        self.shown = self.read_shown()

    def read(self, dtype, *shape):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        data = self.process.stdout.read(size)
        if len(data) != size:
            raise RuntimeError(f"env_pipe ended with status {self.process.wait()}")
        return np.frombuffer(data, dtype).reshape(shape).copy()

    def read_columns(self, rows):
        return {name: self.read(box.dtype, rows, *box.shape) for name, box in self.observation_space.spaces.items()}

    def read_shown(self):
        shown = self.read_columns(self.num_envs)
        self.mask = self.read(np.uint8, self.num_envs, self.mask_width).astype(bool)
        return shown

    def reset(self):
        return self.shown

    def step_async(self, actions):
        self.process.stdin.write(np.ascontiguousarray(actions, np.int32).tobytes())
        self.process.stdin.flush()

    def step_wait(self):
        reward = self.read(np.float32, self.num_envs)
        terminated, truncated = (self.read(np.uint8, self.num_envs).astype(bool) for _ in range(2))
        ended = np.flatnonzero(terminated | truncated)
        final = self.read_columns(len(ended))
        infos = [{} for _ in range(self.num_envs)]
        for i, n in enumerate(ended):
            infos[n] = {"terminal_observation": {name: rows[i] for name, rows in final.items()},
                        "TimeLimit.truncated": bool(truncated[n])}
        self.shown = self.read_shown()
        return self.shown, reward, terminated | truncated, infos

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def has_attr(self, name):
        return name == "action_masks" and self.mask_width > 0

    def env_method(self, name, *args, indices=None, **kwargs):
        assert name == "action_masks", name
        return [self.mask[n] for n in self._get_indices(indices)]

    def get_attr(self, name, indices=None):
        return [getattr(self, name) for _ in self._get_indices(indices)]

    def set_attr(self, name, value, indices=None):
        raise AttributeError(f"env_pipe's environments have no {name} that can be set")

    def env_is_wrapped(self, wrapper, indices=None):
        return [False for _ in self._get_indices(indices)]


def bounds(dtype):
    return (-np.inf, np.inf) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
