"""The settings of a Maglev run, for the peers that are measured with them.

Every peer's script is called the same way and prints one JSON object with "steps_per_second":

    <peer>_ppo.py --config RUN/config.yaml --env CartPole-v1 --threads N --speed STEPS
"""

import argparse
import os
import warnings

# notices would only mix with the figures
warnings.filterwarnings("ignore")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import yaml  # noqa: E402

# what the peers have no equivalent of must be off in the run they are compared with
MUST_BE = {
    "value_clip": 0,
    "entropy_end": 1,
    "entropy_floor_penalty": 0,
    "normalize_advantage": "minibatch",
    "normalize_reward": False,
    "clip_grad": "global",
    "weight_decay": 0,
}
NETWORK_MUST_BE = {"value_head": "plain", "normalize_obs": False, "memory": 0}
# updates that pass before the clock starts
WARM_UP = 2


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("--config", required=True)
    made.add_argument("--env", required=True)
    made.add_argument("--threads", type=int, required=True)
    made.add_argument("--speed", type=int, default=0, help="steps to measure")
    return made


def read(path: str, peer: str, has: tuple = ()) -> dict:
    """The run's settings; ends the program when one has no equivalent in the peer. `has`: names of
    those that it does have one of."""
    with open(path) as file:
        config = yaml.safe_load(file)
    ours, network = config["ppo"], config["ppo"]["network"]
    for table, wanted in ((ours, MUST_BE), (network, NETWORK_MUST_BE)):
        for name, value in wanted.items():
            if name not in has and table[name] != value:
                raise SystemExit(f"[{peer}] has no equivalent of ppo {name}={table[name]}")
    # layers that policy and value share are mapped where they begin with convolutions
    if network["shared"] != (network["kind"] == "cnn"):
        raise SystemExit(f"[{peer}] has no equivalent of a {network['kind']} network shared or not")
    if network["critic_hidden"]:
        raise SystemExit(f"[{peer}] critic_hidden is not mapped")
    return config


def register_atari():
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)


def expect_atari(config: dict, peer: str):
    """Ends the program when the network is another than the published one, which peers have for Atari."""
    network = config["ppo"]["network"]
    cnn = network["cnn"]
    layers = [list(map(int, cnn[name])) for name in ("channels", "kernels", "strides", "paddings")]
    published = [[32, 64, 64], [8, 4, 3], [4, 2, 1], [0, 0, 0]]
    if layers != published or [int(h) for h in network["hidden"]] != [512]:
        raise SystemExit(f"[{peer}] the network is not the published one of Atari")


def constant_rates(config: dict, peer: str):
    """Ends the program when a schedule is set that the peer's script does not map."""
    for name in ("lr_end", "clip_end"):
        if float(config["ppo"][name]) != 1:
            raise SystemExit(f"[{peer}] {name} is not mapped")


def schedule(start, end_share):
    """Linear from `start` to its share at the end, as Stable-Baselines3 takes it: a function of what is left, 1 to 0."""
    start, share = float(start), float(end_share)
    return start if share == 1 else lambda left: start * (share + (1 - share) * left)


def rows_of(config: dict) -> int:
    """Steps of all environments in one rollout."""
    return int(config["ppo"]["rollout"]) * int(config["env"]["count"])


def minibatch_of(config: dict) -> int:
    return int(config["ppo"]["minibatch"]) or rows_of(config)
