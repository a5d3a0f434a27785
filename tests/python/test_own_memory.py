"""Networks written in Python that remember from step to step: maglev.train(network=...) of a forward with a memory."""

import json
import os
import sys
import sysconfig
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from conftest import BUILD, HOME
from own_runs import expect_learned_alike, from_newest, heads_of, learned_by, newest_checkpoint
from torch import nn

if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402

BLIND = {"env.velocities": False}
QUICK = {
    **BLIND,
    "env.count": 6,
    "ppo.rollout": 16,
    "ppo.sequence": 8,
    "ppo.minibatch": 48,
    "ppo.epochs": 2,
    "train.steps": 384,
    "seed": 3,
}


class Cell(nn.Module):
    """A recurrent layer behind one layer of both, heads on what it gives."""

    memory_size = 24

    def __init__(self, kind="gru_cell"):
        super().__init__()
        self.kind = kind
        self.body = nn.Linear(2, 16)
        layers = {"gru_cell": nn.GRUCell, "lstm_cell": nn.LSTMCell, "gru": nn.GRU, "lstm": nn.LSTM}
        units = 12 if "lstm" in kind else 24
        self.cell = layers[kind](16, units)
        self.policy, self.value = nn.Linear(units, 2), nn.Linear(units, 1)

    def remember(self, x, memory):
        """(what heads see, the next memory)."""
        if self.kind == "gru_cell":
            h = self.cell(x, memory)
            return h, h
        if self.kind == "lstm_cell":
            h, c = self.cell(x, memory.chunk(2, -1))
            return h, torch.cat([h, c], -1)
        if self.kind == "gru":
            out, h = self.cell(x.unsqueeze(0), memory.unsqueeze(0))
            return out.squeeze(0), h.squeeze(0)
        h, c = (part.contiguous() for part in memory.unsqueeze(0).chunk(2, -1))
        out, (h, c) = self.cell(x.unsqueeze(0), (h, c))
        return out.squeeze(0), torch.cat([h[0], c[0]], -1)

    def forward(self, obs, memory):
        seen, memory = self.remember(torch.tanh(self.body(obs)), memory)
        return self.policy(seen), self.value(seen).squeeze(-1), memory


class Ours(nn.Module):
    """The engine's own layers and cells, a memory each of policy and value (engine/nn/cell.h)."""

    memory_size = 16

    def __init__(self):
        super().__init__()
        for part in ("policy", "value"):
            self.add_module(f"{part}_body", nn.Linear(2, 20))
            self.add_module(f"{part}_seen", nn.Linear(20, 24))
            self.add_module(f"{part}_past", nn.Linear(8, 24, bias=False))
        self.policy, self.value = nn.Linear(8, 2), nn.Linear(8, 1)

    def part(self, name, obs, h):
        body, seen, past = (self.get_submodule(f"{name}_{layer}") for layer in ("body", "seen", "past"))
        reset, candidate, update = (seen(torch.tanh(body(obs))) + past(h)).chunk(3, -1)
        update = torch.sigmoid(update - 1)
        return update * torch.tanh(torch.sigmoid(reset) * candidate) + (1 - update) * h

    def forward(self, obs, memory):
        policy, value = memory.chunk(2, -1)
        policy, value = self.part("policy", obs, policy), self.part("value", obs, value)
        return self.policy(policy), self.value(value).squeeze(-1), torch.cat([policy, value], -1)


def trained(network, out, settings=None, **options):
    torch.manual_seed(5)
    return maglev.train(
        "ppo", "cartpole", {**QUICK, **(settings or {})}, network=network, bare=True, out=out, sinks=["jsonl"], **options
    )


def state(run):
    return json.loads((newest_checkpoint(run) / "manifest.json").read_text())["tensors"]


@pytest.mark.parametrize("kind", ["gru_cell", "lstm_cell", "gru", "lstm"])
def test_it_remembers_from_call_to_call_as_the_module_does(kind, tmp_path):
    network = Cell(kind)
    before = {name: tensor.clone() for name, tensor in network.named_parameters()}
    run = trained(network, tmp_path / "run")
    network.load_state_dict(run.weights())
    assert all(not torch.equal(before[name], tensor) for name, tensor in network.named_parameters())
    policy = run.policy()
    envs = maglev.make("cartpole", 5, BLIND, seed=2)
    obs, info = envs.reset()
    memory, begun = torch.zeros(5, network.memory_size), 0
    with torch.no_grad():
        for step in range(60):
            begun += int(info["is_first"].sum()) if step else 0
            logits, _, memory = network(obs, memory * ~info["is_first"].unsqueeze(-1))
            action = policy.act(obs, info)
            apart = (logits[:, 0] - logits[:, 1]).abs() > 1e-4
            assert torch.equal(action[apart], logits.argmax(-1)[apart])
            obs, *_, info = envs.step(envs.sample())
    assert begun > 0, "episodes begin on the way"
    # an observation alone does not say
    assert policy.log_probs(obs) is None and policy.value(obs) is None
    assert run.evaluate(episodes=4)["episodes"] == 4


@pytest.mark.parametrize("fused", [False, True])
def test_the_engines_own_cells_from_the_same_weights_learn_the_same(fused, tmp_path):
    settings = {"ppo.fused": fused, "train.log_every": 96, "threads": 1, "ppo.network.hidden": [20]}
    own = {"ppo.network.memory": 8}
    begin = trained(None, tmp_path / "begin", {**settings, **own})
    saved = learned_by(begin)
    network = Ours()
    weights = heads_of(saved)
    for part in ("policy", "value"):
        for kind in ("weight", "bias"):
            weights[f"{part}_body.{kind}"] = saved[f"{part}_trunk.fc0_{kind}"]
        weights[f"{part}_seen.weight"] = saved[f"{part}_cell.input_weight"]
        weights[f"{part}_seen.bias"] = saved[f"{part}_cell.bias"]
        weights[f"{part}_past.weight"] = saved[f"{part}_cell.memory_weight"]
    network.load_state_dict(weights)

    ours = trained(None, tmp_path / "ours", {**settings, **own, **from_newest(begin)})
    theirs = trained(network, tmp_path / "theirs", settings)
    expect_learned_alike(theirs, ours)


def test_a_run_is_the_same_of_any_threads_and_continues_to_the_bit(tmp_path):
    whole = trained(Cell(), tmp_path / "whole", {"train.steps": 768, "threads": 1})
    half = trained(Cell(), tmp_path / "half", {"threads": 2})
    assert state(half) != state(whole)
    resumed = maglev.resume(half, {"train.steps": 768}, sinks=["jsonl"])
    assert state(resumed) == state(whole)


def test_a_policy_is_exported_with_its_memory(tmp_path, engine):
    run = trained(Cell("lstm_cell"), tmp_path / "run")
    model = tmp_path / "policy.onnx"
    result = engine("export", run.folder, "--onnx", model)
    assert result.returncode == 0, result.stderr
    network = Cell("lstm_cell")
    network.load_state_dict(run.weights())
    session = onnxruntime.InferenceSession(str(model))
    names = [output.name for output in session.get_outputs()]
    inputs = {entry.name for entry in session.get_inputs()}
    assert {"is_first", "carry_memory"} <= inputs
    observed = (inputs - {"is_first", "carry_memory"}).pop()
    carried = memory = torch.zeros(3, 24)
    for step in range(4):
        obs = torch.linspace(-1, 1 + step, 6).reshape(3, 2)
        first = torch.tensor([step == 0, step == 2, False])
        given = {observed: obs.numpy(), "is_first": first.numpy().astype(np.uint8), "carry_memory": np.asarray(carried)}
        out = dict(zip(names, session.run(None, given)))
        with torch.no_grad():
            logits, value, memory = network(obs, memory * ~first.unsqueeze(-1))
        np.testing.assert_allclose(out["log_probs"], logits.log_softmax(-1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(out["value"], value, rtol=1e-4, atol=1e-5)
        carried = out["next_carry_memory"]
        np.testing.assert_allclose(carried, memory, rtol=1e-4, atol=1e-5)


class Sized(Cell):
    memory_size = None


class Short(Cell):
    def forward(self, obs, memory):
        return super().forward(obs, memory)[:2]


class Other(Cell):
    def forward(self, obs, memory):
        logits, value, memory = super().forward(obs, memory)
        return logits, value, memory[:, :5]


class Dropping(Cell):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(16, 12, num_layers=2, dropout=0.5)

    def remember(self, x, memory):
        out, h = self.cell(x.unsqueeze(0), torch.stack(memory.chunk(2, -1)))
        return torch.cat([out[0], out[0]], -1), torch.cat([h[0], h[1]], -1)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Sized(), "say how many numbers of a row it remembers, as its memory_size; it has none"),
        (Short(), "forward must return three tensors, (logits or means, value, memory)"),
        (Other(), "forward must return a memory [rows, 24] third, as it takes one, got [rows, 5]"),
        (Dropping(), "forward draws random numbers"),
    ],
)
def test_what_cannot_be_trained_is_said(network, message, tmp_path):
    with pytest.raises(maglev.Error) as error:
        maglev.save_network(network, tmp_path / "net.safetensors", "cartpole", BLIND)
    assert message in str(error.value)


def test_what_it_remembers_the_module_says_and_a_command_repeats(tmp_path, engine):
    with pytest.raises(maglev.Error, match="remembers 24 numbers a row, ppo.network.memory is 8; leave that out"):
        trained(Cell(), tmp_path / "run", {"ppo.network.memory": 8})
    file = tmp_path / "net.safetensors"
    maglev.save_network(Cell(), file, "cartpole", BLIND)
    words = [f"{name}={str(value).lower()}" for name, value in QUICK.items()]
    chosen = ["ppo.network.kind=exported", f"ppo.network.exported.file={file}"]
    refused = engine("train", "ppo", "cartpole", "--bare", *words, *chosen, "--out", tmp_path / "cli")
    assert "give ppo.network.memory=24" in refused.stderr
    done = engine("train", "ppo", "cartpole", "--bare", *words, *chosen, "ppo.network.memory=24", "--out", tmp_path / "cli")
    assert done.returncode == 0, done.stderr
    sequence = engine("train", "ppo", "cartpole", "--bare", *words, *chosen, "ppo.network.memory=24", "ppo.sequence=5",
                      "--out", tmp_path / "other")  # fmt: skip
    assert "a divisor of ppo.rollout=16, got 5" in sequence.stderr
