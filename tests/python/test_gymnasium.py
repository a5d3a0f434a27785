"""The environment `gymnasium`: steps beside Gymnasium's own, runs that resume, what is refused and what breaks.

`env_pipe` (tests/env_pipe.cpp) is found under $MAGLEV_BUILD.
"""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from conftest import ENGINE, HOME, skip_without_library
from gymnasium.spaces import flatten
from philox import philox
from serving import get, serving
from terminals import at_a_terminal
from test_processes import alive, children_of
from waiting import LONG_S, wait_for

SEED, COUNT, STEPS = 5, 3, 300
HERE = Path(__file__).parent
SMALL = ["--bare", "--sinks", "jsonl", "env.count=5", "ppo.rollout=16", "ppo.minibatch=40", "ppo.epochs=1", "seed=3"]


def seed_of(env, episode):
    """What reset is given at the start of an episode: a draw below 2 ** 31 from the environment's stream."""
    return philox(SEED, (1 << 56) + env, episode)[-1] >> 1


class Ours:
    """Environments of the engine, in the words of env_pipe."""

    def __init__(self, build, *settings):
        self.pipe = subprocess.Popen(
            [build / "tests" / "env_pipe", "gymnasium", str(COUNT), str(SEED), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=HERE,
        )
        self.columns, self.heads = [], []
        while (line := self.pipe.stdout.readline().decode().split()) != ["end"]:
            assert line, "env_pipe ended"
            if line[0] == "column":
                self.columns.append((line[1], np.dtype(line[2]), tuple(map(int, line[3:]))))
            elif line[0] == "heads":
                self.heads = list(map(int, line[1:]))
            elif line[0] == "mask":
                self.masked = int(line[1])

    def read(self, dtype, *shape):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.pipe.stdout.read(count), dtype).reshape(shape)

    def shown(self, count):
        return {name: self.read(dtype, count, *shape) for name, dtype, shape in self.columns}

    def observe(self):
        return self.shown(COUNT), self.read(np.uint8, COUNT, self.masked)

    def step(self, actions):
        self.pipe.stdin.write(actions.tobytes())
        self.pipe.stdin.flush()
        reward, terminated, truncated = (self.read(d, COUNT) for d in (np.float32, np.uint8, np.uint8))
        last = self.shown(int((terminated | truncated).sum()))
        return reward, terminated, truncated, last, *self.observe()

    def close(self):
        self.pipe.stdin.close()
        self.pipe.wait(LONG_S)


class Corridors:
    """How the samples' corridor is to be shown."""

    @staticmethod
    def columns(env, seen):
        space = env.observation_space
        parts = [flatten(space["more"], seen["more"]), flatten(space["place"], seen["place"])]
        order = parts if list(space)[1] == "more" else parts[::-1]
        return {"camera": seen["camera"], "vector": np.concatenate(order).astype(np.float32)}


def frames(env, seen):
    return {"image": seen.transpose(1, 2, 0)}


def plain(env, seen):
    return {"vector": flatten(env.observation_space, seen).astype(np.float32)}


CASES = {
    "CartPole-v1": plain,
    "FrozenLake-v1": plain,
    "Taxi-v4": plain,
    "Blackjack-v1": plain,
    "Acrobot-v1": plain,
    "Pendulum-v1": plain,
    "MountainCarContinuous-v0": plain,
    "gym_samples:Corridor-v0": Corridors.columns,
    "gym_samples:Frames-v0": frames,
    "gym_samples:Switches-v0": plain,
    "gym_samples:Buttons-v0": plain,
    "gym_samples:Echo-v0": plain,
    "gym_samples:Narrow-v0": plain,
    "gym_samples:Scalars-v0": plain,
}


def draw(ours, env, rng, allowed):
    """An action as the engine sends it, and as Gymnasium's environment takes it."""
    space = env.action_space
    if not ours.heads:
        sent = rng.normal(0, 1.5, space.shape).astype(np.float32)
        return sent.reshape(-1), np.clip(sent, space.low, space.high)
    if ours.masked:
        sent = np.array([rng.choice(np.flatnonzero(allowed))], np.int32)
    else:
        sent = np.array([rng.integers(n) for n in ours.heads], np.int32)
    if isinstance(space, gymnasium.spaces.Discrete):
        return sent, space.start + sent[0]
    start = space.start if isinstance(space, gymnasium.spaces.MultiDiscrete) else getattr(space, "low", 0)
    return sent, (sent.reshape(space.shape) + start).astype(space.dtype)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("workers", [1, 2])
def test_whole_trajectories_are_those_of_gymnasium(build_folder, name, workers):
    ours = Ours(build_folder, f"id={name}", "max_steps=40", f"workers={workers}")
    theirs = [gymnasium.make(name, max_episode_steps=40, disable_env_checker=True) for _ in range(COUNT)]
    episodes, rng = [0] * COUNT, np.random.default_rng(1)
    infos = []

    def equal(shown, row, env, seen):
        expected = CASES[name](env.unwrapped, seen)
        assert shown.keys() == expected.keys()
        for column, value in expected.items():
            np.testing.assert_array_equal(shown[column][row], value.reshape(shown[column][row].shape))

    shown, masks = ours.observe()
    for i, env in enumerate(theirs):
        seen, info = env.reset(seed=seed_of(i, 0))
        infos.append(info)
        equal(shown, i, env, seen)
    for _ in range(STEPS):
        drawn = [draw(ours, env, rng, mask) for env, mask in zip(theirs, masks)]
        reward, terminated, truncated, last, shown, masks = ours.step(np.concatenate([sent for sent, _ in drawn]))
        ended = 0
        for i, (env, (_, action)) in enumerate(zip(theirs, drawn)):
            seen, their_reward, *flags, info = env.step(action)
            assert reward[i] == np.float32(their_reward) and [terminated[i], truncated[i]] == flags
            if any(flags):
                equal(last, ended, env, seen)
                ended, episodes[i] = ended + 1, episodes[i] + 1
                seen, info = env.reset(seed=seed_of(i, episodes[i]))
            equal(shown, i, env, seen)
            if ours.masked:
                np.testing.assert_array_equal(masks[i], info["action_mask"])
    assert min(episodes) > 2
    ours.close()


def test_masks_that_are_advice_need_not_be_looked_at(engine, tmp_path):
    words = ["dreamer", "gymnasium", "env.id=Taxi-v4", "--bare", "--sinks", "jsonl", "env.count=2", "train.steps=64"]
    small = [f"dreamer.{name}" for name in ("size=1m", "batch=2", "length=8", "train_ratio=1", "imagination=2")]
    refused = engine("train", *words, *small, "--out", tmp_path / "refused")
    assert refused.returncode == 2 and "env.masks=false does not look at them" in refused.stderr, refused.stderr
    done = engine("train", *words, *small, "env.masks=false", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    masked, unmasked = (engine("envs", *words[1:3], *more).stdout for more in ([], ["env.masks=false"]))
    assert ", masked" in masked and ", masked" not in unmasked and "6" in unmasked


def train(engine, run, *words):
    done = engine("train", "ppo", "gymnasium", *SMALL, *words, "--out", run, cwd=HERE)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["CartPole-v1", "gym_samples:Corridor-v0"])
def test_a_run_goes_on_to_the_bit(engine, tmp_path, name):
    whole = train(engine, tmp_path / "whole", f"env.id={name}", "train.steps=960")
    train(engine, tmp_path / "half", f"env.id={name}", "train.steps=480")
    done = engine("train", "--resume", tmp_path / "half", "train.steps=960", cwd=HERE)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "half" / "metrics.jsonl").read_text().splitlines()]
    assert [row["return_mean"] for row in rows[-3:]] == [row["return_mean"] for row in whole[-3:]]
    newest = [max((tmp_path / run / "checkpoints").glob("step_*")) for run in ("whole", "half")]
    assert newest[0].name == newest[1].name
    assert (newest[0] / "state.safetensors").read_bytes() == (newest[1] / "state.safetensors").read_bytes()


# pictures, for whose network a few games are several blocks
PICTURES = ["env.id=gym_samples:Frames-v0", "ppo.network.kind=cnn", "ppo.network.cnn.channels=[64,128]", "env.count=9",
            "ppo.minibatch=48", "train.steps=432"]


@pytest.mark.parametrize("words", [["train.steps=480"], PICTURES], ids=["vectors", "pictures"])
def test_threads_and_processes_do_not_show(engine, tmp_path, words):
    rows = [
        train(engine, tmp_path / f"{threads}{workers}{collect}", *words, f"threads={threads}", f"env.workers={workers}",
              f"train.collect={collect}")
        for threads, workers, collect in ((1, 1, "lockstep"), (1, 3, "blocks"), (2, 1, "blocks"), (3, 3, "blocks"))
    ]
    keys = [key for key in rows[0][-1] if key.startswith(("return", "episode", "loss", "entropy"))]
    told = [[[row.get(key) for key in keys] for row in of] for of in rows]
    assert keys and all(one == told[0] for one in told)


def test_episodes_that_cannot_be_found_again_end_and_the_run_goes_on(engine, tmp_path):
    """One is the clock's; one shows what no seed decides; of one more than 256 KiB were to be kept."""
    long = ["env.id=gym_samples:Wide-v0", 'env.kwargs={"side": 4, "numbers": 4000}']
    for name, words in ("clock", ["env.id=gym_samples:Clock-v0"]), ("unseeded", ["env.id=gym_samples:Unseeded-v0"]), ("long", long):
        # 96 steps of each of five, and 16 more
        train(engine, tmp_path / name, *words, "train.steps=480")
        before = json.loads((tmp_path / name / "metrics.jsonl").read_text().splitlines()[-1])["episodes"]
        done = engine("train", "--resume", tmp_path / name, "train.steps=560", cwd=HERE)
        assert done.returncode == 0, done.stderr
        rows = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        assert json.loads(rows[-1])["episodes"] >= before + 5, name


def test_other_algorithms_learn_from_it_and_games_are_recorded(engine, tmp_path):
    pytest.importorskip("pygame")
    words = ["--bare", "env.id=Pendulum-v1", "env.max_steps=50", "env.count=2", "train.steps=400", "tdmpc2.seed_steps=200"]
    small = ["tdmpc2.size=1", "tdmpc2.mpc=false", "tdmpc2.batch=16", "tdmpc2.update_every=100", "tdmpc2.updates_per_step=0.02"]
    done = engine("train", "tdmpc2", "gymnasium", *words, *small, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    done = engine("play", tmp_path / "run", "--record", tmp_path / "game.gif")
    assert done.returncode == 0, done.stderr
    from PIL import Image

    picture = Image.open(tmp_path / "game.gif")
    assert picture.n_frames > 40
    picture.seek(1)
    assert len(picture.convert("RGB").getcolors(1 << 20)) > 3


def test_numbers_in_info_are_counted_as_events(engine, tmp_path):
    words = ["env.id=gym_samples:Counts-v0", "env.info=is_success,fuel,nothing"]
    *_, row = train(engine, tmp_path / "run", *words, "train.steps=960", "train.log_every=960")
    assert row["events/fuel_per_1k"] == 250 and row["events/nothing_per_1k"] == 0
    # an episode ends with success, here with each tenth step or so
    assert 50 < row["events/is_success_per_1k"] < 150
    # every episode ends so, and its fuel is a quarter of its steps
    assert row["events/is_success_per_episode"] == 1
    assert 1 < row["events/fuel_per_episode"] < 5
    judged = engine("eval", tmp_path / "run", "--episodes", 4, "--json", cwd=HERE)
    result = json.loads(judged.stdout)["results"][0]
    assert result["events_per_1k"]["is_success"] == pytest.approx(1000 / result["length_mean"])
    done = engine("train", "ppo", "gymnasium", *SMALL, *words, 'env.kwargs={"fuel": "much"}', "--out", tmp_path / "much", cwd=HERE)
    assert done.returncode == 2 and "gave info['fuel'] = 'much', where env.info expects a number" in done.stderr, done.stderr
    for names, said in ("fuel,fuel", "env.info names 'fuel' twice"), ("a,b,c,d,e,f,g,h,i", "env.info names 9 figures"):
        done = engine("train", "ppo", "gymnasium", *SMALL, words[0], f"env.info={names}", "--out", tmp_path / "names", cwd=HERE)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_memory_of_their_processes_is_planned_and_told(engine, tmp_path):
    words = ["env.id=gym_samples:Takes-v0", "env.count=6"]
    planned = {}
    for workers in (1, 3):
        done = engine("plan", "ppo", "gymnasium", "--bare", *SMALL[3:], *words, f"env.workers={workers}", "--json", cwd=HERE)
        assert done.returncode == 0, done.stderr
        planned[workers] = json.loads(done.stdout)["parts"]["processes of environments"]
    # an interpreter with numpy and gymnasium each
    assert 4 << 20 < planned[1] < 400 << 20 and 2 * planned[1] < planned[3] < 4 * planned[1], planned
    # what they keep of each step is told of while they train
    kept = ['env.kwargs={"keeps": 40000}', "train.steps=1600", "train.monitor_every=1e-9", "train.log_every=80"]
    rows = train(engine, tmp_path / "run", *words, "env.workers=2", *kept)
    held = [row["memory/programs_mib"] for row in rows if "memory/programs_mib" in row]
    # 1,520 steps behind the first row
    assert len(held) > 5 and held[-1] - held[0] > 0.8 * 1400 * 40_000 / 2**20, held
    assert max(row.get("machine/programs_processors", 0) for row in rows) > 0


def test_runs_are_told_apart_by_their_ids(engine, tmp_path):
    for word, found in ("CartPole-v1", "CartPole-v1"), ("gym_samples:Echo-v0", "Echo-v0"):
        words = ("train", "ppo", "gymnasium", "--bare", f"env.id={word}", "train.steps=80", *SMALL[3:])
        done = engine(*words, cwd=tmp_path, env={"PYTHONPATH": str(HERE)})
        skip_without_library(done)
        assert done.returncode == 0, done.stderr
        assert f"ppo on gymnasium {found}, 80 steps" in done.stdout
        (run,) = (tmp_path / "runs").glob(f"*-ppo-gymnasium-{found}-1")
        judged = engine("eval", run, "--episodes", 1, cwd=tmp_path, env={"PYTHONPATH": str(HERE)})
        assert f"ppo on gymnasium {found}, step " in judged.stdout, judged.stderr
    listed = engine("runs", cwd=tmp_path).stdout
    assert "gymnasium CartPole-v1" in listed and "gymnasium Echo-v0" in listed


def worth(steps):
    """What a reward of 1 a step comes to where so many are left, each counting 0.8 of the one before."""
    return sum(0.8**step for step in range(steps))


# in an episode's sequences of three steps: how many steps are left, and before how many of their steps
SEEN = {5: 1, 4: 2, 3: 3, 2: 2, 1: 1}
# likewise in three steps imagined from each of its six rows: behind its end a step's reward is all that is left
DREAMED = {5: 1, 4: 2, 3: 3, 2: 3, 1: 3 + 6}
OF_VALUES = {
    "tdmpc2": (
        "value/target",
        SEEN,
        1152,
        "enc_dim=32 mlp_dim=32 latent_dim=16 num_q=2 mpc=false batch=32 seed_steps=96 discount=0.8 lr=0.001 tau=0.05",
    ),
    "dreamer": (
        "value/return",
        DREAMED,
        768,
        "deter=16 hidden=16 classes=4 units=32 stoch=4 blocks=2 batch=4 length=12 imagination=3 horizon=5 lr=0.003 "
        "warmup=10 train_ratio=30",
    ),
}


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("algo", OF_VALUES)
def test_values_look_behind_a_limit_and_not_behind_an_end(algo, ends, engine, tmp_path):
    figure, left, steps, settings = OF_VALUES[algo]
    words = [f"{algo}.{setting}" for setting in settings.split()]
    env = ["env.id=gym_samples:Pays-v0", f'env.kwargs={{"ends": {json.dumps(ends)}}}', "env.count=4"]
    run = [f"train.steps={steps}", "train.log_every=96", "--bare", "--sinks", "jsonl", "--out", tmp_path / "run"]
    done = engine("train", algo, "gymnasium", *env, *words, *run, "threads=2", cwd=HERE)
    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    # without an end all that is to come
    mean = sum(worth(few) * times for few, times in left.items()) / sum(left.values())
    # the lesser of two values is a little low, and 5 is come to from below
    assert row[figure] == pytest.approx(mean if ends else worth(1000), abs=0.3)


UNDRAWN = {
    "Echo": "it takes no render_mode",
    "Unrendered": "its render() is not implemented",
    "Ansi": "it cannot be made with render_mode rgb_array: AssertionError",
}


@pytest.mark.parametrize("name", UNDRAWN)
def test_one_that_draws_nothing_plays_in_numbers_and_says_what_a_picture_wants(engine, tmp_path, name):
    words = ("play", "gymnasium", f"env.id=gym_samples:{name}-v0", "env.max_steps=4")
    expected = f"gym_samples:{name}-v0 draws no pictures: {UNDRAWN[name]}"
    for more in (["--record", tmp_path / "game.gif"], ["--web", "--port", 0]):
        done = engine(*words, *more, cwd=HERE)
        skip_without_library(done)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        assert done.returncode == 2 and len(lines) == 1, done.stderr
        assert lines[0].startswith("maglev: [gymnasium] ") and expected in lines[0]
        assert 'render_mode="rgb_array"' in lines[0] and not list(tmp_path.iterdir())
    code, shown, _, _ = at_a_terminal([*words[1:], "--fast"], b"", cwd=HERE)
    assert code == 0 and expected in shown and "it is told in numbers" in shown, shown
    assert "step 1  action " in shown and "episode 1: " in shown and "\x1b[?25l" not in shown


def test_envs_shows_what_an_id_is(engine):
    done = engine("envs", "gymnasium", "env.id=gym_samples:Corridor-v0", "env.image.grey=true", cwd=HERE)
    skip_without_library(done)
    assert done.returncode == 0, done.stderr
    for line in ("observation  vector f32[19]", "observation  camera u8[8, 8, 1]", "actions      3 choices, masked"):
        assert line in done.stdout
    assert "limit        10000 steps" in done.stdout
    assert '(given "gym_samples:Corridor-v0", built in "CartPole-v1")' in done.stdout


REFUSED = {
    "env.id=CartPol-v1": "CartPole",
    "env.id=nowhere:X-v0": "No module named 'nowhere'",
    "env.id=ALE/Breakout-v5": "named with its module: env.id=ale_py:ALE/Breakout-v5",
    "env.id=MyEnv-v0": "is named with it: env.id=my_envs:MyEnv-v0",
    "env.id=gym_samples:Unbounded-v0": "not all of which have bounds",
    "env.id=gym_samples:Fine-v0": "those with 1,000 values at most: make them floats, or fewer",
    "env.id=gym_samples:Mixed-v0": "in one MultiDiscrete if all its parts are categories",
    "env.id=gym_samples:Unseedable-v0": "'seed'; it is reset(self, *, seed=None, options=None)",
    "env.id=gym_samples:Silent-v0": "gave the info None, where a dict is expected",
    "env.id=gym_samples:Sized-v0": "; env.kwargs gives it, as JSON",
    "env.id=__main__:Mine": "put it in a file beside, my_envs.py, and name env.id=my_envs:Mine",
    "env.id=gym_samples:Words-v0": "shows a space Text",
    "env.id=gym_samples:OfGym-v0": "shows a space of the package gym, gym.spaces.Box: make it one of gymnasium.spaces",
    "env.kwargs=[1]": "must be a JSON object",
    'env.kwargs={"a":': "env.kwargs is no JSON",
    'env.kwargs={"nothing":1}': "unexpected keyword argument 'nothing'",
    "env.python=/nowhere/python": "/nowhere/python cannot be started",
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_cannot_be_had_is_refused_before_anything_is_begun(engine, tmp_path, setting):
    done = engine("train", "ppo", "gymnasium", *SMALL, setting, "--out", tmp_path / "run", cwd=HERE)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert lines[0].startswith("maglev: [gymnasium] ") and REFUSED[setting] in lines[0]
    assert not (tmp_path / "run").exists()


def test_a_file_is_told_from_its_module(engine, tmp_path):
    done = engine("envs", "gymnasium", "env.id=gym_samples.py:Echo-v0", cwd=HERE)
    assert done.returncode == 2 and done.stderr.endswith("named without .py: env.id=gym_samples:Echo-v0\n"), done.stderr


def test_actions_are_called_as_an_environment_calls_them_and_else_not(engine):
    def told(*words):
        done = engine("envs", "gymnasium", *words, cwd=HERE)
        skip_without_library(done)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "0 stay, 1 left, 2 right" in told("env.id=gym_samples:Named-v0")
    for words in (
        ["env.id=gym_samples:turned"],
        ["env.id=gym_samples:Named-v0", 'env.kwargs={"names": null}'],
        ["env.id=gym_samples:Named-v0", 'env.kwargs={"names": ["stay", "", "right"]}'],
        ["env.id=gym_samples:Named-v0", 'env.kwargs={"names": ["stay", "left"]}'],
    ):
        assert "stay" not in told(*words).partition("actions ")[2].partition("limit")[0]


def test_a_class_that_nobody_registered_is_made_by_its_name(engine, tmp_path):
    (tmp_path / "plain_samples.py").write_text(
        "from gym_samples import Echo\n"
        "class Plain(Echo):\n"
        "  def __init__(self, size): super().__init__(); self.t = size\n"
        "def made(**given): return Plain(**given)\n"
    )
    paths = {"PYTHONPATH": f"{tmp_path}:{HERE}"}
    for name in ("Plain", "made"):
        words = [f"env.id=plain_samples:{name}", 'env.kwargs={"size": 3}']
        done = engine("envs", "gymnasium", *words, "env.max_steps=7", cwd=HERE, env=paths)
        assert done.returncode == 0 and "limit        7 steps" in done.stdout, done.stderr
        assert "limit        10000 steps" in engine("envs", "gymnasium", *words, cwd=HERE, env=paths).stdout
        words = ["train", "ppo", "gymnasium", *SMALL, *words, "train.steps=80", "--out", tmp_path / name]
        done = engine(*words, cwd=HERE, env=paths)
        assert done.returncode == 0, done.stderr
    done = engine("envs", "gymnasium", "env.id=plain_samples:Plane", cwd=HERE, env=paths)
    assert done.returncode == 2 and done.stderr.endswith("The module has Plain\n"), done.stderr


def test_what_gymnasium_wants_installed_is_for_the_python_that_steps(engine, tmp_path):
    """A module of the test's in the place of one that this machine may have."""
    (tmp_path / "Box2D.py").write_text("raise ImportError\n")
    done = engine("envs", "gymnasium", "env.id=LunarLander-v3", cwd=tmp_path)
    skip_without_library(done)
    assert done.returncode == 2
    assert re.search(r"run `\S*/\S+ -m pip install swig` followed by `\S*/\S+ -m pip install \"gymnasium\[box2d\]\"`", done.stderr)


def test_a_package_that_gymnasium_lacks_is_named(engine, tmp_path):
    """Modules of the test's in the places of those that this machine may have."""
    (tmp_path / "mujoco.py").write_text("")
    (tmp_path / "glfw.py").write_text("import glfw_that_nobody_has\n")
    done = engine("envs", "gymnasium", "env.id=HalfCheetah-v5", cwd=tmp_path)
    skip_without_library(done)
    assert done.returncode == 2
    assert "No module named 'glfw_that_nobody_has'; install it: " in done.stderr, done.stderr
    assert "-m pip install 'gymnasium[mujoco]'" in done.stderr


BROKEN = {
    "Raises": "raised ValueError: the motor is gone",
    "Dies": "its Python process ended with exit status 3; it said: farewell",
    "Exits": "raised SystemExit: enough",
    "Asks": "raised EOFError",
    "Grows": "showed an observation of shape (7,), where its space has (2, 2)",
    "Shrinks": "showed an observation['camera'] of shape (7, 8, 3), where its space has (8, 8, 3)",
    "NoMask": "gave info['action_mask'] = None, where 3 entries",
    "NothingAllowed": "gave info['action_mask'] = [0 0 0]",
    "NoReward": "gave the reward None",
    "Huge": "raised OverflowError",
    "Shares": "showed an observation['camera'] of float64, where its space has uint8",
    "Forgets": "showed no observation['more'], which its space has",
    "Leaves": "showed an observation['place'] = -1, where its space is Discrete(8)",
    "Older": "(expected 5, got 4); step() gives observation, reward, terminated, truncated and info",
    "NotANumber": "showed nan as number 2 of vector, where finite ones are expected",
    "NotAReward": "gave the reward nan, where a finite number is expected",
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_environment_that_breaks_ends_the_run_with_what_python_said(engine, tmp_path, name):
    words = [f"env.id=gym_samples:{name}-v0", "train.steps=480", "--out", tmp_path / "run"]
    done = engine("train", "ppo", "gymnasium", *SMALL, *words, cwd=HERE)
    assert done.returncode == 2 and BROKEN[name] in done.stderr, done.stderr
    assert re.search(r"its episode began with reset\(seed=\d+\), and this was step \d+", done.stderr)


def limited(engine, run, *words):
    """What becomes of a run whose environments have a time to answer in, and the seconds: those in which they begin here."""
    for seconds in (1, 10, 100):
        done = engine("train", "ppo", "gymnasium", *SMALL, *words, f"env.timeout={seconds}", "--out", f"{run}_{seconds}", cwd=HERE)
        if f"{seconds} s, as long as env.timeout allows, in step" in done.stderr:
            break
    return done, seconds


def test_an_environment_that_hangs_ends_the_run_where_a_time_is_given(engine, tmp_path):
    done, seconds = limited(engine, tmp_path / "run", "env.id=gym_samples:Hangs-v0", "train.steps=480")
    said = f"has not answered for {seconds} s, as long as env.timeout allows, in step"
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert len(re.findall(r"its episode began with reset\(seed=\d+\), and this was step \d+", done.stderr)) == 1, done.stderr


@pytest.mark.parametrize("hangs", [False, True])
def test_the_episode_in_which_a_process_stops_is_named_whoever_waits(engine, tmp_path, hangs):
    kwargs = json.dumps({"file": str(tmp_path / "stopped"), "hangs": hangs})
    words = ["env.id=gym_samples:Stops-v0", f"env.kwargs={kwargs}", "env.workers=1", "train.steps=480"]
    if hangs:
        done, _ = limited(engine, tmp_path / "run", *words)
    else:
        done = engine("train", "ppo", "gymnasium", *SMALL, *words, "--out", tmp_path / "run", cwd=HERE)
    assert done.returncode == 2 and ("env.timeout allows" if hangs else "exit status 3") in done.stderr, done.stderr
    assert f"; its episode began with {(tmp_path / 'stopped').read_text()}" in done.stderr, done.stderr


def test_a_run_that_waits_for_its_environments_says_so(engine, tmp_path):
    words = ["env.id=gym_samples:Waits-v0", "env.workers=2", "train.steps=240", "train.log_every=80", "train.monitor_every=0.2"]
    train(engine, tmp_path / "run", *words)
    said = json.loads((tmp_path / "run" / "run.json").read_text())["bound_by"]
    assert said.startswith("waits for the environment, ") and "env.workers=5, a process for each" in said, said


def test_environments_are_closed_when_a_run_ends(engine, tmp_path):
    kwargs = json.dumps({"file": str(tmp_path / "closed")})
    words = ["env.id=gym_samples:Leaving-v0", f"env.kwargs={kwargs}", "env.max_steps=9", "env.workers=2", "train.steps=80"]
    train(engine, tmp_path / "run", *words)
    closed = tmp_path / "closed"
    wait_for(lambda: closed.exists() and len(closed.read_text().split()) >= 5)
    assert closed.read_text().split() == ["closed"] * 5


def test_a_recording_is_as_fast_as_the_environment_says(engine, tmp_path):
    words = ("play", "gymnasium", "env.id=gym_samples:Leaving-v0", "env.max_steps=23", "--record")
    done = engine(*words, tmp_path / "game.gif", cwd=HERE)
    skip_without_library(done)
    assert done.returncode == 0, done.stderr
    pictures, seconds = re.search(r"(\d+) pictures, ([\d.]+) s", done.stdout).groups()
    assert float(seconds) == pytest.approx(int(pictures) / 12, abs=0.05)
    done = engine(*words, tmp_path / "faster.gif", "--fps", 25, cwd=HERE)
    assert f"{pictures} pictures, {int(pictures) / 25:.1f} s" in done.stdout
    with serving("play", *words[1:-1], "--web", "--port", 0, cwd=HERE) as url:
        assert get(url, "/api/about")["fps"] == 12


def test_long_questions_and_answers_do_not_lock_a_process(build_folder):
    """Answers fill the socket before all questions are in it."""
    words = ["id=gym_samples:Wide-v0", "workers=1"]
    done = subprocess.run(
        [build_folder / "tests" / "env_throughput", "--seconds", "0.1", "--repeats", "1", "--count", "600", "gymnasium", *words],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_signal_to_every_process_saves_and_leaves(tmp_path):
    """As batch systems and systemd send it."""
    run = tmp_path / "run"
    words = ["env.id=gym_samples:Echo-v0", "env.count=2", "env.workers=1", "ppo.rollout=64", "threads=1",
             "train.steps=1000000000", "train.log_every=128"]  # fmt: skip
    running = subprocess.Popen(
        [ENGINE, "train", "ppo", "gymnasium", *words, "--bare", "--sinks", "jsonl", "--out", run],
        cwd=HERE, env={**os.environ, "MAGLEV_HOME": str(HOME)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def wait_for_rows(count):
        rows = run / "metrics.jsonl"
        wait_for(lambda: rows.exists() and rows.read_text().count("\n") >= count, running)

    wait_for_rows(1)
    workers = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    assert len(workers) == 1
    os.kill(int(workers[0]), signal.SIGTERM)
    # it steps on, so that the iteration comes to its end
    wait_for_rows(20)
    running.send_signal(signal.SIGTERM)
    assert running.wait(LONG_S) == 130, running.stderr.read()
    assert json.loads((run / "run.json").read_text())["state"] == "stopped"


def test_an_engine_that_is_killed_leaves_no_process(build_folder):
    words = [build_folder / "tests" / "env_throughput", "--seconds", "3600", "gymnasium", "id=gym_samples:Echo-v0", "workers=1"]
    running = subprocess.Popen(words, cwd=HERE, stdout=subprocess.DEVNULL)
    (worker,) = wait_for(lambda: children_of(running.pid), running)
    running.send_signal(signal.SIGKILL)
    running.wait()
    wait_for(lambda: not alive(worker))
