"""The original Goodhart trainer, from a checkout, on the processor: its environment or its PPO.

    goodhart_original.py SOURCE --threads N env --count ENVS --seconds S
    goodhart_original.py SOURCE --threads N ppo --count ENVS --rollout T --updates U [--bf16]

Its stock command fails without CUDA, as it asks for pinned memory: torch.zeros is wrapped here, its
files are left alone. Log, profiler and compilation are off; --bf16 turns its AMP on, which on a
processor means bfloat16 autocast. The clock begins after the first update. Prints one JSON object.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402

WARM_UP_STEPS = 20


def without_pinning(make):
    def made(*sizes, pin_memory=False, **named):
        return make(*sizes, **named)

    return made


def env_speed(count: int, seconds: float) -> float:
    from goodharts.config import get_training_config
    from goodharts.configs.default_config import get_simulation_config
    from goodharts.environments.torch_env import create_torch_vec_env

    spec = get_simulation_config()["get_observation_spec"]("ground_truth")
    envs = create_torch_vec_env(n_envs=count, obs_spec=spec, device=torch.device("cpu"))
    ranges = get_training_config()
    envs.set_curriculum_ranges(
        *(ranges[name] for name in ("min_food", "max_food", "min_poison", "max_poison"))
    )
    envs.reset()
    actions = torch.randint(0, 8, (64, count))
    for t in range(WARM_UP_STEPS):
        envs.step(actions[t])
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        envs.step(actions[steps % len(actions)])
        steps += 1
    return steps * count / (time.perf_counter() - start)


def ppo_speed(count: int, rollout: int, updates: int, bf16: bool, folder: str) -> float:
    from goodharts.training.ppo import PPOConfig, PPOTrainer

    config = PPOConfig.from_config(
        mode="ground_truth",
        n_envs=count,
        steps_per_env=rollout,
        total_timesteps=(1 + updates) * count * rollout,
        use_amp=bf16,
        compile_models=False,
        compile_env=False,
        log_to_file=False,
        profile_enabled=False,
        benchmark_mode=True,
        skip_warmup=True,
        output_path=f"{folder}/model.pth",
    )
    trainer = PPOTrainer(config, device=torch.device("cpu"))
    ended = []

    def on_update(_number: int) -> bool:
        ended.append(time.perf_counter())
        return True

    trainer._profiler_callback = on_update
    trainer.train()
    return (len(ended) - 1) * count * rollout / (ended[-1] - ended[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    kinds = parser.add_subparsers(dest="kind", required=True)
    env = kinds.add_parser("env")
    env.add_argument("--seconds", type=float, required=True)
    ppo = kinds.add_parser("ppo")
    ppo.add_argument("--rollout", type=int, required=True)
    ppo.add_argument("--updates", type=int, required=True)
    ppo.add_argument("--bf16", action="store_true")
    for kind in (env, ppo):
        kind.add_argument("--count", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.zeros = without_pinning(torch.zeros)
    source = arguments.source.resolve()
    sys.path.insert(0, str(source))
    # it reads its configuration from the folder it runs in
    os.chdir(source)
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        if arguments.kind == "env":
            speed = env_speed(arguments.count, arguments.seconds)
        else:
            speed = ppo_speed(
                arguments.count, arguments.rollout, arguments.updates, arguments.bf16, folder
            )
    print(json.dumps({"steps_per_second": speed, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
