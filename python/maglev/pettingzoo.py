"""Beside PettingZoo: one of the engine's environments as its ParallelEnv, for code that expects those.

env = maglev.pettingzoo.ParallelEnv("foundry", {"env.teams": 2})
observations, infos = env.reset(seed=3)
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pettingzoo  # type: ignore[import-untyped]
from gymnasium import spaces
from numpy.typing import NDArray

from maglev import _engine
from maglev.gymnasium import VectorEnv
from maglev.settings import Settings

Array = NDArray[Any]


class ParallelEnv(pettingzoo.ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """One environment, whose agents are agent_0, agent_1 and so on, in the order of its rows. What they see and take are
    maglev.gymnasium.VectorEnv's; where there are masks an observation is a dict of "observation" and "action_mask", heads
    one behind the other. Of a head whose mask forbids what was chosen the first allowed category is taken.
    """

    def __init__(self, name: str, settings: Settings = None, *, render_mode: str | None = None, **options: Any):
        self._vector = VectorEnv(name, 1, settings, render_mode=render_mode, **options)
        self._spec = self._vector.envs.spec
        self._mask: Array | None = None
        self.render_mode = render_mode
        self.metadata = {"name": name, "render_modes": ["rgb_array"], "is_parallelizable": True}
        if self._spec.render_fps:
            self.metadata["render_fps"] = self._spec.render_fps
        self.possible_agents = [f"agent_{i}" for i in range(self._vector.num_envs)]
        self.agents: list[str] = []
        seen, taken = self._vector.single_observation_space, self._vector.single_action_space
        if self._spec.masked:
            seen = spaces.Dict({"observation": seen, "action_mask": spaces.MultiBinary(sum(self._spec.heads))})
        # each agent's own: they are seeded one by one
        self.observation_spaces = {agent: copy.deepcopy(seen) for agent in self.possible_agents}
        self.action_spaces = {agent: copy.deepcopy(taken) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Without a seed: first the episode of the seed it was made with, then others each time."""
        shown, infos = self._vector.reset(seed=seed, options=options)
        self.agents = self.possible_agents[:]
        return self._seen(shown, infos), {agent: self._told(infos) for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Who ends leaves `agents`; when all have, reset() begins another episode."""
        if not self.agents:
            raise _engine.Error("[step] nobody plays: reset() comes before the first step, and after an episode's last")
        acting = self.agents
        shown, reward, terminated, truncated, infos = self._vector.step(self._rows(actions))
        rows = {agent: self.possible_agents.index(agent) for agent in acting}
        seen = self._seen(shown, infos)
        ends = {agent: bool(terminated[row]) for agent, row in rows.items()}
        cuts = {agent: bool(truncated[row]) for agent, row in rows.items()}
        self.agents = [agent for agent in acting if not (ends[agent] or cuts[agent])]
        return seen, {agent: float(reward[row]) for agent, row in rows.items()}, ends, cuts, {agent: self._told(infos) for agent in acting}

    def render(self) -> Array | None:
        """[320, 320, 3] uint8, where render_mode is rgb_array."""
        pictures = self._vector.render()
        return pictures[0] if pictures else None

    def close(self) -> None:
        self._vector.close()

    def _seen(self, shown: Any, infos: dict[str, Any]) -> dict[str, Any]:
        self._mask = infos.get("mask")
        seen = {}
        for row, agent in enumerate(self.possible_agents):
            own = {name: column[row] for name, column in shown.items()} if isinstance(shown, dict) else shown[row]
            if self._mask is not None:
                own = {"observation": own, "action_mask": self._mask[row].astype(np.int8)}
            if agent in self.agents:
                seen[agent] = own
        return seen

    @staticmethod
    def _told(infos: dict[str, Any]) -> dict[str, Any]:
        """What is an agent's: events, where they are asked for, are the environment's."""
        return {name: column[0] for name, column in infos.items() if name == "events"}

    def _rows(self, actions: dict[str, Any]) -> Array:
        """The actions of all rows; those of who has ended are ignored."""
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise _engine.Error(f"[step] expects an action of each of its agents, got none of {', '.join(missing)}")
        foreign = [repr(agent) for agent in actions if agent not in self.possible_agents]
        if foreign:
            raise _engine.Error(f"[step] has agents {', '.join(self.possible_agents)}, got an action of {', '.join(foreign)}")
        discrete = self._spec.discrete
        rows = np.zeros((len(self.possible_agents), self._spec.action_dims), np.int64 if discrete else np.float32)
        for row, agent in enumerate(self.possible_agents):
            if agent not in self.agents:
                continue
            chosen = np.asarray(actions[agent])
            if discrete and not ((chosen >= 0) & (chosen < np.array(self._spec.heads))).all():
                raise _engine.Error(f"[step] {agent} takes {self.action_spaces[agent]}, got {actions[agent]!r}")
            rows[row] = chosen
        return self._allowed(rows) if self._mask is not None else rows

    def _allowed(self, rows: Array) -> Array:
        assert self._mask is not None
        begin = 0
        for head, categories in enumerate(self._spec.heads):
            mask = self._mask[:, begin : begin + categories]
            chosen = rows[:, head]
            rows[:, head] = np.where(mask[np.arange(len(rows)), chosen], chosen, mask.argmax(1))
            begin += categories
        return rows
