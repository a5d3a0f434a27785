"""PettingZoo: the engine's environments as its ParallelEnv."""

import os
import re
import sys
import sysconfig
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import BUILD, HOME

pytest.importorskip("pettingzoo")
if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402

SHORT = {"env.max_steps": 30}


@pytest.mark.parametrize("name", ["foundry", "hockey_duel", "cartpole"])
def test_pettingzoo_takes_ours_for_its_own(name):
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    def made():
        return maglev.pettingzoo.ParallelEnv(name, SHORT)

    with warnings.catch_warnings():
        # it warns of what it would rather not see
        warnings.simplefilter("error")
        parallel_api_test(made(), num_cycles=40)
        parallel_seed_test(made, num_cycles=40)


def test_agents_are_the_rows_of_an_environment():
    envs = maglev.make("foundry", 1, SHORT, seed=4)
    env = maglev.pettingzoo.ParallelEnv("foundry", SHORT, seed=4, render_mode="rgb_array")
    obs, info = envs.reset()
    seen, infos = env.reset()
    assert str(env) == "foundry" and env.agents == env.possible_agents == [f"agent_{i}" for i in range(8)]
    assert set(infos) == set(env.agents) and env.render().shape == (320, 320, 3)
    for t in range(30):
        for row, agent in enumerate(env.possible_agents):
            assert env.observation_space(agent).contains(seen[agent]), agent
            np.testing.assert_array_equal(seen[agent]["observation"]["vector"], obs["vector"][row])
            np.testing.assert_array_equal(seen[agent]["action_mask"], info["mask"][row])
        chosen = envs.sample()
        obs, reward, terminated, truncated, info = envs.step(chosen)
        seen, rewards, ends, cuts, _ = env.step(dict(zip(env.agents, chosen.numpy())))
        assert list(rewards.values()) == reward.tolist()
        assert list(ends.values()) == terminated.tolist() and list(cuts.values()) == truncated.tolist()
        assert bool(env.agents) == (t < 29)
    with pytest.raises(maglev.Error, match="nobody plays"):
        env.step({})
    assert not np.array_equal(env.reset()[0]["agent_0"]["observation"]["window"], seen["agent_0"]["observation"]["window"])
    env.close()
    with pytest.raises(maglev.Error, match="are closed"):
        env.reset()


def test_what_a_mask_forbids_is_the_first_that_it_allows():
    env, other = (maglev.pettingzoo.ParallelEnv("foundry", {"env.max_steps": 5}) for _ in range(2))
    seen, _ = env.reset(seed=1)
    other.reset(seed=1)
    # without a laser nobody fires
    assert seen["agent_0"]["action_mask"][0] and not seen["agent_0"]["action_mask"][5]
    forbidden, stays = env.step(dict.fromkeys(env.agents, 5)), other.step(dict.fromkeys(other.agents, 0))
    for agent in env.agents:
        np.testing.assert_array_equal(forbidden[0][agent]["observation"]["window"], stays[0][agent]["observation"]["window"])


@pytest.mark.parametrize(
    "actions, said",
    [
        ({"agent_0": 0}, "got none of agent_1, agent_2"),
        ({f"agent_{i}": 11 * (i == 3) for i in range(8)}, "agent_3 takes Discrete(11), got 11"),
    ],
)
def test_actions_that_are_none_are_refused(actions, said):
    env = maglev.pettingzoo.ParallelEnv("foundry")
    env.reset(seed=1)
    with pytest.raises(maglev.Error, match=re.escape(said)):
        env.step(actions)
