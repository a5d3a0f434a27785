"""What runs on networks written in Python are asked by several tests."""

import numpy as np


def newest_checkpoint(run):
    return max((run.folder / "checkpoints").glob("step_*"))


def losses(run):
    return [
        [row[name] for name in ("loss/policy", "loss/value", "loss/entropy", "loss/approx_kl")]
        for row in run.rows()
        if row.get("loss/value") is not None
    ]


def expect_learned_alike(theirs, ours):
    assert len(losses(ours)) >= 3
    np.testing.assert_allclose(losses(theirs), losses(ours), rtol=2e-3, atol=2e-5)
