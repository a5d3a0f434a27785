"""The multiplications that a plan and an update of TD-MPC2 cannot do without.

Counted are the fully connected layers, two operations a multiply-add, after every saving that keeps
the result's distribution: only the two Q networks that are drawn; the first step's latent, the same
for all samples, taken once; policy trajectories rolled once a plan. A backward pass counts twice
its forward pass, or once where weights need no gradient. At the rate of `gemm.py` this is the least
time.
"""

from __future__ import annotations

from dataclasses import dataclass

from floor import layers

DRAWN_Q = 2
OBSERVATIONS, BINS = 18, 101


@dataclass(frozen=True)
class Config:
    """Sizes of one measured configuration; by default the official ones on hockey."""

    name: str = "default"
    horizon: int = 3
    samples: int = 512
    policy_trajectories: int = 24
    iterations: int = 6
    num_q: int = 5
    batch: int = 256
    actions: int = 4
    episodic: bool = False
    latent: int = 512
    mlp: int = 512
    encoder: int = 256

    @property
    def encode(self) -> int:
        return layers(OBSERVATIONS, self.encoder, self.latent)

    @property
    def dynamics(self) -> int:
        return layers(self.latent + self.actions, self.mlp, self.mlp, self.latent)

    @property
    def reward(self) -> int:
        """Of the reward, and of one Q network."""
        return layers(self.latent + self.actions, self.mlp, self.mlp, BINS)

    @property
    def policy(self) -> int:
        return layers(self.latent, self.mlp, self.mlp, 2 * self.actions)

    @property
    def termination(self) -> int:
        return layers(self.latent, self.mlp, self.mlp, 1) if self.episodic else 0

    def plan_flop(self) -> int:
        """Of one plan of one environment."""
        H, S, P = self.horizon, self.samples, self.policy_trajectories
        step = self.dynamics + self.reward + self.termination
        shared = 2 * self.latent * self.mlp
        rolled = P * H * (self.policy + step)
        sampled = self.iterations * (S - P) * (H * step - shared)
        ends = self.iterations * S * (self.policy + DRAWN_Q * self.reward)
        return 2 * (self.encode + rolled + sampled + ends)

    def update_flop(self) -> int:
        """Of one update: targets, world model, policy."""
        H, B = self.horizon, self.batch
        drawn = DRAWN_Q * self.reward
        targets = H * B * (self.encode + self.policy + drawn)
        heads = self.dynamics + self.reward + self.termination + self.num_q * self.reward
        model = 3 * B * (self.encode + H * heads)
        policy = (H + 1) * B * (3 * self.policy + 2 * drawn)
        return 2 * (targets + model + policy)


DEFAULT = Config()
# the configuration of the report of a planner that starves its GPU
REPORT = Config("report", horizon=8, samples=256, episodic=True)


def add_floor(result: dict, flop: float, gflops: dict):
    """Adds the floor to a result whose figures are calls a second, and to every contender its share
    of it, at the rate of its own precision in `gflops` {fp32, bf16}."""
    result["floor"] = {
        "flop_a_call": flop,
        "peak_gflops": gflops["fp32"],
        "peak_gflops_bf16": gflops["bf16"],
        "calls_per_second": gflops["fp32"] * 1e9 / flop,
    }
    for row in [result["ours"], *result["peers"]]:
        if row["median"]:
            rate = gflops["bf16" if "bf16" in row["name"] else "fp32"]
            row["share_of_floor"] = row["median"] * flop / (rate * 1e9)
