"""Steps per second of EnvPool's CartPole-v1: one worker thread, synchronous steps, no policy.

    envpool_cartpole.py <environments> <seconds>

Actions are drawn beforehand. Prints one JSON object. Steps that only reset count as steps here.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")
import envpool  # noqa: E402

ACTION_ROWS = 64


def main(count: int, seconds: float):
    envs = envpool.make(
        "CartPole-v1", env_type="gymnasium", num_envs=count, batch_size=count, num_threads=1, seed=1
    )
    rows = np.random.default_rng(1).integers(0, 2, (ACTION_ROWS, count), dtype=np.int32)
    envs.reset()
    for t in range(608):
        envs.step(rows[t % ACTION_ROWS])
    turn, start = 0, time.perf_counter()
    while True:
        for _ in range(16):
            envs.step(rows[turn % ACTION_ROWS])
            turn += 1
        took = time.perf_counter() - start
        if took >= seconds:
            break
    print(json.dumps({"steps_per_second": turn * count / took, "version": envpool.__version__}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
