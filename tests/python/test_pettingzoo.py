"""PettingZoo: its environments behind `gymnasium env.id=...`, and the engine's as its ParallelEnv."""

import json
import os
import re
import sys
import sysconfig
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import BUILD, HOME

pytest.importorskip("pettingzoo")
if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402
import zoo_samples  # noqa: E402
from test_gymnasium import SEED, SMALL, seed_of  # noqa: E402

HERE = Path(__file__).parent
SHORT = {"env.max_steps": 30}


class Followed:
    """An environment of PettingZoo's beside the engine's rows of it: what each row is to show, step by step."""

    def __init__(self, kind, number):
        self.env, self.number, self.episode = kind(), number, -1
        self.begin()

    def begin(self):
        self.episode += 1
        self.seen, self.infos = self.env.reset(seed=seed_of(self.number, self.episode))
        self.shown, self.over = {}, False
        self.look()

    def look(self):
        self.shown |= {a: self.seen[a] for a in self.env.agents}

    def step(self, taken):
        """What each possible agent's row is: (reward, terminated, truncated, is_first)."""
        if self.over:
            self.begin()
            return [(0, False, False, True)] * len(self.env.possible_agents)
        acting = self.env.agents[:]
        actions = {a: taken[self.env.possible_agents.index(a)] for a in acting}
        self.seen, reward, ends, cuts, self.infos = self.env.step(actions)
        self.shown |= {a: self.seen[a] for a in acting}
        self.look()
        self.over = not self.env.agents
        played = [a in acting for a in self.env.possible_agents]
        return [
            (reward[a], ends[a], cuts[a], False) if there else (0, False, False, True)
            for a, there in zip(self.env.possible_agents, played)
        ]


def made(kind, num_envs, **settings):
    return maglev.make("gymnasium", num_envs, {"env.id": kind, "env.workers": 2, **settings}, seed=SEED)


@pytest.mark.parametrize("kind", [zoo_samples.Evacuation, zoo_samples.Counting, zoo_samples.Shells])
def test_rows_are_agents_and_who_has_ended_waits(kind, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    with made(kind, 3) as envs:
        beside = [Followed(kind, number) for number in range(3)]
        agents = beside[0].env.possible_agents
        obs, info = envs.reset()
        assert envs.agents == len(agents) and info["is_first"].all()
        columns = {name: [] for name in ("reward", "value", "terminated", "is_first")}
        counted = 0
        for _ in range(120):
            chosen = envs.sample()
            columns["is_first"].append(info["is_first"])
            obs, reward, terminated, truncated, info = envs.step(chosen)
            taken = chosen.numpy().reshape(3, len(agents), *chosen.shape[1:])
            rows = [row for env in beside for row in env.step(taken[env.number])]
            told = list(zip(reward.tolist(), terminated.tolist(), truncated.tolist(), info["is_first"].tolist()))
            assert told == [(np.float32(r), *flags) for r, *flags in rows]
            for number, env in enumerate(beside):
                for a, seen in env.shown.items():
                    space = env.env.observation_space(a)
                    flat = np.asarray(maglev.gymnasium._spaces().Observations(space).flatten(space, seen), np.float32)
                    np.testing.assert_array_equal(obs[number * len(agents) + agents.index(a)], flat.reshape(-1))
            counted += sum(not first for *_, first in rows)
            for name, column in ("reward", reward), ("terminated", terminated), ("value", torch.zeros(envs.rows)):
                columns[name].append(column)
        # steps in which a row waits are in no loss
        columns["is_first"].append(info["is_first"])
        columns["value"].append(torch.zeros(envs.rows))
        *_, valid = maglev.gae(**{name: torch.stack(rows) for name, rows in columns.items()}, gamma=0.99, lam=0.95)
        assert int(valid.sum()) == counted and min(env.episode for env in beside) >= 2


@pytest.mark.parametrize("name", ["Doors", "masked_in_info"])
def test_masks_are_what_is_seen_or_told_of_each_agent(name, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    with made(f"zoo_samples:{name}", 2) as envs:
        obs, info = envs.reset()
        terminated = torch.zeros(4, dtype=torch.bool)
        for _ in range(60):
            assert set(obs) == {"vector", "camera"} and info["mask"].shape == (4, 4)
            # who stands at a door cannot choose it, and who has ended no more
            ended = terminated.unsqueeze(1)
            assert torch.equal(info["mask"], (obs["vector"] == 0) | ended)
            assert (obs["camera"].flatten(1) == obs["vector"].argmax(1, keepdim=True)).all()
            obs, _, terminated, _, info = envs.step(envs.sample())
        assert envs.totals()["episodes"] > 2
    # what is seen is the same where they are not looked at
    with made(f"zoo_samples:{name}", 2) as masked, made(f"zoo_samples:{name}", 2, **{"env.masks": False}) as unmasked:
        (seen, _), (alike, info) = masked.reset(), unmasked.reset()
        assert "mask" not in info and set(alike) == set(seen)
        assert all(torch.equal(seen[column], alike[column]) for column in seen)


def train(engine, run, *words, algo="ppo"):
    done = engine("train", algo, "gymnasium", *words, "--out", run, cwd=HERE)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["Evacuation", "Counting", "Doors"])
def test_a_run_goes_on_to_the_bit(engine, tmp_path, name):
    words = [*SMALL, f"env.id=zoo_samples:{name}", "ppo.minibatch=30"]
    whole = train(engine, tmp_path / "whole", *words, "train.steps=1920")
    train(engine, tmp_path / "half", *words, "train.steps=960")
    done = engine("train", "--resume", tmp_path / "half", "train.steps=1920", cwd=HERE)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "half" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["return_mean"] == whole[-1]["return_mean"] and whole[-1]["episodes"] > 5
    newest = [max((tmp_path / run / "checkpoints").glob("step_*")) for run in ("whole", "half")]
    assert (newest[0] / "state.safetensors").read_bytes() == (newest[1] / "state.safetensors").read_bytes()


def test_threads_and_processes_do_not_show(engine, tmp_path):
    rows = [
        train(engine, tmp_path / f"{threads}{workers}", *SMALL, "ppo.minibatch=30", "env.id=zoo_samples:Evacuation",
              f"threads={threads}", f"env.workers={workers}", "train.steps=1440")[-1]
        for threads, workers in ((1, 1), (2, 3))
    ]  # fmt: skip
    keys = [key for key in rows[0] if key.startswith(("return", "episode", "loss", "entropy"))]
    assert keys and [rows[0][key] for key in keys] == [rows[1][key] for key in keys]


def test_it_is_judged_played_and_learned_by_others(engine, tmp_path):
    words = ["--bare", "env.id=zoo_samples:Counting", "env.count=2", "train.steps=600", "tdmpc2.seed_steps=300"]
    small = ["tdmpc2.size=1", "tdmpc2.mpc=false", "tdmpc2.batch=16", "tdmpc2.update_every=100", "tdmpc2.updates_per_step=0.02"]
    train(engine, tmp_path / "tdmpc2", *words, *small, "--sinks", "jsonl", algo="tdmpc2")
    words = [*SMALL, "ppo.minibatch=30", "env.id=zoo_samples:Evacuation", "env.info=left", "train.steps=960"]
    train(engine, tmp_path / "run", *words)
    done = engine("eval", tmp_path / "run", "--episodes", "10", "--json", cwd=HERE)
    assert done.returncode == 0, done.stderr
    done = engine("play", tmp_path / "run", "--record", tmp_path / "game.gif", cwd=HERE)
    assert done.returncode == 0, done.stderr
    from PIL import Image

    assert Image.open(tmp_path / "game.gif").n_frames > 3
    done = engine("envs", "gymnasium", "env.id=zoo_samples:Evacuation", cwd=HERE)
    assert "agents       3, which may end apart" in done.stdout


def test_a_game_of_two_has_opponents(engine, tmp_path):
    words = [*SMALL, "env.id=zoo_samples:Shells", "train.steps=960", "train.opponents=random,past", "train.past_every=320"]
    *_, row = train(engine, tmp_path / "run", *words)
    assert row["score/random"] is not None
    done = engine("eval", tmp_path / "run", "--against", "random", "--episodes", "4", cwd=HERE)
    assert done.returncode == 0, done.stderr


def test_one_policy_learns_for_all_agents(engine, tmp_path):
    """At random a third of a room's walkers find its door in time."""
    words = ["--bare", "env.id=zoo_samples:Evacuation", 'env.kwargs={"size": 4, "limit": 12}', "env.count=16", "ppo.lr=0.003"]
    sizes = ["ppo.rollout=32", "ppo.minibatch=384", "ppo.network.hidden=[32,32]", "train.log_every=12288", "seed=1"]
    rows = train(engine, tmp_path / "run", *words, *sizes, "train.steps=61440", "--sinks", "jsonl")
    assert rows[0]["return_mean"] < 0.5 and rows[-1]["return_mean"] > 0.75, [row["return_mean"] for row in rows]


@pytest.mark.parametrize(
    "name, said",
    [
        ("Unlike", "'early' shows Box(-1.0, 1.0, (1,), float32), 'late' Box(-1.0, 1.0, (2,), float32)"),
        ("UnlikeActions", "'early' takes Discrete(2), 'late' Discrete(3)"),
        ("Nobody", "has no possible_agents"),
        ("Vanishing", "left 'early' out of its agents, and step() said neither"),
        ("Silent", "gave no reward of 'long', which plays"),
        ("Turns", "whose agents act in turn"),
    ],
)
def test_what_no_rows_can_be_made_of_is_refused(name, said, engine, tmp_path):
    words = [*SMALL, f"env.id=zoo_samples:{name}", "ppo.minibatch=30", "train.steps=960", "--out", tmp_path / "run"]
    done = engine("train", "ppo", "gymnasium", *words, cwd=HERE)
    assert done.returncode == 2 and f"[gymnasium] zoo_samples:{name} " in done.stderr and said in done.stderr


def test_agents_that_act_in_turn_are_taken_at_once_by_a_wrapper(engine, tmp_path):
    *_, row = train(engine, tmp_path / "run", *SMALL, "env.id=zoo_samples:turns_at_once", "train.steps=320")
    assert row["return_mean"] == 4 and row["episode/length_mean"] == 4


def test_what_pettingzoo_registers_is_made_by_its_id(engine):
    pytest.importorskip("pygame")
    done = engine("envs", "gymnasium", "env.id=pettingzoo:classic/rps-v2")
    assert done.returncode == 0 and "agents       2" in done.stdout, done.stderr
    done = engine("envs", "gymnasium", "env.id=pettingzoo:classic/tictactoe-v3")
    assert done.returncode == 2 and "turn_based_aec_to_parallel" in done.stderr


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
        ({f"agent_{i}": 0 for i in range(9)}, "has agents agent_0, agent_1,"),
        ({f"agent_{i}": 11 * (i == 3) for i in range(8)}, "agent_3 takes Discrete(11), got 11"),
    ],
)
def test_actions_that_are_none_are_refused(actions, said):
    env = maglev.pettingzoo.ParallelEnv("foundry")
    env.reset(seed=1)
    with pytest.raises(maglev.Error, match=re.escape(said)):
        env.step(actions)


def test_events_are_told_to_every_agent_where_that_is_asked():
    env = maglev.pettingzoo.ParallelEnv("hockey_duel", events=True)
    _, infos = env.reset(seed=1)
    for place, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(place)
    for _ in range(60):
        assert set(infos) == {"agent_0", "agent_1"}
        counted = [infos[agent]["events"] for agent in infos]
        assert counted[0].shape == (5,) and (counted[0] == counted[1]).all()
        if not env.agents:
            # a goal was shot
            _, infos = env.reset()
            continue
        *_, infos = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
