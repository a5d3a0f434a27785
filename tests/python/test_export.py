"""maglev export: models that ONNX's own checker takes and onnxruntime runs as the policy acts."""

import importlib
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import HOME

# what --check runs the model by
PYTHON = {"MAGLEV_ONNX_PYTHON": sys.executable}

PPO = ["ppo", "env.count=8", "ppo.rollout=16", "train.steps=512"]
TDMPC2 = [
    *("tdmpc2", "env.count=4", "train.steps=600", "tdmpc2.seed_steps=200", "tdmpc2.updates_per_step=0.1"),
    *("tdmpc2.enc_dim=32", "tdmpc2.mlp_dim=32", "tdmpc2.latent_dim=32", "tdmpc2.num_q=2", "tdmpc2.samples=32"),
    *("tdmpc2.elites=8", "tdmpc2.policy_trajectories=4", "tdmpc2.iterations=2", "tdmpc2.batch=32"),
]
DREAMER = [
    *("dreamer", "env.count=4", "train.steps=400", "dreamer.deter=64", "dreamer.hidden=32", "dreamer.stoch=8"),
    *("dreamer.classes=8", "dreamer.depth=2", "dreamer.units=32", "dreamer.imagination=8", "dreamer.batch=8"),
    *("dreamer.length=16", "dreamer.warmup=10"),
]
CARRY = {"is_first", "noise", "carry_deter", "carry_stoch", "carry_action"}
NEXT = {"next_carry_deter", "next_carry_stoch", "next_carry_action"}
# name: algorithm and settings, environment, inputs, outputs besides the action
KINDS = {
    "normalised": (
        [*PPO, "ppo.network.normalize_obs=true"],
        *("cartpole", {"vector"}, {"log_probs", "value"}),
    ),
    "continuous_popart": (
        [*PPO, "ppo.network.normalize_obs=true", "ppo.network.value_head=popart"],
        *("pendulum", {"vector"}, {"mean", "log_std", "value"}),
    ),
    "shared_silu": (
        [*PPO, "ppo.network.shared=true", "ppo.network.activation=silu", "ppo.network.critic_hidden=[16]"],
        *("acrobot", {"vector"}, {"log_probs", "value"}),
    ),
    "pictures_strided": (
        [*PPO, "ppo.network.cnn.channels=[16,32]", "ppo.network.cnn.kernels=[8,4]", "ppo.network.cnn.strides=[4,2]"],
        *("cartpole_pixels", {"image"}, {"log_probs", "value"}),
    ),
    "pictures_unpadded": (
        [*PPO, "ppo.network.activation=relu", "ppo.network.hidden=[32]", "ppo.network.cnn.channels=[8,16,16]", "ppo.network.cnn.paddings=[0,0,0]"],
        *("cartpole_pixels", {"image"}, {"log_probs", "value"}),
    ),
    "image_relu": (
        [*PPO, "ppo.network.activation=relu", "ppo.network.cnn.channels=[16]"],
        *("minatar_breakout", {"image"}, {"log_probs", "value"}),
    ),
    # the critic sees more than the policy: the value is left out, and with it what only critics are shown
    "cells_privileged": ([*PPO, "ppo.network.hidden=[32]"], "goodhart", {"window"}, {"log_probs"}),
    "cells_mlp": ([*PPO, "ppo.network.kind=mlp"], "goodhart", {"window"}, {"log_probs"}),
    "bf16": ([*PPO, "train.precision=bf16"], "cartpole", {"vector"}, {"log_probs", "value"}),
    "masked": ([*PPO], "corridor", {"vector", "action_mask"}, {"log_probs", "value"}),
    # networks of others
    "residual": ([*PPO, "ppo.network.kind=residual"], "cartpole", {"vector"}, {"log_probs", "value"}),
    "gated": ([*PPO, "ppo.network.kind=gated"], "cartpole", {"vector"}, {"log_probs", "value"}),
    "proof": (
        [*PPO, "ppo.network.kind=proof", "ppo.network.proof.embedding=20", "ppo.network.proof.width=32"],
        *("kg", {"state", "successors", "action_mask"}, {"log_probs", "value"}),
    ),
    "proof_by_attention": (
        [*PPO, "ppo.network.kind=proof", "ppo.network.proof.embedding=20", "ppo.network.proof.goals=transformer"],
        *("kg", {"state", "successors", "action_mask"}, {"log_probs", "value"}),
    ),
    "tdmpc2": (TDMPC2, "pendulum", {"vector"}, {"mean", "log_std"}),
    "tdmpc2_tasks": (
        [*TDMPC2, "env.tasks=true", "tdmpc2.task_dim=8"],
        *("points", {"vector", "task"}, {"mean", "log_std"}),
    ),
    "tdmpc2_pictures": (TDMPC2, "pendulum_pixels", {"image"}, {"mean", "log_std"}),
    "dreamer": (DREAMER, "pendulum", {"vector"} | CARRY, {"mean", "log_std"} | NEXT),
    "dreamer_categories": (DREAMER, "cartpole", {"vector"} | CARRY, {"log_probs"} | NEXT),
    "dreamer_pictures": (DREAMER, "pendulum_pixels", {"image"} | CARRY, {"mean", "log_std"} | NEXT),
    "dreamer_filled_pictures": (DREAMER, "minatar_breakout", {"image"} | CARRY, {"log_probs"} | NEXT),
}


def train(run, folder, words, env):
    algo, *settings = words
    done = run("train", algo, env, "--bare", "--sinks", "jsonl", "--out", folder, *settings)
    assert done.returncode == 0, done.stderr


def names(ports):
    return {port.name for port in ports}


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_does_what_the_policy_does(kind, examples, tmp_path):
    words, env, inputs, outputs = KINDS[kind]
    train(examples, tmp_path / "run", words, env)
    done = examples("export", tmp_path / "run", "--check", env=PYTHON)
    assert done.returncode == 0, done.stdout + done.stderr
    # 10,240 steps and more of every output
    counted = re.findall(r"^(\w+) +(\d+) ", done.stdout.split("output  ")[-1], re.M)
    assert {name for name, _ in counted} == outputs | {"action"}, done.stdout
    assert all(int(rows) >= 10_000 for _, rows in counted), done.stdout

    model = onnx.load(tmp_path / "run" / "policy.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert names(model.graph.input) == inputs and names(model.graph.output) == outputs | {"action"}
    assert model.ir_version == 8 and [o.version for o in model.opset_import] == [17]
    for port in [*model.graph.input, *model.graph.output]:
        assert port.type.tensor_type.shape.dim[0].dim_param == "batch", port.name
    about = {entry.key: entry.value for entry in model.metadata_props}
    assert about["algorithm"] == words[0] and about["environment"] == env and int(about["step"]) > 0


@pytest.fixture(scope="module")
def run(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "run"
    train(engine, folder, [*PPO, "ppo.network.normalize_obs=true"], "cartpole")
    return folder


def test_a_policy_plays_by_the_model_alone(run, engine, tmp_path):
    """docs/exporting.md's example."""
    model = tmp_path / "policy.onnx"
    assert engine("export", run, "--onnx", model).returncode == 0
    example = re.search(r"```python\n(.*?)```", (HOME / "docs" / "exporting.md").read_text(), re.S)[1]
    done = subprocess.run(
        [sys.executable, "-c", example.replace("policy.onnx", str(model))],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0, done.stdout


def test_samples_are_what_the_policy_saw_and_did(run, engine, tmp_path):
    from safetensors.numpy import load_file

    model, file = tmp_path / "policy.onnx", tmp_path / "samples.safetensors"
    done = engine("export", run, "--onnx", model, "--samples", file)
    assert done.returncode == 0, done.stderr
    samples = load_file(file)
    assert samples["input/vector"].shape == (320, 32, 4) and samples["output/action"].shape == (320, 32, 1)
    # cart-pole moves on: the samples are of play, and the policy of its last step
    assert np.ptp(samples["input/vector"], axis=0).min() > 0
    session = onnxruntime.InferenceSession(model)
    value = session.run(["value"], {"vector": samples["input/vector"][7]})[0]
    np.testing.assert_allclose(value, samples["output/value"][7], atol=1e-5)


def test_a_model_of_other_weights_is_found_out(run, engine, tmp_path):
    model, file = tmp_path / "policy.onnx", tmp_path / "samples.safetensors"
    assert engine("export", run, "--onnx", model, "--samples", file).returncode == 0
    check = [sys.executable, HOME / "verbs" / "export_" / "check.py", model, file]
    assert subprocess.run(check, timeout=600, check=False).returncode == 0
    changed = onnx.load(model)
    weights = next(w for w in changed.graph.initializer if w.name.endswith("policy_trunk.fc0_weight"))
    numbers = onnx.numpy_helper.to_array(weights).copy()
    numbers[0, 0] += 1e-2
    weights.raw_data = numbers.tobytes()
    onnx.save(changed, model)
    done = subprocess.run(check, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1 and "is not the policy: log_probs" in done.stdout, done.stdout


def test_of_models_that_amplify_rounding_most_rows_are_near_and_none_is_far(monkeypatch):
    monkeypatch.syspath_prepend(str(HOME / "verbs" / "export_"))
    check = importlib.import_module("check")

    def alike(amplified, far, rows=1000, of=1000):
        found = check.Compared([], amplified)
        ours = {"action": np.zeros((of, 2), "f4")}
        theirs = {"action": np.zeros((of, 2), "f4")}
        theirs["action"][:rows] = far
        found.add(ours, theirs)
        return found.alike("action")

    assert alike(False, 0.9e-5) and not alike(False, 2e-5, rows=1)
    # rounding moves many rows a little
    assert alike(True, 9e-5) and not alike(True, 2e-4)
    assert alike(True, 9e-4, rows=10) and not alike(True, 9e-4, rows=11)
    assert not alike(True, 2e-3, rows=1)


def test_a_checkpoint_by_name(run, engine, tmp_path):
    first = sorted(path.name for path in run.glob("checkpoints/step_*"))[0]
    done = engine("export", f"{run}@{first}", "--onnx", tmp_path / "first.onnx")
    assert done.returncode == 0 and first in done.stdout, done.stderr
    model = onnx.load(tmp_path / "first.onnx")
    step = next(entry.value for entry in model.metadata_props if entry.key == "step")
    assert int(step) == int(first.removeprefix("step_")) > 0


def test_mistakes_are_told_in_a_line(run, engine, tmp_path):
    def refusal(*words, **options):
        done = engine("export", *words, **options)
        assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr

    there = tmp_path / "there.onnx"
    there.write_text("mine")
    assert "--overwrite" in refusal(run, "--onnx", there) and there.read_text() == "mine"
    assert "ends in .onnx, got x.pt" in refusal(run, "--onnx", "x.pt", cwd=tmp_path)
    assert not (tmp_path / "x.pt").exists()
    assert "nowhere" in refusal(tmp_path / "nowhere")
    assert "only env.*" in refusal(run, "ppo.lr=1", "--onnx", tmp_path / "x.onnx")
    python = tmp_path / "python"
    checked = ["--onnx", there, "--overwrite", "--check"]
    assert "cannot be started" in refusal(run, *checked, env={"MAGLEV_ONNX_PYTHON": str(python)})
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    assert "pip install onnxruntime" in refusal(run, *checked, env={"MAGLEV_ONNX_PYTHON": str(python)})
    python.write_text("#!/bin/sh\nexit 4\n")
    assert "broke off" in refusal(run, *checked, env={"MAGLEV_ONNX_PYTHON": str(python)})


def test_nothing_is_written_where_the_check_cannot_run(run, engine, tmp_path):
    model, python = tmp_path / "policy.onnx", tmp_path / "python"
    words = ("export", run, "--onnx", model, "--check")
    assert "cannot be started" in engine(*words, env={"MAGLEV_ONNX_PYTHON": "/nope"}).stderr
    for status, said in ((1, "broke off"), (3, "pip install onnxruntime")):
        python.write_text(f"#!/bin/sh\nexit {status}\n")
        python.chmod(0o755)
        done = engine(*words, env={"MAGLEV_ONNX_PYTHON": str(python)})
        assert done.returncode == 2 and said in done.stderr and not model.exists(), done.stderr
    # so that the same command may be given again
    assert engine(*words, env=PYTHON).returncode == 0 and model.exists()


def test_samples_never_replace_their_model(run, engine, tmp_path):
    (tmp_path / "link.onnx").symlink_to("policy.onnx")
    (tmp_path / "folder").symlink_to(tmp_path)
    for other in ("policy.onnx", tmp_path / "policy.onnx", "./policy.onnx", "link.onnx", "folder/policy.onnx"):
        done = engine("export", run, "--onnx", "policy.onnx", "--samples", other, cwd=tmp_path)
        assert done.returncode == 2 and "--samples would replace the model" in done.stderr, done.stderr
        assert not (tmp_path / "policy.onnx").exists()
    # nor the one in the run's folder, whose name nobody gave
    done = engine("export", run, "--samples", run / "policy.onnx")
    assert done.returncode == 2 and "--samples would replace the model" in done.stderr, done.stderr


def test_a_link_stays_and_what_it_points_at_is_written(run, engine, tmp_path):
    link, model, round_ = (tmp_path / name for name in ("link.onnx", "model.onnx", "round.onnx"))
    link.symlink_to("model.onnx")
    for more in ((), ("--overwrite",)):
        done = engine("export", run, "--onnx", link, *more)
        assert done.returncode == 0 and str(model) in done.stdout, done.stderr
        assert link.is_symlink() and not model.is_symlink()
        onnx.load(model)
    round_.symlink_to(round_)
    done = engine("export", run, "--onnx", round_)
    assert done.returncode == 2 and "leads round to itself" in done.stderr, done.stderr


def test_a_checkpoint_that_is_not_there_comes_before_a_model_that_is(run, engine, tmp_path):
    model = tmp_path / "policy.onnx"
    model.write_text("mine")
    for name in (model, run / "policy.onnx"):
        done = engine("export", f"{run}@nope", "--onnx", name)
        assert done.returncode == 2 and "unknown checkpoint 'nope'" in done.stderr, done.stderr


def test_an_algorithm_whose_policy_is_no_function_of_tensors_is_told_so(examples, tmp_path):
    train(examples, tmp_path / "run", ["reinforce", "train.steps=256", "env.count=4"], "corridor")
    done = examples("export", tmp_path / "run")
    assert done.returncode == 2 and "cannot be exported" in done.stderr, done.stderr
    assert not (tmp_path / "run" / "policy.onnx").exists()
