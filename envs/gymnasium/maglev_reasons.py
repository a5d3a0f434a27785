"""What went wrong in an environment, for people, and what would help: for worker.py."""

import os
import re
import sys
import traceback

from maglev_spaces import shortened

INTERFACE = {  # by what Python says of who does otherwise
    "values to unpack (expected 5": "step() gives observation, reward, terminated, truncated and info",
    "values to unpack (expected 2": "reset() gives observation and info",
    "reset() got an unexpected keyword": "it is reset(self, *, seed=None, options=None), and begins with super().reset(seed=seed)",
    "__init__() missing": "env.kwargs gives it, as JSON",
}
EXTRAS = ("box2d", "classic_control", "mujoco", "toy_text")  # folders of gymnasium.envs that want packages besides


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
