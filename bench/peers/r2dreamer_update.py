"""One update of Dreamer V3 by r2dreamer's PyTorch code, from a checkout, eager on the processor.

    r2dreamer_update.py --repo DIR --threads N [--pixels] [--loss dreamer] [--repeats 5]

The published model of 1 million parameters (size1m), 16 sequences of 64 steps, 6 continuous actions,
pictures of 64 x 64 x 3 or vectors of 24. Its files are left alone; what it would autocast to float16
is computed in float32, as a processor without it does fastest. The batch is ready made, what the
replay would take back is dropped. Prints one JSON object: wall and processor milliseconds, the least
and the median of --repeats calls after a warm-up.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from pathlib import Path

import torch
from omegaconf import OmegaConf
from tensordict import TensorDict

BATCH, LENGTH, ACTIONS, VECTOR, SIDE = 16, 64, 6, 24, 64
SIZE_1M = {"deter": 512, "hidden": 64, "discrete": 4, "depth": 4, "units": 64}
WARM_UP = 2


class Space:
    """What it asks of a space: a shape, or the spaces within."""

    def __init__(self, shape=None, spaces=None):
        self.shape, self.spaces = shape, spaces


class Batch:
    """A replay that always gives the same sequences."""

    def __init__(self, data, initial):
        self.data, self.initial = data, initial

    def sample(self):
        return self.data.clone(), None, self.initial

    def update(self, index, stoch, deter):
        pass


def config(repo: Path, pixels: bool, loss: str):
    """The model's settings at size1m."""
    base = OmegaConf.load(repo / "configs" / "model" / "_base_.yaml")
    seen = {"mlp_keys": "$^", "cnn_keys": "image"} if pixels else {"mlp_keys": ".*", "cnn_keys": "$^"}
    whole = {
        "device": "cpu",
        "env": {"encoder": seen, "decoder": seen},
        "model": OmegaConf.merge(base, SIZE_1M, {"act": "SiLU", "norm": True}),
    }
    whole = OmegaConf.create(whole)
    whole.model.compile, whole.model.rep_loss = False, loss
    OmegaConf.resolve(whole)
    return whole.model


def batch(pixels: bool) -> Batch:
    shape = (BATCH, LENGTH)
    if pixels:
        seen = {"image": torch.randint(0, 256, (*shape, SIDE, SIDE, 3), dtype=torch.uint8)}
    else:
        seen = {"vector": torch.randn(*shape, VECTOR)}
    data = TensorDict(
        {
            **seen,
            "action": 2 * torch.rand(*shape, ACTIONS) - 1,
            "reward": torch.randn(*shape, 1),
            "is_first": torch.rand(*shape) < 0.01,
            "is_last": torch.zeros(*shape, 1, dtype=torch.bool),
            "is_terminal": torch.zeros(*shape, 1, dtype=torch.bool),
        },
        batch_size=shape,
    )
    stoch = torch.zeros(BATCH, 32, SIZE_1M["discrete"])
    return Batch(data, (stoch, torch.zeros(BATCH, SIZE_1M["deter"])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--pixels", action="store_true")
    parser.add_argument("--loss", default="dreamer", choices=("dreamer", "r2dreamer"))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if not (arguments.repo / "rssm.py").is_file():
        raise SystemExit(f"r2dreamer_update: {arguments.repo} is no checkout of NM512/r2dreamer")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    sys.path.insert(0, str(arguments.repo))
    import dreamer

    dreamer.autocast = lambda **_: contextlib.nullcontext()
    shape = (SIDE, SIDE, 3) if arguments.pixels else (VECTOR,)
    name = "image" if arguments.pixels else "vector"
    with contextlib.redirect_stdout(sys.stderr):
        agent = dreamer.Dreamer(
            config(arguments.repo, arguments.pixels, arguments.loss),
            Space(spaces={name: Space(shape)}),
            Space((ACTIONS,)),
        )
    replay = batch(arguments.pixels)
    wall, processor = [], []
    for call in range(WARM_UP + arguments.repeats):
        starts = time.perf_counter(), time.process_time()
        agent.update(replay)
        if call >= WARM_UP:
            wall.append(1e3 * (time.perf_counter() - starts[0]))
            processor.append(1e3 * (time.process_time() - starts[1]))
    print(
        json.dumps(
            {
                "case": name,
                "threads": arguments.threads,
                "ms": min(wall),
                "median_ms": statistics.median(wall),
                "cpu_ms": min(processor),
                "median_cpu_ms": statistics.median(processor),
            }
        )
    )


if __name__ == "__main__":
    main()
