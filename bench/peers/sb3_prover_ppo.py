"""Stable-Baselines3's MaskablePPO with the environment, network and settings of a Maglev run on `kg`.

    sb3_prover_ppo.py --config RUN/config.yaml --env PROGRAM --threads N --speed STEPS

PROGRAM is env_pipe, which plays our environment for it; the network is that of the parity tests, in
torch's layers, with every successor embedded whether it is there or not. Measures one learn() over
STEPS after a short one. Prints one JSON object; beside steps a second it has milliseconds of
collecting and of an update, by the clock and of all processors.
"""

import json
import sys
import time
from pathlib import Path

import run_settings
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))

import sb3_contrib  # noqa: E402
from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_envs import PipeEnvs  # noqa: E402
from sb3_prover import NETWORK, ProverPolicy  # noqa: E402


class Timed(MaskablePPO):
    """Adds up what train() takes."""

    def clear(self):
        self.updates, self.wall, self.cpu = 0, 0.0, 0.0

    def train(self):
        wall, cpu = time.perf_counter(), time.process_time()
        super().train()
        self.updates += 1
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu


def in_words(value):
    return str(value).lower() if isinstance(value, bool) else value


def ppo_of(config: dict, program: str) -> Timed:
    ours, network = config["ppo"], config["ppo"]["network"]
    own = {
        name: in_words(value)
        for name, value in config["env"].items()
        if name != "count" and value != ""
    }
    envs = PipeEnvs("kg", int(config["env"]["count"]), int(config["seed"]), own, program)
    options = {name: value for name, value in network["proof"].items() if name in NETWORK}
    return Timed(
        ProverPolicy,
        envs,
        learning_rate=run_settings.schedule(ours["lr"], ours["lr_end"]),
        n_steps=int(ours["rollout"]),
        batch_size=run_settings.minibatch_of(config),
        n_epochs=int(ours["epochs"]),
        gamma=float(ours["gamma"]),
        gae_lambda=float(ours["lambda"]),
        clip_range=run_settings.schedule(ours["clip"], ours["clip_end"]),
        ent_coef=float(ours["entropy"]),
        vf_coef=float(ours["value_coef"]),
        max_grad_norm=float(ours["max_grad_norm"]) or 1e30,
        target_kl=float(ours["target_kl"]) or None,
        policy_kwargs=dict(
            vocabulary=envs.vocabulary,
            network=options | dict(shared=in_words(network["shared"])),
            optimizer_kwargs=dict(eps=float(ours["adam_eps"])),
        ),
        seed=int(config["seed"]),
        device="cpu",
    )


def main():
    arguments = run_settings.parser().parse_args()
    torch.set_num_threads(arguments.threads)
    config = run_settings.read(arguments.config, "sb3")
    model = ppo_of(config, arguments.env)
    model.clear()
    model.learn(run_settings.rows_of(config))
    model.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    model.learn(arguments.speed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        json.dumps(
            {
                "version": sb3_contrib.__version__,
                "torch": torch.__version__,
                "steps_per_second": model.num_timesteps / wall,
                "steps_per_processor_second": model.num_timesteps / cpu,
                "collect_ms": 1e3 * (wall - model.wall) / model.updates,
                "collect_cpu_ms": 1e3 * (cpu - model.cpu) / model.updates,
                "update_ms": 1e3 * model.wall / model.updates,
                "update_cpu_ms": 1e3 * model.cpu / model.updates,
            }
        )
    )


if __name__ == "__main__":
    main()
