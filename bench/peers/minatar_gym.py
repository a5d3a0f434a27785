"""MinAtar's Python package as a Gymnasium environment, and the network our runs have on its planes.

Environments are called as ours: minatar_breakout, ... An observation is [planes, 10, 10] f32 of 0
and 1, actions are all six. Importing this registers them.
"""

import logging

import gymnasium
import numpy as np
from torch import nn

logging.disable(logging.WARNING)

from minatar import Environment  # noqa: E402

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


class MinAtar(gymnasium.Env):
    def __init__(self, game: str):
        self.game = Environment(game)
        height, width, planes = self.game.state_shape()
        self.observation_space = gymnasium.spaces.Box(0, 1, (planes, height, width), np.float32)
        self.action_space = gymnasium.spaces.Discrete(self.game.num_actions())

    def observation(self):
        return self.game.state().transpose(2, 0, 1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        self.game.reset()
        return self.observation(), {}

    def step(self, action):
        reward, ended = self.game.act(int(action))
        return self.observation(), float(reward), ended, False, {}


for name in GAMES:
    gymnasium.register(f"minatar_{name}", entry_point=MinAtar, kwargs={"game": name})


def torso(config: dict, space: gymnasium.spaces.Box) -> tuple[nn.Sequential, int]:
    """The convolutions and layers that policy and value share, and how many numbers they give."""
    network = config["ppo"]["network"]
    if network["kind"] != "cnn" or not network["shared"] or network["activation"] != "relu":
        raise SystemExit("[minatar] the network is not a shared cnn with relu")
    width, height, wide = space.shape
    layers = []
    for out in map(int, network["cnn"]["channels"]):
        layers += [nn.Conv2d(width, out, 3, padding=1), nn.ReLU()]
        width = out
    layers.append(nn.Flatten())
    width *= height * wide
    for out in map(int, network["hidden"]):
        layers += [nn.Linear(width, out), nn.ReLU()]
        width = out
    return nn.Sequential(*layers), width
