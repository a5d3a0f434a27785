#!/usr/bin/env python3
"""How fast PPO learns with a network from Python beside the engine's own of the same layers, in turn: fully connected
ones, which both have on panels, and convolutions by ATen.

    ./maglev python bench/own_network.py [--rounds 3] [--steps 400000]

Prints medians of steps a second, and the ratio of the first to the second round by round.
"""

import argparse
import statistics
import tempfile

from torch import nn

import maglev

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--steps", type=int, default=400_000)

PLAIN = {"ppo.rollout": 32, "ppo.epochs": 4, "seed": 1}
ATEN = {"ppo.network.cnn.fused_layers": False, "ppo.network.activation": "relu"}


def layers(inputs: int, outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, outputs))


class Vectors(nn.Module):
    """mlp's layers, where an activation says whether panels have it."""

    def __init__(self, activation: type[nn.Module] = nn.Tanh):
        super().__init__()
        self.policy, self.value = layers(4, 2, activation), layers(4, 1, activation)

    def forward(self, obs):
        return self.policy(obs), self.value(obs).squeeze(-1)


class Images(nn.Module):
    """cnn's layers on MinAtar's planes."""

    def __init__(self):
        super().__init__()

        def trunk(outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(4, 16, 3, padding=1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(1600, 64),
                nn.ReLU(),
                nn.Linear(64, outputs),
            )

        self.policy, self.value = trunk(6), trunk(1)

    def forward(self, obs):
        return self.policy(obs), self.value(obs).squeeze(-1)


# (what it is, environment, settings of both, of the engine's own alone, the module, a share of --steps)
CASES = [
    ("64, 64 with tanh on panels", "cartpole", {**PLAIN, "env.count": 64, "ppo.minibatch": 512}, {}, Vectors(), 1),
    (
        "a convolution of 16 channels and 64 units by ATen", "minatar_breakout",
        {**PLAIN, "env.count": 64, "ppo.minibatch": 512},
        {**ATEN, "ppo.network.cnn.channels": [16], "ppo.network.hidden": [64]}, Images(), 0.05,
    ),
]  # fmt: skip


def rate(environment: str, settings: dict, network: nn.Module | None) -> float:
    """Median of a run's rows."""
    with tempfile.TemporaryDirectory() as folder:
        run = maglev.train(
            "ppo", environment, settings, bare=True, network=network, out=folder + "/run", sinks=["jsonl"]
        )
        return statistics.median(row["steps_per_second"] for row in run.rows()[1:] if row.get("steps_per_second"))


def main():
    options = parser.parse_args()
    for what, environment, settings, own, network, share in CASES:
        both = {**settings, "train.steps": int(options.steps * share)}
        ours, theirs = [], []
        for _ in range(options.rounds):
            theirs.append(rate(environment, both, network))
            ours.append(rate(environment, {**both, **own}, None))
        ratios = [a / b for a, b in zip(theirs, ours)]
        print(
            f"{what}: from Python {statistics.median(theirs):,.0f} steps/s, the engine's own {statistics.median(ours):,.0f}: "
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
