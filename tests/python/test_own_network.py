"""Networks written in Python and trained by the engine: maglev.train(network=...), maglev.save_network."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from conftest import BUILD, HOME
from own_runs import expect_learned_alike, from_newest, heads_of, learned_by
from torch import nn
from waiting import LONG_S

if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402
from maglev.tensor_files import read_tensors, write_tensors

QUICK = {"env.count": 8, "ppo.rollout": 16, "ppo.minibatch": 64, "ppo.epochs": 2, "train.steps": 512, "seed": 3}


class Mlp(nn.Module):
    """The layers of the engine's own network."""

    def __init__(self, inputs=4, outputs=2, activation=nn.Tanh):
        super().__init__()
        self.policy = nn.Sequential(
            nn.Linear(inputs, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, outputs)
        )
        self.value = nn.Sequential(
            nn.Linear(inputs, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, 1)
        )

    def forward(self, obs):
        return self.policy(obs), self.value(obs).squeeze(-1)


class Residual(nn.Module):
    """What panels do not have: a body for both, LayerNorm, a skip, several results, a constant, logits behind the last layer."""

    def __init__(self, inputs=4, outputs=2):
        super().__init__()
        self.first = nn.Linear(inputs, 32)
        self.block = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.0))
        self.policy = nn.Linear(16, outputs)
        self.value = nn.Linear(32, 1)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, inputs))

    def best(self, x):
        return x.amax(-1, keepdim=True)

    def forward(self, obs):
        x = torch.relu(self.first(obs * self.scale))
        x = x + self.block(x)
        a, b = x.chunk(2, -1)
        folded = x.reshape(x.shape[0] * 2, -1).reshape(x.shape[0], -1)
        best = self.best(folded)
        logits = self.policy(a * torch.sigmoid(b))
        return 5 * torch.tanh(logits / 5) + torch.tensor([0.25, -0.25]) * best, self.value(folded)


class Named(nn.Module):
    """Layers called as the engine calls parts of a network."""

    def __init__(self):
        super().__init__()
        self.body, self.policy_head, self.out = nn.Linear(4, 24), nn.Linear(24, 16), nn.Linear(16, 2)
        self.policy = nn.ModuleDict({"body": nn.Linear(24, 24)})
        self.value = nn.Linear(24, 1)

    def forward(self, obs):
        x = torch.tanh(self.policy["body"](torch.tanh(self.body(obs))))
        return self.out(torch.tanh(self.policy_head(x))), self.value(x)


class Best(Residual):
    """An operation with two results, and one that ONNX has no counterpart of here."""

    def best(self, x):
        return x.max(-1, keepdim=True)[0]


class Attentive(Mlp):
    """What is observed as a row of tokens that attend to each other."""

    def __init__(self):
        super().__init__(inputs=32)
        self.embedding = nn.Parameter(torch.randn(4, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, obs):
        tokens = obs.unsqueeze(-1) * self.embedding
        seen, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return super().forward(seen.flatten(1))


class Pictures(nn.Module):
    """Convolutions that write in place, Adam's and PopArt's heads behind them, deviations of its own."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 8, 8, 4),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 4, 2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.body[3].running_mean += 0.1
        self.hidden = nn.Linear(8 * 6 * 6, 32)
        self.mean, self.value = nn.Linear(32, outputs), nn.Linear(32, 1)
        self.log_std = nn.Parameter(torch.full((1, outputs), -0.5))

    def forward(self, obs):
        x = torch.tanh(self.hidden(self.body(obs)))
        return self.mean(x), self.value(x)


def trained(network, tmp_path, environment="cartpole", settings=None, **options):
    torch.manual_seed(5)
    return maglev.train(
        "ppo",
        environment,
        {**QUICK, **(settings or {})},
        network=network,
        out=tmp_path / "run",
        sinks=["jsonl"],
        **options,
    )


def expect_the_modules_outputs(run, network, environment, settings=None):
    """The module with the run's weights gives what the run's policy does."""
    network.load_state_dict(run.weights())
    policy = run.policy()
    envs = maglev.make(environment, 6, settings, seed=2)
    obs, _ = envs.reset()
    with torch.no_grad():
        for _ in range(5):
            obs = envs.step(envs.sample())[0]
        out, value = network(envs.encode(obs))
    torch.testing.assert_close(policy.value(obs), value.flatten(), rtol=1e-5, atol=1e-5)
    if envs.spec.discrete:
        torch.testing.assert_close(policy.log_probs(obs), out.log_softmax(-1), rtol=1e-5, atol=1e-5)
    else:
        normal = policy.normal(obs)
        torch.testing.assert_close(normal.mean, out, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(normal.stddev[:1].log(), network.log_std.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "made", [Mlp, Residual, Named, Best, Attentive, lambda: Mlp(activation=nn.ReLU), lambda: Mlp(activation=lambda: nn.GELU("tanh"))]
)
def test_what_was_learned_comes_back_into_the_module(made, tmp_path):
    network = made()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    run = trained(network, tmp_path)
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    expect_the_modules_outputs(run, network, "cartpole")
    learned = dict(network.named_parameters())
    assert all(not torch.equal(before[name], learned[name]) for name in learned)
    if "scale" in before:
        assert torch.equal(before["scale"], network.scale)
    with pytest.raises(maglev.Error, match="unknown checkpoint 'step_9'"):
        run.weights("step_9")


def test_weights_are_those_of_a_checkpoint_that_is_whole(tmp_path):
    run = trained(Mlp(), tmp_path, settings={"train.save_every": 256})
    older, newest = sorted((run.folder / "checkpoints").glob("step_*"))[-2:]
    right = run.weights(older.name)
    assert any(not torch.equal(right[name], tensor) for name, tensor in run.weights().items())
    state = newest / "state.safetensors"
    spoilt = bytearray(state.read_bytes())
    spoilt[-3] ^= 1
    state.write_bytes(spoilt)
    # as a resume takes it
    assert all(torch.equal(right[name], tensor) for name, tensor in run.weights().items())
    with pytest.raises(maglev.Error, match=newest.name):
        run.weights(newest.name)


class ByPixel(nn.Module):
    """Takes pictures as they lie, a pixel's channels beside each other."""

    def __init__(self):
        super().__init__()
        self.mean, self.value = nn.Linear(3 * 64 * 64, 1), nn.Linear(3 * 64 * 64, 1)

    def forward(self, obs):
        x = obs.permute(0, 2, 3, 1).view(obs.shape[0], -1)
        return self.mean(x), self.value(x)


def test_pictures_are_followed_as_the_engine_has_them(tmp_path):
    maglev.save_network(ByPixel(), tmp_path / "net.safetensors", "pendulum_pixels")


def test_pictures_statistics_as_they_are_and_deviations_are_the_modules(tmp_path):
    network = Pictures(3, 1).eval()
    settings = {"ppo.network.value_head": "popart", "env.count": 4}
    run = trained(network, tmp_path, "pendulum_pixels", settings)
    statistics = network.body[3].running_mean.clone()
    expect_the_modules_outputs(run, network, "pendulum_pixels")
    assert torch.equal(network.body[3].running_mean, statistics)


@pytest.mark.parametrize("fused", [False, True])
def test_the_engines_own_layers_from_the_same_weights_learn_the_same(fused, tmp_path):
    settings = {**QUICK, "ppo.fused": fused, "ppo.network.hidden": [64, 64], "train.log_every": 128, "threads": 1}
    begin = maglev.train("ppo", "cartpole", settings, bare=True, out=tmp_path / "begin", sinks=["jsonl"])
    saved = learned_by(begin)
    network = Mlp()
    names = {"fc0": 0, "fc1": 2}
    weights = heads_of(saved, "policy.4", "value.4")
    for part in ("policy", "value"):
        for layer, place in names.items():
            for kind in ("weight", "bias"):
                weights[f"{part}.{place}.{kind}"] = saved[f"{part}_trunk.{layer}_{kind}"]
    network.load_state_dict(weights)

    more = {**settings, **from_newest(begin)}
    ours = maglev.train("ppo", "cartpole", more, bare=True, out=tmp_path / "ours", sinks=["jsonl"])
    theirs = maglev.train(
        "ppo", "cartpole", settings, network=network, bare=True, out=tmp_path / "theirs", sinks=["jsonl"]
    )
    expect_learned_alike(theirs, ours)


def test_it_balances_with_the_proven_settings(tmp_path):
    result = subprocess.run(
        [sys.executable, HOME / "examples" / "python" / "own_network.py",
         "--steps", "200000", "--out", tmp_path / "run"],
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
        capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    judged = [
        float(line.split(": ")[1].split()[0]) for line in result.stdout.splitlines() if ": " in line and "." in line
    ][-2:]
    assert min(judged) >= 475, result.stdout


def test_a_run_is_whole_by_itself(tmp_path, engine):
    file = tmp_path / "net.safetensors"
    network = Residual()
    maglev.save_network(network, file, "cartpole")
    words = ["--bare", *(f"{name}={value}" for name, value in QUICK.items())]
    chosen = ["ppo.network.kind=exported", f"ppo.network.exported.file={file}"]
    whole = engine("train", "ppo", "cartpole", *words, *chosen, "train.steps=1024", "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    half = engine("train", "ppo", "cartpole", *words, *chosen, "--out", tmp_path / "half")
    assert half.returncode == 0, half.stderr
    # elsewhere, and its file gone
    file.unlink()
    shutil.move(tmp_path / "half", tmp_path / "moved")
    resumed = engine("train", "--resume", tmp_path / "moved", "train.steps=1024")
    assert resumed.returncode == 0, resumed.stderr

    def state(run):
        manifest = json.loads((max((run / "checkpoints").glob("step_*")) / "manifest.json").read_text())
        return {name: value for name, value in manifest["tensors"].items() if name.startswith("algo.network.policy")}

    assert state(tmp_path / "moved") == state(tmp_path / "whole") != {}
    judged = engine("eval", tmp_path / "moved", "--episodes", "3")
    assert judged.returncode == 0, judged.stderr
    policy = maglev.load(tmp_path / "moved")
    assert policy.act(torch.zeros(4)).shape == ()
    # what it computes is told apart, and stays
    other = tmp_path / "other.safetensors"
    tensors, metadata = read_tensors(tmp_path / "moved" / "network.safetensors")
    write_tensors(other, tensors, {key: text.replace("aten::relu", "aten::silu") for key, text in metadata.items()})
    refused = engine("train", "--resume", tmp_path / "moved", "train.steps=2048", f"ppo.network.exported.file={other}")
    assert "is what a new run begins with" in refused.stderr
    shutil.copy(other, tmp_path / "moved" / "network.safetensors")
    refused = engine("eval", tmp_path / "moved", "--episodes", "3")
    assert "computes something else" in refused.stderr


def test_a_policy_is_exported_as_others_are(tmp_path, engine):
    run = trained(Residual(), tmp_path)
    model = tmp_path / "policy.onnx"
    result = engine("export", run.folder, "--onnx", model)
    assert result.returncode == 0, result.stderr
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    session = onnxruntime.InferenceSession(str(model))
    out = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"vector": obs})))
    np.testing.assert_allclose(out["log_probs"], run.policy().log_probs(obs), rtol=1e-4, atol=1e-5)
    other = maglev.train("ppo", "cartpole", QUICK, network=Best(), out=tmp_path / "best", sinks=["jsonl"])
    result = engine("export", other.folder, "--onnx", tmp_path / "best.onnx")
    assert "aten::max has no counterpart in ONNX here" in result.stderr


class Branching(Mlp):
    def forward(self, obs):
        if obs.sum() > 0:
            return super().forward(obs)
        return super().forward(-obs)


class Dropping(Mlp):
    def forward(self, obs):
        return super().forward(nn.functional.dropout(obs, 0.5))


class Mixing(Mlp):
    def forward(self, obs):
        return super().forward((obs - obs.mean(0)) / (obs.std(0) + 1e-3))


class Hidden(Mixing):
    """Mixes rows behind last layers that begin at zero."""

    def __init__(self):
        super().__init__()
        for layer in (self.policy, self.value):
            last = layer if isinstance(layer, nn.Linear) else layer[-1]
            nn.init.zeros_(last.weight), nn.init.zeros_(last.bias)


class Noisy(Mlp):
    def forward(self, obs):
        return super().forward(obs + torch.randn_like(obs))


class Counting(Mlp):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, obs):
        return super().forward(self.norm(obs))


class Masked(Mlp):
    def forward(self, obs):
        logits, value = super().forward(obs)
        return logits + obs[obs[:, 0] > 0].sum(), value


class Bounded(Mlp):
    def forward(self, obs):
        return self.policy(obs), torch.tanh(self.value(obs))


class FirstRow(Mlp):
    def forward(self, obs):
        logits, value = super().forward(obs)
        return logits, value.unsqueeze(-1)[0]


class Alone(Mlp):
    def forward(self, obs):
        return self.policy(obs)


class Fixed(Mlp):
    def forward(self, obs):
        return super().forward(obs.view(7, 4))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Branching(), "torch.export cannot follow forward (test_own_network.py, line"),
        (Dropping(), "draws random numbers"),
        (Mixing(), "makes of a row something else where other rows are beside it"),
        (Hidden(), "makes of a row something else where other rows are beside it"),
        (Noisy(), "leave dropout out, or net.eval() (test_own_network.py, line"),
        (Counting(), "forward writes norm."),
        (Masked(), "test_own_network.py, line"),
        (Bounded(), "the value must come from a last torch.nn.Linear(F, 1)"),
        (Alone(), "forward must return two tensors"),
        (FirstRow(), "the value must be [rows] or [rows, 1], got [1]"),
        (Fixed(), "torch.export cannot follow forward"),
        (Mlp(outputs=3), "forward must return logits [rows, 2] first, got [rows, 3]"),
        (Mlp(inputs=5), "torch.export cannot follow forward"),
        (Mlp().double(), "is torch.float64; what is learned is float32, net.float() makes it so"),
        ("net.pt", "a network is a torch.nn.Module, got 'net.pt'"),
    ],
)
def test_what_cannot_be_trained_is_said_with_its_line(network, message, tmp_path):
    with pytest.raises(maglev.Error) as error:
        maglev.save_network(network, tmp_path / "net.safetensors", "cartpole")
    assert message in str(error.value)
    assert not (tmp_path / "net.safetensors").exists()


def test_a_file_is_replaced_where_that_is_asked_for(tmp_path):
    file, network = tmp_path / "net.safetensors", Mlp()
    maglev.save_network(Mlp(), file, "cartpole")
    before = file.read_bytes()
    with pytest.raises(maglev.Error, match="is there already; name another, or replace it by overwrite=True"):
        maglev.save_network(network, file, "cartpole")
    assert file.read_bytes() == before
    maglev.save_network(network, file, "cartpole", overwrite=True)
    assert torch.equal(read_tensors(file)[0]["value.0.weight"], network.value[0].weight)
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(maglev.Error, match="cannot be written: No such file"):
        maglev.save_network(network, tmp_path / "nowhere" / "net.safetensors", "cartpole")


def test_what_does_not_fit_a_run_is_said(tmp_path):
    with pytest.raises(maglev.Error, match="network= is for ppo"):
        maglev.train("tdmpc2", "pendulum", network=Mlp(3, 1))
    maglev.save_network(Mlp(), tmp_path / "net.safetensors", "cartpole")
    chosen = {"ppo.network.kind": "exported", "ppo.network.exported.file": tmp_path / "net.safetensors"}
    with pytest.raises(maglev.Error, match=r"takes rows of vector \[4\], this environment shows \[6\]"):
        maglev.train("ppo", "acrobot", {**QUICK, **chosen}, out=tmp_path / "other")
    with pytest.raises(maglev.Error, match="remembers nothing from step to step"):
        maglev.train("ppo", "cartpole", {**QUICK, **chosen, "ppo.network.memory": 8}, out=tmp_path / "memory")
    run = maglev.train("ppo", "cartpole", QUICK, out=tmp_path / "builtin", sinks=["jsonl"])
    with pytest.raises(maglev.Error, match="its network is the engine's own"):
        run.weights()


def test_seeds_begin_alike_or_with_weights_of_their_own(tmp_path):
    maglev.save_network(Mlp(), tmp_path / "net.safetensors", "cartpole")
    chosen = {
        "ppo.network.kind": "exported",
        "ppo.network.exported.file": tmp_path / "net.safetensors",
        "ppo.lr": 1e-12,
    }

    def weight(seed, weights):
        settings = {**QUICK, **chosen, "seed": seed, "ppo.network.exported.weights": weights}
        out = tmp_path / f"{weights}{seed}"
        return maglev.train("ppo", "cartpole", settings, out=out, sinks=["jsonl"]).weights()["policy.0.weight"]

    torch.testing.assert_close(weight(1, "given"), weight(2, "given"), rtol=0, atol=1e-6)
    assert not torch.allclose(weight(1, "drawn"), weight(2, "drawn"), atol=1e-2)


def test_tensor_files_are_those_of_the_format(tmp_path):
    from safetensors.torch import load_file, save_file

    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.tensor([True, False]), "d": torch.zeros(0, 2)}
    write_tensors(tmp_path / "ours", tensors, {"key": "text"})
    save_file(tensors, tmp_path / "theirs", {"key": "text"})
    for read in (
        load_file(tmp_path / "ours"),
        read_tensors(tmp_path / "ours")[0],
        read_tensors(tmp_path / "theirs")[0],
    ):
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    assert read_tensors(tmp_path / "theirs")[1] == {"key": "text"}
