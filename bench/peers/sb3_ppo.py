"""Stable-Baselines3's PPO with the settings of a Maglev run.

    sb3_ppo.py --config RUN/config.yaml --env CartPole-v1 --threads N [--speed STEPS | --episodes N]

--speed measures one learn() over STEPS after a short one; otherwise the run's train.steps are
learned with the run's seed and the policy is judged over N episodes with its mean actions.
Prints one JSON object.
"""

import argparse
import json
import os
import time
import warnings

# notices would only mix with the figures
warnings.filterwarnings("ignore")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import stable_baselines3  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402

EVALUATION_SEED = 1_000_003
# what SB3 has no equivalent of must be off in the run it is compared with
MUST_BE = {
    "value_clip": 0,
    "entropy_end": 1,
    "entropy_floor_penalty": 0,
    "normalize_advantage": "minibatch",
    "normalize_reward": False,
    "clip_grad": "global",
    "weight_decay": 0,
}
NETWORK_MUST_BE = {"shared": False, "value_head": "plain", "normalize_obs": False}
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def schedule(start, end_share):
    """Linear from `start` to its share at the end; SB3 hands over what is left, 1 to 0."""
    start, share = float(start), float(end_share)
    return start if share == 1 else lambda left: start * (share + (1 - share) * left)


def ppo_of(config: dict, env_name: str, seed: int) -> PPO:
    ours, network = config["ppo"], config["ppo"]["network"]
    for table, wanted in ((ours, MUST_BE), (network, NETWORK_MUST_BE)):
        for name, value in wanted.items():
            if table[name] != value:
                raise SystemExit(f"[sb3] has no equivalent of ppo {name}={table[name]}")
    if network["critic_hidden"]:
        raise SystemExit("[sb3] critic_hidden is not mapped")
    envs = make_vec_env(env_name, n_envs=int(config["env"]["count"]), seed=seed)
    rows = int(ours["rollout"]) * int(config["env"]["count"])
    return PPO(
        "MlpPolicy",
        envs,
        learning_rate=schedule(ours["lr"], ours["lr_end"]),
        n_steps=int(ours["rollout"]),
        batch_size=int(ours["minibatch"]) or rows,
        n_epochs=int(ours["epochs"]),
        gamma=float(ours["gamma"]),
        gae_lambda=float(ours["lambda"]),
        clip_range=schedule(ours["clip"], ours["clip_end"]),
        ent_coef=float(ours["entropy"]),
        vf_coef=float(ours["value_coef"]),
        max_grad_norm=float(ours["max_grad_norm"]) or 1e30,
        target_kl=float(ours["target_kl"]) or None,
        policy_kwargs={
            "net_arch": [int(h) for h in network["hidden"]],
            "activation_fn": ACTIVATIONS[network["activation"]],
            "log_std_init": float(network["log_std"]),
            "optimizer_kwargs": {"eps": float(ours["adam_eps"])},
        },
        seed=seed,
        device="cpu",
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--speed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with open(arguments.config) as file:
        config = yaml.safe_load(file)
    seed = int(config["seed"])

    begin = time.perf_counter()
    model = ppo_of(config, arguments.env, seed)
    report = {"version": stable_baselines3.__version__, "torch": torch.__version__}
    if arguments.speed:
        rows = model.n_steps * model.n_envs
        model.learn(2 * rows)
        start = time.perf_counter()
        model.learn(arguments.speed)
        report["steps_per_second"] = model.num_timesteps / (time.perf_counter() - start)
    else:
        model.learn(int(config["train"]["steps"]))
        report["train_s"] = time.perf_counter() - begin
        start = time.perf_counter()
        judged = make_vec_env(arguments.env, n_envs=1, seed=EVALUATION_SEED)
        returns, _ = evaluate_policy(
            model, judged, n_eval_episodes=arguments.episodes, return_episode_rewards=True
        )
        report["eval_s"] = time.perf_counter() - start
        report["return_mean"] = sum(returns) / len(returns)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
