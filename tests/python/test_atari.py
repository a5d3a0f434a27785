"""examples/python/atari.py beside the wrappers that it names, and a run on it."""

import json
import sys

import ale_py
import gymnasium
import numpy as np
import pytest
from conftest import HOME
from safetensors import safe_open
from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv, FireResetEnv, MaxAndSkipEnv, NoopResetEnv

sys.path.insert(0, str(HOME / "examples" / "python"))
import atari  # noqa: E402

STEPS = 400


class Noops:
    """A generator that draws this number."""

    def __init__(self, number):
        self.number = number

    def integers(self, *_, **__):
        return self.number


@pytest.fixture(scope="module", autouse=True)
def games():
    gymnasium.register_envs(ale_py)


def wrapped(name, noops):
    env = NoopResetEnv(gymnasium.make(f"{name}NoFrameskip-v4", obs_type="grayscale"))
    env.override_num_noops = noops
    env = EpisodicLifeEnv(MaxAndSkipEnv(env))
    return FireResetEnv(env) if "FIRE" in env.unwrapped.get_action_meanings() else env


@pytest.mark.parametrize("name, game", [("Breakout", "breakout"), ("Seaquest", "seaquest"), ("MsPacman", "ms_pacman")])
def test_a_life_is_as_the_wrappers_of_stable_baselines_have_it(name, game):
    theirs, ours = wrapped(name, 7), atari.Game(game)
    assert theirs.action_space.n == ours.action_space.n

    def begin():
        ours.np_random = Noops(7)
        return theirs.reset()[0], ours.reset()[0]

    seen = [begin()]
    rng, lives = np.random.default_rng(3), 0
    for step in range(STEPS):
        action = int(rng.integers(ours.action_space.n))
        there, reward, *ended, _ = theirs.step(action)
        here, clipped, *ends, info = ours.step(action)
        assert (info["score"], *ends) == (reward, *ended), step
        assert clipped == np.sign(reward)
        seen.append((there, here))
        if any(ended):
            lives += 1
            seen.append(begin())
    assert lives >= 1
    for there, here in seen:
        np.testing.assert_array_equal(there, here[..., 0])


def test_a_whole_game_goes_on_over_lives_and_counts_points():
    whole = atari.Game("breakout", whole=True)
    whole.np_random = Noops(4)
    whole.reset()
    rng = np.random.default_rng(6)
    points, lives, ended = 0.0, {whole.lives}, False
    while not ended:
        # who never fires plays all lives: it is fired again behind each
        _, reward, ended, truncated, info = whole.step(int(rng.choice([0, 2, 3])))
        assert reward == info["score"] and not truncated
        points += reward
        lives.add(whole.lives)
    assert whole.ale.game_over() and points > 0
    assert lives == {0, 1, 2, 3, 4, 5}


def test_a_seed_says_how_a_game_begins():
    def begun(seed, **given):
        env = atari.Game("seaquest", **given)
        shown = [env.reset(seed=seed)[0]] + [env.step(step % 18)[0] for step in range(60)]
        return np.stack(shown)

    assert np.array_equal(begun(1), begun(1))
    assert not np.array_equal(begun(1), begun(2))
    assert np.array_equal(begun(1, sticky=0.25), begun(1, sticky=0.25))
    assert not np.array_equal(begun(1, sticky=0.25), begun(1))


def test_an_unknown_game_is_told_with_those_there_are():
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="there is no game 'pongg'; ale-py has .*pong"):
        atari.Game("pongg")


def test_trains_with_the_published_settings_and_is_judged_by_whole_games(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HOME / "examples" / "python"))
    run, whole = tmp_path / "run", 'kwargs={"game": "breakout", "whole": true}'
    words = ["--config", HOME / "configs" / "ppo" / "atari.yaml", "env.id=atari:Game", "env.info=score"]
    words += ["train.steps=256", "env.count=4", "ppo.rollout=32", "ppo.minibatch=64", "ppo.epochs=1"]
    words += ["train.eval_every=256", "train.eval_episodes=2", f"train.eval_env={whole}", "train.save_every=256"]
    done = engine("train", "ppo", "gymnasium", "--bare", "--sinks", "jsonl", "--out", run, *words)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    judged = next(row for row in rows if "eval/return_mean" in row)
    assert judged["eval/return_mean"] >= 0
    # the published network: 3,136 numbers into 512
    with safe_open(max(run.glob("checkpoints/step_*/state.safetensors")), "numpy") as state:
        shapes = [state.get_slice(name).get_shape() for name in state.keys()]
    assert [32, 4, 8, 8] in shapes and [512, 3136] in shapes
