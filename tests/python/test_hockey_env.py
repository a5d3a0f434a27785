"""examples/python/hockey_env.py on a stand-in for the course's package: our own game behind its interface."""

import os
import subprocess
import sys

from conftest import HOME

STAND_IN = '''
import maglev
import numpy as np


class HockeyEnv:
    def __init__(self):
        self.games = maglev.pettingzoo.ParallelEnv("hockey_duel")

    def reset(self):
        self.seen, _ = self.games.reset(seed=1)
        self.time = 0
        return self.seen["agent_0"].astype(np.float64), {}

    def obs_agent_two(self):
        return self.seen["agent_1"].astype(np.float64)

    def step(self, actions):
        assert actions.shape == (8,) and np.abs(actions).max() <= 1
        # what was decided is held, and decided anew
        assert np.array_equal(actions[:4], self.last) == (self.time % 3 > 0) if self.time else True
        self.last, self.time = actions[:4], self.time + 1
        moves = {"agent_0": actions[:4].astype(np.float32), "agent_1": actions[4:].astype(np.float32)}
        self.seen, earned, ended, late, _ = self.games.step(moves)
        winner = int(np.round(earned["agent_0"] / 10)) if ended["agent_0"] else 0
        return self.seen["agent_0"].astype(np.float64), 0.0, ended["agent_0"], late["agent_0"], {"winner": winner}


class BasicOpponent:
    def __init__(self, weak):
        self.weak = weak

    def act(self, obs):
        return np.zeros(4)
'''


def test_a_run_plays_the_course_s_game(engine, tmp_path):
    run = tmp_path / "run"
    small = ["env.action_repeat=3"]
    small += ["train.steps=256", "env.count=4", "ppo.rollout=64", "ppo.minibatch=64", "ppo.network.hidden=[8]"]
    done = engine("train", "ppo", "hockey", *small, "--out", run)
    assert done.returncode == 0, done.stderr
    package = tmp_path / "course" / "hockey"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "hockey_env.py").write_text(STAND_IN)
    done = subprocess.run(
        [sys.executable, HOME / "examples" / "python" / "hockey_env.py", run, "--games", "2"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{HOME / 'python'}:{package.parent}"},
    )
    assert done.returncode == 0, done.stderr
    won, drawn, lost, games = (int(word) for word in done.stdout.split() if word.isdigit())
    assert won + drawn + lost == games == 2, done.stdout
