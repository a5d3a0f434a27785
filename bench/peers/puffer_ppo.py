"""PufferLib 3's own trainer on its C cartpole with the settings of a Maglev run, on the processor.

    puffer_ppo.py --source DIR --config RUN/config.yaml --env CartPole-v1 --threads N --speed STEPS

DIR is the unpacked package with its extensions built in place (bench/setup.sh). Minibatches are
whole rollout rows there, drawn by advantage; the draw is made uniform (prio_alpha=0), and the value
clip, which cannot be switched off, is put out of reach. Adam instead of its default Muon, no
compile, its default float32. Prints one JSON object.
"""

import json
import os
import sys
import time
import types

import run_settings
import torch
from torch import nn


def mlp(inputs: int, hidden: list, outputs: int) -> nn.Sequential:
    layers, width = [], inputs
    for size in hidden:
        layers += [nn.Linear(width, size), nn.Tanh()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Policy(nn.Module):
    """Separate tanh networks, as in the run compared with."""

    def __init__(self, envs, hidden: list):
        super().__init__()
        inputs = envs.single_observation_space.shape[0]
        self.actor = mlp(inputs, hidden, envs.single_action_space.n)
        self.critic = mlp(inputs, hidden, 1)

    def forward_eval(self, observations, state=None):
        return self.actor(observations), self.critic(observations)

    def forward(self, observations, state=None):
        return self.forward_eval(observations, state)


def main():
    parser = run_settings.parser()
    parser.add_argument("--source", required=True)
    arguments = parser.parse_args()
    if arguments.env != "CartPole-v1":
        raise SystemExit(f"[pufferlib] has no C environment like {arguments.env}")
    config = run_settings.read(arguments.config, "pufferlib")
    run_settings.constant_rates(config, "pufferlib")
    ours, rows = config["ppo"], run_settings.rows_of(config)
    count, rollout = int(config["env"]["count"]), int(ours["rollout"])
    torch.set_num_threads(arguments.threads)

    sys.path.insert(0, arguments.source)
    # importing it leaves a link in the working folder
    os.chdir(arguments.source)
    # hyper-parameter search, with requirements of its own, is not measured
    sys.modules["pufferlib.sweep"] = types.ModuleType("pufferlib.sweep")
    import pufferlib

    pufferlib.sweep = sys.modules["pufferlib.sweep"]
    from pufferlib import pufferl, vector
    from pufferlib.ocean.cartpole.cartpole import Cartpole

    class Trainer(pufferl.PuffeRL):
        """Its dashboard and checkpoints are not measured either."""

        def print_dashboard(self, *_args, **_named):
            pass

        def save_checkpoint(self):
            pass

    torch.manual_seed(int(config["seed"]))
    envs = vector.make(
        Cartpole, env_kwargs={"num_envs": count}, backend=vector.PufferEnv, num_envs=1
    )
    updates = run_settings.WARM_UP + max(1, arguments.speed // rows)
    settings = {
        "seed": int(config["seed"]),
        "torch_deterministic": True,
        "cpu_offload": False,
        "device": "cpu",
        "optimizer": "adam",
        "anneal_lr": False,
        "precision": "float32",
        "total_timesteps": updates * rows,
        "learning_rate": float(ours["lr"]),
        "gamma": float(ours["gamma"]),
        "gae_lambda": float(ours["lambda"]),
        "update_epochs": int(ours["epochs"]),
        "clip_coef": float(ours["clip"]),
        "vf_coef": float(ours["value_coef"]),
        "vf_clip_coef": 1e30,
        "max_grad_norm": float(ours["max_grad_norm"]),
        "ent_coef": float(ours["entropy"]),
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_eps": float(ours["adam_eps"]),
        "checkpoint_interval": 10**9,
        "batch_size": rows,
        "minibatch_size": run_settings.minibatch_of(config),
        "max_minibatch_size": run_settings.minibatch_of(config),
        "bptt_horizon": rollout,
        "compile": False,
        "use_rnn": False,
        "vtrace_rho_clip": 1.0,
        "vtrace_c_clip": 1.0,
        "prio_alpha": 0.0,
        "prio_beta0": 0.0,
        "env": "puffer_cartpole",
    }
    hidden = [int(h) for h in ours["network"]["hidden"]]
    trainer = Trainer(settings, envs, Policy(envs.driver_env, hidden))
    for update in range(updates):
        if update == run_settings.WARM_UP:
            first, start = trainer.global_step, time.perf_counter()
        trainer.evaluate()
        trainer.train()
    trainer.utilization.stop()
    speed = (trainer.global_step - first) / (time.perf_counter() - start)
    # the trainer's threads and buffers end with the process
    sys.stdout = sys.__stdout__
    print(json.dumps({"steps_per_second": speed}))


if __name__ == "__main__":
    main()
