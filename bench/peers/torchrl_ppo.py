"""PPO from TorchRL's public building blocks with the settings of a Maglev run.

    torchrl_ppo.py --config RUN/config.yaml --env CartPole-v1 --threads N --speed STEPS

A collector over one vectorised Gymnasium environment (SyncVectorEnv), GAE, ClipPPOLoss, torch's Adam;
nothing is compiled. Prints one JSON object.
"""

import json
import time

import gymnasium
import run_settings
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE


class ParametersWithStd(nn.Module):
    """Means of a network beside a standard deviation that does not look at the observation."""

    def __init__(self, network: nn.Module, actions: int, log_std: float):
        super().__init__()
        self.network = network
        self.log_std = nn.Parameter(torch.full((actions,), log_std))

    def forward(self, observation):
        mean = self.network(observation)
        return mean, self.log_std.exp().expand_as(mean)


def main():
    arguments = run_settings.parser().parse_args()
    config = run_settings.read(arguments.config, "torchrl")
    run_settings.constant_rates(config, "torchrl")
    ours, rows = config["ppo"], run_settings.rows_of(config)
    minibatch = run_settings.minibatch_of(config)
    hidden = [int(h) for h in ours["network"]["hidden"]]
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(int(config["seed"]))
    count = int(config["env"]["count"])
    # TorchRL resets what ended itself, as it prefers
    vector = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make(arguments.env)] * count,
        autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED,
    )
    envs = GymWrapper(vector)
    observations = envs.observation_spec["observation"].shape[-1]
    actions = envs.action_spec.shape[-1]
    shape = {"num_cells": hidden, "activation_class": nn.Tanh}
    discrete = arguments.env == "CartPole-v1"
    network = MLP(in_features=observations, out_features=actions, **shape)
    keys = ["logits"] if discrete else ["loc", "scale"]
    if not discrete:
        network = ParametersWithStd(network, actions, float(ours["network"]["log_std"]))
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=keys),
        spec=envs.action_spec,
        in_keys=keys,
        distribution_class=OneHotCategorical if discrete else torch.distributions.Normal,
        return_log_prob=True,
    )
    critic = ValueOperator(
        MLP(in_features=observations, out_features=1, **shape), in_keys=["observation"]
    )
    advantage = GAE(gamma=float(ours["gamma"]), lmbda=float(ours["lambda"]), value_network=critic)
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=float(ours["clip"]),
        entropy_bonus=True,
        entropy_coeff=float(ours["entropy"]),
        critic_coeff=float(ours["value_coef"]),
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    adam = torch.optim.Adam(loss.parameters(), lr=float(ours["lr"]), eps=float(ours["adam_eps"]))
    updates = run_settings.WARM_UP + max(1, arguments.speed // rows)
    collector = Collector(envs, actor, frames_per_batch=rows, total_frames=updates * rows)
    for update, data in enumerate(collector):
        with torch.no_grad():
            advantage(data)
        flat = data.reshape(-1)
        for _ in range(int(ours["epochs"])):
            order = torch.randperm(rows)
            for begin in range(0, rows, minibatch):
                losses = loss(flat[order[begin : begin + minibatch]])
                total = sum(losses[f"loss_{part}"] for part in ("objective", "critic", "entropy"))
                adam.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(loss.parameters(), float(ours["max_grad_norm"]))
                adam.step()
        if update == run_settings.WARM_UP - 1:
            start = time.perf_counter()
    speed = (updates - run_settings.WARM_UP) * rows / (time.perf_counter() - start)
    print(json.dumps({"steps_per_second": speed}))


if __name__ == "__main__":
    main()
