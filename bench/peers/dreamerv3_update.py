"""One update of Dreamer V3 by the official JAX code, from a checkout, compiled by XLA for the processor.

    dreamerv3_update.py --repo DIR --threads N [--pixels] [--repeats 5]

The published model of 1 million parameters (size1m) in float32, 16 sequences of 64 steps and one of
context, 6 continuous actions, pictures of 64 x 64 x 3 or vectors of 24. Its files are left alone. The
batch is ready made, what the replay would take back is dropped. Prints one JSON object: wall and
processor milliseconds, the least and the median of --repeats calls after a warm-up.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

BATCH, LENGTH, ACTIONS, VECTOR, SIDE = 16, 64, 6, 24, 64
WARM_UP = 2


def agent_of(repo: Path, pixels: bool, folder: str):
    """The published agent at size1m, and the spaces of its data."""
    import elements
    import numpy as np
    import ruamel.yaml as yaml
    from dreamerv3.agent import Agent

    published = yaml.YAML(typ="safe").load((repo / "dreamerv3" / "configs.yaml").read_text())
    config = elements.Config(published["defaults"]).update(published["size1m"])
    config = config.update(
        {
            "jax.platform": "cpu",
            "jax.compute_dtype": "float32",
            "jax.prealloc": False,
            "logdir": folder,
        }
    )
    seen = (
        {"image": elements.Space(np.uint8, (SIDE, SIDE, 3))}
        if pixels
        else {"vector": elements.Space(np.float32, (VECTOR,))}
    )
    spaces = {
        **seen,
        "reward": elements.Space(np.float32),
        "is_first": elements.Space(bool),
        "is_last": elements.Space(bool),
        "is_terminal": elements.Space(bool),
    }
    actions = {"action": elements.Space(np.float32, (ACTIONS,), -1, 1)}
    # its profiler and its compilation of what is not timed are switched off
    whole = elements.Config(
        **config.agent,
        logdir=folder,
        seed=0,
        jax={**config.jax, "profiler": False, "precompile": False},
        batch_size=BATCH,
        batch_length=LENGTH,
        replay_context=config.replay_context,
        report_length=config.report_length,
        replica=0,
        replicas=1,
    )
    return Agent(spaces, actions, whole), config.replay_context


def batch(agent, context: int) -> dict:
    """Data of every space the agent asks for."""
    import numpy as np

    random = np.random.default_rng(0)
    data = {}
    for key, space in agent.spaces.items():
        shape = (BATCH, LENGTH + context, *space.shape)
        if space.dtype == np.uint8:
            data[key] = random.integers(0, 256, shape, dtype=np.uint8)
        elif space.dtype == bool:
            data[key] = np.zeros(shape, bool)
        elif np.issubdtype(space.dtype, np.integer):
            data[key] = np.zeros(shape, space.dtype)
        else:
            data[key] = random.standard_normal(shape).astype(space.dtype)
    data["action"] = random.uniform(-1, 1, data["action"].shape).astype(np.float32)
    data["is_first"] = random.random((BATCH, LENGTH + context)) < 0.01
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--pixels", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if not (arguments.repo / "dreamerv3" / "rssm.py").is_file():
        raise SystemExit(
            f"dreamerv3_update: {arguments.repo} is no checkout of danijar/dreamerv3"
        )
    # XLA takes as many threads as there are processors it may use
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    sys.path.insert(0, str(arguments.repo))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        agent, context = agent_of(arguments.repo, arguments.pixels, folder)
        import jax

        data = next(iter(agent.stream(iter(lambda: batch(agent, context), None))))
        carry = agent.init_train(BATCH)
        wall, processor = [], []
        for call in range(WARM_UP + arguments.repeats):
            starts = time.perf_counter(), time.process_time()
            carry, _, _ = agent.train(carry, dict(data))
            jax.block_until_ready((agent.params, carry))
            if call >= WARM_UP:
                wall.append(1e3 * (time.perf_counter() - starts[0]))
                processor.append(1e3 * (time.process_time() - starts[1]))
    print(
        json.dumps(
            {
                "case": "image" if arguments.pixels else "vector",
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
