"""maglev export --int8: models whose large products are in 8 bits, which onnxruntime runs nearly as the policy acts."""

import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import BUILD, HOME
from test_export import train

PYTHON = {"MAGLEV_ONNX_PYTHON": sys.executable}
PPO = ["ppo", "env.count=8", "ppo.rollout=32", "train.steps=2048"]
# name: algorithm and settings, environment, how many products are in 8 bits
KINDS = {
    "categories": ([*PPO, "ppo.network.hidden=[128,128]"], "cartpole", 2),
    "numbers": ([*PPO, "ppo.network.hidden=[160,128]", "ppo.network.activation=silu"], "pendulum", 2),
    "tdmpc2": (
        [
            *("tdmpc2", "env.count=4", "train.steps=600", "tdmpc2.seed_steps=200", "tdmpc2.updates_per_step=0.1"),
            *("tdmpc2.enc_dim=128", "tdmpc2.mlp_dim=128", "tdmpc2.latent_dim=128", "tdmpc2.num_q=2"),
            *("tdmpc2.samples=32", "tdmpc2.elites=8", "tdmpc2.policy_trajectories=4", "tdmpc2.iterations=2"),
            "tdmpc2.batch=32",
        ],
        *("pendulum", 3),
    ),
    # blocks of weights, and a memory
    "dreamer": (
        [
            *("dreamer", "env.count=4", "train.steps=400", "dreamer.deter=512", "dreamer.hidden=128"),
            *("dreamer.stoch=8", "dreamer.classes=8", "dreamer.depth=2", "dreamer.units=128"),
            *("dreamer.imagination=8", "dreamer.batch=8", "dreamer.length=16", "dreamer.warmup=10"),
        ],
        *("pendulum", None),
    ),
}


def export(engine, run, *words):
    done = engine("export", run, *words, env=PYTHON)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ports(model):
    return [[(port.name, str(port.type)) for port in side] for side in (model.graph.input, model.graph.output)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_in_8_bits_does_nearly_what_the_policy_does(kind, engine, tmp_path):
    words, env, products = KINDS[kind]
    folder = tmp_path / "run"
    train(engine, folder, words, env)
    export(engine, folder)
    told = export(engine, folder, "--int8", "--check")
    assert "as far as 8 bits go" in told, told
    # it plays where the engine's Python module is there
    module = any((BUILD / "python").glob("_engine*"))
    assert ("return of the model: " if module else "plays is not known") in told, told

    plain, model = (onnx.load(folder / name) for name in ("policy.onnx", "policy_int8.onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert ports(model) == ports(plain) and [o.version for o in model.opset_import] == [17]
    assert {"precision": "int8"}.items() <= {entry.key: entry.value for entry in model.metadata_props}.items()
    made = [node for node in model.graph.node if node.op_type == "MatMulInteger"]
    # reasons that nothing stays in f32 by are not told
    (line,) = (line for line in told.splitlines() if line.startswith("8 bits: "))
    assert line.startswith(f"8 bits: {len(made)} of ") and len(made) == (products or len(made)) > 0
    assert "of those in f32 " in line and " 0 " not in line and "convolutions" not in line
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    for node in made:
        assert weights[node.input[1]].dtype == np.int8 and np.abs(weights[node.input[1]]).max() == 64
    assert len(model.SerializeToString()) < 0.75 * len(plain.SerializeToString())


@pytest.fixture(scope="module")
def checked(engine, tmp_path_factory):
    """A model in 8 bits, and samples of its policy."""
    folder = tmp_path_factory.mktemp("int8") / "run"
    train(engine, folder, *KINDS["categories"][:2])
    export(engine, folder, "--int8", "--samples", folder / "samples.safetensors")
    return folder / "policy_int8.onnx", folder / "samples.safetensors"


def check(model, samples, *more):
    words = [sys.executable, HOME / "verbs" / "export_" / "check.py", model, samples, *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def scaled(graph, weights):
    scale = next(w for w in graph.initializer if w.name == weights.name + "_scale")
    scale.raw_data = (onnx.numpy_helper.to_array(scale) * 1.5).tobytes()


def turned(graph, weights):
    weights.raw_data = np.ascontiguousarray(onnx.numpy_helper.to_array(weights).T).tobytes()


def without_zero(graph, weights):
    node = next(node for node in graph.node if weights.name in node.input)
    del node.input[2]


@pytest.mark.parametrize("fault", [scaled, turned, without_zero])
def test_what_8_bits_do_not_explain_is_found(fault, checked, tmp_path):
    sound, samples = checked
    code, told = check(sound, samples)
    assert code == 0 and "as far as 8 bits go" in told, told
    model = onnx.load(sound)
    weights = next(w for w in model.graph.initializer if re.search(r"policy_trunk.*_int8$", w.name))
    fault(model.graph, weights)
    onnx.save(model, tmp_path / "faulty.onnx")
    code, told = check(tmp_path / "faulty.onnx", samples)
    assert code == 1 and "farther from the policy than 8 bits explain" in told, told


def test_a_model_that_plays_worse_is_told(checked):
    if not any((BUILD / "python").glob("_engine*")):
        pytest.skip("the engine's Python module is not built")
    # of a policy that balances for ever
    code, told = check(*checked, ",".join(["500"] * 100))
    assert code == 1 and "plays worse" in told, told


def test_a_row_is_the_same_in_any_optimisation(checked):
    """What onnxruntime makes one operation of is what the operations say."""
    model, _ = checked
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    rows = {"vector": np.random.default_rng(1).standard_normal((64, 4)).astype(np.float32)}
    fused, unfused = (
        onnxruntime.InferenceSession(model, options).run(["log_probs"], rows)[0] for options in (None, plain)
    )
    np.testing.assert_allclose(fused, unfused, atol=1e-6)


def test_a_small_network_is_left_as_it_is(engine, tmp_path):
    train(engine, tmp_path / "run", PPO, "cartpole")
    done = engine("export", tmp_path / "run", "--int8")
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "of 6 products 6 are smaller; leave out --int8" in done.stderr
    assert not (tmp_path / "run" / "policy_int8.onnx").exists()
