"""Steps environments of gymnasium, or of pettingzoo, for Maglev (workers.cpp), which asks over the socket that is standard
input.

A question is a header of 12 bytes (number of the environment, bytes that follow, kind) and those bytes; an answer a
header of 12 (number, bytes that follow, kind, cut short) and those bytes. The first answer, asked by nobody, describes
the environment in JSON.
"""

import functools
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

from maglev_spaces import Actions, Observations, Unsuited, shortened

QUESTION = struct.Struct("<IIB3x")
ANSWER = struct.Struct("<IIBB2x")
END = struct.Struct("<fBB2x")  # reward, terminated, truncated
COUNTED = struct.Struct("<f")
RESET, STEP, REPLAY, PICTURE, CLOSE, DRAWING = range(1, 7)
DESCRIPTION, STEPPED, DRAWN, RAISED, UNDRAWN = range(5)
NOBODY = 0xFFFFFFFF
NO_LIMIT = 10_000  # steps of an episode where nobody says how many
SOON_S = 0.002  # answers are kept back no longer than that
CLOSE_S = 5.0  # for environments to close, where the engine is gone
INTERFACE = {  # by what Python says of who does otherwise
    "values to unpack (expected 5": "step() gives observation, reward, terminated, truncated and info",
    "values to unpack (expected 2": "reset() gives observation and info",
    "reset() got an unexpected keyword": "it is reset(self, *, seed=None, options=None), and begins with super().reset(seed=seed)",
    "__init__() missing": "env.kwargs gives it, as JSON",
}
EXTRAS = ("box2d", "classic_control", "mujoco", "toy_text")  # folders of gymnasium.envs that want packages besides


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
        self.masked = len(self.actions.heads) == 1 and "action_mask" in info
        return env

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
        self.masked = len(self.actions.heads) == 1 and told
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


def creator_of(name):
    """What the module of `module:Name` has by that name: a class, a function, or one that pettingzoo makes; None: nothing."""
    module, _, own = name.partition(":")
    creator = getattr(sys.modules.get(module), own, None)
    if callable(creator):
        return creator
    zoo = sys.modules.get("pettingzoo")
    registries = {"parallel": zoo.parallel_registry, "aec": zoo.aec_registry} if zoo else {}
    return next((functools.partial(zoo.make, kind, own) for kind, known in registries.items() if own in known), None)


def environments_of(made):
    """Of an id that gymnasium.make knows, or of what creator_of() finds."""
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

    try:
        given = json.loads(made["kwargs"] or "{}")
    except json.JSONDecodeError as error:
        text = f"env.kwargs is no JSON: {error}, got {made['kwargs']}; in a shell with quotes around it all"
        raise Unsuited(text) from error
    if not isinstance(given, dict):
        raise Unsuited("env.kwargs must be a JSON object such as {\"map_name\": \"8x8\"}")
    try:
        return Environments(made, dict(given), made["id"])
    except (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound):
        creator = creator_of(made["id"])
        if creator is None:
            raise
    if not (isinstance(creator, type) and issubclass(creator, gymnasium.Env)):
        env = creator(**given)
        if hasattr(env, "agent_iter"):
            raise Unsuited(
                "is one of PettingZoo's AECEnv, whose agents act in turn, where a ParallelEnv is expected, whose agents act "
                "at once: name its parallel_env, or a function of yours that returns pettingzoo.utils.aec_to_parallel(env), "
                "of one whose agents all act in each cycle (turn_based_aec_to_parallel: those where they take turns)"
            )
        # of Gymnasium's these are no functions
        if callable(getattr(env, "observation_space", None)) and callable(getattr(env, "action_space", None)):
            return ParallelEnvironments(made, given, creator, env)
        closed(env)
    return Environments(made, dict(given), EnvSpec(made["id"].partition(":")[2], entry_point=creator))


def classes_of(name):
    """Those of the module of `module:Name` that are environments, by their names."""
    import gymnasium

    module = name.partition(":")[0]
    there = vars(sys.modules[module]).items() if module in sys.modules else ()
    zoo = sys.modules.get("pettingzoo")
    kinds = (gymnasium.Env, zoo.ParallelEnv) if zoo else gymnasium.Env
    return [own for own, kind in there if isinstance(kind, type) and issubclass(kind, kinds) and kind.__module__ == module]


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
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.dirname(f.filename) != os.path.dirname(__file__)]
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
                head = ANSWER.pack(number, len(data), kind, False)
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
        environments = environments_of(made)
    except Unsuited as error:
        return send(connection, NOBODY, str(error).encode(), (RAISED, False))
    except Exception as error:
        text = f"cannot be made: {reason(error)}{as_modules_name(error, made['id'])}"
        return send(connection, NOBODY, text.encode(), (RAISED, False))
    send(connection, NOBODY, json.dumps(environments.description).encode(), (DESCRIPTION, False))
    try:
        serve(connection, environments, shared_number(made["at"]))
    finally:
        environments.close_all()


if __name__ == "__main__":
    main()
