"""Environments of several agents, with the interface of pettingzoo's ParallelEnv: whose rows are whose, and who waits."""

import math

from maglev_environments import END, NO_LIMIT, Environments, expect_dict, expect_number
from maglev_spaces import Actions, Observations, Unsuited, shortened


class Seats:
    """Which agents of an environment play, and what each showed last."""

    def __init__(self, playing, blank):
        self.playing = playing  # by agent: goes on
        self.played = [False] * len(playing)  # by agent: took the last step
        self.gone = set()  # agents that have ended
        self.last = [blank] * len(playing)


class ParallelEnvironments(Environments):
    """Those of PettingZoo's ParallelEnv, as `which` makes them: an agent is a row, and waits where others go on."""

    ends_apart = True

    def __init__(self, made, given, which, env):
        self.seats = {}  # by number
        self.looked_at = env
        super().__init__(made, given, which)

    def first(self, made):
        from gymnasium import spaces

        env = self.looked_at
        self.agents = tuple(getattr(env, "possible_agents", None) or ())
        if not self.agents:
            raise Unsuited("has no possible_agents, whose rows are of an environment in each step: list all it may ever have")
        for what, space_of in (("shows", env.observation_space), ("takes", env.action_space)):
            self.expect_alike(what, space_of)
        shows = env.observation_space(self.agents[0])
        self.mask_shown = isinstance(shows, spaces.Dict) and "action_mask" in shows.spaces
        self.within = None  # what is seen lies there, beside a mask
        if self.mask_shown:
            self.mask_name = "observation['action_mask']"
            parts = {name: part for name, part in shows.spaces.items() if name != "action_mask"}
            self.within = "observation" if list(parts) == ["observation"] else None
            shows = parts["observation"] if self.within else spaces.Dict(parts)
        self.observations, self.actions = Observations(shows), Actions(env.action_space(self.agents[0]))
        _, infos = env.reset(seed=0)
        expect_dict(infos)
        told = self.mask_shown or any("action_mask" in (info or ()) for info in infos.values())
        self.masked = made["masks"] and len(self.actions.heads) == 1 and told
        columns = sum(math.prod(c["shape"]) * (4 if c["dtype"] == "f32" else 1) for c in self.observations.columns())
        self.all_allowed = bytes([1] * self.actions.heads[0] if self.masked else [])
        self.blank = bytes(columns) + self.all_allowed
        return env

    def expect_alike(self, what, space_of):
        one = self.agents[0]
        for other in self.agents[1:]:
            if space_of(other) != space_of(one):
                raise Unsuited(
                    f"has agents that are not alike: {one!r} {what} {space_of(one)}, {other!r} {space_of(other)}. All are "
                    "rows of one policy: pad them to one space in a wrapper (supersuit.pad_observations_v0, "
                    "supersuit.pad_action_space_v0)"
                )

    def limits(self, made, env):
        return {"max_steps": made["max_steps"] or NO_LIMIT, "solved_at": None}

    def make(self, **more):
        return self.which(**{**self.given, **more})

    def begin(self, number, seed):
        env = self.env(number)
        seen, infos = env.reset(seed=seed)
        self.seats[number] = Seats([agent in env.agents for agent in self.agents], self.blank)
        if not any(self.seats[number].playing):
            raise Unsuited(f"has none of its possible_agents among agents after reset(): {list(env.agents)}")
        return seen, {}, {}, {}, infos

    def step(self, number, sent):
        env, seats, size = self.by_number[number], self.seats[number], self.actions.bytes
        actions = {
            agent: self.actions.read(sent[i * size : (i + 1) * size])
            for i, agent in enumerate(self.agents)
            if seats.playing[i]
        }
        came = env.step(actions)
        seen, _, terminated, truncated, infos = came
        for i, agent in enumerate(self.agents):
            if not seats.playing[i]:
                continue
            if self.of(agent, terminated, "terminated") or self.of(agent, truncated, "truncated"):
                seats.gone.add(agent)
                seats.last[i] = self.seen_by(agent, seen, infos, acts=False)
            elif agent not in env.agents:
                raise Unsuited(
                    f"left {agent!r} out of its agents, and step() said neither terminated nor truncated of it, where one "
                    "is expected of who leaves"
                )
        seats.played = seats.playing
        seats.playing = [agent in env.agents and agent not in seats.gone for agent in self.agents]
        return came, not any(seats.playing)

    def told(self, number, came):
        seen, reward, terminated, truncated, infos = came
        seats = self.seats[number]
        for i, agent in enumerate(self.agents):
            if seats.playing[i]:
                seats.last[i] = self.seen_by(agent, seen, infos)
        ends = [
            END.pack(expect_number(self.of(agent, reward, "reward")), bool(terminated[agent]), bool(truncated[agent]))
            if played
            else END.pack(0.0, False, False)
            for agent, played in zip(self.agents, seats.played)
        ]
        told = b"".join([*seats.last, bytes(seats.playing), *ends])
        if self.counted:
            expect_dict(infos)
            told += self.count([infos.get(agent) or {} for agent, played in zip(self.agents, seats.played) if played])
        return told

    def of(self, agent, given, what):
        """Of one agent, of what reset() or step() gives by agents."""
        try:
            return given[agent]
        except (KeyError, TypeError) as error:
            raise Unsuited(f"gave no {what} of {agent!r}, which plays: {shortened(repr(given))}") from error

    def seen_by(self, agent, seen, infos, acts=True):
        """An agent's columns and mask; of who acts no more a mask need not allow anything."""
        seen = shown = self.of(agent, seen, "observation")
        if self.within:
            shown = self.observations.part(seen, (self.within,))
        if not (self.masked and acts):
            allowed = self.all_allowed
        elif self.mask_shown:
            allowed = self.observations.part(seen, ("action_mask",))
        else:
            allowed = (self.of(agent, infos, "info") or {}).get("action_mask")
        return bytes(self.seen(shown, allowed))
