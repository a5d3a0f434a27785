"""Steps environments of gymnasium for Maglev (workers.cpp), which asks over the socket that is standard input.

A question is a header of 12 bytes (number of the environment, bytes that follow, kind) and those bytes; an answer a
header of 16 (number, bytes that follow, reward, kind, terminated, truncated, ended before) and those bytes. The first
answer, asked by nobody, describes the environment in JSON.
"""

import json
import os
import socket
import struct
import sys
import traceback

# many processes, one processor each
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

QUESTION = struct.Struct("<IIB3x")
ANSWER = struct.Struct("<IIfBBBB")
RESET, STEP, REPLAY, PICTURE, CLOSE = range(1, 6)
DESCRIPTION, STEPPED, DRAWN, RAISED = range(4)
NOBODY = 0xFFFFFFFF
NO_LIMIT = 10_000  # steps of an episode where nobody says how many
FARTHEST = 1e30  # bounds of actions beyond it are none


class Unsuited(Exception):
    """An environment that cannot be used as it is; says what would help."""


def is_picture(space):
    import numpy as np
    from gymnasium import spaces

    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


class Observations:
    """Pictures are columns [H, W, C] of their own, all else one column of numbers, categories as one-hot."""

    def __init__(self, space):
        import numpy as np
        from gymnasium import spaces

        self.np, self.flatten = np, spaces.flatten
        self.pictures = []  # (name, way to it, shape)
        self.numbers = []  # (space, way to it)
        self.look(space, ())
        self.size = sum(spaces.flatdim(part) for part, _ in self.numbers)
        self.plain = not self.pictures and isinstance(space, spaces.Box)

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
            shape = (*space.shape, 1) if len(space.shape) == 2 else space.shape
            self.pictures.append((name, way, shape))
        elif isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
            self.numbers.append((space, way))
        else:
            raise Unsuited(
                f"shows a space {type(space).__name__}; Maglev takes Box, Discrete, MultiDiscrete, MultiBinary, and "
                "Dict and Tuple of those: wrap it (gymnasium.ObservationWrapper)"
            )

    def columns(self):
        columns = [{"name": "vector", "dtype": "f32", "shape": [self.size]}] if self.size else []
        return columns + [{"name": name, "dtype": "u8", "shape": list(map(int, shape))} for name, _, shape in self.pictures]

    def part(self, seen, way):
        for step in way:
            seen = seen[step]
        return seen

    def write(self, to, seen):
        np = self.np
        if self.plain:
            to += np.asarray(seen, np.float32).tobytes()
            return
        for space, way in self.numbers:
            to += np.asarray(self.flatten(space, self.part(seen, way)), np.float32).tobytes()
        for _, way, _ in self.pictures:
            to += np.asarray(self.part(seen, way), np.uint8).tobytes()


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
                    f"takes actions {space}, which have no bounds: give them some with a wrapper "
                    "(gymnasium.wrappers.RescaleAction)"
                )
            low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
            self.low, self.high = ([float(x) for x in bound.reshape(-1)] for bound in (low, high))
            self.read = lambda sent: np.clip(np.frombuffer(sent, np.float32).reshape(shape).astype(dtype), low, high)
        else:
            raise Unsuited(
                f"takes actions {space}; Maglev gives Discrete, MultiDiscrete, MultiBinary and Box of floats: wrap it "
                "(gymnasium.ActionWrapper)"
            )
        if any(n < 2 for n in self.heads):
            raise Unsuited(f"takes actions {space}, among which there is nothing to choose")
        self.bytes = 4 * (len(self.heads) or len(self.low))


class Environments:
    def __init__(self, made):
        import gymnasium

        self.make_one = gymnasium.make
        self.made = made
        try:
            self.given = json.loads(made["kwargs"] or "{}")
        except json.JSONDecodeError as error:
            raise Unsuited(f"env.kwargs is no JSON: {error}") from error
        if not isinstance(self.given, dict):
            raise Unsuited("env.kwargs must be a JSON object such as {\"map_name\": \"8x8\"}")
        if made["max_steps"]:
            self.given["max_episode_steps"] = made["max_steps"]
        self.by_number = {}
        env = self.make()
        if not env.spec.max_episode_steps:
            env.close()
            self.given["max_episode_steps"] = NO_LIMIT
            env = self.make()
        self.observations, self.actions = Observations(env.observation_space), Actions(env.action_space)
        _, info = env.reset(seed=0)
        self.masked = len(self.actions.heads) == 1 and "action_mask" in info
        self.description = {
            "columns": self.observations.columns(),
            "heads": self.actions.heads,
            "low": self.actions.low,
            "high": self.actions.high,
            "masked": self.masked,
            "max_steps": env.spec.max_episode_steps,
            "solved_at": env.spec.reward_threshold,
        }
        self.spare = env

    def make(self):
        # pictures where it draws any; drawing begins when one is asked for
        import gymnasium

        given = {"disable_env_checker": True, **self.given}
        if "render_mode" not in given:
            try:
                return self.make_one(self.made["id"], render_mode="rgb_array", **given)
            except gymnasium.error.UnregisteredEnv:
                raise
            except Exception:
                pass
        return self.make_one(self.made["id"], **given)

    def env(self, number):
        env = self.by_number.get(number)
        if env is None:
            env, self.spare = self.spare or self.make(), None
            self.by_number[number] = env
        return env

    def shown(self, observation, info):
        seen = bytearray()
        self.observations.write(seen, observation)
        if self.masked:
            seen += bytes(1 if allowed else 0 for allowed in info["action_mask"])
        return seen

    def begin(self, number, asked):
        return self.env(number).reset(seed=int.from_bytes(asked[:4], "little"))

    def answer(self, number, kind, asked):
        """What follows the header, and what the header holds behind the bytes' number."""
        if kind == STEP:
            observation, reward, terminated, truncated, info = self.by_number[number].step(self.actions.read(asked))
            return self.shown(observation, info), (float(reward), STEPPED, bool(terminated), bool(truncated), False)
        if kind == RESET:
            observation, info = self.begin(number, asked)
            return self.shown(observation, info), (0.0, STEPPED, False, False, False)
        if kind == REPLAY:
            return self.replay(number, asked)
        picture = self.env(number).render()
        if not hasattr(picture, "shape") or len(picture.shape) != 3 or picture.shape[2] < 3:
            raise Unsuited("draws no pictures: it has no render_mode rgb_array")
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
            observation, _, terminated, truncated, info = self.by_number[number].step(
                self.actions.read(asked[begin : begin + size])
            )
            ended = terminated or truncated
        return self.shown(observation, info), (0.0, STEPPED, False, False, early)

    def close(self, number):
        env = self.by_number.pop(number, None)
        if env is None:
            return
        if self.spare is None:
            self.spare = env
        else:
            env.close()


def reason(error):
    """The exception's last line, and where in the environment it was raised."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", " ")
    if isinstance(error, ModuleNotFoundError) and error.name == "gymnasium":
        return f"{text}; install it for {sys.executable}: pip install gymnasium"
    frames = traceback.extract_tb(error.__traceback__)
    frames = [f for f in frames if f.filename != __file__ and "gymnasium/envs/registration" not in f.filename]
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def send(connection, number, data, rest):
    connection.sendall(ANSWER.pack(number, len(data), *rest) + data)


def serve(connection, environments):
    waiting = bytearray()
    # below what malloc takes from the system anew each time
    while came := connection.recv(1 << 16):
        waiting += came
        place, answers = 0, bytearray()
        while len(waiting) - place >= QUESTION.size:
            number, size, kind = QUESTION.unpack_from(waiting, place)
            end = place + QUESTION.size + size
            if end > len(waiting):
                break
            asked, place = bytes(waiting[place + QUESTION.size : end]), end
            if kind == CLOSE:
                environments.close(number)
                continue
            try:
                data, rest = environments.answer(number, kind, asked)
            except Exception as error:
                text = str(error) if isinstance(error, Unsuited) else f"raised {reason(error)}"
                data, rest = text.encode(), (0.0, RAISED, False, False, False)
            answers += ANSWER.pack(number, len(data), *rest)
            answers += data
        del waiting[:place]
        if answers:
            connection.sendall(answers)


def main():
    connection = socket.socket(fileno=os.dup(0))
    sys.path[:0] = [path for path in sys.argv[2:] if path]
    made = json.loads(sys.argv[1])
    try:
        environments = Environments(made)
    except Unsuited as error:
        return send(connection, NOBODY, str(error).encode(), (0.0, RAISED, 0, 0, 0))
    except Exception as error:
        return send(connection, NOBODY, f"cannot be made: {reason(error)}".encode(), (0.0, RAISED, 0, 0, 0))
    send(connection, NOBODY, json.dumps(environments.description).encode(), (0.0, DESCRIPTION, 0, 0, 0))
    serve(connection, environments)


main()
