"""The least time a PPO step can take: its multiplications at this machine's rate.

A step of an environment is seen by the networks once when it acts, and once an epoch when it is
learnt from; forward and backward together are three times the forward pass. Two operations a
multiply-add. What else a step takes, environments, activations, optimiser, is not counted.
"""

from __future__ import annotations

import json

from measure import Unavailable, execute
from programs import Programs, need

# observations and the network's outputs for the policy, by environment of the measured cases
VECTORS = {"cartpole": (4, 2), "pendulum": (3, 1), "gymnasium": (4, 2)}
# goodhart: 11 x 11 cells in 2 channels, 8 actions; its critic sees 244 numbers more
GOODHART_SIDE, GOODHART_CHANNELS, GOODHART_ACTIONS, GOODHART_CRITIC = 11, 2, 8, 244
# minatar's breakout: 10 x 10 cells in 4 planes, 6 actions
BREAKOUT_SIDE, BREAKOUT_PLANES, BREAKOUT_ACTIONS = 10, 4, 6
KERNEL = 3 * 3
# atari's breakout: 84 x 84 in 4 pictures, 4 actions
ATARI_SIDE, ATARI_STACK, ATARI_ACTIONS = 84, 4, 4


def layers(*widths: int) -> int:
    """Multiply-adds of fully connected layers for one row."""
    return sum(a * b for a, b in zip(widths, widths[1:]))


def forward_macs(env: str, config: dict) -> int:
    """Multiply-adds of policy and critic for one observation. Throws Unavailable."""
    network = config["ppo"]["network"]
    hidden = [int(h) for h in network["hidden"]]
    critic = [int(h) for h in network["critic_hidden"]]
    if env == "goodhart" and network["kind"] == "cnn" and network["shared"]:
        channels = [GOODHART_CHANNELS, *map(int, network["cnn"]["channels"])]
        cells = GOODHART_SIDE**2
        macs = layers(*channels) * KERNEL * cells
        macs += layers(channels[-1] * cells, *hidden, GOODHART_ACTIONS)
        return macs + layers(hidden[-1] + GOODHART_CRITIC, *critic, 1)
    if env == "minatar_breakout" and network["kind"] == "cnn" and network["shared"] and not critic:
        channels = [BREAKOUT_PLANES, *map(int, network["cnn"]["channels"])]
        cells = BREAKOUT_SIDE**2
        macs = layers(*channels) * KERNEL * cells
        return macs + layers(channels[-1] * cells, *hidden, BREAKOUT_ACTIONS + 1)
    if env == "atari" and network["kind"] == "cnn" and network["shared"] and not critic:
        macs, side, seen = 0, ATARI_SIDE, ATARI_STACK
        cnn = network["cnn"]
        for out, kernel, stride, padding in zip(
            *(map(int, cnn[name]) for name in ("channels", "kernels", "strides", "paddings"))
        ):
            side = (side + 2 * padding - kernel) // stride + 1
            macs += side**2 * out * kernel**2 * seen
            seen = out
        return macs + layers(seen * side**2, *hidden, ATARI_ACTIONS + 1)
    if env in VECTORS and not network["shared"] and network["kind"] in ("auto", "mlp"):
        observations, outputs = VECTORS[env]
        if not config["env"].get("velocities", True):
            observations //= 2
        memory = int(network["memory"])
        if memory and not critic:
            # three gates of what is seen and remembered, behind each trunk
            trunk = layers(observations, *hidden) + 3 * memory * (hidden[-1] + memory)
            return 2 * trunk + layers(memory, outputs) + layers(memory, 1)
        if not memory:
            value = layers(observations, *(critic or hidden), 1)
            return layers(observations, *hidden, outputs) + value
    raise Unavailable(f"the floor of this network on {env} is not worked out")


def flop_a_step(env: str, config: dict) -> int:
    return 2 * forward_macs(env, config) * (1 + 3 * int(config["ppo"]["epochs"]))


def peak_gflops(programs: Programs, threads: int = 0) -> float:
    """float32 multiply-adds of `threads` cores (0: all), as `maglev doctor` measures them; the best
    of three. No library's products are faster, and some are half as fast (MKL on AMD)."""
    command = [need(programs.engine), "doctor", "--json", f"threads={threads}"]
    reports = [json.loads(execute(command).output) for _ in range(3)]
    return max(report["measured"]["multiply_add_gflops"] for report in reports)


def add_floor(result: dict, env: str, config: dict, gflops: float):
    """Adds the floor to a result, and to every contender its share of it."""
    flop = flop_a_step(env, config)
    floor = gflops * 1e9 / flop
    result["floor"] = {"flop_a_step": flop, "peak_gflops": gflops, "steps_per_second": floor}
    for row in [result["ours"], *result["peers"]]:
        if row["median"]:
            row["share_of_floor"] = row["median"] / floor
