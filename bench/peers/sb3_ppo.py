"""Stable-Baselines3's PPO with the settings of a Maglev run.

    sb3_ppo.py --config RUN/config.yaml --env CartPole-v1 --threads N [--speed STEPS | --episodes N] [--processes]

--speed measures one learn() over STEPS after a short one; otherwise the run's train.steps are
learned with the run's seed and the policy is judged over N episodes with its mean actions. With a
memory it is sb3-contrib's RecurrentPPO, whose memories of policy and value are LSTMs of as many units.
--processes: an Atari game in a process of its own each. Prints one JSON object.
"""

import json
import time

import gymnasium
import numpy as np
import run_settings
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack, VecNormalize

EVALUATION_SEED = 1_000_003
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


def is_atari(env_name: str) -> bool:
    return "NoFrameskip" in env_name


def network_of(config: dict, env_name: str) -> dict:
    """What SB3 is told of the networks: two of the run's layers, or one cnn before both heads."""
    network = config["ppo"]["network"]
    if is_atari(env_name):
        run_settings.expect_atari(config, "sb3")
        return {}  # its own is the published one
    if network["kind"] != "cnn":
        return {
            "net_arch": [int(h) for h in network["hidden"]],
            "activation_fn": ACTIVATIONS[network["activation"]],
            "log_std_init": float(network["log_std"]),
        }
    from minatar_gym import torso

    class Cnn(BaseFeaturesExtractor):
        def __init__(self, space):
            layers, width = torso(config, space)
            super().__init__(space, width)
            self.layers = layers

        def forward(self, x):
            return self.layers(x)

    return {"net_arch": [], "features_extractor_class": Cnn, "normalize_images": False}


class WithoutVelocities(gymnasium.ObservationWrapper):
    """CartPole's place and angle alone."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation):
        return observation[[0, 2]]


def environments(config: dict, env_name: str, count: int, seed: int, processes: bool = False):
    if env_name.startswith("minatar_"):
        import minatar_gym  # noqa: F401, registers it
    if is_atari(env_name):
        run_settings.register_atari()
        # what is registered here is there in what is forked
        apart = {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": "fork"}} if processes else {}
        return VecFrameStack(make_atari_env(env_name, n_envs=count, seed=seed, **apart), n_stack=4)
    seen = config["env"].get("velocities", True)
    wrapper = None if seen else WithoutVelocities
    return make_vec_env(env_name, n_envs=count, seed=seed, wrapper_class=wrapper)


def algorithm_of(config: dict, env_name: str) -> tuple:
    """Its class, policy and what the policy is told beside the layers."""
    units = int(config["ppo"]["network"]["memory"])
    if units == 0:
        return PPO, "CnnPolicy" if is_atari(env_name) else "MlpPolicy", {}
    from sb3_contrib import RecurrentPPO

    return RecurrentPPO, "MlpLstmPolicy", {"lstm_hidden_size": units}


def ppo_of(config: dict, env_name: str, seed: int, processes: bool = False) -> PPO:
    ours, network = config["ppo"], config["ppo"]["network"]
    envs = environments(config, env_name, int(config["env"]["count"]), seed, processes)
    if network["normalize_obs"] or ours["normalize_reward"]:
        envs = VecNormalize(
            envs,
            norm_obs=network["normalize_obs"],
            norm_reward=ours["normalize_reward"],
            gamma=float(ours["gamma"]),
        )
    algorithm, policy, more = algorithm_of(config, env_name)
    return algorithm(
        policy,
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
        policy_kwargs={
            **network_of(config, env_name),
            **more,
            "optimizer_kwargs": {"eps": float(ours["adam_eps"])},
        },
        seed=seed,
        device="cpu",
    )


def judged_envs(model: PPO, config: dict, env_name: str):
    """One environment of its own, seen as the policy saw those it learned in, with true rewards."""
    envs = environments(config, env_name, 1, EVALUATION_SEED)
    learned_in = model.get_vec_normalize_env()
    if learned_in is None:
        return envs
    envs = VecNormalize(envs, training=False, norm_obs=learned_in.norm_obs, norm_reward=False)
    envs.obs_rms = learned_in.obs_rms
    return envs


def main():
    parser = run_settings.parser()
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--processes", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config = run_settings.read(
        arguments.config, "sb3", has=("normalize_obs", "normalize_reward", "memory")
    )
    seed = int(config["seed"])

    begin = time.perf_counter()
    model = ppo_of(config, arguments.env, seed, arguments.processes)
    report = {"version": stable_baselines3.__version__, "torch": torch.__version__}
    if arguments.speed:
        model.learn(run_settings.WARM_UP * run_settings.rows_of(config))
        start = time.perf_counter()
        model.learn(arguments.speed)
        report["steps_per_second"] = model.num_timesteps / (time.perf_counter() - start)
    else:
        model.learn(int(config["train"]["steps"]))
        report["train_s"] = time.perf_counter() - begin
        start = time.perf_counter()
        returns, _ = evaluate_policy(
            model,
            judged_envs(model, config, arguments.env),
            n_eval_episodes=arguments.episodes,
            return_episode_rewards=True,
        )
        report["eval_s"] = time.perf_counter() - start
        report["return_mean"] = sum(returns) / len(returns)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
