"""A control suite task in dm_control, one core, random actions: dm_control_python.py DOMAIN TASK SECONDS [WIDTH].

With WIDTH every step is rendered too, WIDTH x WIDTH from camera 0, without shadows and smoothing, as Maglev's default.
Prints one JSON object.
"""

import json
import os
import sys
import time

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("LP_NUM_THREADS", "0")

import numpy as np  # noqa: E402
from dm_control import suite  # noqa: E402

DRAWN, BLOCK = 4096, 20


def main():
    domain, task, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    width = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    env = suite.load(domain, task, task_kwargs={"random": 1})
    quality = env.physics.model.vis.quality
    quality.shadowsize = quality.offsamples = 0
    env.reset()
    size = env.action_spec().shape[0]
    actions = np.random.default_rng(1).uniform(-1, 1, (DRAWN, size))

    def run(begin):
        for t in range(begin, begin + BLOCK):
            env.step(actions[t % DRAWN])
            if width:
                env.physics.render(width, width, camera_id=0)

    run(0)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        run(steps)
        steps += BLOCK
    print(json.dumps({"steps_per_second": steps / (time.perf_counter() - begin)}))


if __name__ == "__main__":
    main()
