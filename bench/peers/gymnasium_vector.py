"""Environments stepped together by Gymnasium itself, actions drawn beforehand: gymnasium_vector.py ID COUNT MODE SECONDS.

MODE is sync (one process) or async (a process each, shared memory). Prints one JSON object; steps that only reset are
left out of its figure.
"""

import json
import sys
import time

import gymnasium

DRAWN, BLOCK = 64, 16


def main():
    name, count, mode, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    envs = gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode, vector_kwargs={})
    envs.action_space.seed(1)
    actions = [envs.action_space.sample() for _ in range(DRAWN)]
    envs.reset(seed=1)

    def run(begin):
        ended = 0
        for t in range(begin, begin + BLOCK):
            _, _, terminated, truncated, _ = envs.step(actions[t % DRAWN])
            ended += int((terminated | truncated).sum())
        return ended

    run(0)
    steps, turn, begin = 0, 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        # an episode's end is followed by a step that only resets
        steps += BLOCK * count - run(turn)
        turn += BLOCK
    print(json.dumps({"steps_per_second": steps / (time.perf_counter() - begin)}))
    envs.close()


if __name__ == "__main__":
    main()
