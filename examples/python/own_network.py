"""A network of your own, written in torch, trained by the engine: `forward` is taken once, as the operations it makes.

    ./maglev python examples/python/own_network.py

CartPole to 475 and above. The weights that the module has are what the run begins with, and what it has learned comes
back by `load_state_dict`.
"""

import argparse

import torch
from torch import nn

import maglev

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500_000)
parser.add_argument("--out", default=None)


class Net(nn.Module):
    """Policy and value behind a gate on what is seen."""

    def __init__(self, inputs: int, actions: int, units: int = 64):
        super().__init__()
        self.gate = nn.Linear(inputs, inputs)
        self.body = nn.Sequential(
            nn.Linear(inputs, units), nn.LayerNorm(units), nn.SiLU(), nn.Linear(units, units), nn.SiLU()
        )
        self.policy = nn.Linear(units, actions)
        self.value = nn.Sequential(nn.Linear(units, units), nn.SiLU(), nn.Linear(units, 1))
        nn.init.orthogonal_(self.policy.weight, 0.01)

    def forward(self, obs):
        features = self.body(obs * torch.sigmoid(self.gate(obs)))
        return self.policy(features), self.value(features).squeeze(-1)


if __name__ == "__main__":
    options = parser.parse_args()
    torch.manual_seed(1)
    net = Net(4, 2)
    run = maglev.train("ppo", "cartpole", {"train.steps": options.steps, "seed": 1}, network=net, out=options.out)
    print(f"evaluation: {run.evaluate(episodes=50)['return_mean']:.1f} over 50 episodes")

    # the module with what was learned acts as the run's policy does
    net.load_state_dict(run.weights())
    result = maglev.evaluate(lambda obs, info: net(obs)[0].argmax(-1), "cartpole", episodes=50)
    print(f"the module itself: {result['return_mean']:.1f}")
