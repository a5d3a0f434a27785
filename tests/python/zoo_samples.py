"""Environments of several agents with the interface of PettingZoo's ParallelEnv, by the id zoo_samples:NAME."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import aec_to_parallel

STEPS = ((0, 0), (0, -1), (1, 0), (0, 1), (-1, 0))


class Evacuation(ParallelEnv):
    """Agents in a room leave by its one door, each for itself, and are in each other's way."""

    metadata = {"name": "evacuation", "render_modes": ["rgb_array"], "render_fps": 5}

    def __init__(self, size=6, count=3, limit=40, render_mode=None):
        self.size, self.limit, self.render_mode = size, limit, render_mode
        self.possible_agents = [f"walker_{i}" for i in range(count)]
        self.space = spaces.Box(-1, 1, (4 + 3 * (count - 1),), np.float32)

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return spaces.Discrete(5)

    def reset(self, seed=None, options=None):
        cells = np.random.default_rng(seed).permutation(self.size**2)
        self.door = np.array(divmod(int(cells[0]), self.size))
        self.agents, self.steps = self.possible_agents[:], 0
        self.at = {a: np.array(divmod(int(cells[1 + i]), self.size)) for i, a in enumerate(self.agents)}
        return {a: self.shown(a) for a in self.agents}, {a: {} for a in self.agents}

    def shown(self, agent):
        own = self.at[agent]
        numbers = [*(own / self.size), *((self.door - own) / self.size)]
        for other in self.possible_agents:
            if other != agent:
                there = other in self.agents
                numbers += [float(there), *((self.at[other] - own) / self.size * there)]
        return np.array(numbers, np.float32)

    def step(self, actions):
        acting, self.steps = self.agents, self.steps + 1
        reward, out = {}, {}
        for agent in acting:
            to = np.clip(self.at[agent] + STEPS[actions[agent]], 0, self.size - 1)
            if not any((to == self.at[a]).all() for a in self.agents if a != agent):
                self.at[agent] = to
            out[agent] = bool((self.at[agent] == self.door).all())
            reward[agent] = 1.0 if out[agent] else -0.02
            if out[agent]:
                self.agents = [a for a in self.agents if a != agent]
        cut = self.steps >= self.limit
        ends = {a: cut and not out[a] for a in acting}
        shown = {a: self.shown(a) for a in acting}
        if cut:
            self.agents = []
        return shown, reward, out, ends, {a: {"left": out[a]} for a in acting}

    def render(self):
        picture = np.full((self.size, self.size, 3), 60, np.uint8)
        picture[tuple(self.door)] = (0, 200, 0)
        for agent in self.agents:
            picture[tuple(self.at[agent])] = (220, 180, 40)
        return picture.repeat(16, 0).repeat(16, 1)


class Counting(ParallelEnv):
    """Shows its seed, its steps and who is seen; an agent comes at one step and ends by itself at another."""

    metadata = {}
    stays = {"early": (0, 3), "late": (2, 6), "long": (0, 9)}  # steps at which one comes and ends

    def __init__(self):
        self.possible_agents = list(self.stays)

    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (3,), np.float64)

    def action_space(self, agent):
        return spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, seed=None, options=None):
        self.seed, self.t, self.sum = seed % 1000, 0, 0.0
        self.agents = [a for a, (first, _) in self.stays.items() if first == 0]
        return {a: self.shown(a) for a in self.agents}, {a: {} for a in self.agents}

    def shown(self, agent):
        return np.array([self.seed, self.t, self.possible_agents.index(agent) + self.sum])

    def step(self, actions):
        assert list(actions) == self.agents
        self.t += 1
        self.sum += float(sum(a.sum() for a in actions.values()))
        came = [a for a, (first, _) in self.stays.items() if first == self.t]
        ended = {a: self.stays[a][1] == self.t for a in actions}
        told = [*actions, *came]
        self.agents = [a for a in self.possible_agents if a in told and not ended.get(a)]
        infos = {a: {"twos": 2} for a in told}
        flags = {a: ended.get(a, False) for a in told}
        reward = {a: float(self.t) for a in told}
        return {a: self.shown(a) for a in told}, reward, flags, dict.fromkeys(told, False), infos


class Doors(ParallelEnv):
    """A mask beside what is seen, pictures and categories; both agents end at once."""

    metadata = {}
    possible_agents = ["left", "right"]

    def __init__(self, mask="observation"):
        self.mask = mask
        seen = spaces.Dict({"camera": spaces.Box(0, 255, (6, 6, 3), np.uint8), "door": spaces.Discrete(4)})
        parts = {"observation": seen, "action_mask": spaces.MultiBinary(4)}
        self.space = spaces.Dict(parts) if mask == "observation" else seen

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.rng, self.agents, self.door = np.random.default_rng(seed), self.possible_agents[:], {"left": 0, "right": 3}
        return self.shown()

    def shown(self):
        seen, infos = {}, {}
        for agent in self.possible_agents:
            camera = np.full((6, 6, 3), self.door[agent], np.uint8)
            mask = np.array([door != self.door[agent] for door in range(4)], np.int8)
            seen[agent], infos[agent] = {"camera": camera, "door": self.door[agent]}, {}
            if self.mask == "observation":
                seen[agent] = {"observation": seen[agent], "action_mask": mask}
            else:
                infos[agent]["action_mask"] = mask
        return seen, infos

    def step(self, actions):
        for agent, door in actions.items():
            assert door != self.door[agent], "the door one stands at"
            self.door[agent] = int(door)
        over = bool(self.rng.random() < 0.1)
        reward = {a: float(self.door["left"] == self.door["right"]) for a in self.agents}
        seen, infos = self.shown()
        for agent in self.agents if over else ():
            # who has ended may do nothing
            mask = seen[agent]["action_mask"] if self.mask == "observation" else infos[agent]["action_mask"]
            mask[:] = 0
        ends, cuts = (dict.fromkeys(self.agents, flag) for flag in (over, False))
        if over:
            self.agents = []
        return seen, reward, ends, cuts, infos


def masked_in_info():
    return Doors(mask="info")


class Shells(ParallelEnv):
    """Two agents choose one of three at once, and each is beaten by one; five times."""

    metadata = {}
    possible_agents = ["one", "other"]

    def observation_space(self, agent):
        return spaces.MultiDiscrete([4, 4])

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.t = self.possible_agents[:], 0
        return dict.fromkeys(self.agents, np.array([3, 3])), {a: {} for a in self.agents}

    def step(self, actions):
        one, other = actions["one"], actions["other"]
        self.t += 1
        won = ((one - other) % 3 + 1) % 3 - 1
        over = dict.fromkeys(self.agents, self.t == 5)
        shown = {"one": np.array([one, other]), "other": np.array([other, one])}
        if self.t == 5:
            self.agents = []
        return shown, {"one": float(won), "other": float(-won)}, over, dict.fromkeys(over, False), {a: {} for a in over}


class Unlike(Counting):
    def observation_space(self, agent):
        return spaces.Box(-1, 1, (self.possible_agents.index(agent) + 1,))


class UnlikeActions(Counting):
    def action_space(self, agent):
        return spaces.Discrete(self.possible_agents.index(agent) + 2)


class Nobody(Counting):
    def __init__(self):
        self.possible_agents = []


class Vanishing(Counting):
    def step(self, actions):
        *came, ends, cuts, infos = super().step(actions)
        return *came, dict.fromkeys(ends, False), cuts, infos


class Silent(Counting):
    def step(self, actions):
        shown, reward, *more = super().step(actions)
        return shown, {a: r for a, r in reward.items() if a != "long"}, *more


class Turns(AECEnv):
    """One whose agents act in turn."""

    metadata = {"name": "turns", "is_parallelizable": True}

    def __init__(self):
        self.possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def observe(self, agent):
        return np.array([self.t / 2], np.float32)

    def reset(self, seed=None, options=None):
        self.agents, self.t, self.agent_selection = self.possible_agents[:], 0, "a"
        self.rewards = self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {a: {} for a in self.agents}

    def step(self, action):
        if self.terminations[self.agent_selection]:
            return self._was_dead_step(action)
        self.t += 1
        last = self.agent_selection == "b"
        self.rewards = dict.fromkeys(self.agents, float(last))
        if last and self.t == 8:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = "a" if last else "b"


def turns_at_once():
    return aec_to_parallel(Turns())
