"""A run of hockey in the course's own game (github.com/martius-lab/hockey-env), as its tournaments ask players:

    .venv/bin/pip install box2d pygame-ce
    .venv/bin/pip install --no-deps git+https://github.com/martius-lab/hockey-env
    ./maglev python examples/python/hockey_env.py runs/...            # against its weak player
    ./maglev python examples/python/hockey_env.py runs/... --strong --games 200

Any algorithm's run does, of `hockey` (env.keep=true, which is the default) or of `hockey_duel`: observations and actions
are the original's, number for number. TD-MPC2 plans each of its actions.
"""

import argparse
import re

import hockey.hockey_env
import maglev
import numpy as np


class Agent:
    """One player of a tournament: an action [4] of what player one sees, or of what player two sees, which is turned by
    half a turn. Each player, and each game that is played beside another, wants an agent of its own."""

    def __init__(self, run):
        self.policy = maglev.load(run)
        # steps of the game that an action is held for, as in training
        folder = self.policy.player.rpartition("@")[0]
        told = re.search(r"^ +action_repeat: (\d+)", maglev.Run(folder).config, re.M)
        self.repeat = int(told[1]) if told else 1
        self.steps, self.action = 0, None

    def begin(self):
        """A game begins: what a policy remembers, such as TD-MPC2 its last plan, is of the one before."""
        self.policy.reset()
        self.steps = 0

    def act(self, obs):
        if self.steps % self.repeat == 0:
            self.action = self.policy.act(np.asarray(obs, dtype=np.float32)).numpy()
        self.steps += 1
        return self.action


def play(agent, game, opponent):
    """1: the agent, who is player one, has won, -1: lost, 0: time was up."""
    obs, _ = game.reset()
    agent.begin()
    while True:
        actions = np.hstack([agent.act(obs), opponent.act(game.obs_agent_two())])
        obs, _, ended, late, info = game.step(actions)
        if ended or late:
            return info["winner"]


def main():
    parser = argparse.ArgumentParser(description="plays the original game with a run's policy")
    parser.add_argument("run")
    parser.add_argument("--strong", action="store_true")
    parser.add_argument("--games", type=int, default=100)
    asked = parser.parse_args()
    agent, game = Agent(asked.run), hockey.hockey_env.HockeyEnv()
    opponent = hockey.hockey_env.BasicOpponent(weak=not asked.strong)
    outcomes = [play(agent, game, opponent) for _ in range(asked.games)]
    won, drawn, lost = (outcomes.count(outcome) for outcome in (1, 0, -1))
    print(f"{won} won, {drawn} drawn, {lost} lost of {asked.games}")


if __name__ == "__main__":
    main()
