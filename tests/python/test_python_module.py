"""The package `maglev`: environments, policies and training from Python, beside the command line."""

import ast
import copy
import inspect
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import BUILD, HOME
from test_processes import children_of
from waiting import LONG_S

if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
    pytest.skip("Python's headers are not on this machine", allow_module_level=True)

os.environ.setdefault("MAGLEV_BUILD", str(BUILD))
sys.path.insert(0, str(HOME / "python"))
import maglev  # noqa: E402

# what an environment needs to be small, or to be there at all
SETTINGS = {
    "goodhart": {"env.width": 32, "env.height": 32, "env.min_food": 4, "env.max_food": 16},
    "gymnasium": {"env.id": "CartPole-v1"},
}
QUICK = {"env.count": 8, "ppo.rollout": 32, "ppo.minibatch": 64, "seed": 3}


def made(name, num_envs=3, settings=None, **options):
    """Environments by name; skips where their library, or what draws for them, is not on this machine."""
    try:
        return maglev.make(name, num_envs, settings=settings or SETTINGS.get(name), **options)
    except maglev.Error as error:
        if "is not in this build" in str(error) or "pictures need OpenGL" in str(error):
            pytest.skip(str(error))
        raise


def columns_of(envs, obs):
    return [obs[c.name] for c in envs.spec.observations] if isinstance(obs, dict) else [obs]


@pytest.fixture(scope="module")
def cart(tmp_path_factory):
    """A run that balances for a while."""
    out = tmp_path_factory.mktemp("runs") / "cart"
    return maglev.train("ppo", "cartpole", {**QUICK, "train.steps": 30_000}, out=out, sinks=["jsonl"])


@pytest.mark.parametrize("name", sorted(maglev.environments()))
def test_every_environment_steps_and_comes_back(name):
    envs = made(name, seed=7)
    obs, info = envs.reset()
    assert info["is_first"].all()
    for column, tensor in zip(envs.spec.observations, columns_of(envs, obs)):
        assert tensor.dtype == column.dtype and tensor.shape == (envs.rows, *column.shape)
    encoded = envs.encode(obs)
    for part in encoded.values() if isinstance(encoded, dict) else [encoded]:
        assert part.dtype == torch.float32 and part.shape[0] == envs.rows and part.isfinite().all()
    for _ in range(5):
        envs.step(envs.sample())
    state = envs.keep()
    actions = []

    def play():
        shown = []
        for k in range(4):
            if len(actions) == k:
                actions.append(envs.sample())
            obs, reward, terminated, truncated, info = envs.step(actions[k])
            shown += [*columns_of(envs, obs), reward, terminated, truncated, *info.values()]
        return shown

    first = play()
    # what is drawn by a library outside has no state to come back to
    if name == "gymnasium":
        return
    envs.restore(state)
    assert all(torch.equal(a, b) for a, b in zip(first, play()))


def test_episodes_begin_again_in_the_step_after_their_last():
    envs = maglev.make("cartpole", 4, seed=1)
    obs, info = envs.reset()
    ended = torch.zeros(4, dtype=torch.bool)
    episodes = 0
    for _ in range(200):
        obs, reward, terminated, truncated, info = envs.step(torch.zeros(4, dtype=torch.long))
        assert torch.equal(info["is_first"], ended)
        assert torch.equal(reward == 0, ended)
        # the last observation of an episode is the fallen pole, the first of the next one is not
        assert (obs[terminated, 2].abs() > 0.2).all() and (obs[ended].abs() <= 0.05).all()
        ended = terminated | truncated
        episodes += int(terminated.sum())
    assert episodes > 40 and envs.totals()["episodes"] == episodes


@pytest.mark.parametrize("name, agents", [("goodhart", 1), ("hockey_duel", 2)])
def test_events_of_each_step_add_up_to_totals(name, agents):
    envs, silent = (maglev.make(name, 3, SETTINGS.get(name), seed=5, events=events) for events in (True, False))
    _, info = envs.reset()
    assert "events" not in silent.reset()[1]
    assert info["events"].shape == (envs.rows, len(envs.spec.events)) and not info["events"].any()
    told, kept, state = [], None, None
    for k in range(400):
        action = envs.sample()
        silent.step(action)
        info = envs.step(action)[-1]
        told.append(info["events"])
        assert all(torch.equal(info["events"][0], info["events"][a]) for a in range(agents))
        if k == 100:
            state, kept = envs.keep(), envs.totals()["events"]
    assert any(kept.values())
    every = torch.stack(told)[:, ::agents].double().sum((0, 1)).tolist()
    totals = envs.totals()
    later = totals["events"]
    if "food" in later:
        assert totals["shares"]["efficiency"] == later["food"] / (later["food"] + later["poison"])
    both = [kept[event] + later[event] for event in envs.spec.events]
    assert both == pytest.approx(every) and both == pytest.approx(list(silent.totals()["events"].values()), rel=1e-5)
    # a state has what was counted before it
    assert not envs.restore(state)[1]["events"].any() and envs.totals()["events"] == kept
    # and a reset forgets what nobody took, as it does without
    for _ in range(50):
        envs.step(envs.sample())
    envs.reset()
    assert not any(envs.totals()["events"].values())


def test_events_are_told_where_there_are_some_alone():
    with pytest.raises(maglev.Error, match="cartpole counts no events"):
        maglev.make("cartpole", events=True)


def test_a_spec_names_its_actions():
    assert made("cartpole").spec.action_names == ("push left", "push right")
    assert made("goodhart").spec.action_names == (
        "up left", "left", "down left", "up", "down", "up right", "right", "down right",
    )  # fmt: skip
    assert maglev.make("minatar_breakout", 1, {"env.minimal_actions": True}).spec.action_names == ("stay", "left", "right")
    assert made("pendulum").spec.action_names == ()


def test_a_spec_says_what_it_holds():
    assert "name='vector'" in repr(made("cartpole").spec) and "heads=(2,), " in repr(made("cartpole").spec)


def test_a_seed_is_a_sequence():
    a, b = maglev.make("acrobot", 5, seed=9), maglev.make("acrobot", 5, seed=1, threads=1)
    first, _ = a.reset()
    assert torch.equal(first, b.reset(9)[0]) and not torch.equal(first, b.reset(8)[0])
    b.reset(9)
    for _ in range(20):
        action = a.sample()
        assert torch.equal(a.step(action)[0], b.step(action)[0])
    assert torch.equal(a.reset()[0], first)


def test_what_a_step_gave_stays():
    kept, alias = maglev.make("pendulum", 2), maglev.make("pendulum", 2, copy=False)
    before = kept.reset()[0], alias.reset()[0]
    push = torch.full((2, 1), 2.0)
    kept.step(push), alias.step(push)
    assert torch.equal(*before)
    kept.step(push), alias.step(push)
    # the two sets of columns take turns
    assert not torch.equal(*before)


def test_what_is_wrong_is_said():
    envs = maglev.make("cartpole", 3)
    pendulum = maglev.make("pendulum", 2)
    obs, _ = envs.reset()
    pendulum.reset()
    wrong = [
        (lambda: maglev.make("cartpol"), "did you mean cartpole"),
        (lambda: maglev.make("cartpole", 0), "at least 1, got 0"),
        (lambda: maglev.make("cartpole", settings={"env.max_step": 3}), "did you mean env.max_steps"),
        (lambda: maglev.make("cartpole", settings={"env.max_steps": None}), "env.max_steps: None is no value"),
        (lambda: maglev.make("cartpole", 2, {"env.count": 4}), "is num_envs here, the second argument"),
        (lambda: maglev.make("cartpole", 3.0), "num_envs must be a whole number in 0..2**63-1, got 3.0"),
        (lambda: maglev.make("cartpole", seed=None), "seed must be a whole number in 0..2**63-1, got None"),
        (lambda: maglev.make(len), "[make] an environment is named by a text"),
        (lambda: envs.restore(None), "[restore] takes what keep() gave, got None"),
        (lambda: maglev.train("ppo", "cartpole", sinks=[]), "[train] sinks names none"),
        (lambda: envs.reset(-1), "[reset] seed must be a whole number in 0..2**63-1, got -1"),
        (lambda: envs.step(None), "[step] actions must be a tensor, an array or numbers, got NoneType"),
        (lambda: envs.render("rgb_array"), "must be a whole number in 0..2**63-1, got 'rgb_array'"),
        (lambda: maglev.evaluate("random", "cartpole", episodes=-1), "[evaluate] episodes must be a whole number"),
        (lambda: maglev.evaluate(lambda obs, info: None, "cartpole"), "the function's actions must be a tensor"),
        (lambda: maglev.train("ppo", len), "[train] an environment is named by a text, got <built-in"),
        (lambda: maglev.train("ppo", Path()), '"gymnasium" with their id among the settings: {"env.id": "CartPole-v1"}'),
        (lambda: maglev.train("ppo", "cartpole", {"ppo.lr": lambda left: left}, out="never"), "[settings] ppo.lr is a value"),
        (lambda: maglev.train("ppo", "cartpole", out=3), "[train] out is a path, got 3"),
        (lambda: maglev.train("ppo", "cartpole", out="never", config=3), "[train] config is a path, got 3"),
        (lambda: maglev.train("ppo", "cartpole", out="never", on_row=3), "on_row must be a function, got 3"),
        (lambda: maglev.train("ppo", "cartpole", out="never", sinks=3), 'sinks are names, such as ["jsonl"], got 3'),
        (lambda: maglev.load("nowhere", mode=None), "[load] a mode is named by a text, got None"),
        (lambda: maglev.load("nowhere", temperature="hot"), "[load] temperature must be a number, got 'hot'"),
        (lambda: maglev.gae(*[torch.zeros(3)] * 4), "[gae] reward must be [T, rows], also of one row, got [3]"),
        (lambda: maglev.gae(*[np.zeros((n, 1)) for n in (3, 4, 3, 4)], gamma=2), "[gae] gamma must be in 0..1, got 2"),
        (lambda: maglev.gae(*[torch.zeros(3, 1)] * 4), "[gae] value must be contiguous [4, 1], got [3, 1]"),
        (lambda: pickle.dumps(envs), "environments stay where they were made"),
        (lambda: copy.deepcopy(envs.player("random")), "a policy stays in its process"),
        (lambda: maglev.make("cartpole", device="tpu"), "auto, cpu, cuda"),
        (lambda: maglev.make("cartpole", 3).step([0, 0, 0]), "reset() comes before"),
        (lambda: envs.step([0, 1]), r"\[3, 1\] or \[3\], got \[2\]"),
        (lambda: envs.step([0, 1, 2]), "in 0..1, got 2 in row 2"),
        (lambda: envs.step([0.0, 1.0, 1.0]), "integers; got Float"),
        (lambda: envs.step([2**32, 0, 0]), "got 4294967296 in row 0"),
        (lambda: pendulum.step([[0.5], [float("nan")]]), "row 1 is not"),
        (lambda: envs.render(3), "in 0..2, got 3"),
        (lambda: envs.player("weak"), "random"),
        (lambda: maglev.load("nowhere"), "holds no run"),
        (lambda: maglev.Run("nowhere"), "holds no run"),
        (lambda: maglev.train("ppo", "cartpole", {"ppo.lrr": 1}), "did you mean ppo.lr"),
        (lambda: maglev.train("ppo", "cartpole", "seed=1"), "dict or a list"),
        (lambda: maglev.train("ppo", "cartpole", {"processes": 2}, out="never"), "only `maglev train` starts further processes"),
        (lambda: maglev.evaluate(lambda obs, info: obs), "wants to know the environment"),
        (lambda: maglev.evaluate("random"), "say in which, e.g. evaluate(\"random\", \""),
        (lambda: maglev.evaluate("strong"), "evaluate(\"strong\", \"hockey"),
        (lambda: maglev.evaluate("nowhere"), "holds no run"),
    ]
    for act, why in wrong:
        with pytest.raises(maglev.Error, match=why if why[0:1] == "\\" else re.escape(why)):
            act()
    # nothing of it moved them
    assert torch.equal(obs, columns_of(envs, envs._shown()[0])[0])


@pytest.mark.parametrize("load", [maglev.load, maglev.Run, maglev.evaluate, maglev.resume])
def test_several_runs_in_place_of_one_are_named_with_their_scores(load, tmp_path):
    for number, score in enumerate((1.5, 20.25)):
        trial, seed = tmp_path / "sweep" / "trials" / str(number), tmp_path / "group" / f"seed-{number}"
        for folder in (trial / "run", seed):
            (folder / "checkpoints").mkdir(parents=True)
        (trial / "trial.json").write_text(json.dumps({"score": score}))
    rows = [{"seed": 0, "return": 1.5}, {"seed": 1, "return": 20.25}]
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    (tmp_path / "group" / "seeds.json").write_text(json.dumps({"seeds": rows}))
    for folder, first, second in [("sweep", "trials/1/run", "trials/0/run"), ("group", "seed-1", "seed-0")]:
        folder = tmp_path / folder
        with pytest.raises(maglev.Error) as refused:
            load(folder)
        assert f"scores: {folder}/{first} (20.25), {folder}/{second} (1.5)" in str(refused.value)


def test_what_would_end_the_interpreter_is_an_error(cart):
    """Each in a process of its own, which must live."""
    lines = [
        "torch.set_default_dtype(torch.float64); e = maglev.make('cartpole', 4); e.reset(); e.step(e.sample())\n"
        f"maglev.load({str(cart.folder)!r}).act(torch.zeros(2, 4)); assert torch.get_default_dtype() == torch.float64",
        "e = maglev.make('minatar_breakout', 2); refuse(lambda: e.encode(e.reset()[0].float()))",
        "e = maglev.make('pendulum', 2); e.reset(); refuse(lambda: e.encode(torch.zeros(2, 99)))",
        "refuse(lambda: maglev.make('cartpole', 2, threads=-1)); refuse(lambda: maglev.make('cartpole', 2, threads=2**32))",
        "e = maglev.make('goodhart', 4096, settings={'env.width': 32, 'env.height': 32}); e.reset(); a = e.sample(); said = []\n"
        "def work():\n"
        "  for _ in range(100):\n"
        "    try: e.step(a)\n"
        "    except maglev.Error as error: said.append(str(error))\n"
        "several(work); assert not said or 'two threads' in said[0]",
        "def work():\n"
        "  for _ in range(30): maglev.make('cartpole', 4, threads=2).reset()\n"
        "several(work)",
    ]
    head = (
        "import maglev, threading, torch\n"
        "def refuse(act):\n"
        "  try: act()\n"
        "  except maglev.Error: return\n"
        "  raise SystemExit('not refused')\n"
        "def several(work):\n"
        "  threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "  [t.start() for t in threads], [t.join() for t in threads]\n"
    )
    for line in lines:
        done = subprocess.run(
            [sys.executable, "-c", head + line],
            env={**os.environ, "PYTHONPATH": str(HOME / "python")},
            capture_output=True, text=True, timeout=LONG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, line + done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What pip sees of one, so that nothing is written into that of the tests."""
    pytest.importorskip("setuptools")
    here = tmp_path_factory.mktemp("checkout")
    for name in ["maglev", "configs"]:
        (here / name).symlink_to(HOME / name)
    (here / ".build").mkdir()
    (here / ".build" / "release").symlink_to(BUILD)
    (here / "pyproject.toml").write_bytes((HOME / "pyproject.toml").read_bytes())
    for package in ["maglev", "maglev_sync"]:
        shutil.copytree(HOME / "python" / package, here / "python" / package)
    return here


def installed(checkout, where, *flags):
    """Imports the package as pip installs it, with nothing else that says where it is."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    done = subprocess.run([*pip, "--prefix", where, *flags, checkout], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    site = next(where.glob("lib*/python*/site-packages"))
    script = f"import site; site.addsitedir({str(site)!r}); import maglev; print(len(maglev.environments()))"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MAGLEV_HOME", "MAGLEV_BUILD")}
    return subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=where, capture_output=True, text=True, timeout=LONG_S, check=False
    )


def test_pip_installs_the_checkout_in_place(checkout, tmp_path):
    done = installed(checkout, tmp_path, "-e")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(maglev.environments())


def test_a_copy_apart_from_its_checkout_says_so(checkout, tmp_path):
    done = installed(checkout, tmp_path)
    assert done.returncode == 1 and "is no checkout of Maglev" in done.stderr and "pip install -e" in done.stderr


def test_another_torch_than_the_modules_is_refused(tmp_path):
    script = "import torch; torch.__version__ = '1.0.0+cpu'; import maglev"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
        capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "this Python has torch 1.0.0+cpu, the engine's module was built with" in done.stderr


def test_actions_with_gradients_and_inference_mode_leave_no_trace():
    envs, net = maglev.make("pendulum", 2), torch.nn.Linear(3, 1)
    obs, _ = envs.reset()
    for _ in range(3):
        obs, *_ = envs.step(net(obs))
    assert not obs.requires_grad
    with torch.inference_mode():
        inside = maglev.make("pendulum", 2)
        inside.reset()
        inside.step(torch.zeros(2, 1))
    inside.step(torch.zeros(2, 1))
    with torch.inference_mode():
        assert maglev.evaluate(lambda obs, info: net(obs), "pendulum", episodes=2)["episodes"] == 2


def test_a_state_is_of_its_environments_and_seed():
    envs = maglev.make("cartpole", 3, seed=1)
    envs.reset()
    state = envs.keep()

    def play():
        return [envs.step([1, 1, 1])[0] for _ in range(40)]

    first = play()
    envs.reset(99)
    envs.restore(state)
    assert all(torch.equal(a, b) for a, b in zip(first, play()))
    others = [made("pendulum"), maglev.make("cartpole", 4), maglev.make("cartpole", 3, settings={"env.max_steps": 7})]
    for other in others:
        before, _ = other.reset()
        with pytest.raises(maglev.Error, match="of other environments"):
            other.restore(state)
        assert torch.equal(columns_of(other, other._shown()[0])[0], before)


def test_closed_environments_say_so():
    with maglev.make("cartpole", 3) as envs:
        envs.reset()
    envs.close()
    assert envs.rows == 3 and "cartpole" in repr(envs)
    for call in (envs.reset, envs.totals, envs.keep, lambda: envs.step([1, 1, 1]), envs.render):
        with pytest.raises(maglev.Error, match="of cartpole are closed; make others"):
            call()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("resets", [False, True])
def test_an_environment_of_python_that_raised_can_be_reset(monkeypatch, count, resets):
    pytest.importorskip("gymnasium")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    kwargs = json.dumps({"resets": resets})
    envs = maglev.make("gymnasium", count, {"env.id": "gym_samples:Trips-v0", "env.kwargs": kwargs, "env.workers": 1})

    def fails(call):
        with pytest.raises(maglev.Error, match="tripped"):
            call()

    # each is told of its own failed reset
    for _ in range(count if resets else 0):
        fails(envs.reset)
        with pytest.raises(maglev.Error, match="reset\\(\\) comes before"):
            envs.step(envs.sample())
    actions = torch.zeros(count, dtype=torch.int32)
    # all fail in the same step: what one says is told, the others' is of no use any more
    if not resets:
        assert envs.reset()[0].tolist() == [[0.0]] * count
        for step in (1, 2):
            assert envs.step(actions)[0].tolist() == [[float(step)]] * count
        fails(lambda: envs.step(actions))
    for _ in range(2):
        assert envs.reset()[0].tolist() == [[0.0]] * count
        for step in range(1, 6):
            assert envs.step(actions)[0].tolist() == [[float(step)]] * count
    envs.close()


def test_environments_of_python_leave_no_process_behind(monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))

    def workers():
        return set(children_of(os.getpid()))

    before = workers()
    settings = {"env.id": "gym_samples:Leaving-v0", "env.workers": 2}
    envs, others = (maglev.make("gymnasium", 4, settings) for _ in range(2))
    assert envs.spec.render_fps == 12
    envs.reset(), others.reset()
    envs.close()
    others.step(others.sample())
    assert len(workers() - before) == 2
    others.close()
    assert not workers() - before


def forked(script, cwd):
    """What a program writes; it gets child(do), which says what `do` comes to in a process that is forked, whose id it is."""
    begin = (
        "import os, maglev, torch\n"
        "def child(do):\n"
        "  if pid := os.fork(): return pid\n"
        "  try: print(do(), flush=True)\n"
        "  except maglev.Error as error: print(error, flush=True)\n"
        "  os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + script],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LONG_S,
        check=True,
    )
    return done.stdout.splitlines()


def test_environments_are_not_stepped_where_their_threads_are_not(cart, tmp_path):
    said = forked(
        "def wait(do): os.waitpid(child(do), 0)\n"
        "wait(lambda: maglev.make('cartpole', 4096).reset()[0].shape[0])\n"
        f"e = maglev.make('cartpole', 4096); e.reset(); a = e.sample(); p = maglev.load({str(cart.folder)!r})\n"
        "for do in (lambda: maglev.make('cartpole', 4096), e.reset, lambda: e.step(a), e.totals): wait(do)\n"
        "wait(lambda: len(p.act(torch.zeros(3, 4)))); print(len(e.step(a)[1]))",
        tmp_path,
    )
    assert [line.startswith("[fork] ") and 'get_context("spawn")' in line for line in said[1:5]] == [True] * 4, said
    assert said[0] == "4096" and said[5:] == ["3", "4096"]


def test_a_process_that_was_forked_steps_environments_of_python_in_its_own(tmp_path):
    pytest.importorskip("gymnasium")
    said = forked(
        "def judged(): return maglev.evaluate('random', 'gymnasium', settings={'env.workers': 1}, episodes=20)['returns']\n"
        "print(judged(), flush=True)\n"
        "for pid in [child(judged), child(judged)]: os.waitpid(pid, 0)",
        tmp_path,
    )
    assert len(said) == 3 and len(set(said)) == 1, said


def test_an_environment_of_python_that_was_changed_is_the_new_one(tmp_path, monkeypatch):
    """As in a notebook: the file is mended, and the same call is made again."""
    pytest.importorskip("gymnasium")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parent}")
    settings = {"env.id": "changing:Changing", "env.workers": 1, "env.max_steps": 5}
    sizes = {"env.count": 2, "ppo.rollout": 8, "ppo.minibatch": 8, "train.steps": 16}

    def write(numbers, then=""):
        # each of another length: Python takes what it compiled for the same second and size
        (tmp_path / "changing.py").write_text(
            "from gym_samples import Echo, np, os, spaces\n"
            "class Changing(Echo):\n"
            f"  def __init__(self): super().__init__(); self.observation_space = spaces.Box(-1, 1, ({numbers},))\n"
            f"  def reset(self, seed=None, options=None): return np.zeros({numbers}, np.float32), {{}}\n"
            f"  def step(self, action): {then or 'pass'}; return np.zeros({numbers}, np.float32), 1.0, False, False, {{}}\n"
        )

    def shape():
        run = maglev.train("ppo", "gymnasium", {**settings, **sizes}, out=tmp_path / "run", overwrite=True, sinks=["jsonl"])
        return run.policy().spec.observations[0].shape

    write(3)
    assert shape() == (3,)
    write(10)
    assert shape() == (10,)
    write(100, "os._exit(3)")
    with pytest.raises(maglev.Error, match="exit status 3") as broken:
        shape()
    write(1000)
    assert maglev.evaluate("random", "gymnasium", settings=settings, episodes=2)["returns"] == [5, 5], broken
    with made("gymnasium", 2, settings) as envs:
        assert envs.reset()[0].shape == (2, 1000)
    write(10000)
    with made("gymnasium", 2, settings) as envs:
        assert envs.reset()[0].shape == (2, 10000)


def test_one_run_at_a_time(tmp_path):
    refused = []

    def another(row):
        with pytest.raises(maglev.Error, match="trains a run already"):
            maglev.train("ppo", "cartpole", QUICK, out=tmp_path / "inner", sinks="jsonl")
        refused.append(row)

    maglev.train("ppo", "cartpole", {**QUICK, "train.steps": 2048}, out=tmp_path / "outer", sinks="jsonl", on_row=another)
    assert refused


def test_evaluation_is_interrupted():
    script = "import maglev; print('on', flush=True); maglev.evaluate('omniscient_seeker', 'goodhart', steps=10**15)"
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    child.stdout.readline()
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=LONG_S)
    assert child.returncode != 0 and "KeyboardInterrupt" in said


def test_a_mask_is_held_to():
    envs = made("kg")
    _, info = envs.reset()
    forbidden = info["mask"].to(torch.uint8).argmin(1)
    assert not info["mask"].gather(1, forbidden.unsqueeze(1)).any()
    with pytest.raises(maglev.Error, match="mask does not allow"):
        envs.step(forbidden)
    obs, info = envs.reset()
    player = envs.player("random")
    assert info["mask"].gather(1, player.act(obs, info).unsqueeze(1)).all()
    with pytest.raises(maglev.Error, match="says which actions are allowed"):
        player.act(obs)
    for _ in range(20):
        *_, info = envs.step(envs.sample())


def test_advantages_are_those_of_the_paper():
    torch.manual_seed(1)
    T, N, gamma, lam = 12, 5, 0.97, 0.9
    reward, value = torch.randn(T, N), torch.randn(T + 1, N)
    terminated, is_first = torch.rand(T, N) < 0.2, torch.rand(T + 1, N) < 0.2
    got = maglev.gae(reward, value, terminated, is_first, gamma=gamma, lam=lam)
    expected, running = torch.zeros(T, N), torch.zeros(N)
    for t in reversed(range(T)):
        goes_on = (~terminated[t]).float()
        delta = reward[t] + gamma * value[t + 1] * goes_on - value[t]
        # an episode's last step sees the end behind it, whose own step only begins the next one
        running = torch.where(is_first[t + 1], 0.0, delta + gamma * lam * goes_on * running)
        expected[t] = running
    assert torch.allclose(got.advantage, expected, atol=1e-6)
    assert torch.equal(got.valid, ~is_first[1:])
    assert torch.allclose(got.returns[got.valid], (expected + value[:-1])[got.valid], atol=1e-6)


def test_training_is_that_of_the_command_line(cart, engine, tmp_path):
    done = engine(
        "train", "ppo", "cartpole", *(f"{k}={v}" for k, v in QUICK.items()), "train.steps=30000",
        "--sinks", "jsonl", "--out", tmp_path / "same",
    )
    assert done.returncode == 0, done.stderr
    newest = max(p.name for p in (cart.folder / "checkpoints").glob("step_*"))
    states = [folder / "checkpoints" / newest / "state.safetensors" for folder in (cart.folder, tmp_path / "same")]
    assert states[0].read_bytes() == states[1].read_bytes()
    assert cart.outcome == "finished" and cart.status["state"] == "finished"
    assert cart.config == (tmp_path / "same" / "config.yaml").read_text()
    steps, returns = cart.curve()
    assert steps == sorted(steps) and returns[-1] > returns[0]
    with pytest.raises(maglev.Error, match="it has .*loss/policy"):
        cart.curve("loss")


def test_a_run_tells_and_is_resumed(tmp_path):
    rows, episodes = [], []
    tell = {"sinks": ["jsonl"], "on_row": rows.append, "on_episodes": episodes.extend}
    whole = maglev.train("ppo", "cartpole", {**QUICK, "train.steps": 8192}, out=tmp_path / "whole", **tell)
    assert [row["step"] for row in rows] == [row["step"] for row in whole.rows()]
    assert rows[-1]["episodes"] == len(episodes) and {e["length"] == e["return"] for e in episodes} == {True}
    maglev.train("ppo", "cartpole", {**QUICK, "train.steps": 4096}, out=tmp_path / "parts", sinks=["jsonl"])
    parts = maglev.resume(tmp_path / "parts", {"train.steps": 8192}, sinks=["jsonl"])
    assert parts.outcome == "finished" and parts.rows()[-1]["step"] == whole.rows()[-1]["step"] == 8192

    def fail(row):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        maglev.train("ppo", "cartpole", {**QUICK, "train.steps": 8192}, out=tmp_path / "failed", sinks=["jsonl"], on_row=fail)
    failed = maglev.Run(tmp_path / "failed")
    assert failed.status["state"] == "failed" and "enough" in failed.status["message"]


def test_a_run_tells_where_it_stands(tmp_path):
    stands, steps, epochs = [], [], []
    told = {
        "on_start": stands.append,
        "on_end": stands.append,
        "on_iteration": steps.append,
        "on_epoch": lambda epoch, figures: epochs.append((epoch, figures)),
    }
    settings = {**QUICK, "train.steps": 8192, "ppo.epochs": 2, "ppo.rollout": 64, "env.count": 16}
    run = maglev.train("ppo", "cartpole", settings, out=tmp_path / "run", sinks=["jsonl"], **told)
    begun, ended = stands
    assert begun == {"folder": str(run.folder), "step": 0, "updates": 0, "steps": 8192}
    assert ended["step"] == 8192 and ended["updates"] > 0
    assert steps == list(range(0, 8192, 1024))
    assert [epoch for epoch, _ in epochs] == [0, 1] * len(steps) and "loss/policy" in epochs[0][1]
    again = maglev.resume(run, {"train.steps": 16384}, sinks=["jsonl"], on_iteration=lambda step: step < 12000)
    assert again.outcome == "stopped" and 12000 < again.status["steps"] < 16384


@pytest.mark.parametrize("hook, yes", [("on_row", bool), ("on_episodes", bool), ("on_row", np.bool_), ("on_row", torch.tensor)])
def test_a_callback_ends_a_run_that_is_resumed(tmp_path, hook, yes):
    told = []
    settings = {**QUICK, "train.steps": 8192, "train.log_every": 1024}
    enough = {hook: lambda what: told.append(what) or yes(len(told) < 3)}
    run = maglev.train("ppo", "cartpole", settings, out=tmp_path / "run", sinks=["jsonl"], **enough)
    assert run.outcome == "stopped" and run.status["state"] == "stopped" and len(told) >= 3
    assert 0 < run.status["steps"] < 8192
    again = maglev.resume(run, sinks=["jsonl"])
    assert again.outcome == "finished" and again.status["steps"] == 8192


def test_the_stub_has_what_the_module_has():
    def public(names):
        return {name for name in names if not name.startswith("_")}

    engine = sys.modules["maglev._engine"]
    stub = ast.parse((HOME / "python" / "maglev" / "_engine.pyi").read_text())
    named = {node.name: node for node in stub.body if hasattr(node, "name")}
    values = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert public(vars(engine)) == named.keys() | values
    for name, node in named.items():
        if isinstance(node, ast.ClassDef) and name != "Error":
            members = {member.name for member in node.body if hasattr(member, "name")}
            assert public(vars(getattr(engine, name))) == public(members), name
    assert (HOME / "python" / "maglev" / "py.typed").exists()


def signatures():
    """What the package offers, by name."""
    pytest.importorskip("gymnasium")
    pytest.importorskip("pettingzoo")
    from maglev.gymnasium import Spaces, VectorEnv
    from maglev.pettingzoo import ParallelEnv

    for kind in (*(getattr(maglev, name) for name in maglev.__all__), Spaces, VectorEnv, ParallelEnv):
        if inspect.isclass(kind):
            own = {name: getattr(f, "fget", f) for name, f in vars(kind).items() if name == "__init__" or name[0] != "_"}
            yield from ((f"{kind.__name__}.{name}", f) for name, f in own.items() if inspect.isfunction(f))
        else:
            yield kind.__name__, kind


def test_types_are_said_in_full():
    """A program is checked with mypy --strict: nothing that it calls is without types, or of parts that nobody says."""
    for name, function in signatures():
        said = inspect.signature(function)
        parameters = [p.annotation for p in said.parameters.values() if p.name not in ("self", "_")]
        results = [] if name.endswith("__init__") else [said.return_annotation]
        for annotation in (*parameters, *results):
            assert annotation is not inspect.Signature.empty, name
            assert not re.search(r"\b(dict|list|tuple|Callable|Sequence|Mapping)\b(?!\[)", str(annotation)), (name, annotation)


def test_ctrl_c_saves_and_interrupts(tmp_path):
    script = (
        "import maglev, sys\n"
        "try: maglev.train('ppo', 'cartpole', {'train.steps': 10**12, 'train.log_every': 10**4}, out=sys.argv[1], sinks=['jsonl'],\n"
        "                  on_row=lambda row: print(row['step'], flush=True))\n"
        "except KeyboardInterrupt as e: print('interrupted:', e, flush=True); sys.exit(5)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "run"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
    )
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=LONG_S)
    assert child.returncode == 5 and "interrupted: the run in" in said
    assert maglev.Run(tmp_path / "run").status["state"] == "stopped"


def test_a_second_ctrl_c_ends_the_process_at_once(tmp_path):
    script = (
        "import maglev, sys, time\n"
        "maglev.train('ppo', 'cartpole', {'train.steps': 10**12, 'train.log_every': 10**4}, out=sys.argv[1], sinks=['jsonl'],\n"
        "             on_row=lambda row: print('row', flush=True), on_end=lambda run: (print('end', flush=True), time.sleep(3600)))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "run"],
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
    )  # fmt: skip
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    while (line := child.stdout.readline()) == "row\n":
        pass
    assert line == "end\n"
    # two that come together are one
    time.sleep(0.6)
    child.send_signal(signal.SIGINT)
    assert child.wait(LONG_S) == 128 + signal.SIGINT
    assert maglev.Run(tmp_path / "run").status["state"] == "stopped"


def test_torch_is_left_as_it_was(cart):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        cart.policy().act(torch.zeros(3, 4))
        cart.evaluate(episodes=2)
        assert torch.get_num_threads() == 2 and torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.set_num_threads(threads)
        torch.backends.cuda.matmul.allow_tf32 = False


def first_returns(policy, envs):
    """Of each environment's first episode."""
    obs, info = envs.reset()
    running, first = torch.zeros(envs.num_envs), {}
    while len(first) < envs.num_envs:
        obs, reward, terminated, truncated, info = envs.step(policy.act(obs, info))
        running += reward
        for row in torch.nonzero(terminated | truncated).flatten().tolist():
            first.setdefault(row, float(running[row]))
            running[row] = 0
    return [first[row] for row in range(envs.num_envs)]


def test_a_player_is_evaluated_in_its_own_environments():
    player = maglev.make("cartpole", 4, {"env.max_steps": 7}).player("random")
    assert max(maglev.evaluate(player, episodes=20)["returns"]) <= 7
    with pytest.raises(maglev.Error, match="must be a dict or a list"):
        maglev.make("cartpole", 4, 1)


def test_a_policy_acts_as_it_is_evaluated(cart, engine):
    judged = engine("eval", cart.folder, "--episodes", 12, "--actions", "mean", "--json")
    returns = json.loads(judged.stdout)["results"][0]["returns"]
    assert cart.evaluate(episodes=12)["returns"] == returns
    assert maglev.evaluate(cart, episodes=12)["returns"] == returns
    policy = cart.policy()
    assert policy.environment == "cartpole" and "checkpoints" in policy.checkpoint
    # a loop of one's own, by the seed of evaluations
    envs = maglev.make("cartpole", 12, seed=1_000_003)
    assert first_returns(policy, envs) == returns
    # and a function is judged by the same episodes
    policy.reset()
    asked = []

    def function(obs, info):
        asked.append(info["rows"])
        assert info["is_first"].shape == (len(obs),)
        return policy.log_probs(obs).argmax(-1)

    assert maglev.evaluate(function, "cartpole", episodes=12)["returns"] == returns and asked
    with pytest.raises(ZeroDivisionError):
        maglev.evaluate(lambda obs, info: 1 // 0, "cartpole", episodes=2)


def test_a_policy_draws_at_a_temperature(cart, engine):
    def returns(*words):
        done = engine("eval", cart.folder, "--episodes", 6, *words, "--json")
        return json.loads(done.stdout)["results"][0]["returns"]

    # all but evenly: no pole stays up
    drawn = cart.policy(mode="sample", temperature=100)
    assert drawn.temperature == 100
    hot = returns("--temperature", 100)
    assert maglev.evaluate(drawn, episodes=6)["returns"] == hot
    assert cart.evaluate(mode="sample", temperature=100, episodes=6)["returns"] == hot
    assert cart.evaluate(mode="sample", episodes=6)["returns"] == returns("--actions", "sample") != hot
    # the likeliest action is what it is
    assert maglev.evaluate(drawn, mode="mean", episodes=6)["returns"] == returns("--actions", "mean")
    envs = maglev.make("cartpole", 4)
    assert envs.player(drawn).temperature == 100 and envs.player(drawn, temperature=2).temperature == 2
    for wrong, said in ((0, "above 0"), (2, "mode sample")):
        with pytest.raises(maglev.Error, match=said):
            cart.policy(mode="sample" if wrong == 0 else "mean", temperature=wrong)
    with pytest.raises(maglev.Error, match="no policy"):
        envs.player("random", temperature=2)
    with pytest.raises(maglev.Error, match="a function draws by itself"):
        maglev.evaluate(lambda obs, info: obs[:, 0] > 0, "cartpole", temperature=2)


def test_random_actions_follow_the_seed():
    def drawn(seed, resets=()):
        with maglev.make("pendulum", 8, seed=seed) as envs:
            envs.reset()
            first = envs.sample()
            for other in resets:
                envs.reset(other)
            return envs.sample() if resets else first

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))
    assert torch.equal(drawn(1, [2]), drawn(2))


def test_a_damaged_run_is_told_of(cart, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(cart.folder, folder, symlinks=True)
    run, path = maglev.Run(folder), folder / "metrics.jsonl"
    rows, lines = run.rows(), path.read_text().splitlines()
    assert len(lines) > 2
    # a line in the middle, and one that is still on its way
    for damaged in (lines[1][:10].encode(), b"12", b"\xff\xfe" + lines[1].encode()):
        path.write_bytes(b"\n".join([lines[0].encode(), damaged, "\n".join([*lines[2:], lines[0][:10]]).encode()]))
        with pytest.warns(UserWarning, match="line 2 cannot be read and is left out"):
            assert run.rows() == [rows[0], *rows[2:]]
    for damaged in (b"{", b"[1]", b"\xff"):
        (folder / "run.json").write_bytes(damaged)
        with pytest.raises(maglev.Error, match="run.json cannot be read"):
            run.status
    (folder / "config.yaml").unlink()
    with pytest.raises(maglev.Error, match="config.yaml cannot be read"):
        run.config


def test_one_observation_is_one_action(cart):
    policy = cart.policy()
    rows = torch.tensor([[0.0, 0.0, 0.1, 0.0], [0.0, 0.0, -0.1, 0.0]])
    many = policy.act(rows)
    assert many.shape == (2,) and many.dtype == torch.int64
    assert torch.equal(policy.log_probs(rows[0]), policy.log_probs(rows)[0])
    assert policy.act(rows[0]) == many[0] and policy.act(rows[0].numpy()) == many[0]
    with pytest.raises(maglev.Error, match=r"vector must have shape \[rows, 4\], got \[rows, 3\]"):
        policy.act(torch.zeros(1, 3))
    with pytest.raises(maglev.Error, match=r"\[obs\] vector holds NaN where numbers are expected"):
        policy.act(torch.tensor([[0, 0, float("nan"), 0]]))


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    """A run whose actions are numbers, some of which are drawn beyond their bounds."""
    settings = {**QUICK, "train.steps": 512, "ppo.network.log_std": 1}
    return maglev.train("ppo", "pendulum", settings, bare=True, out=tmp_path_factory.mktemp("runs") / "swing", sinks=["jsonl"])


def test_actions_that_are_numbers_are_within_their_bounds(swing):
    rows = torch.randn(256, 3)
    drawn = swing.policy(mode="sample").act(rows, clip=False)
    acted = swing.policy(mode="sample").act(rows)
    assert drawn.abs().max() > 2 and torch.equal(acted, drawn.clamp(-2, 2))
    # an environment takes both alike
    envs = [maglev.make("pendulum", 256, seed=5) for _ in range(2)]
    steps = [env.reset() and env.step(action) for env, action in zip(envs, (drawn, acted))]
    assert torch.equal(steps[0][0], steps[1][0]) and torch.equal(steps[0][1], steps[1][1])
    assert envs[0].player(swing).act().abs().max() <= 2


def test_a_policy_tells_the_normal_that_its_numbers_are_drawn_from(swing, cart):
    rows = torch.randn(20_000, 3)
    normal = swing.policy().normal(rows)
    mean, std = normal.base_dist.mean, normal.base_dist.stddev
    torch.testing.assert_close(mean, swing.policy().act(rows, clip=False), rtol=1e-4, atol=1e-4)
    # as it was set, but for a few updates
    assert (std.log() - 1).abs().max() < 0.2
    drawn = swing.policy(mode="sample").act(rows, clip=False)
    z = (drawn - mean) / std
    assert abs(float(z.mean())) < 0.05 and abs(float(z.std()) - 1) < 0.05
    expected = (-0.5 * z.square() - std.log() - 0.5 * np.log(2 * np.pi)).sum(1)
    torch.testing.assert_close(normal.log_prob(drawn), expected)
    torch.testing.assert_close(normal.entropy(), (std.log() + 0.5 + 0.5 * np.log(2 * np.pi)).sum(1))
    assert swing.policy().normal(rows[0]).log_prob(drawn[0]).shape == ()
    assert cart.policy().normal(torch.zeros(1, 4)) is None and swing.policy().log_probs(rows) is None


def test_a_policy_has_the_value_that_is_exported(cart):
    policy = cart.policy()
    rows = torch.tensor([[0.0, 0.0, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0]])
    values = policy.value(rows)
    assert values.shape == (2,) and values.dtype == torch.float32
    assert torch.equal(policy.value(rows[0]), values[0])
    # each step that is left gives 1
    assert (values > 0).all()
    assert made("hockey_duel", 2).player("strong").value(torch.zeros(4, 18)) is None


def test_a_policy_is_judged_as_its_run_is(tmp_path):
    run = maglev.train("ppo", "cartpole", {**QUICK, "train.steps": 1024}, out=tmp_path / "run", sinks=["jsonl"])
    expected = run.evaluate(episodes=8)["returns"]
    policy = run.policy()
    assert maglev.evaluate(policy, episodes=8)["returns"] == expected
    drawn = maglev.evaluate(run.policy(mode="sample"), episodes=8)
    assert drawn["returns"] == run.evaluate(episodes=8, mode="sample")["returns"] != expected
    assert maglev.evaluate(policy, episodes=8, mode="sample")["returns"] == drawn["returns"]
    # one of environments is judged in theirs
    strong = made("hockey_duel", 2).player("strong", mode="mean")
    expected = maglev.evaluate("strong", "hockey_duel", against="weak", episodes=2)
    assert maglev.evaluate(strong, against="weak", episodes=2)["returns"] == expected["returns"]


def test_a_policy_that_is_played_against_acts_as_it_does_by_itself(tmp_path):
    run = maglev.train("ppo", "hockey_duel", {**QUICK, "train.steps": 512}, bare=True, out=tmp_path / "run", sinks=["jsonl"])

    def against(rival):
        result = maglev.evaluate("weak", "hockey_duel", against=rival, episodes=6)
        return result["returns"], result["length_mean"]

    sampled = against(str(run.folder))
    assert against(run) == against(run.policy(mode="sample")) == sampled
    assert against(run.policy()) != sampled
    wrong = run.policy(settings={"ppo.lr": 0.1})
    with pytest.raises(maglev.Error, match="got 'ppo.lr=0.1'"):
        against(wrong)


def test_a_policy_that_plays_in_environments_acts_as_it_does_by_itself(tmp_path):
    run = maglev.train(
        "tdmpc2", "pendulum",
        ["tdmpc2.enc_dim=16", "tdmpc2.mlp_dim=16", "tdmpc2.latent_dim=16", "tdmpc2.samples=16", "tdmpc2.elites=4",
         "tdmpc2.policy_trajectories=4", "env.count=2", "train.steps=64", "tdmpc2.seed_steps=1000"],
        bare=True, out=tmp_path / "run", sinks=["jsonl"],
    )  # fmt: skip
    policy = run.policy(settings={"tdmpc2.mpc": False})
    envs = maglev.make("pendulum", 4)
    obs, info = envs.reset()
    # the policy alone draws nothing
    alone = policy.act(obs, info)
    player = envs.player(policy)
    assert player.mode == "mean" and player.settings == ["tdmpc2.mpc=false"]
    assert torch.allclose(player.act(), alone)
    assert not torch.allclose(envs.player(run, mode="mean").act(), alone)
    assert envs.player(run).mode == "sample" and envs.player(policy, mode="sample").mode == "sample"


def test_a_run_that_plays_in_environments_tells_what_it_draws_from(cart):
    envs = maglev.make("cartpole", 4)
    obs, info = envs.reset()
    player, policy = envs.player(cart), cart.policy()
    assert torch.equal(player.log_probs(obs, info), policy.log_probs(obs, info))
    assert torch.equal(player.value(obs), policy.value(obs))
    assert envs.player("random").log_probs(obs, info) is None


def test_settings_come_third_as_in_train():
    assert maglev.make("goodhart", 2, {"env.width": 32}).rows == 2


def test_a_recurrent_policy_remembers_its_rows(tmp_path):
    run = maglev.train(
        "dreamer", "cartpole",
        ["dreamer.size=1m", "dreamer.deter=32", "dreamer.hidden=16", "dreamer.classes=4", "dreamer.stoch=4",
         "dreamer.units=16", "env.count=2", "train.steps=64", "dreamer.first_steps=1000"],
        out=tmp_path / "run", sinks=["jsonl"],
    )  # fmt: skip
    # what a policy draws follows from its seed, the step and the row
    policy = run.policy(seed=1_000_003)
    envs = maglev.make("cartpole", 4, seed=1_000_003)
    assert first_returns(policy, envs) == run.evaluate(episodes=4)["returns"]
    with pytest.raises(maglev.Error, match="which it remembers, got 2; call reset"):
        policy.act(torch.zeros(2, 4))
    policy.reset()
    assert policy.act(torch.zeros(2, 4)).shape == (2,)


def test_a_ppo_that_remembers_acts_as_it_is_judged(tmp_path):
    run = maglev.train(
        "ppo", "cartpole", ["env.velocities=false", "ppo.network.memory=8", "env.count=4", "ppo.rollout=16",
         "ppo.minibatch=32", "ppo.epochs=1", "train.steps=64"],
        out=tmp_path / "run", sinks=["jsonl"],
    )  # fmt: skip
    policy = run.policy(seed=1_000_003)
    envs = maglev.make("cartpole", 4, {"env.velocities": False}, seed=1_000_003)
    assert first_returns(policy, envs) == run.evaluate(episodes=4)["returns"]
    # an observation alone does not say what it would draw or expect
    obs = torch.zeros(4, 2)
    assert policy.log_probs(obs) is None and policy.value(obs) is None


def test_scripted_players_and_matches():
    envs = made("hockey_duel", 2)
    envs.reset()
    assert "weak" in envs.players and "random" in envs.players
    weak = envs.player("weak")
    for _ in range(10):
        envs.step(weak.act())
    result = maglev.evaluate("weak", "hockey_duel", against="random", episodes=2)
    assert result["wins"] + result["draws"] + result["losses"] == 2


def test_gymnasium_takes_it_for_its_own():
    gymnasium = pytest.importorskip("gymnasium")
    from maglev.gymnasium import VectorEnv

    for name in ("cartpole", "pendulum", "goodhart", "minatar_breakout"):
        vector = VectorEnv(name, 4, settings=SETTINGS.get(name), render_mode="rgb_array")
        assert isinstance(vector, gymnasium.vector.VectorEnv)
        obs, _ = vector.reset(seed=3)
        assert vector.observation_space.contains(obs), name
        for _ in range(5):
            obs, reward, terminated, truncated, _ = vector.step(vector.action_space.sample())
            assert vector.observation_space.contains(obs) and terminated.dtype == bool
        vector.close(), vector.close()
        with pytest.raises(maglev.Error, match=f"of {name} are closed"):
            vector.reset()
    assert VectorEnv("cartpole", 4, {"env.max_steps": 9}).envs.spec.max_steps == 9
    graph = VectorEnv("kg", 2, SETTINGS.get("kg"))
    mask = graph.reset(seed=0)[1]["mask"]
    drawn = {int(graph.single_action_space.sample(mask[0])) for _ in range(50)}
    assert drawn <= set(np.flatnonzero(mask[0])) and mask.shape[0] == graph.num_envs
    vector = VectorEnv("cartpole", 4, render_mode="rgb_array")
    with pytest.raises(maglev.Error, match="seed must be one integer"):
        vector.reset(seed=[1, 2, 3, 4])
    first, _ = vector.reset()
    assert not (first == vector.reset()[0]).all() and (vector.reset(seed=5)[0] == vector.reset(seed=5)[0]).all()
    assert len(vector.render()) == 4 and vector.render()[0].shape == (320, 320, 3)
    counting = VectorEnv("goodhart", 4, SETTINGS.get("goodhart"), events=True)
    counting.reset()
    events = [counting.step(counting.action_space.sample())[-1]["events"] for _ in range(50)]
    assert events[0].shape == (4, 4) and sum(events)[:, 3].sum() == pytest.approx(counting.envs.totals()["events"]["energy"], rel=1e-5)
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(VectorEnv("cartpole", 4))
    recorded.reset(seed=1)
    lengths = []
    for _ in range(100):
        *_, infos = recorded.step(recorded.action_space.sample())
        if "episode" in infos:
            lengths += list(infos["episode"]["l"][infos["_episode"]])
    assert lengths and all(8 <= length <= 200 for length in lengths)


def test_settings_may_be_sections_and_numbers_of_libraries():
    from maglev.settings import assignments

    given = {
        "ppo": {"lr": torch.tensor(0.5), "network": {"hidden": np.array([64, 32])}, "normalize_reward": torch.tensor(True)},
        "env": {"kwargs": {"size": 12}, "max_steps": np.int64(7)},
        "seed": 3,
    }
    assert assignments(given) == [
        "ppo.lr=0.5", "ppo.network.hidden=[64, 32]", "ppo.normalize_reward=true", 'env.kwargs={"size": 12}', "env.max_steps=7",
        "seed=3",
    ]  # fmt: skip
    assert assignments({"a": np.bool_(True), "env": {"kwargs": {"x": np.float32(0.5), "y": np.arange(2)}}}) == [
        "a=true", 'env.kwargs={"x": 0.5, "y": [0, 1]}',
    ]  # fmt: skip
    assert maglev.make("cartpole", 2, {"env": {"max_steps": 7}}).spec.max_steps == 7


def test_an_environment_of_python_is_given_as_its_class():
    from gym_samples import Echo
    from maglev.settings import assignments

    class Local(Echo):
        pass

    class Main(Echo):
        pass

    Main.__module__, Main.__qualname__ = "__main__", "Main"
    assert assignments({"env.id": Echo}) == assignments({"env": {"id": Echo}}) == ["env.id=gym_samples:Echo"]
    for kind, why in ((Local, "Local is in"), (Main, "Main is in"), (lambda: Echo(), "<lambda> is in"), (Echo(), "got <gym_samples.Echo")):
        with pytest.raises(maglev.Error, match=re.escape("env.id") + ".*" + re.escape(why)):
            assignments({"env.id": kind})
    for kwargs in ({"a": Echo}, {(1, 2): 3}):
        with pytest.raises(maglev.Error, match="env.kwargs"):
            assignments({"env.kwargs": kwargs})


@pytest.mark.parametrize("name", ["Corridor", "Switches", "Buttons", "Echo", "Frames", "Narrow", "Scalars"])
def test_a_policy_plays_in_environments_of_gymnasium(name, monkeypatch, tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    import gym_samples
    from maglev.gymnasium import Spaces
    from test_gymnasium import SEED, seed_of

    monkeypatch.setenv("PYTHONPATH", str(Path(gym_samples.__file__).parent), prepend=os.pathsep)
    settings = {"env.id": getattr(gym_samples, name), "env.workers": 1, "env.max_steps": 30}
    with made("gymnasium", 1, settings=settings, seed=SEED) as envs:
        env = gymnasium.make(f"gym_samples:{name}-v0", max_episode_steps=30, disable_env_checker=True)
        spaces = Spaces(env)
        seen, info = env.reset(seed=seed_of(env=0, episode=0))
        obs, _ = envs.reset()
        ended = False
        while not ended:
            shown = spaces.columns(seen)
            for column, tensor in zip(envs.spec.observations, columns_of(envs, obs)):
                np.testing.assert_array_equal(shown[column.name], tensor[0])
            # what is chosen there is taken here
            chosen = envs.sample()
            obs, reward, terminated, truncated, _ = envs.step(chosen)
            seen, earned, *ends, info = env.step(spaces.action(chosen[0]))
            assert reward == np.float32(earned) and [terminated, truncated] == ends
            ended = any(ends)
    sizes = {"env.count": 2, "ppo.rollout": 16, "ppo.minibatch": 16, "train.steps": 32}
    run = maglev.train("ppo", "gymnasium", {**settings, **sizes}, bare=True, out=tmp_path / "run", sinks=["jsonl"])
    policy, (seen, info) = run.policy(), env.reset()
    for _ in range(5):
        seen, *_, info = env.step(spaces.act(policy, seen, info))
    with pytest.raises(maglev.Error, match="CartPole-v1 shows .* where the policy of .* sees"):
        Spaces(gymnasium.make("CartPole-v1")).act(policy, np.zeros(4, np.float32))
    if name == "Corridor":
        with pytest.raises(maglev.Error, match="which actions are allowed"):
            spaces.act(policy, seen)


def test_what_gymnasiums_environment_shows_and_takes_is_held_to_its_spaces():
    pytest.importorskip("gymnasium")
    from gym_samples import Corridor, Echo, Mixed, Switches
    from maglev.gymnasium import Spaces

    wrong = [
        (lambda: Spaces(Mixed()), "Mixed takes actions Tuple"),
        (lambda: Spaces(Echo()).columns(np.zeros(3)), "Echo showed an observation of shape (3,)"),
        (lambda: Spaces(Corridor()).action(3), "Corridor takes categories, from 0 on and below [3], got [3]"),
        (lambda: Spaces(Corridor()).action(0.5), "Corridor takes categories"),
        (lambda: Spaces(Switches()).action([0]), "takes an action of 2 numbers, got 1"),
        (lambda: Spaces(Corridor()).action([0, 1]), "takes an action of 1 number, got 2"),
        (lambda: Spaces("CartPole-v1"), "are of one environment, as gymnasium.make gives it, got 'CartPole-v1'"),
    ]
    for act, why in wrong:
        with pytest.raises(maglev.Error, match=re.escape(why)):
            act()


def test_the_package_shows_what_it_offers_alone():
    shown = set(dir(maglev))
    assert shown == {*maglev.__all__, "__version__", "gymnasium", "pettingzoo"} and all(hasattr(maglev, name) for name in maglev.__all__)


def test_settings_are_listed():
    settings = maglev.settings("ppo", "cartpole")
    assert float(settings["ppo.gamma"]) > 0.9 and settings["ppo.gamma"].help
    assert "ppo" in maglev.algorithms() and "cartpole" in maglev.environments()
    assert maglev.settings("ppo", "cartpole", bare=True) != settings


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", (HOME / "docs" / page).read_text(), re.S)


# arguments of each, and the return that it reaches at least
EXAMPLES = {"ppo.py": (["--steps", "30000"], 60), "sac.py": (["--steps", "8000", "--batch", "128"], -600)}


@pytest.mark.parametrize("program", ["python.md", "from_other_libraries.md", *EXAMPLES])
def test_what_the_page_shows_runs(program, tmp_path):
    if program not in EXAMPLES:
        (tmp_path / "page.py").write_text("\n".join(python_blocks(program)))
        command = [sys.executable, "page.py"]
    else:
        command = [sys.executable, HOME / "examples" / "python" / program, *EXAMPLES[program][0]]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HOME / "python")},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if program in EXAMPLES:
        assert float(re.search(r"evaluation: ([-\d.]+)", done.stdout)[1]) > EXAMPLES[program][1], done.stdout
