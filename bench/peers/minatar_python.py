"""One of MinAtar's games in its Python package, one core, random actions: minatar_python.py GAME SECONDS.

A step is act() and state(), as an agent uses it, with resets inside the clock. Prints one JSON
object.
"""

import json
import logging
import sys
import time

logging.disable(logging.WARNING)

import numpy as np  # noqa: E402
from minatar import Environment  # noqa: E402

DRAWN, WARM_UP_STEPS = 4096, 1000


def main():
    game, seconds = sys.argv[1], float(sys.argv[2])
    env = Environment(game)
    env.seed(1)
    env.reset()
    actions = np.random.default_rng(1).integers(0, env.num_actions(), DRAWN).tolist()

    def run(steps):
        for t in range(steps):
            _, ended = env.act(actions[t % DRAWN])
            env.state()
            if ended:
                env.reset()

    run(WARM_UP_STEPS)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        run(WARM_UP_STEPS)
        steps += WARM_UP_STEPS
    print(json.dumps({"steps_per_second": steps / (time.perf_counter() - begin)}))


if __name__ == "__main__":
    main()
