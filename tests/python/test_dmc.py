"""Environments of MuJoCo from the command line: what is missing or broken, runs that resume, pictures, threads."""

import ctypes.util
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ENGINE, newest_manifest, skip_without_library
from PIL import Image
from safetensors.numpy import load_file

SMALL = ["--bare", "--sinks", "jsonl", "train.steps=240", "train.save_every=120", "env.count=3", "ppo.rollout=20"]
SMALL += ["ppo.minibatch=60", "ppo.epochs=1", "env.max_steps=30", "seed=3"]


def package() -> Path:
    """The mujoco package this build was configured with."""
    listing = subprocess.run(["readelf", "-d", ENGINE], capture_output=True, text=True, check=True).stdout
    paths = listing.split("runpath: [")[-1].split("]")[0].split(":")
    found = [Path(path) for path in paths if list(Path(path).glob("libmujoco.so.*"))]
    if not found:
        pytest.skip("this build has no MuJoCo: ./maglev setup")
    return found[0]


@pytest.fixture
def copied(tmp_path):
    """A package of links to the real one, to take things away from; with it the suite."""
    folder = tmp_path / "site" / "mujoco"
    folder.mkdir(parents=True)
    library = next(package().glob("libmujoco.so.*"))
    (folder / library.name).symlink_to(library)
    suite = package().parent / "dm_control" / "suite"
    shutil.copytree(suite / "common", tmp_path / "site" / "dm_control" / "suite" / "common")
    shutil.copy(suite / "cartpole.xml", tmp_path / "site" / "dm_control" / "suite")
    return folder


def fails(engine, env, *words):
    """The one line of an error before anything was begun."""
    done = engine("train", "ppo", "dmc_cartpole", *SMALL, *words, env=env)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    return lines[0]


def train(engine, run, *words, env=None):
    done = engine("train", "ppo", "dmc_cartpole", *SMALL, "--out", run, *words, env=env or {})
    assert done.returncode == 0, done.stderr
    return newest_manifest(run)


def test_a_library_that_is_missing_or_another_version_is_named_with_what_to_do(engine, tmp_path):
    package()
    error = fails(engine, {"MAGLEV_MUJOCO": str(tmp_path)})
    assert "[mujoco] MuJoCo cannot be loaded" in error and "run ./maglev setup, or set MAGLEV_MUJOCO" in error
    source = tmp_path / "other.c"
    source.write_text("int mj_version(void) { return 4000000; }\n")
    library = tmp_path / next(package().glob("libmujoco.so.*")).name
    subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", source, "-o", library], check=True)
    error = fails(engine, {"MAGLEV_MUJOCO": str(tmp_path)})
    assert "is MuJoCo 4.0.0, and this program was built for 3.17.0; run ./maglev setup" in error


def test_a_suite_that_is_missing_or_broken_is_named_with_what_to_do(engine, copied):
    env = {"MAGLEV_MUJOCO": str(copied)}
    model = copied.parent / "dm_control" / "suite" / "cartpole.xml"
    text = model.read_text()
    model.write_text(text[: len(text) // 2])
    error = fails(engine, env)
    assert f"[mujoco] {model} is no model: XML" in error and "pip install dm_control==1.0.50" in error
    model.write_text("<mujoco><worldbody/></mujoco>")
    assert "has 0 positions, 0 velocities, 0 controls and 1 bodies, expected 2, 2, 1 and 3" in fails(engine, env)
    model.write_text(text.replace('name="slider"', 'name="slider" frozen="yes"'))
    assert "is no model" in fails(engine, env)
    model.unlink()
    error = fails(engine, env)
    assert f"[mujoco] {model} is missing; run ./maglev setup, or pip install dm_control==1.0.50" in error


def test_pictures_without_opengl_name_what_to_install(engine, tmp_path):
    package()
    # libraries of these names that hold nothing come before the system's
    for name in ("libEGL.so.1", "libOSMesa.so.8", "libOSMesa.so.6"):
        source = tmp_path / "nothing.c"
        source.touch()
        subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", source, "-o", tmp_path / name], check=True)
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    error = fails(engine, env, "env.observe=image")
    assert "[render] pictures need OpenGL without a window" in error
    assert "apt-get install libegl1 libgl1-mesa-dri" in error
    # numbers need none
    train(engine, tmp_path / "run", env=env)
    assert "MUJOCO_GL must be egl or osmesa" in fails(engine, {"MUJOCO_GL": "glfw"}, "env.observe=image")


def test_a_run_resumes_to_the_bit_and_refuses_another_model(engine, copied, tmp_path):
    env = {"MAGLEV_MUJOCO": str(copied)}
    whole = train(engine, tmp_path / "whole", "threads=2", env=env)
    run = tmp_path / "run"
    done = train(engine, run, "train.steps=120", "threads=1", env=env)
    assert done["state_hash"] != whole["state_hash"]
    # the library is gone, then the model is another: nothing is lost
    words = ["train", "--resume", run, "train.steps=240"]
    broken = engine(*words, env={"MAGLEV_MUJOCO": str(tmp_path)})
    assert broken.returncode == 2 and "MuJoCo cannot be loaded" in broken.stderr
    model = copied.parent / "dm_control" / "suite" / "cartpole.xml"
    text = model.read_text()
    model.write_text(text.replace('mass=".1"', 'mass=".2"'))
    refused = engine(*words, env=env)
    assert refused.returncode == 2 and "what dmc_cartpole is made from, a library or its files, holds" in refused.stderr
    model.write_text(text)
    resumed = engine(*words, env=env)
    assert resumed.returncode == 0, resumed.stderr
    assert newest_manifest(run)["state_hash"] == whole["state_hash"]


def test_several_tasks_of_a_domain_are_learnt_together_and_judged_one_by_one(engine, tmp_path):
    package()
    model = ["tdmpc2.enc_dim=32", "tdmpc2.mlp_dim=32", "tdmpc2.latent_dim=32", "tdmpc2.num_q=2", "tdmpc2.task_dim=8"]
    plans = ["tdmpc2.samples=32", "tdmpc2.elites=8", "tdmpc2.policy_trajectories=4", "tdmpc2.iterations=2"]
    learns = ["tdmpc2.seed_steps=200", "tdmpc2.updates_per_step=0.1", "tdmpc2.batch=32", "env.count=4"]
    words = [*model, *plans, *learns, "env.tasks=all", "env.max_steps=25", "train.replay_capacity=500", "--bare"]

    def train(folder, *settings):
        done = engine("train", "tdmpc2", "dmc_walker", *words, *settings, "--out", folder)
        assert done.returncode == 0, done.stderr

    # a run that goes on within episodes of several tasks is the unbroken one
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(whole, "train.steps=800")
    train(cut, "train.steps=480")
    done = engine("train", "--resume", cut, "train.steps=800")
    assert done.returncode == 0, done.stderr
    assert newest_manifest(whole)["state_hash"] == newest_manifest(cut)["state_hash"]

    # episodes are of all tasks, whose rewards differ for the same steps
    data = tmp_path / "walker.safetensors"
    assert engine("data", whole, data).returncode == 0
    tasks = load_file(data)["obs.task"]
    assert set(tasks.flatten().tolist()) == {0, 1, 2}
    judged = engine("eval", whole, "--episodes", "1", "env.task=run")
    assert judged.returncode == 0 and "with env.tasks=all an episode is of any" in judged.stderr, judged.stderr

    def judged_by_task(*words):
        judged = {}
        for task in ("stand", "walk", "run"):
            done = engine("eval", *words, "--episodes", "4", "--json", "env.tasks=told", f"env.task={task}")
            assert done.returncode == 0, done.stderr
            judged[task] = json.loads(done.stdout)["results"][0]["return_mean"]
        return judged

    # the same steps, by each task's own rewards
    judged = judged_by_task("dmc_walker", "random", "env.max_steps=25")
    assert judged["stand"] > judged["walk"] > judged["run"] > 0, judged
    # the policy of all in one, by the same column
    judged = judged_by_task(whole)
    # who stands is paid in full for that alone, and who goes, by any speed
    assert judged["stand"] > max(judged["walk"], judged["run"]) > 0 and judged["walk"] != judged["run"], judged
    done = engine("eval", whole, "--episodes", "1", "env.tasks=one")
    assert done.returncode != 0, done.stdout


@pytest.fixture(scope="module")
def opengl(engine):
    """Skips where this machine has no OpenGL without a window."""
    package()
    skip_without_library(engine("play", "dmc_cartpole", "env.observe=image", "env.max_steps=1"))


def test_osmesa_is_taken_where_egl_has_no_device(engine, tmp_path):
    package()
    if not ctypes.util.find_library("OSMesa"):
        pytest.skip("OSMesa is not installed")
    env = {"__EGL_VENDOR_LIBRARY_FILENAMES": str(tmp_path / "none"), "MUJOCO_GL": ""}
    words = ["env.observe=image", "env.width=32", "env.height=32", "train.steps=60"]
    train(engine, tmp_path / "run", *words, env=env)
    error = fails(engine, {**env, "MUJOCO_GL": "egl"}, "env.observe=image")
    assert "neither EGL nor OSMesa works here as MUJOCO_GL=egl" in error


def test_pictures_train_alike_on_any_number_of_threads(engine, opengl, tmp_path):
    images = ["env.observe=both", "env.width=32", "env.height=32", "train.steps=60"]
    hashes = {train(engine, tmp_path / n, *images, f"threads={n}")["state_hash"] for n in ("1", "2")}
    assert len(hashes) == 1


@pytest.mark.parametrize("domain", ["cartpole", "cheetah", "reacher", "walker"])
def test_a_match_is_recorded_as_it_is_rendered(engine, opengl, domain, tmp_path):
    file = tmp_path / "match.png"
    done = engine("play", f"dmc_{domain}", "env.max_steps=4", "--record", file, "--seed", 2)
    assert done.returncode == 0, done.stderr
    frames = []
    with Image.open(io.BytesIO(file.read_bytes())) as picture:
        for index in range(picture.n_frames):
            picture.seek(index)
            frames.append(picture.convert("RGB").copy())
    assert len(frames) == 5
    assert len({frame.tobytes() for frame in frames}) > 1
    # the suite's blue sky or floor, shaded
    assert len(frames[0].getcolors(1 << 20)) > 200
