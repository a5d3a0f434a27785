"""Steps environments of gymnasium for Maglev (workers.cpp), which asks over the socket that is standard input.

A question is a header of 12 bytes (number of the environment, bytes that follow, kind) and those bytes; an answer a
header of 16 (number, bytes that follow, reward, kind, terminated, truncated, ended before) and those bytes. The first
answer, asked by nobody, describes the environment in JSON.
"""

import json
import math
import mmap
import numbers
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
import traceback

QUESTION = struct.Struct("<IIB3x")
ANSWER = struct.Struct("<IIfBBBB")
COUNTED = struct.Struct("<f")
RESET, STEP, REPLAY, PICTURE, CLOSE, DRAWING = range(1, 7)
DESCRIPTION, STEPPED, DRAWN, RAISED, UNDRAWN = range(5)
NOBODY = 0xFFFFFFFF
NO_LIMIT = 10_000  # steps of an episode where nobody says how many
FARTHEST = 1e30  # bounds of actions beyond it are none
MOST_CATEGORIES = 1000  # of whole numbers within bounds
SOON_S = 0.002  # answers are kept back no longer than that
LONGEST = 400  # of what is told of an exception
CLOSE_S = 5.0  # for environments to close, where the engine is gone
INTERFACE = {  # by what Python says of who does otherwise
    "values to unpack (expected 5": "step() gives observation, reward, terminated, truncated and info",
    "values to unpack (expected 2": "reset() gives observation and info",
    "reset() got an unexpected keyword": "it is reset(self, *, seed=None, options=None), and begins with super().reset(seed=seed)",
    "__init__() missing": "env.kwargs gives it, as JSON",
}
EXTRAS = ("box2d", "classic_control", "mujoco", "toy_text")  # folders of gymnasium.envs that want packages besides


class Unsuited(Exception):
    """An environment that cannot be used as it is; says what would help."""


class Undrawn(Unsuited):
    """One that is used, and of which there is no picture."""

    def __init__(self, why):
        super().__init__(
            f"draws no pictures: {why}; they want an environment that takes render_mode=\"rgb_array\" and whose "
            "render() then returns [H, W, 3] of uint8"
        )


def is_picture(space):
    import numpy as np
    from gymnasium import spaces

    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) < 2:
        return False
    if len(space.shape) > 3:
        raise Unsuited(
            f"shows pictures of shape {space.shape}; Maglev takes [H, W] and [H, W, C], of the last steps with "
            "env.image.stack"
        )
    return True


def expect_gymnasiums(space, what):
    """A space of Gym, which Gymnasium came from, is none of Gymnasium's, whatever its name."""
    if type(space).__module__.split(".")[0] == "gym":
        raise Unsuited(
            f"{what} a space of the package gym, gym.spaces.{type(space).__name__}: make it one of gymnasium.spaces, or "
            "take the environment through shimmy (env.id=shimmy:GymV26Environment-v0 'env.kwargs={\"env_id\": ...}')"
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


def frames_per_second(env):
    fps = (env.metadata or {}).get("render_fps")
    return finite(fps) if isinstance(fps, numbers.Real) else None


def named(way):
    return "".join(f"[{step!r}]" for step in way)


def shortened(text):
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."


class Picture:
    """A part of what is seen that is [H, W, C], or will be: channels, and stacked grey pictures, may come first."""

    def __init__(self, name, way, shape):
        self.name, self.way, self.shape = name, way, shape
        self.channels_first = len(shape) == 3 and shape[0] < min(shape[1:])
        rows = (*shape[1:], shape[0]) if self.channels_first else shape
        self.column = [int(n) for n in (*rows, 1)[:3]]


class Observations:
    """Pictures are columns [H, W, C] of their own, all else one column of numbers, categories as one-hot."""

    def __init__(self, space):
        import numpy as np
        from gymnasium import spaces

        self.np, self.spaces, self.flatten, self.space = np, spaces, spaces.flatten, space
        self.pictures = []
        self.numbers = []  # (space, way to it, how many)
        self.look(space, ())
        self.size = sum(count for _, _, count in self.numbers)
        self.plain = not self.pictures and isinstance(space, spaces.Box)
        self.shape = space.shape

    def look(self, space, way):
        from gymnasium import spaces

        if isinstance(space, spaces.Dict):
            for name, part in space.spaces.items():
                self.look(part, (*way, name))
        elif isinstance(space, spaces.Tuple):
            for i, part in enumerate(space.spaces):
                self.look(part, (*way, i))
        elif is_picture(space):
            name = "_".join(str(part) for part in way) or "image"
            # numbers have that name
            self.pictures.append(Picture("vector_image" if name == "vector" else name, way, space.shape))
        elif isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
            self.numbers.append((space, way, spaces.flatdim(space)))
        else:
            expect_gymnasiums(space, "shows")
            raise Unsuited(
                f"shows a space {type(space).__name__}; Maglev takes Box, Discrete, MultiDiscrete, MultiBinary, and "
                "Dict and Tuple of those: wrap it (gymnasium.ObservationWrapper)"
            )

    def columns(self):
        columns = [{"name": "vector", "dtype": "f32", "shape": [self.size]}] if self.size else []
        return columns + [{"name": p.name, "dtype": "u8", "shape": p.column} for p in self.pictures]

    def part(self, seen, way):
        for i, step in enumerate(way):
            try:
                seen = seen[step]
            except (KeyError, IndexError, TypeError) as error:
                text = f"showed no observation{named(way[: i + 1])}, which its space has"
                raise Unsuited(text) from error
        return seen

    def numbers_of(self, space, part, way):
        """f32, one row of the space's numbers; as they lie where they are all that is seen."""
        cause = None
        try:
            if self.plain:
                return self.np.asarray(part, self.np.float32)
            # flatten makes a one among another category's of what is none of a space's
            if self.are_categories(space, part):
                return self.np.asarray(self.flatten(space, part), self.np.float32)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            cause = error
        text = f"showed an observation{named(way)} = {shortened(repr(part))}, where its space is {shortened(str(space))}"
        raise Unsuited(text) from cause

    def are_categories(self, space, part):
        """Whether they are those of a Discrete or MultiDiscrete; true of other spaces."""
        if isinstance(space, self.spaces.Discrete):
            return 0 <= part - space.start < space.n
        if isinstance(space, self.spaces.MultiDiscrete):
            chosen = part - space.start
            return bool(((chosen >= 0) & (chosen < space.nvec)).all())
        return True

    def bytes_of(self, part, way):
        """u8, in which pictures of shares from 0 to 1 would be black."""
        np = self.np
        given = np.asarray(part)
        if given.dtype == np.uint8:
            return given
        try:
            whole = given.astype(np.uint8)
        except (TypeError, ValueError):
            whole = None
        if whole is None or not np.array_equal(whole, given):
            raise Unsuited(
                f"showed an observation{named(way)} of {given.dtype}, where its space has uint8: pictures are whole "
                "numbers from 0 to 255"
            )
        return whole

    def expect(self, seen, shape, way):
        if seen.shape != shape:
            raise Unsuited(f"showed an observation{named(way)} of shape {seen.shape}, where its space has {shape}")
        return seen

    def write(self, to, seen):
        if self.plain:
            to += self.expect(self.numbers_of(self.space, seen, ()), self.shape, ()).tobytes()
            return
        for space, way, count in self.numbers:
            to += self.expect(self.numbers_of(space, self.part(seen, way), way), (count,), way).tobytes()
        for picture in self.pictures:
            rows = self.expect(self.bytes_of(self.part(seen, picture.way), picture.way), picture.shape, picture.way)
            to += (rows.transpose(1, 2, 0) if picture.channels_first else rows).tobytes()


class Actions:
    """Categories as i32, numbers within bounds as f32; what an agent draws beyond them is the nearest."""

    def __init__(self, space):
        import numpy as np
        from gymnasium import spaces

        self.heads, self.low, self.high = [], [], []
        if isinstance(space, spaces.Discrete):
            self.heads, start = [int(space.n)], int(space.start)
            self.read = lambda sent: start + int.from_bytes(sent, "little")
        elif isinstance(space, spaces.MultiDiscrete):
            self.heads = [int(n) for n in space.nvec.reshape(-1)]
            start, shape, dtype = np.asarray(space.start), space.nvec.shape, space.dtype
            self.read = lambda sent: (np.frombuffer(sent, np.int32).reshape(shape) + start).astype(dtype)
        elif isinstance(space, spaces.MultiBinary):
            shape, dtype = space.shape, space.dtype
            self.heads = [2] * int(np.prod(shape))
            self.read = lambda sent: np.frombuffer(sent, np.int32).reshape(shape).astype(dtype)
        elif isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            if not np.all((space.low > -FARTHEST) & (space.high < FARTHEST)):
                raise Unsuited(
                    f"takes actions {space}, not all of which have bounds: give them some with a wrapper "
                    "(gymnasium.wrappers.TransformAction with a Box within bounds)"
                )
            low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
            self.low, self.high = ([float(x) for x in bound.reshape(-1)] for bound in (low, high))
            self.read = lambda sent: np.asarray(
                np.clip(np.frombuffer(sent, np.float32).reshape(shape).astype(dtype), low, high)
            )
        elif isinstance(space, spaces.Box):
            # of narrow integers the difference may be none
            if not np.all(space.high / 1.0 - space.low < MOST_CATEGORIES):
                raise Unsuited(
                    f"takes actions {space}; of whole numbers within bounds Maglev gives those with {MOST_CATEGORIES:,} "
                    "values at most: make them floats, or fewer (gymnasium.wrappers.TransformAction)"
                )
            start, shape, dtype = space.low.astype(np.int64), space.shape, space.dtype
            self.heads = [int(n) + 1 for n in (space.high - start).reshape(-1)]
            self.read = lambda sent: np.asarray(np.frombuffer(sent, np.int32).reshape(shape) + start, dtype)
        else:
            expect_gymnasiums(space, "takes actions of")
            raise Unsuited(
                f"takes actions {space}; Maglev gives Discrete, MultiDiscrete, MultiBinary and Box: wrap it "
                "(gymnasium.wrappers.TransformAction), in one MultiDiscrete if all its parts are categories, in one Box "
                "if all are numbers"
            )
        if any(n < 2 for n in self.heads):
            raise Unsuited(f"takes actions {space}, among which there is nothing to choose")
        self.bytes = 4 * (len(self.heads) or len(self.low))


def finite(number):
    return None if number is None or not math.isfinite(number) else float(number)


class Environments:
    def __init__(self, made):
        import gymnasium

        self.make_one = gymnasium.make
        self.made, self.which = made, made["id"]
        try:
            self.given = json.loads(made["kwargs"] or "{}")
        except json.JSONDecodeError as error:
            text = f"env.kwargs is no JSON: {error}, got {made['kwargs']}; in a shell with quotes around it all"
            raise Unsuited(text) from error
        if not isinstance(self.given, dict):
            raise Unsuited("env.kwargs must be a JSON object such as {\"map_name\": \"8x8\"}")
        if made["max_steps"]:
            self.given["max_episode_steps"] = made["max_steps"]
        self.by_number = {}
        self.drawing = set()  # numbers of those that were made to draw, which takes longer
        try:
            env = self.make()
        except gymnasium.error.NameNotFound:
            self.which = unregistered(made["id"])
            if not self.which:
                raise
            env = self.make()
        if not env.spec.max_episode_steps:
            closed(env)
            self.given["max_episode_steps"] = NO_LIMIT
            env = self.make()
        self.observations, self.actions = Observations(env.observation_space), Actions(env.action_space)
        _, info = env.reset(seed=0)
        expect_dict(info)
        self.counted = made["info"]
        self.masked = len(self.actions.heads) == 1 and "action_mask" in info
        self.description = {
            "columns": self.observations.columns(),
            "heads": self.actions.heads,
            "low": self.actions.low,
            "high": self.actions.high,
            "masked": self.masked,
            "max_steps": env.spec.max_episode_steps,
            "solved_at": finite(env.spec.reward_threshold),
            "render_fps": frames_per_second(env),
        }
        self.spare = [env]  # made, and nobody's

    def make(self, **more):
        return self.make_one(self.which, disable_env_checker=True, **{**self.given, **more})

    def make_drawing(self, number):
        """One that draws. What cannot be made so, and does not say that it could, draws nothing."""
        try:
            return self.make(render_mode="rgb_array")
        except Exception as error:
            if isinstance(error, TypeError) and "unexpected keyword argument 'render_mode'" in str(error):
                raise Undrawn("it takes no render_mode") from error
            if "rgb_array" in (self.env(number).metadata.get("render_modes") or ()):
                raise
            raise Undrawn(f"it cannot be made with render_mode rgb_array: {reason(error)}") from error

    def env(self, number):
        env = self.by_number.get(number)
        if env is None:
            env = self.spare.pop() if self.spare else self.make()
            self.by_number[number] = env
        return env

    def shown(self, observation, info):
        seen = bytearray()
        self.observations.write(seen, observation)
        if self.masked or self.counted:
            expect_dict(info)
        if self.masked:
            mask = bytes(1 if allowed else 0 for allowed in info.get("action_mask", ()))
            if len(mask) != self.actions.heads[0] or not any(mask):
                raise Unsuited(
                    f"gave info['action_mask'] = {info.get('action_mask')}, where {self.actions.heads[0]} entries, one "
                    "of them at least not 0, are expected in every info, as in the first"
                )
            seen += mask
        for name in self.counted:
            seen += COUNTED.pack(self.number_of(info, name))
        return seen

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

    def begin(self, number, asked):
        return self.env(number).reset(seed=int.from_bytes(asked[:4], "little"))

    def answer(self, number, kind, asked):
        """What follows the header, and what the header holds behind the bytes' number."""
        if kind == STEP:
            observation, reward, terminated, truncated, info = self.by_number[number].step(self.actions.read(asked))
            try:
                reward = float(reward)
            except TypeError as error:
                raise Unsuited(f"gave the reward {reward!r}, where one number is expected") from error
            if not math.isfinite(reward):
                raise Unsuited(f"gave the reward {reward}, where a finite number is expected")
            return self.shown(observation, info), (reward, STEPPED, bool(terminated), bool(truncated), False)
        if kind == RESET:
            observation, info = self.begin(number, asked)
            return self.shown(observation, info), (0.0, STEPPED, False, False, False)
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
        return head + np.ascontiguousarray(picture[:, :, :3], np.uint8).tobytes(), (0.0, DRAWN, False, False, False)

    def replay(self, number, asked):
        observation, info = self.begin(number, asked)
        size, ended, early = self.actions.bytes, False, False
        for begin in range(4, len(asked), size):
            early = ended
            if early:
                break
            # what leads elsewhere may also lead to where an action is a mistake
            try:
                action = self.actions.read(asked[begin : begin + size])
                observation, _, terminated, truncated, info = self.by_number[number].step(action)
            except Exception:
                early = True
                break
            ended = terminated or truncated
        return self.shown(observation, info), (0.0, STEPPED, False, False, early)

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


def unregistered(name):
    """How gymnasium.make takes what the module of `module:Name` has by that name, a class or a function; None: it has none."""
    from gymnasium.envs.registration import EnvSpec

    module, _, own = name.partition(":")
    creator = getattr(sys.modules.get(module), own, None)
    return EnvSpec(own, entry_point=creator) if callable(creator) else None


def classes_of(name):
    """Those of the module of `module:Name` that are environments, by their names."""
    import gymnasium

    module = name.partition(":")[0]
    there = vars(sys.modules[module]).items() if module in sys.modules else ()
    return [
        own for own, kind in there if isinstance(kind, type) and issubclass(kind, gymnasium.Env) and kind.__module__ == module
    ]


def how_to_get(error):
    """What a person can do about a module that is not there."""
    install = f"{sys.executable} -m pip install"
    # Gymnasium raises another one for the module of an id
    if not error.name and isinstance(error.__cause__, ImportError):
        error = error.__cause__
    if error.name == "gymnasium":
        # into the Python of an installed engine as it asks for it (docs/installing.md)
        own = os.environ.get("MAGLEV_INSTALLED") == sys.executable
        package = "'maglev-engine[gymnasium]'" if own else "gymnasium"
        return f"install it: {install} {package}"
    folders = [os.path.split(f.filename)[0].split(os.sep)[-3:] for f in traceback.extract_tb(error.__traceback__)]
    extras = [folder[2] for folder in folders if folder[:2] == ["gymnasium", "envs"] and folder[2] in EXTRAS]
    if extras:
        return f"install it: {install} 'gymnasium[{extras[-1].replace('_', '-')}]'"
    return (
        "a module of yours is found in the folder the command is run in, and in those of PYTHONPATH; one of a package "
        f"that is not installed wants {install} NAME"
    )


def as_modules_name(error, name):
    """How to name an environment that only a module registers; nothing where that is not what is wrong."""
    module, colon, rest = name.partition(":")
    if module == "__main__":
        return (
            " The processes that step it do not run the program it is in: put it in a file beside, my_envs.py, and name "
            f"env.id=my_envs:{rest}"
        )
    if colon and module.endswith(".py") and isinstance(error, ModuleNotFoundError):
        return f"; a module is named without .py: env.id={os.path.splitext(os.path.basename(module))[0]}:{rest}"
    if type(error).__name__ == "NameNotFound" and (own := classes_of(name)):
        return f" The module has {', '.join(own)}"
    if ":" in name or "Did you mean" in str(error):
        return ""
    if type(error).__name__ == "NamespaceNotFound":
        module = "ale_py" if name.startswith("ALE/") else "its_module"
        return f" One that a package registers is named with its module: env.id={module}:{name}"
    if type(error).__name__ == "NameNotFound":
        return f" One that a module of yours, my_envs.py, registers is named with it: env.id=my_envs:{name}"
    return ""


def reason(error):
    """The exception's text, and where in the environment it was raised."""
    text = shortened("".join(traceback.format_exception_only(type(error), error)))
    if isinstance(error, ModuleNotFoundError):
        return f"{text}; {how_to_get(error)}"
    if type(error).__name__ == "DependencyNotInstalled":
        # into this Python, whatever other one `pip` is of
        return re.sub(r"(python3? -m )?\bpip3? install", lambda _: f"{sys.executable} -m pip install", text)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    # Gymnasium's own wrappers and what imports only pass on what an environment did
    passing = f"{os.sep}gymnasium{os.sep}", f"{os.sep}importlib{os.sep}", "<frozen "
    frames = [f for f in frames if not any(part in f.filename for part in passing)]
    if frames:
        return f"{text} ({frames[-1].filename}:{frames[-1].lineno})"
    # what came back to Gymnasium's wrappers is an older interface's
    told = [how for what, how in INTERFACE.items() if what in text]
    return f"{text}; {told[0]}" if told else text


def end_with(parent):
    """An engine that was killed leaves nobody behind, whatever the environment is at."""
    while os.getppid() == parent:
        time.sleep(1)
    time.sleep(CLOSE_S)
    os._exit(1)


def send(connection, number, data, rest):
    connection.sendall(ANSWER.pack(number, len(data), *rest) + data)


def shared_number(path):
    """A place of one number that the engine reads where this process says nothing more; a list, where it cannot be had."""
    try:
        return memoryview(mmap.mmap(os.open(path, os.O_RDWR), 4)).cast("I")
    except OSError:
        return [NOBODY]


def serve(connection, environments, at):
    waiting = bytearray()
    # below what malloc takes from the system anew each time
    while came := connection.recv(1 << 16):
        waiting += came
        place, answers, began = 0, bytearray(), time.perf_counter()
        while len(waiting) - place >= QUESTION.size:
            number, size, kind = QUESTION.unpack_from(waiting, place)
            end = place + QUESTION.size + size
            if end > len(waiting):
                break
            asked, place = bytes(waiting[place + QUESTION.size : end]), end
            if kind == CLOSE:
                environments.close(number)
                continue
            at[0] = number
            try:
                data, rest = environments.answer(number, kind, asked)
                head = ANSWER.pack(number, len(data), *rest)
            except (Exception, SystemExit) as error:
                data = (str(error) if isinstance(error, Unsuited) else f"raised {reason(error)}").encode()
                kind = UNDRAWN if isinstance(error, Undrawn) else RAISED
                head = ANSWER.pack(number, len(data), 0.0, kind, False, False, False)
            answers += head + data
            # who waits for slow ones goes on with what there is
            if time.perf_counter() - began > SOON_S:
                connection.sendall(answers)
                answers, began = bytearray(), time.perf_counter()
        at[0] = NOBODY
        del waiting[:place]
        if answers:
            connection.sendall(answers)


def main():
    # many processes, one processor each; nothing is imported yet that asks for these
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    # the socket is ours alone: who reads standard input finds its end
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    # how a run ends is the engine's to say, and a batch system tells every process of a job. Not ignored, or so would
    # programs that an environment starts
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGXCPU"):
        signal.signal(getattr(signal, name), lambda *_: None)
    sys.path[:0] = [path for path in sys.argv[2:] if path]
    made = json.loads(sys.argv[1])
    try:
        environments = Environments(made)
    except Unsuited as error:
        return send(connection, NOBODY, str(error).encode(), (0.0, RAISED, 0, 0, 0))
    except Exception as error:
        text = f"cannot be made: {reason(error)}{as_modules_name(error, made['id'])}"
        return send(connection, NOBODY, text.encode(), (0.0, RAISED, 0, 0, 0))
    send(connection, NOBODY, json.dumps(environments.description).encode(), (0.0, DESCRIPTION, 0, 0, 0))
    try:
        serve(connection, environments, shared_number(made["at"]))
    finally:
        environments.close_all()


if __name__ == "__main__":
    main()
