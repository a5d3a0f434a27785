"""What runs on networks written in Python are asked by several tests."""

import numpy as np


def newest_checkpoint(run):
    return max((run.folder / "checkpoints").glob("step_*"))


def learned_by(run):
    """What its network has learned, by the engine's names."""
    # the package is where the test that asks has put it
    from maglev.tensor_files import read_tensors

    saved, _ = read_tensors(newest_checkpoint(run) / "state.safetensors")
    return {name.removeprefix("algo.network."): tensor for name, tensor in saved.items()}


def heads_of(learned, policy="policy", value="value"):
    """The last layers, by the names of a module's own."""
    heads = {}
    for kind in ("weight", "bias"):
        heads[f"{policy}.{kind}"] = learned[f"policy_{kind}"]
        heads[f"{value}.{kind}"] = learned[f"value_head.{kind}"]
    return heads


def from_newest(run):
    """The setting by which another run begins with what it has learned."""
    return {"train.init_from": f"{run.folder}@{newest_checkpoint(run).name}"}


def losses(run):
    return [
        [row[name] for name in ("loss/policy", "loss/value", "loss/entropy", "loss/approx_kl")]
        for row in run.rows()
        if row.get("loss/value") is not None
    ]


def expect_learned_alike(theirs, ours):
    assert len(losses(ours)) >= 3
    np.testing.assert_allclose(losses(theirs), losses(ours), rtol=2e-3, atol=2e-5)
