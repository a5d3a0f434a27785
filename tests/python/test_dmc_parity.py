"""The control suite's environments against dm_control: same states, same controls, same steps and pictures.

Both step the same MuJoCo, so what differs is ours: observations and rewards come in float32. `state_replay`
(tests/state_replay.cpp) is found under $MAGLEV_BUILD.
"""

import os
import subprocess

import numpy as np
import pytest
from conftest import BUILD

# asked when dm_control is imported; what other tests start must not see it
told = "MUJOCO_GL" in os.environ
os.environ.setdefault("MUJOCO_GL", "egl")
try:
    mujoco = pytest.importorskip("mujoco")
    suite = pytest.importorskip("dm_control.suite")
finally:
    if not told:
        del os.environ["MUJOCO_GL"]

REPLAY = BUILD / "tests" / "state_replay"
TASKS = [
    ("walker", "stand"),
    ("walker", "walk"),
    ("walker", "run"),
    ("cheetah", "run"),
    ("cartpole", "swingup"),
    ("cartpole", "swingup_sparse"),
    ("cartpole", "balance"),
    ("cartpole", "balance_sparse"),
    ("reacher", "easy"),
    ("reacher", "hard"),
]
WHOLE = [("walker", "walk"), ("cheetah", "run"), ("cartpole", "swingup"), ("reacher", "easy")]
LIMIT = 1000
STATE = mujoco.mjtState.mjSTATE_INTEGRATION


@pytest.fixture(scope="module", autouse=True)
def built_with_mujoco():
    done = subprocess.run([REPLAY, "dmc_walker", "1", "8"], input=b"", capture_output=True, check=False)
    if b"is not in this build" in done.stderr:
        pytest.skip(done.stderr.decode())


def saved(physics, steps=0):
    """What a checkpoint of ours holds of a state: steps, the target's place, MuJoCo's integration state."""
    model, data = physics.model.ptr, physics.data.ptr
    state = np.empty(mujoco.mj_stateSize(model, STATE))
    mujoco.mj_getState(model, data, state, STATE)
    named = physics.named.model
    target = named.geom_pos["target", :2] if "target" in named.geom_pos.axes.row.names else [0, 0]
    return np.concatenate([[steps], target, state])


def flat(observation):
    return np.concatenate([np.ravel(value) for value in observation.values()])


def run(domain, steps, numbers, data, *settings):
    command = [REPLAY, f"dmc_{domain}", str(steps), str(8 * numbers), *settings]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def replay(domain, state, actions, *settings, pixels=0, observed=0):
    """Steps of ours: states [T, k] f64, observations [T, D], pictures [T, pixels], rest [T, 3]."""
    out = run(domain, len(actions), len(state), state.tobytes() + actions.tobytes(), *settings)
    row = np.dtype(
        [("state", "f8", len(state)), ("vector", "f4", observed), ("image", "u1", pixels), ("rest", "f4", 3)]
    )
    return np.frombuffer(out, row)


def actions_for(env, rng, steps):
    # held for a while: a walk at random reaches more than noise around 0
    size = env.action_spec().shape[0]
    return np.repeat(rng.uniform(-1, 1, (steps // 10 + 1, size)), 10, axis=0)[:steps].astype(np.float32)


@pytest.mark.parametrize("domain, task", TASKS, ids=lambda name: name)
def test_steps_are_those_of_dm_control(domain, task):
    env = suite.load(domain, task, task_kwargs={"random": 3})
    first = env.reset()
    state = saved(env.physics)
    # of each domain's first task a whole episode
    steps = LIMIT if (domain, task) in WHOLE else 200
    actions = actions_for(env, np.random.default_rng(5), steps)
    ours = replay(domain, state, actions, f"task={task}", observed=len(flat(first.observation)))
    rewards = []
    for t in range(steps):
        theirs = env.step(actions[t].astype(np.float64))
        np.testing.assert_allclose(ours["state"][t], saved(env.physics, t + 1), rtol=1e-9, atol=1e-9, err_msg=f"{t}")
        observation = flat(theirs.observation)
        np.testing.assert_allclose(ours["vector"][t], observation, rtol=1e-6, atol=1e-6, err_msg=f"{t}")
        reward, terminated, truncated = ours["rest"][t]
        assert abs(reward - theirs.reward) <= 1e-6, t
        # an episode ends at the limit alone, and its end has a future
        assert (terminated, bool(truncated)) == (0, theirs.last()) == (0, t + 1 == LIMIT), t
        assert theirs.discount == 1
        rewards.append(theirs.reward)
    if "sparse" not in task and task != "hard":
        assert len(set(rewards)) > 1, "the actions met no reward"


def test_a_repeated_action_is_as_many_steps_and_their_rewards():
    env = suite.load("cartpole", "swingup", task_kwargs={"random": 3})
    env.reset()
    state, actions = saved(env.physics), actions_for(env, np.random.default_rng(6), 20)
    single = replay("cartpole", state, np.repeat(actions, 3, axis=0), observed=5)
    # an episode of 59 steps ends within the last of its actions
    held = replay("cartpole", state, actions, "action_repeat=3", "max_steps=59", observed=5)
    ends = np.minimum(3 * np.arange(1, 21), 59) - 1
    np.testing.assert_array_equal(held["state"], single["state"][ends])
    np.testing.assert_array_equal(held["vector"], single["vector"][ends])
    sums = np.add.reduceat(single["rest"][:59, 0].astype(np.float64), 3 * np.arange(20))
    np.testing.assert_allclose(held["rest"][:, 0], sums, rtol=1e-6)
    assert held["rest"][:, 2].tolist() == [0] * 19 + [1]


def test_a_sparse_reward_is_met():
    env = suite.load("cartpole", "balance_sparse", task_kwargs={"random": 1})
    env.reset()
    still = np.zeros((20, 1), np.float32)
    ours = replay("cartpole", saved(env.physics), still, "task=balance_sparse", observed=5)
    assert ours["rest"][0, 0] == 1 == env.step([0.0]).reward
    env = suite.load("reacher", "hard", task_kwargs={"random": 1})
    env.reset()
    with env.physics.reset_context():
        env.physics.named.data.qpos[:] = 0.4, 0.3
    finger = env.physics.named.data.geom_xpos["finger", :2].copy()
    for away, expected in ((0.02, 1), (0.03, 0)):
        env.physics.named.model.geom_pos["target", :2] = finger + [away, 0]
        env.physics.forward()
        ours = replay("reacher", saved(env.physics), np.zeros((1, 2), np.float32), "task=hard", observed=6)
        assert ours["rest"][0, 0] == expected == env.task.get_reward(env.physics)


@pytest.mark.parametrize("domain, task", [TASKS[i] for i in (1, 3, 4, 6, 8)], ids=lambda name: name)
def test_episodes_begin_as_those_of_dm_control(domain, task):
    from scipy.stats import ks_2samp

    env = suite.load(domain, task, task_kwargs={"random": 7})
    theirs = []
    for _ in range(300):
        observation = flat(env.reset().observation)
        theirs.append(np.concatenate([saved(env.physics), observation]))
    theirs = np.array(theirs)
    numbers = len(theirs[0]) - len(observation)
    row = np.dtype([("state", "f8", numbers), ("vector", "f4", len(observation))])
    begun = np.frombuffer(run(domain, 0, numbers, b"", f"task={task}"), row)
    ours = np.concatenate([begun["state"], begun["vector"]], axis=1)
    assert len(ours) == 1000
    varied = 0
    for column in range(ours.shape[1]):
        if np.ptp(theirs[:, column]) < 1e-9:
            np.testing.assert_allclose(ours[:, column], theirs[0, column], atol=1e-6)
            continue
        varied += 1
        assert ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-5, column
    assert varied >= 4


@pytest.mark.parametrize("domain, task", [TASKS[i] for i in (1, 3, 4, 8, 9)], ids=lambda name: name)
@pytest.mark.parametrize("full", [True, False], ids=["with shadows", "without"])
def test_pictures_are_those_of_dm_control(domain, task, full):
    env = suite.load(domain, task, task_kwargs={"random": 3})
    quality = env.physics.model.vis.quality
    quality.offsamples = 4 if full else 0
    if not full:
        quality.shadowsize = 0
    observed = len(flat(env.reset().observation))
    size = {"width": 80, "height": 48, "camera_id": 1} if domain == "walker" else {"width": 64, "height": 64, "camera_id": 0}
    try:
        env.physics.render(**size)
    except Exception as error:  # whatever PyOpenGL makes of a machine without EGL
        pytest.skip(f"dm_control cannot render here: {error}")
    state, steps = saved(env.physics), 6
    actions = actions_for(env, np.random.default_rng(5), steps)
    settings = [f"task={task}", "observe=both", f"shadows={str(full).lower()}", f"samples={4 if full else 0}"]
    settings += [f"width={size['width']}", f"height={size['height']}", f"camera={size['camera_id']}"]
    shape = (size["height"], size["width"], 3)
    ours = replay(domain, state, actions, *settings, pixels=int(np.prod(shape)), observed=observed)
    for t in range(steps):
        env.step(actions[t].astype(np.float64))
        picture = env.physics.render(**size)
        assert picture.std() > 5, "an empty picture"
        apart = np.abs(ours["image"][t].reshape(shape).astype(int) - picture)
        # one renderer on one machine: nothing is apart but what rounding of a matrix may move
        assert apart.max() <= 2 and apart.mean() <= 0.01, (t, apart.max(), apart.mean())
