"""Steps environments of gymnasium, or of pettingzoo, for Maglev (workers.cpp), which asks over the socket that is standard
input.

A question is a header of 12 bytes (number of the environment, bytes that follow, kind) and those bytes; an answer a
header of 12 (number, bytes that follow, kind, cut short) and those bytes. The first answer, asked by nobody, describes
the environment in JSON.
"""

import functools
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import time

from maglev_environments import CLOSE, DESCRIPTION, RAISED, UNDRAWN, Environments, Undrawn, closed
from maglev_parallel import ParallelEnvironments
from maglev_reasons import as_modules_name, reason
from maglev_spaces import Unsuited

QUESTION = struct.Struct("<IIB3x")
ANSWER = struct.Struct("<IIBB2x")
NOBODY = 0xFFFFFFFF
SOON_S = 0.002  # answers are kept back no longer than that
CLOSE_S = 5.0  # for environments to close, where the engine is gone


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
