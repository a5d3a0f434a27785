"""The classic environments against the gymnasium package: same states, same actions, same steps.

Ours run in float32, Gymnasium's in float64. `env_replay` (tests/env_replay.cpp) is found under
$MAGLEV_BUILD, default .build/release.
"""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
REPLAY = ROOT / os.environ.get("MAGLEV_BUILD", ".build/release") / "tests" / "env_replay"
SINGLE_STEPS = 4000
LIMIT = 12 * 2 * np.pi / 360
PI = np.pi


@dataclass(frozen=True)
class Case:
    ours: str
    gym_id: str
    low: list  # states are drawn evenly from [low, high]
    high: list
    edges: list  # states drawn around one of these, too
    angles: list = field(default_factory=list)  # state columns that are equal modulo a turn
    tolerance: float = 1e-5  # of one step, relative and absolute
    drift_steps: int = 200  # a free run stays within drift_tolerance of Gymnasium's for that long
    drift_tolerance: float = 1e-3


CASES = [
    Case(
        "cartpole",
        "CartPole-v1",
        [-2.4, -3, -0.21, -3],
        [2.4, 3, 0.21, 3],
        [[2.4, 1, 0, 0], [-2.4, -1, 0, 0], [0, 0, LIMIT, 1], [0, 0, -LIMIT, -1]],
        drift_steps=60,
    ),
    Case(
        "pendulum",
        "Pendulum-v1",
        [-PI, -8],
        [PI, 8],
        [[PI, 8], [-PI, -8], [0, 8], [PI, 0], [-PI, 0]],
        angles=[0],
        drift_steps=100,
    ),
    Case(
        "acrobot",
        "Acrobot-v1",
        [-PI, -PI, -2 * PI, -4.5 * PI],
        [PI, PI, 2 * PI, 4.5 * PI],
        [[PI, PI, 6, 14], [-PI, -PI, -6, -14], [PI, 0, 1, 1], [0, 0, 0, 0], [2, 0, 0, 0]],
        angles=[0, 1],
        drift_steps=60,
    ),
    Case(
        "mountain_car",
        "MountainCar-v0",
        [-1.2, -0.07],
        [0.6, 0.07],
        [[-1.2, -0.05], [-1.2, 0], [0.5, 0], [0.45, 0.06], [0.6, 0.07], [-1.15, -0.07]],
        drift_steps=200,
        drift_tolerance=1e-4,
    ),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: c.ours)


def make(case, **settings):
    return gym.make(case.gym_id, **settings)


def random_actions(env, rng, shape):
    if isinstance(env.action_space, gym.spaces.Discrete):
        return rng.integers(env.action_space.n, size=shape).astype(np.float32)
    # half as far again as the bounds: both sides clip
    low, high = 1.5 * env.action_space.low[0], 1.5 * env.action_space.high[0]
    return rng.uniform(low, high, shape).astype(np.float32)


def gym_action(env, action):
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    return int(action) if discrete else np.array([action], np.float32)


def replay(case, states, actions, *settings):
    """Steps of ours: states [n, k], actions [n, T] -> dict of arrays [n, T, ...]."""
    n, k = states.shape
    steps = actions.shape[1]
    data = np.concatenate([states, actions], axis=1).astype(np.float32).tobytes()
    command = [REPLAY, case.ours, str(steps), *settings]
    run = subprocess.run(command, input=data, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    out = np.frombuffer(run.stdout, np.float32).reshape(n, steps, -1)
    return {"state": out[..., :k], "obs": out[..., k:-3], "reward": out[..., -3],
            "terminated": out[..., -2] > 0, "truncated": out[..., -1] > 0}


def set_state(env, state):
    env.reset(seed=0)
    env.unwrapped.state = np.array(state, np.float64)


def assert_close(case, ours, theirs, tolerance, what):
    error = np.abs(ours - theirs) / (1 + np.abs(theirs))
    worst = int(error.reshape(len(error), -1).max(axis=1).argmax())
    assert error.max() <= tolerance, (
        f"{case.ours} {what}: row {worst}, ours {ours[worst]}, gymnasium {theirs[worst]}"
    )


def unwound(case, ours, theirs):
    """Our states, their angles moved by whole turns next to Gymnasium's."""
    ours = ours.astype(np.float64)
    for column in case.angles:
        turns = np.round((theirs[..., column] - ours[..., column]) / (2 * PI))
        ours[..., column] += 2 * PI * turns
    return ours


def termination_margin(case, state):
    """How far a float64 state is from the line at which the episode ends."""
    if case.ours == "cartpole":
        return min(abs(abs(state[0]) - 2.4), abs(abs(state[2]) - LIMIT))
    if case.ours == "acrobot":
        return abs(-np.cos(state[0]) - np.cos(state[1] + state[0]) - 1)
    if case.ours == "mountain_car":
        return min(abs(state[0] - 0.5), abs(state[1]) if state[0] >= 0.5 - 1e-5 else 1)
    return 1


@cases
def test_one_step_from_the_same_state_is_the_same(case):
    rng = np.random.default_rng(7)
    env = make(case)
    states = rng.uniform(case.low, case.high, (SINGLE_STEPS, len(case.low)))
    # every other state lies around an edge
    width = 0.01 * (np.array(case.high) - case.low)
    around = np.array(case.edges)[rng.integers(len(case.edges), size=SINGLE_STEPS // 2)]
    states[::2] = np.clip(around + rng.normal(size=around.shape) * width, case.low, case.high)
    states[: 2 * len(case.edges) : 2] = case.edges
    states = states.astype(np.float32)
    actions = random_actions(env, rng, (SINGLE_STEPS, 1))
    ours = replay(case, states, actions)

    theirs = {"state": [], "obs": [], "reward": [], "terminated": []}
    sure = []
    for state, action in zip(states, actions[:, 0]):
        set_state(env, state)
        obs, reward, terminated, truncated, _ = env.step(gym_action(env, action))
        assert not truncated
        after = np.array(env.unwrapped.state, np.float64)
        for name, value in zip(theirs, (after, obs, reward, terminated)):
            theirs[name].append(value)
        sure.append(termination_margin(case, after) > 1e-6)
    theirs = {name: np.array(values) for name, values in theirs.items()}
    sure = np.array(sure)
    assert sure.sum() >= 0.95 * SINGLE_STEPS

    ours = {name: values[:, 0] for name, values in ours.items()}
    if case.ours != "pendulum":
        assert 0 < theirs["terminated"].sum() < SINGLE_STEPS
    np.testing.assert_array_equal(ours["terminated"][sure], theirs["terminated"][sure])
    assert_close(case, ours["reward"][sure], theirs["reward"][sure], 1e-5, "reward")
    assert_close(case, ours["obs"], theirs["obs"], case.tolerance, "observation")
    state = unwound(case, ours["state"], theirs["state"])
    assert_close(case, state, theirs["state"], case.tolerance, "state")


@cases
def test_free_runs_stay_together(case):
    rng = np.random.default_rng(11)
    env = make(case)
    runs = 20
    starts = np.zeros((runs, len(case.low)), np.float32)
    for seed in range(runs):
        env.reset(seed=seed)
        starts[seed] = env.unwrapped.state
    actions = random_actions(env, rng, (runs, case.drift_steps))
    ours = replay(case, starts, actions)
    for i in range(runs):
        set_state(env, starts[i])
        for t in range(case.drift_steps):
            obs, reward, terminated, truncated, _ = env.step(gym_action(env, actions[i, t]))
            scale = 1 + np.abs(obs)
            assert (np.abs(ours["obs"][i, t] - obs) / scale).max() <= case.drift_tolerance, (i, t)
            reward_error = abs(ours["reward"][i, t] - reward)
            assert reward_error <= case.drift_tolerance * (1 + abs(reward)), (i, t)
            assert ours["terminated"][i, t] == terminated
            assert ours["truncated"][i, t] == truncated
            if terminated or truncated:
                break


@cases
def test_the_default_limit_truncates_at_the_same_step(case):
    limit = gym.spec(case.gym_id).max_episode_steps
    # coasting never ends by itself, but for the cart: its 500 steps are in
    # tests/envs_classic_test.cpp
    if case.ours == "cartpole":
        limit, settings, env = 5, ["max_steps=5"], make(case, max_episode_steps=5)
    else:
        settings, env = [], make(case)
    coast = 0.0 if case.ours == "pendulum" else 1.0
    env.reset(seed=3)
    start = np.array([env.unwrapped.state], np.float32)
    set_state(env, start[0])
    ours = replay(case, start, np.full((1, limit), coast, np.float32), *settings)
    for t in range(limit):
        _, _, terminated, truncated, _ = env.step(gym_action(env, coast))
        assert (ours["terminated"][0, t], ours["truncated"][0, t]) == (terminated, truncated)
        assert truncated == (t + 1 == limit)


def test_acrobot_at_its_velocity_limits_differs_by_float32_rounding_only():
    # at 12 and 28 rad/s one step multiplies rounding errors by thousands: few rows may leave 1e-5,
    # none 1e-3
    case = CASES[2]
    rng = np.random.default_rng(5)
    env = make(case)
    high = np.array([PI, PI, 4 * PI, 9 * PI])
    states = rng.uniform(-high, high, (2000, 4)).astype(np.float32)
    actions = random_actions(env, rng, (2000, 1))
    ours = replay(case, states, actions)["obs"][:, 0]
    theirs = []
    for state, action in zip(states, actions[:, 0]):
        set_state(env, state)
        theirs.append(env.step(gym_action(env, action))[0])
    error = (np.abs(ours - theirs) / (1 + np.abs(theirs))).max(axis=1)
    assert error.max() <= 1e-3
    assert np.quantile(error, 0.98) <= 1e-5


def test_pendulum_follows_its_gravity():
    case = CASES[1]
    env = make(case, g=3.5)
    state = np.array([[0.5, 1.0]], np.float32)
    set_state(env, state[0])
    obs = env.step(np.array([1.0], np.float32))[0]
    ours = replay(case, state, np.ones((1, 1)), "g=3.5")["obs"][0, 0]
    np.testing.assert_allclose(ours, obs, rtol=1e-5)


def test_cartpole_gives_the_sutton_barto_reward():
    case = CASES[0]
    env = make(case, sutton_barto_reward=True)
    states = np.array([[0, 0, 0, 0], [2.39, 2, 0, 0]], np.float32)
    ours = replay(case, states, np.ones((2, 1)), "sutton_barto_reward=true")["reward"][:, 0]
    for state, reward in zip(states, ours):
        set_state(env, state)
        assert env.step(1)[1] == reward


def test_acrobot_follows_the_paper_and_its_time_step():
    case = CASES[2]
    env = make(case)
    env.unwrapped.book_or_nips = "nips"
    env.unwrapped.dt = 0.1
    state = np.array([[0.5, -0.4, 2.0, -3.0]], np.float32)
    set_state(env, state[0])
    obs = env.step(2)[0]
    ours = replay(case, state, np.full((1, 1), 2), "dynamics=paper", "dt=0.1")
    np.testing.assert_allclose(ours["obs"][0, 0], obs, rtol=1e-5, atol=1e-5)


def test_mountain_car_counts_the_goal_only_when_fast_enough():
    case = CASES[3]
    env = make(case, goal_velocity=0.03)
    states = np.array([[0.49, 0.02], [0.49, 0.05]], np.float32)
    ours = replay(case, states, np.ones((2, 1)), "goal_velocity=0.03")["terminated"][:, 0]
    for state, terminated in zip(states, ours):
        set_state(env, state)
        assert env.step(1)[2] == terminated
    assert list(ours) == [False, True]
