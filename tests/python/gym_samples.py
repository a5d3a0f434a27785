"""Environments that Gymnasium's own do not have, by the id gym_samples:NAME-v0."""

import os
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env):
    """A place, a picture and numbers; actions that begin at -1, of which a wall forbids one."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, size=8, render_mode=None):
        self.size, self.render_mode = size, render_mode
        self.observation_space = spaces.Dict(
            {
                "place": spaces.Discrete(size),
                "camera": spaces.Box(0, 255, (size, size, 3), np.uint8),
                "more": spaces.Tuple((spaces.Box(-1, 1, (2, 2)), spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]))),
            }
        )
        self.action_space = spaces.Discrete(3, start=-1)

    def shown(self):
        camera = np.zeros((self.size, self.size, 3), np.uint8)
        camera[self.x, :, 0], camera[:, self.x, 1] = 200, self.x
        share = self.x / self.size
        numbers = np.array([[share, -share], [0.5, share]])
        more = (numbers, np.array([self.x % 2, 1]), np.array([self.x % 2, self.x % 3]))
        info = {"action_mask": np.array([self.x > 0, True, self.x < self.size - 1], np.int8)}
        return {"place": self.x, "camera": camera, "more": more}, info

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(self.size))
        return self.shown()

    def step(self, action):
        assert 0 <= self.x + action < self.size, "a wall"
        self.x += int(action)
        shown, info = self.shown()
        return shown, float(self.x == self.size - 1), bool(self.np_random.random() < 0.05), False, info

    def render(self):
        return self.shown()[0]["camera"]


class Switches(gymnasium.Env):
    """Several heads; nobody says how long an episode is."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 9, (4,), np.int64)
        self.action_space = spaces.MultiDiscrete([2, 3], start=[1, 0])

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.int64), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.array([*action, 3, 9]), float(action[0] * action[1]), bool(self.np_random.random() < 0.1), False, {}


class Buttons(Switches):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.MultiBinary(2)


class Echo(gymnasium.Env):
    """Numbers within bounds; shows what it was given."""

    def __init__(self, shape=(2, 2)):
        self.observation_space = spaces.Box(-9, 9, shape, np.float64)
        self.action_space = spaces.Box(-1, np.float32([[0.5, 1], [1, 2]]), shape)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((2, 2)), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return action.astype(np.float64), float(action.sum()), bool(self.np_random.random() < 0.1), False, {}


class Scalars(Switches):
    """A number without dimensions is shown, and one is taken."""

    def __init__(self):
        self.observation_space = spaces.Box(-9, 9, (), np.float64)
        self.action_space = spaces.Box(2, 5, (), np.int64)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return 0.5, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return float(action), float(action), bool(self.np_random.random() < 0.1), False, {}


class Unrendered(Echo):
    def __init__(self, render_mode=None):
        super().__init__()


class Ansi(Echo):
    metadata = {"render_modes": ["ansi"]}

    def __init__(self, render_mode=None):
        super().__init__()
        assert render_mode in (None, "ansi")


class Raises(Corridor):
    def step(self, action):
        raise ValueError("the motor is gone")


class Trips(gymnasium.Env):
    """Counts its steps; raises once, in its first reset or in its third step."""

    observation_space = spaces.Box(0, 99, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, resets=False):
        self.sound, self.resets = False, resets

    def expect_sound(self, here):
        if here and not self.sound:
            self.sound = True
            raise ValueError("tripped")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        # the engine's own look at what it shows comes first, with seed 0
        self.expect_sound(self.resets and seed != 0)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        self.expect_sound(not self.resets and self.steps == 3)
        return np.full(1, self.steps, np.float32), 1.0, False, False, {}


class Dies(Corridor):
    def step(self, action):
        print("farewell")
        os._exit(3)


class Exits(Corridor):
    def step(self, action):
        sys.exit("enough")


class Asks(Corridor):
    def step(self, action):
        return input()


class Grows(Echo):
    def step(self, action):
        return np.zeros(7), 0.0, False, False, {}


class Shrinks(Corridor):
    def step(self, action):
        seen, *rest = super().step(action)
        return {**seen, "camera": seen["camera"][1:]}, *rest


class Shares(Corridor):
    """A picture of shares, which as bytes is black."""

    def step(self, action):
        seen, *rest = super().step(action)
        return {**seen, "camera": seen["camera"] / 255}, *rest


class Forgets(Corridor):
    def step(self, action):
        seen, *rest = super().step(action)
        return {"camera": seen["camera"], "place": seen["place"]}, *rest


class Leaves(Corridor):
    """Is in a place that is none; one-hot it would be another one."""

    def step(self, action):
        seen, *rest = super().step(action)
        return {**seen, "place": -1}, *rest


class Older(Echo):
    """Steps as Gym did before Gymnasium."""

    def step(self, action):
        return np.zeros((2, 2)), 0.0, False, {}


class NotANumber(Echo):
    def step(self, action):
        return np.array([[0, 1], [np.nan, 1]]), 0.0, False, False, {}


class NotAReward(Echo):
    def step(self, action):
        return np.zeros((2, 2)), np.nan, False, False, {}


class NoMask(Corridor):
    def step(self, action):
        return *super().step(action)[:4], {}


class NothingAllowed(Corridor):
    def step(self, action):
        return *super().step(action)[:4], {"action_mask": np.zeros(3, np.int8)}


class NoReward(Echo):
    def step(self, action):
        return np.zeros((2, 2)), None, False, False, {}


class Huge(Echo):
    def step(self, action):
        return np.zeros((2, 2)), 1e60, False, False, {}


class Frames(gymnasium.Env):
    """Grey pictures stacked as Gymnasium does, and whole numbers as actions; prints a great deal."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (4, 12, 10), np.uint8)
        self.action_space = spaces.Box(-1, 2, (2,), np.int64)

    def shown(self):
        print("." * 10_000)
        return (np.arange(480).reshape(4, 12, 10) + self.t).astype(np.uint8)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = int(self.np_random.integers(100))
        return self.shown(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += int(action.sum())
        return self.shown(), float(self.t), bool(self.np_random.random() < 0.1), False, {}

    def close(self):
        raise RuntimeError("not so")


class Hangs(Echo):
    """Waits for a simulator that is gone."""

    def step(self, action):
        if self.np_random.random() < 0.2:
            time.sleep(3600)
        return super().step(action)


class Stops(Echo):
    """Ends its process in the fifth step of some episodes, or hangs there; the file says which one it was."""

    def __init__(self, file, hangs=False):
        super().__init__()
        self.file, self.hangs = file, hangs

    def reset(self, seed=None, options=None):
        self.seed, self.t = seed, 0
        return super().reset(seed=seed)

    def step(self, action):
        self.t += 1
        if self.t == 5 and self.seed % 3 == 0:
            with open(self.file, "w") as to:
                to.write(f"reset(seed={self.seed}), and this was step {self.t}")
            time.sleep(3600) if self.hangs else os._exit(3)
        return np.zeros((2, 2)), 0.0, False, False, {}


class Counts(Echo):
    """Says how it went besides, with an episode's last step and with each."""

    def __init__(self, fuel=0.25):
        super().__init__()
        self.fuel = fuel

    def step(self, action):
        shown, reward, terminated, truncated, _ = super().step(action)
        info = {"is_success": np.bool_(True)} if terminated else {}
        return shown, reward, terminated, truncated, {"fuel": self.fuel, **info}


class Named(Echo):
    """Its actions have names, as Atari's games do."""

    def __init__(self, names=("stay", "left", "right")):
        super().__init__()
        self.names = names
        self.action_space = spaces.Discrete(3)

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.zeros((2, 2)), float(action), bool(self.np_random.random() < 0.1), False, {}

    def get_action_meanings(self):
        if self.names is None:
            raise NotImplementedError
        return list(self.names)


def turned(**kwargs):
    """Its wrapper's actions are others than those that are named."""
    return gymnasium.wrappers.TransformAction(Named(**kwargs), lambda action: 2 - action, spaces.Discrete(3))


class Waits(Echo):
    """For a simulator that takes its time."""

    def step(self, action):
        time.sleep(0.05)
        return super().step(action)


class Gate(Echo):
    """Goes on behind its tenth step only once the file is there; that it waits, it says in a file of its own beside."""

    def __init__(self, file):
        super().__init__()
        self.file, self.steps = file, 0

    def step(self, action):
        self.steps += 1
        if self.steps > 10 and not os.path.exists(self.file):
            open(f"{self.file}.{os.getpid()}", "w").close()
            while not os.path.exists(self.file):
                time.sleep(0.01)
        return super().step(action)


class Leaving(Echo):
    """Writes down that it was closed; has an opinion of how fast it is looked at."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}

    def __init__(self, file="", render_mode=None):
        super().__init__()
        self.file, self.render_mode = file, render_mode

    def render(self):
        return np.full((8, 8, 3), 90, np.uint8)

    def close(self):
        if self.file:
            with open(self.file, "a") as to:
                to.write("closed\n")
        raise RuntimeError("not so")


class Narrow(Echo):
    """Whole numbers of one byte, all of them."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-128, 127, (1,), np.int8)

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.zeros((2, 2)), float(action[0]), bool(self.np_random.random() < 0.1), False, {}


class Unseeded(Echo):
    """As long whatever its seed, and never the same."""

    def reset(self, seed=None, options=None):
        self.t, self.rng = 0, np.random.default_rng()
        return self.rng.random((2, 2)), {}

    def step(self, action):
        self.t += 1
        return self.rng.random((2, 2)), 1.0, self.t == 40, False, {}


class Unbounded(Echo):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,))


class Fine(Echo):
    """Whole numbers, of which there are too many."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(0, 1000, (2,), np.int64)


class Mixed(Echo):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))


class Unseedable(Echo):
    def reset(self):
        return np.zeros((2, 2)), {}


class Silent(Echo):
    def reset(self, seed=None, options=None):
        return np.zeros((2, 2)), None


class Sized(Echo):
    def __init__(self, size):
        super().__init__()


class Words(Echo):
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Text(8)


class OfGym(Echo):
    """Has the spaces of the older package."""

    def __init__(self):
        super().__init__()
        self.observation_space = type("Box", (), {"__module__": "gym.spaces.box"})()


class Wide(gymnasium.Env):
    """A picture for a long action, without an end."""

    def __init__(self, side=96, numbers=400):
        self.picture = np.full((side, side, 3), 7, np.uint8)
        self.observation_space = spaces.Box(0, 255, self.picture.shape, np.uint8)
        self.action_space = spaces.Box(-1, 1, (numbers,))

    def reset(self, seed=None, options=None):
        return self.picture, {}

    def step(self, action):
        return self.picture, 1.0, False, False, {}


class Pays(gymnasium.Env):
    """1 for each of five steps, behind which an episode ends; or a limit cuts one that goes on and on."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, ends=True):
        self.ends = ends

    def seen(self):
        return np.array([self.steps / 5 if self.ends else 0.5], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        last = self.steps == 5
        return self.seen(), 1.0, last and self.ends, last and not self.ends, {}


class Clock(Corridor):
    """Does not follow from its seed and its actions."""

    def step(self, action):
        shown, reward, terminated, truncated, info = super().step(action)
        return shown, reward, bool(time.time_ns() % 3 == 0), truncated, info


class Takes(Echo):
    """Takes its time to step, at work or asleep."""

    def __init__(self, works_s=0.0, sleeps_s=0.0, keeps=0):
        super().__init__()
        self.works_s, self.sleeps_s, self.keeps = works_s, sleeps_s, keeps
        self.kept = []

    def step(self, action):
        began = time.thread_time()
        while time.thread_time() - began < self.works_s:
            pass
        time.sleep(self.sleeps_s)
        self.kept.append(bytearray(b"x" * self.keeps))
        return super().step(action)


for sample in [kind for kind in vars().values() if isinstance(kind, type) and issubclass(kind, gymnasium.Env)]:
    gymnasium.register(id=f"{sample.__name__}-v0", entry_point=sample)
