"""Runs stable-baselines3 on small problems and writes down everything its PPO saw, drew and computed.

    python tests/parity/sb3_fixture.py OUT [CASE ...]

writes OUT/<case>.case: a text header, then the tensors' bytes in its order (tests/parity/case_file.h reads it).
sb3_replay feeds the recorded rollouts and permutations to this engine's PPO and compares all else.
"""

import pathlib
import sys
import tempfile
import warnings

import gymnasium as gym
import numpy as np
import torch
from sb3_cases import CASES, GRAPHS, ITERATIONS, settings
from sb3_contrib import MaskablePPO
from sb3_envs import PipeEnvs
from sb3_prover import NETWORK, ProverPolicy, our_name
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper

HEADS = {"cartpole": [2], "pendulum": [], "heads": [3, 2, 4], "masked": [5], "pixels": [3]}
# how near a ratio may come to its clip, and what goes into a ReLU to 0
SAFE_CLIP, SAFE_RELU = 2e-6, 5e-7
FOLDER = tempfile.TemporaryDirectory()  # of graphs, as long as this program runs
DTYPES = {"float32": "f32", "int32": "i32", "int64": "i64", "uint8": "u8"}
# what the networks' plain ways are asked for with, beside ppo.fused=false
REFERENCE = {"cnn": {"network.cnn.fused_layers": "false"},
             "prover": {"network.proof.packed": "false", "network.proof.fused_layers": "false"}}
ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


class Walk(gym.Env):
    """A drifting point that pays for actions that fit its signs; ends and is cut off at random."""

    def __init__(self, kind):
        self.kind = kind
        heads = HEADS[kind]
        self.action_space = gym.spaces.MultiDiscrete(heads) if len(heads) > 1 else gym.spaces.Discrete(heads[0])
        if kind == "pixels":
            self.observation_space = gym.spaces.Box(0, 255, (6, 5, 3), np.uint8)
        else:
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def observe(self):
        if self.kind != "pixels":
            return self.point.astype(np.float32)
        noise = self.np_random.integers(0, 40, (6, 5, 3))
        return (noise + 100 + 50 * np.sign(self.point[:3])).astype(np.uint8)

    def action_masks(self):
        mask = self.point[0] + np.arange(5) * self.point[1] > 0
        mask[int(10 * abs(self.point[2])) % 5] = True
        return mask

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.point = self.np_random.normal(size=4)
        return self.observe(), {}

    def step(self, action):
        wanted = int(self.point[0] > 0) + int(self.point[1] > 0)
        reward = float(np.sum(np.asarray(action) == wanted)) - 0.3
        self.point = 0.8 * self.point + 0.6 * self.np_random.normal(size=4)
        end = self.np_random.random()
        return self.observe(), reward, end < 0.05, 0.03 < end < 0.1, {}


def graph_folder(name):
    """A built-in graph's name, or a folder of one of GRAPHS."""
    if name not in GRAPHS:
        return name
    folder = pathlib.Path(FOLDER.name) / name
    folder.mkdir(exist_ok=True)
    for file, text in GRAPHS[name].items():
        (folder / file).write_text(text)
    return folder


def make_envs(c, seed):
    if c["env"] == "kg":
        own = c["env_settings"]
        return PipeEnvs("kg", c["n_envs"], seed, own | dict(data=graph_folder(own["data"])))
    return DummyVecEnv([lambda: make_env(c["env"])] * c["n_envs"])


def make_env(name):
    if name == "cartpole":
        return gym.make("CartPole-v1", max_episode_steps=20)
    if name == "pendulum":
        return gym.wrappers.TransformReward(gym.make("Pendulum-v1", max_episode_steps=25), lambda r: 0.1 * r)
    return Walk(name)


def columns(obs):
    """Copies of an observation's columns by name."""
    return {k: v.copy() for k, v in (obs if isinstance(obs, dict) else {"observation": obs}).items()}


class Recorder(VecEnvWrapper):
    """Keeps what the environments gave, before the algorithm changes it in place."""

    def reset(self):
        first = self.venv.reset()
        self.obs, self.steps = [columns(first)], []
        return first

    def step_wait(self):
        obs, reward, done, infos = self.venv.step_wait()
        truncated = np.array([bool(i.get("TimeLimit.truncated", False)) for i in infos])
        final = {name: np.zeros_like(column) for name, column in columns(obs).items()}
        for n in np.flatnonzero(done):
            for name, column in columns(infos[n]["terminal_observation"]).items():
                final[name][n] = column
        self.steps.append(dict(reward=reward.astype(np.float32), terminated=(done & ~truncated).astype(np.uint8),
                               truncated=truncated.astype(np.uint8))
                          | {f"final_obs/{name}": column for name, column in final.items()})
        self.obs.append(columns(obs))
        return obs, reward, done, infos


class Dense(BaseFeaturesExtractor):
    """The trunk policy and value share."""

    def __init__(self, space, activation):
        super().__init__(space, 32)
        self.fc = torch.nn.Linear(space.shape[0], 32)
        self.activation = activation()

    def forward(self, x):
        return self.activation(self.fc(x))


class Convolutions(BaseFeaturesExtractor):
    """3x3 convolutions that keep the picture's size, joined with channels innermost."""

    def __init__(self, space, activation):
        super().__init__(space, 6 * space.shape[1] * space.shape[2])
        self.conv0 = torch.nn.Conv2d(space.shape[0], 4, 3, padding=1)
        self.conv1 = torch.nn.Conv2d(4, 6, 3, padding=1)
        self.activation = activation()

    def forward(self, x):
        x = self.activation(self.conv1(self.activation(self.conv0(x))))
        return x.permute(0, 2, 3, 1).flatten(1)


def policy_arguments(c, envs):
    if c["net"] == "prover":
        return dict(vocabulary=envs.vocabulary, network=c["network"], optimizer_kwargs=dict(eps=c["adam_eps"]))
    activation = ACTIVATIONS[c["activation"]]
    arguments = dict(activation_fn=activation, net_arch=dict(pi=[32, 24], vf=[32, 24]),
                     optimizer_kwargs=dict(eps=c["adam_eps"]))
    if c["net"] == "shared":
        arguments |= dict(features_extractor_class=Dense, features_extractor_kwargs=dict(activation=activation),
                          net_arch=dict(pi=[], vf=[16]))
    if c["net"] == "cnn":
        arguments |= dict(features_extractor_class=Convolutions, features_extractor_kwargs=dict(activation=activation),
                          net_arch=dict(pi=[16], vf=[16]), share_features_extractor=False)
    return arguments


def weights(policy, net):
    """Parameters under this engine's names."""
    if net == "prover":
        return {our_name(name): value.detach().numpy().copy() for name, value in policy.named_parameters()}
    ours = {"action_net": "policy", "value_net": "value_head.", "log_std": "log_std"}
    layers = {"shared": [("features_extractor.fc", "policy_trunk.fc0"), ("mlp_extractor.value_net.0", "critic.fc0")],
              "cnn": [*((f"mlp_extractor.{p}_net.0", f"{p}_trunk.fc0") for p in ("policy", "value")),
                      *((f"{a}features_extractor.conv{i}", f"{b}_trunk.conv{i}")
                        for a, b in (("", "policy"), ("vf_", "value")) for i in (0, 1))],
              "apart": [(f"mlp_extractor.{p}_net.{2 * i}", f"{p}_trunk.fc{i}")
                        for p in ("policy", "value") for i in (0, 1)]}
    ours |= dict(layers[net])
    named = {}
    for name, value in policy.named_parameters():
        layer, _, kind = name.rpartition(".")
        prefix = ours[layer or name]
        key = prefix if not layer else prefix + kind if prefix.endswith(".") else f"{prefix}_{kind}"
        named[key] = value.detach().numpy().copy()
    return named


class Spy:
    """Records one train(): the permutations drawn, and per minibatch the figures standing in its local variables."""

    def __init__(self, model, watch_relus):
        self.model, self.watch_relus = model, watch_relus
        self.permutations, self.figures, self.norms = [], [], []
        self.edge = np.inf  # how near anything came to an edge, in the distances that are safe

    def note(self, frame):
        v = frame.f_locals
        moved = [(v["ratio"] - 1, v["clip_range"])]
        if "clip_range_vf" in v:
            moved.append((v["values"] - v["rollout_data"].old_values, v["clip_range_vf"]))
        self.edge = min(self.edge, *((by.abs() - clip).abs().min().item() / SAFE_CLIP for by, clip in moved))
        self.figures.append([torch.as_tensor(v[name]).item() for name in (
            "policy_loss", "value_loss", "entropy_loss", "approx_kl_div", "clip_fraction", "loss")])

    def note_relu(self, module, inputs):
        self.edge = min(self.edge, inputs[0].abs().min().item() / SAFE_RELU)

    def run(self, train):
        permutation, zero_grad = np.random.permutation, self.model.policy.optimizer.zero_grad
        clip, record = torch.nn.utils.clip_grad_norm_, self.model.logger.record

        def recorded_permutation(n):
            self.permutations.append(permutation(n))
            return self.permutations[-1].copy()

        def noting_zero_grad(*args, **kwargs):
            self.note(sys._getframe(1))
            return zero_grad(*args, **kwargs)

        def noting_clip(*args, **kwargs):
            self.norms.append(float(clip(*args, **kwargs)))

        def noting_record(key, value, *args, **kwargs):
            # a minibatch that target_kl stopped never came to its optimiser step
            frame = sys._getframe(1)
            if key == "train/loss" and not frame.f_locals["continue_training"]:
                self.note(frame)
                self.norms.append(float("nan"))
            if key == "train/explained_variance":
                self.explained_variance = value
            return record(key, value, *args, **kwargs)

        # pictures have too many pixels for none of them to be near 0
        relus = [m for m in self.model.policy.modules() if isinstance(m, torch.nn.ReLU)] if self.watch_relus else []
        hooks = [m.register_forward_pre_hook(self.note_relu) for m in relus]
        np.random.permutation, self.model.policy.optimizer.zero_grad = recorded_permutation, noting_zero_grad
        torch.nn.utils.clip_grad_norm_, self.model.logger.record = noting_clip, noting_record
        try:
            train()
        finally:
            np.random.permutation, torch.nn.utils.clip_grad_norm_ = permutation, clip
            del self.model.policy.optimizer.zero_grad, self.model.logger.record
            for hook in hooks:
                hook.remove()


def iteration(model, recorder, net):
    """One train() of `model`: its inputs and its results by name, and its Spy's edge."""
    buffer, S = model.rollout_buffer, model.n_steps
    out = {name: np.stack([step[name] for step in recorder.steps[-S:]]) for name in recorder.steps[-1]}
    for name in recorder.obs[-1]:
        out[f"obs/{name}"] = np.stack([obs[name] for obs in recorder.obs[-S - 1:]])  # the last one bootstraps
    discrete = isinstance(model.action_space, (gym.spaces.Discrete, gym.spaces.MultiDiscrete))
    out["action"] = buffer.actions.astype(np.int64 if discrete else np.float32)
    if hasattr(buffer, "action_masks"):
        out["mask"] = buffer.action_masks.astype(np.uint8)
    for name in ("values", "log_probs", "rewards", "advantages", "returns"):
        out[name] = getattr(buffer, name).astype(np.float32).copy()
    spy = Spy(model, watch_relus=net != "cnn")
    spy.run(type(model).train.__get__(model))
    out["permutations"] = np.stack(spy.permutations).astype(np.int64)
    out["figures"] = np.array(spy.figures, np.float32)
    out["figures"][:, 2] *= -1  # entropy, not its loss
    out["grad_norms"] = np.array(spy.norms, np.float32)
    out["explained_variance"] = np.array(spy.explained_variance, np.float32)
    return out | {f"weights/{k}": v for k, v in weights(model.policy, net).items()}, spy.edge


def our_options(c):
    """The same settings in this engine's words."""
    pair = lambda v: v if isinstance(v, tuple) else (v, 1.0)  # noqa: E731
    (lr, lr_end), (clip, clip_end) = pair(c["learning_rate"]), pair(c["clip_range"])
    value_clip, value_clip_end = pair(c["clip_range_vf"] or 0)
    network = {"apart": {"hidden": "[32, 24]"}, "shared": {"hidden": "[32]", "shared": "true", "critic_hidden": "[16]"},
               "cnn": {"hidden": "[16]", "cnn.channels": "[4, 6]"}, "prover": {}}[c["net"]]
    if c["net"] == "prover":
        prover = NETWORK | c["network"]
        network = {"kind": "proof", "shared": prover.pop("shared")} | {f"proof.{k}": v for k, v in prover.items()}
    return {
        "epochs": c["n_epochs"], "lr": lr, "lr_end": lr_end, "clip": clip, "clip_end": clip_end, "gamma": c["gamma"],
        "lambda": c["gae_lambda"], "value_clip": value_clip, "value_clip_end": value_clip_end, "value_coef": c["vf_coef"],
        "entropy": c["ent_coef"], "max_grad_norm": c["max_grad_norm"], "target_kl": c["target_kl"] or 0,
        "adam_eps": c["adam_eps"],
        "normalize_advantage": "minibatch" if c["normalize_advantage"] else "off",
        "network.activation": c["activation"],
    } | {f"network.{k}": v for k, v in network.items()}


def run_case(name):
    """Options, numbers and tensors of a case's file.

    A row that stands on the edge of a clip falls to either side by rounding alone, as does what a ReLU lets through, and
    from there two correct programs part. Such a recording is made again from another seed.
    """
    c = settings(name)
    for seed in range(c["seed"], c["seed"] + 20):
        tensors, edge = record(c, seed)
        if edge > 1:
            return our_options(c), {"iterations": ITERATIONS, "steps": c["n_steps"], "envs": c["n_envs"],
                                    "batch_size": c["batch_size"]}, tensors
    raise RuntimeError(f"{name}: every recording has a row on an edge")


def masked(c):
    return c["env"] in ("masked", "kg")


def record(c, seed):
    envs = make_envs(c, seed)
    recorder = Recorder(envs)
    # it asks behind a rollout; here schedules are taken where the rollout began
    schedule = lambda v: (lambda left: v[0] * (v[1] + (1 - v[1]) * (left + 1 / ITERATIONS))) if isinstance(v, tuple) else v  # noqa: E731
    same = ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm",
            "target_kl", "normalize_advantage")
    algorithm = MaskablePPO if masked(c) else PPO
    kind = {"cnn": "CnnPolicy", "prover": ProverPolicy}.get(c["net"], "MlpPolicy")
    model = algorithm(kind, recorder, learning_rate=schedule(c["learning_rate"]), clip_range=schedule(c["clip_range"]),
                      clip_range_vf=schedule(c["clip_range_vf"]), policy_kwargs=policy_arguments(c, envs), device="cpu",
                      seed=seed, **{k: c[k] for k in same})
    tensors = {f"initial/{k}": v for k, v in weights(model.policy, c["net"]).items()}
    done = []

    def train():
        done.append(iteration(model, recorder, c["net"]))

    model.train = train
    model.learn(ITERATIONS * c["n_steps"] * c["n_envs"])
    for k, (result, _) in enumerate(done):
        tensors |= {f"{k}/{key}": value for key, value in result.items()}
    tensors["heads"] = np.array([envs.action_space.n] if c["env"] == "kg" else HEADS[c["env"]], np.int64)
    tensors["vocabulary"] = np.array(getattr(envs, "vocabulary", []), np.int64)
    envs.close()
    return tensors, min(edge for _, edge in done)


def expect_exercised(name, tensors):
    """A case whose recording lacks what it is there for compares nothing."""
    def total(tensor):
        return sum(np.nansum(tensors[f"{k}/{tensor}"]) for k in range(ITERATIONS))

    c = settings(name)
    assert total("truncated") > 0, f"{name}: no episode was cut off"
    choices = True
    if masked(c):
        allowed = np.stack([tensors[f"{k}/mask"].sum(-1) for k in range(ITERATIONS)])
        assert np.any(allowed == 1), f"{name}: no row with one allowed action"
        choices = np.any(allowed > 1)
        assert choices == (name != "prover_without_a_choice"), f"{name}: at most {allowed.max()} actions are allowed"
    clipped = sum(tensors[f"{k}/figures"][:, 4].sum() for k in range(ITERATIONS))
    # without a choice every ratio is 1
    assert (clipped > 0) == choices, f"{name}: a share of {clipped} of ratios was clipped"
    stopped = sum(np.isnan(tensors[f"{k}/grad_norms"]).sum() for k in range(ITERATIONS))
    assert (stopped > 0) == (c["target_kl"] is not None), f"{name}: target_kl stopped {stopped} updates"


def write(path, options, reference, numbers, tensors):
    with open(path, "wb") as file:
        for key, value in options.items():
            file.write(f"option {key} {value}\n".encode())
        for key, value in reference.items():
            file.write(f"reference {key} {value}\n".encode())
        for key, value in numbers.items():
            file.write(f"number {key} {value}\n".encode())
        for key, value in tensors.items():
            shape = " ".join(str(d) for d in value.shape)
            file.write(f"tensor {key} {DTYPES[value.dtype.name]} {value.ndim} {shape}\n".encode())
        file.write(b"end\n")
        for value in tensors.values():
            file.write(np.ascontiguousarray(value).tobytes())


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
    for name in sys.argv[2:] or CASES:
        options, numbers, tensors = run_case(name)
        expect_exercised(name, tensors)
        write(folder / f"{name}.case", options, REFERENCE.get(settings(name)["net"], {}), numbers, tensors)


if __name__ == "__main__":
    main()
