"""CleanRL's PPO, unchanged, with the settings of a Maglev run: ppo.py or ppo_continuous_action.py.

    cleanrl_ppo.py --source DIR --config RUN/config.yaml --env CartPole-v1 --threads N --speed STEPS

DIR holds a checkout of CleanRL. The script runs as it is, but on MinAtar, where its Agent of vectors
gives way to one of the run's convolutional network. Around it: its TensorBoard writer is
replaced by one that only notes when each update ended (so its log costs nothing here), the wrappers
that normalise observations and rewards do nothing (ours has them off), TransformObservation gets the
argument that Gymnasium 1.x asks for, and of Atari's its wrappers are found by their older names.
Prints one JSON object.
"""

import ast
import contextlib
import io
import json
import sys
import time
import types
from pathlib import Path

import gymnasium
import run_settings
import torch

SCRIPTS = {
    "CartPole-v1": "ppo.py",
    "Pendulum-v1": "ppo_continuous_action.py",
    "minatar_breakout": "ppo.py",
    "BreakoutNoFrameskip-v4": "ppo_atari.py",
}
UPDATE_ENDED = "charts/SPS"


class Clock:
    """In the place of the TensorBoard writer: (steps, time) of every update."""

    ended = []

    def __init__(self, *_):
        pass

    def add_scalar(self, name, _value, step):
        if name == UPDATE_ENDED:
            Clock.ended.append((step, time.perf_counter()))

    def add_text(self, *_):
        pass

    def close(self):
        pass


def untouched(env, *_args, **_named):
    return env


def cnn_agent(config: dict):
    """In the place of the script's Agent: the same methods and first weights, on images."""
    from minatar_gym import torso
    from torch.distributions.categorical import Categorical

    def first(layer, scale=2**0.5):
        torch.nn.init.orthogonal_(layer.weight, scale)
        torch.nn.init.zeros_(layer.bias)
        return layer

    class Agent(torch.nn.Module):
        def __init__(self, envs):
            super().__init__()
            self.network, width = torso(config, envs.single_observation_space)
            for layer in self.network:
                if hasattr(layer, "weight"):
                    first(layer)
            self.actor = first(torch.nn.Linear(width, envs.single_action_space.n), 0.01)
            self.critic = first(torch.nn.Linear(width, 1), 1.0)

        def get_value(self, x):
            return self.critic(self.network(x))

        def get_action_and_value(self, x, action=None):
            hidden = self.network(x)
            made = Categorical(logits=self.actor(hidden))
            if action is None:
                action = made.sample()
            return action, made.log_prob(action), made.entropy(), self.critic(hidden)

    return Agent


def run_script(script: Path, agent):
    """Runs it as a program; `agent`, if any, is what it knows as Agent."""
    tree = ast.parse(script.read_text(), str(script))
    names = {"__name__": "__main__", "__file__": str(script)}
    # its dataclass of settings looks its module up
    module = types.ModuleType("__main__")
    if agent:
        tree.body = [n for n in tree.body if getattr(n, "name", "") != "Agent"]
        names["Agent"] = agent
    module.__dict__.update(names)
    sys.modules["__main__"] = module
    exec(compile(tree, str(script), "exec"), module.__dict__)


def main():
    parser = run_settings.parser()
    parser.add_argument("--source", type=Path, required=True)
    arguments = parser.parse_args()
    config = run_settings.read(arguments.config, "cleanrl")
    run_settings.constant_rates(config, "cleanrl")
    ours, rows = config["ppo"], run_settings.rows_of(config)
    agent = None
    if arguments.env.endswith("NoFrameskip-v4"):
        run_settings.expect_atari(config, "cleanrl")
        run_settings.register_atari()
        # the script's own wrappers, and Gymnasium's by their older names
        sys.path.insert(0, str(arguments.source))
        gymnasium.wrappers.GrayScaleObservation = gymnasium.wrappers.GrayscaleObservation
        gymnasium.wrappers.FrameStack = gymnasium.wrappers.FrameStackObservation
    elif ours["network"]["kind"] == "cnn":
        agent = cnn_agent(config)
    elif [int(h) for h in ours["network"]["hidden"]] != [64, 64]:
        raise SystemExit("[cleanrl] its network is 64-64 tanh")
    torch.set_num_threads(arguments.threads)
    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = Clock
    sys.modules["torch.utils.tensorboard"] = board
    for name in (
        *("NormalizeObservation", "NormalizeReward"),
        *("TransformObservation", "TransformReward"),
    ):
        setattr(gymnasium.wrappers, name, untouched)

    script = arguments.source / "cleanrl" / SCRIPTS[arguments.env]
    updates = run_settings.WARM_UP + max(1, arguments.speed // rows)
    settings = {
        "env-id": arguments.env,
        "seed": config["seed"],
        "num-envs": config["env"]["count"],
        "num-steps": ours["rollout"],
        "num-minibatches": rows // run_settings.minibatch_of(config),
        "update-epochs": ours["epochs"],
        "total-timesteps": updates * rows,
        "learning-rate": ours["lr"],
        "gamma": ours["gamma"],
        "gae-lambda": ours["lambda"],
        "clip-coef": ours["clip"],
        "ent-coef": ours["entropy"],
        "vf-coef": ours["value_coef"],
        "max-grad-norm": ours["max_grad_norm"],
    }
    sys.argv = [str(script), "--no-cuda", "--no-anneal-lr", "--no-clip-vloss"]
    sys.argv += [f"--{name}={value}" for name, value in settings.items()]
    with contextlib.redirect_stdout(io.StringIO()):
        run_script(script, agent)
    (first_step, first), (last_step, last) = Clock.ended[run_settings.WARM_UP - 1], Clock.ended[-1]
    print(json.dumps({"steps_per_second": (last_step - first_step) / (last - first)}))


if __name__ == "__main__":
    main()
