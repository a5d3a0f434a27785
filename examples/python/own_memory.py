"""A network of your own that remembers: an LSTM as CleanRL's ppo_atari_lstm has one, on CartPole without its velocities.

    ./maglev python examples/python/own_memory.py

What one observation does not show is told by those before. `forward` takes what it remembers of each row beside the
observation and gives what it remembers then; the engine keeps it from step to step, empties it where an episode begins,
and learns from sequences through their steps.
"""

import argparse

import torch
from torch import nn

import maglev

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200_000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--out", default=None)

BLIND = {"env.velocities": False}


class Net(nn.Module):
    """A layer, an LSTM, heads on what it gives."""

    def __init__(self, inputs: int, actions: int, units: int = 32):
        super().__init__()
        self.memory_size = 2 * units  # numbers that forward takes and gives of a row: h and c
        self.body = nn.Linear(inputs, units)
        self.lstm = nn.LSTMCell(units, units)
        self.policy, self.value = nn.Linear(units, actions), nn.Linear(units, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)

    def forward(self, obs, memory):
        h, c = self.lstm(torch.tanh(self.body(obs)), memory.chunk(2, -1))
        return self.policy(h), self.value(h).squeeze(-1), torch.cat([h, c], -1)


if __name__ == "__main__":
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    settings = {**BLIND, "train.steps": options.steps, "seed": options.seed, "ppo.network.normalize_obs": True}
    run = maglev.train("ppo", "cartpole", settings, network=Net(2, 2), out=options.out)
    print(f"evaluation: {run.evaluate(episodes=50)['return_mean']:.1f} over 50 episodes")

    # in a loop of one's own the policy remembers, and is told where episodes begin
    policy = run.policy()
    envs = maglev.make("cartpole", 8, BLIND, seed=9)
    obs, info = envs.reset()
    for _ in range(500):
        obs, reward, terminated, truncated, info = envs.step(policy.act(obs, info))
    print(f"{envs.totals()}")
