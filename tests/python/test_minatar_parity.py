"""MinAtar's games against their Python package: whole trajectories, random draws included.

The package draws from numpy; here it is given our numbers (base/core/philox.h), so that every step
must be equal. `env_replay` (tests/env_replay.cpp) is found under $MAGLEV_BUILD.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from minatar import Environment
from philox import philox

ROOT = Path(__file__).resolve().parents[2]
REPLAY = ROOT / os.environ.get("MAGLEV_BUILD", ".build/release") / "tests" / "env_replay"
GAMES = sorted(folder.name[8:] for folder in (ROOT / "envs").glob("minatar_*"))
RAMPED = ["asterix", "seaquest", "space_invaders"]  # those that grow harder
SEED, STREAM = 1, 1 << 56
STEPS = 6000


class OurNumbers:
    """What the package asks of numpy's RandomState, from our stream."""

    def __init__(self):
        self.counter, self.words = 0, []

    def next_step(self):
        """Words left over in a block are dropped after each step."""
        self.words = []

    def bits(self):
        if not self.words:
            self.words, self.counter = philox(SEED, STREAM, self.counter), self.counter + 1
        return self.words.pop()

    def rand(self, count=None):
        one = lambda: (self.bits() >> 8) / 2**24  # noqa: E731
        return one() if count is None else np.array([one() for _ in range(count)])

    def randint(self, low, high=None, size=None):
        low, high = (0, low) if high is None else (low, high)
        one = lambda: low + (self.bits() * (high - low) >> 32)  # noqa: E731
        return one() if size is None else np.array([one() for _ in range(size)])


def package(game, **settings):
    env, numbers = Environment(game, **settings), OurNumbers()
    env.random = env.env.random = numbers
    env.reset()
    return env, numbers


def theirs(game, actions, **settings):
    env, numbers = package(game, **settings)
    ended = False
    for action in actions:
        numbers.next_step()
        if ended:
            # our next step begins the next episode, which remembers no action of the last
            env.reset()
            env.last_action, ended = 0, False
            yield env.state(), 0, False
            continue
        reward, ended = env.act(int(action))
        yield env.state(), reward, ended


def ours(game, actions, planes, *settings):
    command = [REPLAY, f"minatar_{game}", str(len(actions)), *settings]
    done = subprocess.run(
        command, input=actions.astype(np.float32).tobytes(), capture_output=True, check=True
    )
    rows = np.frombuffer(done.stdout, np.float32).reshape(len(actions), 100 * planes + 3)
    states = rows[:, :-3].reshape(-1, 10, 10, planes)
    assert set(np.unique(states)) <= {0, 255}
    return states > 0, rows[:, -3], (rows[:, -2] + rows[:, -1]) > 0


def play(game, rng, steps):
    """Actions that go somewhere: each is kept for a while."""
    actions = np.repeat(rng.integers(0, 6, steps), rng.integers(1, 6, steps))
    return actions[:steps]


@pytest.mark.parametrize(
    "game, ramp", [(game, True) for game in GAMES] + [(game, False) for game in RAMPED]
)
def test_every_step_of_many_episodes_is_the_packages(game, ramp):
    actions = play(game, np.random.default_rng(7), STEPS)
    settings = [] if ramp else ["ramp=false"]
    env, _ = package(game)
    states, rewards, ends = ours(game, actions, env.n_channels, *settings)
    episodes = 0
    for t, (state, reward, ended) in enumerate(theirs(game, actions, difficulty_ramping=ramp)):
        where = f"{game}, step {t}, episode {episodes}"
        assert np.array_equal(states[t], state), f"{where}: {np.argwhere(states[t] != state)}"
        assert rewards[t] == reward, where
        assert ends[t] == ended, where
        episodes += ended
    assert episodes >= 2
    assert rewards.sum() > 0


def test_seaquest_played_well_is_the_packages():
    """A player that shoots, dives and surfaces sees divers, full oxygen and crowded rows."""
    rng, actions = np.random.default_rng(3), []
    env, numbers = package("seaquest", sticky_action_prob=0.0)
    ended, episodes, surfaced, aboard = False, 0, 0, set()
    for _ in range(STEPS):
        numbers.next_step()
        if ended:
            env.reset()
            env.last_action, ended = 0, False
            actions.append(0)
            continue
        game = env.env
        tired = game.oxygen < 60 and game.diver_count != 0
        if tired or game.diver_count == 6:
            action = 2
        elif game.divers and game.diver_count < 6 and rng.random() < 0.7:
            x, y = game.divers[0][:2]
            action = 2 if y < game.sub_y else 4 if y > game.sub_y else 1 if x < game.sub_x else 3
        else:
            action = int(rng.choice([5, 1, 3, 5, 4 if game.sub_y < 1 else 5]))
        before = game.surface
        _, ended = env.act(action)
        surfaced += game.surface and not before
        aboard.add(game.diver_count)
        episodes += ended
        actions.append(action)
    assert surfaced >= 3 and episodes >= 2 and {-1, 6} <= aboard
    actions = np.array(actions)
    states, rewards, ends = ours("seaquest", actions, env.n_channels, "sticky=0")
    for t, (state, reward, ended) in enumerate(
        theirs("seaquest", actions, sticky_action_prob=0.0)
    ):
        assert np.array_equal(states[t], state), f"step {t}: {np.argwhere(states[t] != state)}"
        assert (rewards[t], ends[t]) == (reward, ended), f"step {t}"


@pytest.mark.parametrize("game", GAMES)
def test_minimal_actions_are_the_packages(game):
    env, numbers = package(game)
    used = env.minimal_action_set()
    chosen = np.random.default_rng(5).integers(0, len(used), 500)
    few = ours(game, chosen, env.n_channels, "minimal_actions=true", "sticky=0")
    all_six = ours(game, np.array(used)[chosen], env.n_channels, "sticky=0")
    assert all(np.array_equal(a, b) for a, b in zip(few, all_six))
