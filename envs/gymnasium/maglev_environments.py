"""Environments of gymnasium, each made, stepped and told of as worker.py is asked to."""

import math
import numbers
import struct

from maglev_reasons import reason
from maglev_spaces import Actions, Observations, Unsuited, shortened

END = struct.Struct("<fBB2x")  # reward, terminated, truncated
COUNTED = struct.Struct("<f")
RESET, STEP, REPLAY, PICTURE, CLOSE, DRAWING = range(1, 7)  # what is asked for
DESCRIPTION, STEPPED, DRAWN, RAISED, UNDRAWN = range(5)  # what is answered
NO_LIMIT = 10_000  # steps of an episode where nobody says how many


class Undrawn(Unsuited):
    """One that is used, and of which there is no picture."""

    def __init__(self, why):
        super().__init__(
            f"draws no pictures: {why}; they want an environment that takes render_mode=\"rgb_array\" and whose "
            "render() then returns [H, W, 3] of uint8"
        )


def expect_dict(info):
    if not isinstance(info, dict):
        raise Unsuited(f"gave the info {shortened(repr(info))}, where a dict is expected; it may be empty")


def closed(env):
    """What goes wrong as an environment is left is nobody's concern any more."""
    try:
        env.close()
    except Exception:
        pass


def metadata_of(env):
    return getattr(env, "metadata", None) or {}


def seed_in(asked):
    return int.from_bytes(asked[:4], "little")


def frames_per_second(env):
    fps = metadata_of(env).get("render_fps")
    return finite(fps) if isinstance(fps, numbers.Real) else None


def finite(number):
    return None if number is None or not math.isfinite(number) else float(number)


def expect_number(reward):
    try:
        number = float(reward)
    except TypeError as error:
        raise Unsuited(f"gave the reward {reward!r}, where one number is expected") from error
    if not math.isfinite(number):
        raise Unsuited(f"gave the reward {number}, where a finite number is expected")
    return number


class Environments:
    """Those that gymnasium.make gives, of one id or EnvSpec."""

    agents = (None,)  # of an environment
    ends_apart = False  # one agent may end while others go on

    def __init__(self, made, given, which):
        self.given, self.which, self.counted = given, which, made["info"]
        self.by_number = {}
        self.drawing = set()  # numbers of those that were made to draw, which takes longer
        env = self.first(made)
        self.description = {
            "columns": self.observations.columns(),
            "heads": self.actions.heads,
            "low": self.actions.low,
            "high": self.actions.high,
            "masked": self.masked,
            "names": self.action_names(env),
            "render_fps": frames_per_second(env),
            "agents": len(self.agents),
            "ends_apart": self.ends_apart,
            **self.limits(made, env),
        }
        self.spare = [env]  # made, and nobody's

    def first(self, made):
        """One, looked at: what it shows and takes."""
        if made["max_steps"]:
            self.given["max_episode_steps"] = made["max_steps"]
        env = self.make()
        if not env.spec.max_episode_steps:
            closed(env)
            self.given["max_episode_steps"] = NO_LIMIT
            env = self.make()
        self.observations, self.actions = Observations(env.observation_space), Actions(env.action_space)
        _, info = env.reset(seed=0)
        expect_dict(info)
        self.masked = made["masks"] and len(self.actions.heads) == 1 and "action_mask" in info
        return env

    def action_names(self, env):
        """As Atari's games tell them, where no wrapper of actions stands before; elsewhere none."""
        import gymnasium

        try:
            inner = env.unwrapped
            while env is not inner and not isinstance(env, gymnasium.ActionWrapper):
                env = env.env
            # an environment's own code, which nobody needs to train
            names = [str(name) for name in inner.get_action_meanings()] if env is inner else []
        except Exception:
            return []
        return names if all(names) and self.actions.heads == [len(set(names))] == [len(names)] else []

    def limits(self, made, env):
        return {"max_steps": env.spec.max_episode_steps, "solved_at": finite(env.spec.reward_threshold)}

    def make(self, **more):
        import gymnasium

        return gymnasium.make(self.which, disable_env_checker=True, **{**self.given, **more})

    def make_drawing(self, number):
        """One that draws. What cannot be made so, and does not say that it could, draws nothing."""
        try:
            return self.make(render_mode="rgb_array")
        except Exception as error:
            if isinstance(error, TypeError) and "unexpected keyword argument 'render_mode'" in str(error):
                raise Undrawn("it takes no render_mode") from error
            if "rgb_array" in (metadata_of(self.env(number)).get("render_modes") or ()):
                raise
            raise Undrawn(f"it cannot be made with render_mode rgb_array: {reason(error)}") from error

    def env(self, number):
        env = self.by_number.get(number)
        if env is None:
            env = self.spare.pop() if self.spare else self.make()
            self.by_number[number] = env
        return env

    def begin(self, number, seed):
        """What told() tells of an episode's first observation."""
        observation, info = self.env(number).reset(seed=seed)
        return observation, 0.0, False, False, info

    def step(self, number, sent):
        """What told() tells of a step, and whether the episode is over."""
        came = _, _, terminated, truncated, _ = self.by_number[number].step(self.actions.read(sent))
        return came, terminated or truncated

    def told(self, number, came):
        """What is shown, what each agent came to, and what is counted."""
        observation, reward, terminated, truncated, info = came
        if self.masked or self.counted:
            expect_dict(info)
        told = self.seen(observation, info.get("action_mask") if self.masked else None)
        told += END.pack(expect_number(reward), bool(terminated), bool(truncated))
        if self.counted:
            told += self.count((info,))
        return told

    def seen(self, observation, allowed):
        """One agent's columns and mask."""
        seen = bytearray()
        self.observations.write(seen, observation)
        if self.masked:
            mask = bytes(1 if one else 0 for one in (() if allowed is None else allowed))
            if len(mask) != self.actions.heads[0] or not any(mask):
                raise Unsuited(
                    f"gave {self.mask_name} = {allowed}, where {self.actions.heads[0]} entries, one of them at least not "
                    f"0, are expected in every {self.mask_name.split('[')[0]}, as in the first"
                )
            seen += mask
        return seen

    mask_name = "info['action_mask']"

    def count(self, infos):
        return b"".join(COUNTED.pack(sum(self.number_of(info, name) for info in infos)) for name in self.counted)

    def number_of(self, info, name):
        """What info has by that name; 0 where it has nothing."""
        value = info.get(name, 0)
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise Unsuited(f"gave info[{name!r}] = {shortened(repr(value))}, where env.info expects a number") from error
        if not math.isfinite(number):
            raise Unsuited(f"gave info[{name!r}] = {number}, where a finite number is expected")
        return number

    def answer(self, number, kind, asked):
        """What follows the header, and what the header holds behind the bytes' number."""
        if kind == STEP:
            came, _ = self.step(number, asked)
            return self.told(number, came), (STEPPED, False)
        if kind == RESET:
            return self.told(number, self.begin(number, seed_in(asked))), (STEPPED, False)
        if kind == REPLAY:
            return self.replay(number, asked)
        if kind == DRAWING:
            if "render_mode" not in self.given:
                drawing = self.make_drawing(number)
                self.close(number)
                self.by_number[number] = drawing
                self.drawing.add(number)
            return self.replay(number, asked)
        try:
            picture = self.env(number).render()
        except NotImplementedError as error:
            raise Undrawn("its render() is not implemented") from error
        if not hasattr(picture, "shape") or len(picture.shape) != 3 or picture.shape[2] < 3:
            mode = self.given.get("render_mode", "rgb_array")
            raise Undrawn(f"render() of one with render_mode {mode} gave {type(picture).__name__}")
        np = self.observations.np
        head = struct.pack("<II", picture.shape[1], picture.shape[0])
        return head + np.ascontiguousarray(picture[:, :, :3], np.uint8).tobytes(), (DRAWN, False)

    def replay(self, number, asked):
        came = self.begin(number, seed_in(asked))
        size, ended, early = self.actions.bytes * len(self.agents), False, False
        for begin in range(4, len(asked), size):
            early = ended
            if early:
                break
            # what leads elsewhere may also lead to where an action is a mistake
            try:
                came, ended = self.step(number, asked[begin : begin + size])
            except Exception:
                early = True
                break
        return self.told(number, came), (STEPPED, early)

    def close(self, number):
        """It is kept for who comes next: evaluations come and go."""
        env = self.by_number.pop(number, None)
        if env is not None and number not in self.drawing:
            self.spare.append(env)
        elif env is not None:
            closed(env)
        self.drawing.discard(number)

    def close_all(self):
        """Those that hold a simulator or a window let go of it."""
        for env in [*self.by_number.values(), *self.spare]:
            closed(env)
