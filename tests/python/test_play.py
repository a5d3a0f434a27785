"""maglev play: recordings another decoder reads, matches of runs, and a person at a terminal."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import ENGINE, HOME, skip_without_library
from PIL import Image
from terminals import at_a_terminal


def frames(path):
    with Image.open(path) as picture:
        all_of_them = []
        for k in range(picture.n_frames):
            picture.seek(k)
            all_of_them.append(np.asarray(picture.convert("RGB")).copy())
        return np.stack(all_of_them), picture.info


def test_recordings_hold_every_step_and_both_formats_the_same_picture(engine, tmp_path):
    shown = {}
    for ending in ("png", "gif"):
        done = engine(
            *("play", "hockey_duel", "weak", "strong", "--seed", 5, "env.max_steps=40"),
            *("--record", tmp_path / f"game.{ending}"),
        )
        assert done.returncode == 0, done.stderr
        assert "return of weak" in done.stdout and "strong" in done.stdout
        steps = int(done.stdout.split("episode 1: ")[1].split(" steps")[0])
        shown[ending], info = frames(tmp_path / f"game.{ending}")
        # where it began, then each step, 20 ms each, again and again
        # with names, score and clock below
        assert shown[ending].shape == (steps + 1, 540, 600, 3)
        assert f"recorded {tmp_path / f'game.{ending}'}: {steps + 1} pictures" in done.stdout
        assert info["duration"] == 20 and info["loop"] == 0
    assert (shown["png"] == shown["gif"]).all()
    moved = (shown["png"][1:] != shown["png"][:-1]).any(axis=(1, 2, 3))
    assert moved.mean() > 0.9
    # ice, both rackets and the puck
    colours = {tuple(c) for c in shown["png"][0].reshape(-1, 3)}
    assert {(247, 249, 251), (235, 98, 53), (70, 130, 190), (20, 20, 20)} <= colours


def test_a_match_is_the_same_for_any_number_of_threads(engine):
    words = ("play", "hockey_duel", "weak", "random", "--fast", "env.max_steps=40")
    told = [engine(*words, threads) for threads in ("threads=1", "threads=2")]
    assert told[0].returncode == 0 and "return of weak" in told[0].stdout, told[0].stderr
    assert told[0].stdout == told[1].stdout
    wrong = engine(*words, "threads=-1")
    assert wrong.returncode == 2 and "threads must be in [0, 1024], got '-1'" in wrong.stderr


def with_path(folder):
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_without_ffmpeg_an_mp4_is_refused_before_the_match(engine, tmp_path):
    done = engine("play", "cartpole", "--record", tmp_path / "game.mp4", env={"PATH": str(tmp_path)})
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "needs the program ffmpeg" in done.stderr and ".gif or .png" in done.stderr
    assert "episode" not in done.stdout and not list(tmp_path.iterdir())


def test_ffmpeg_is_given_every_picture(engine, tmp_path):
    """A program in its place writes down what it gets."""
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/words\nfor last; do :; done\ncat > \"${{last#file:}}\"\n")
    program.chmod(0o755)
    words = ("play", "cartpole", "--seed", 2, "env.max_steps=7", "--fps", 25)
    done = engine(*words, "--record", tmp_path / "game.mp4", env=with_path(program.parent))
    assert done.returncode == 0, done.stderr
    assert engine(*words, "--record", tmp_path / "game.png").returncode == 0
    shown, _ = frames(tmp_path / "game.png")
    assert (tmp_path / "game.mp4").read_bytes() == shown.tobytes()
    assert f"-video_size {shown.shape[2]}x{shown.shape[1]} -framerate 25/1 " in (tmp_path / "words").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "game.mp4", "game.png", "words"]


def test_a_parent_that_ignores_its_children_does_not_spoil_a_recording(engine, tmp_path):
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\ncat > "${last#file:}"\n')
    program.chmod(0o755)
    ignored = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    words = ("play", "cartpole", "env.max_steps=3", "--record", tmp_path / "game.mp4")
    done = subprocess.run([sys.executable, "-c", ignored, ENGINE, *words], cwd=HOME, env=with_path(program.parent), capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "game.mp4").stat().st_size, done.stderr


def test_what_ffmpeg_complains_of_is_told(engine, tmp_path):
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho no such codec >&2\nexit 1\n")
    program.chmod(0o755)
    done = engine("play", "cartpole", "--record", tmp_path / "game.mp4", env=with_path(program.parent))
    assert done.returncode == 2 and "it said: no such codec" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
def test_an_mp4_holds_every_step(engine, tmp_path):
    words = ("play", "hockey_duel", "weak", "strong", "--seed", 5, "env.max_steps=20")
    for ending in ("mp4", "png"):
        assert engine(*words, "--record", tmp_path / f"game.{ending}").returncode == 0
    raw = subprocess.run(
        ["ffmpeg", "-loglevel", "error", "-i", tmp_path / "game.mp4", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
        capture_output=True,
        check=True,
    ).stdout
    lossless, _ = frames(tmp_path / "game.png")
    shown = np.frombuffer(raw, np.uint8).reshape(-1, *lossless.shape[1:])
    assert len(shown) == len(lossless)
    # lossy, and of colours a quarter as many
    assert np.abs(shown.astype(int) - lossless).mean() < 4


def test_a_run_plays_from_its_folder(engine, tmp_path):
    run = tmp_path / "run"
    done = engine(
        *("train", "ppo", "hockey", "--bare", "--sinks", "jsonl", "--out", run),
        *("train.steps=2048", "env.count=8", "ppo.rollout=64"),
    )
    assert done.returncode == 0, done.stderr
    for words in (["hockey", run], ["hockey_duel", run, "strong"], ["hockey_duel", "weak", run]):
        done = engine("play", *words, "env.max_steps=30", "--episodes", 2)
        assert done.returncode == 0, done.stderr
        assert "episode 2: " in done.stdout and str(run) in done.stdout


def test_an_environment_and_a_run_of_one_name_are_told_apart(engine, tmp_path):
    run = tmp_path / "cartpole"
    done = engine(*("train", "ppo", "cartpole", "--bare", "--sinks", "jsonl", "--out", run), "train.steps=256")
    assert done.returncode == 0, done.stderr
    done = engine("play", "cartpole", "env.max_steps=3", "--episodes", 1, cwd=tmp_path)
    said = "cartpole is the environment; the run in the folder of that name is ./cartpole"
    assert done.returncode == 0 and said in done.stdout + done.stderr, done.stderr
    done = engine("play", "./cartpole", "env.max_steps=3", "--episodes", 1, cwd=tmp_path)
    assert done.returncode == 0 and said not in done.stdout + done.stderr, done.stderr


def proven():
    """Every environment with proven settings, and the algorithm they are for."""
    named = {path.parent.name for path in (HOME / "envs").glob("*/*.h")}
    configs = sorted((HOME / "configs").glob("*/*.yaml"))
    return [(path.parent.name, path.stem) for path in configs if path.stem in named]


def test_every_environment_has_proven_settings():
    named = {path.parent.name for path in (HOME / "envs").glob("*/*.h")}
    # Gymnasium's, which may be any, begin with those for any, as what is added does
    assert {env for _, env in proven()} == named - {"gymnasium"}
    for algo in (HOME / "algos").iterdir():
        assert (HOME / "configs" / algo.name / "any.yaml").exists()


@pytest.mark.parametrize("algo, env", proven())
def test_a_run_of_proven_settings_plays(algo, env, engine, tmp_path):
    run = tmp_path / "run"
    done = engine("train", algo, env, "--sinks", "jsonl", "--out", run, "train.steps=200")
    skip_without_library(done)
    assert done.returncode == 0, done.stderr
    # an environment that holds actions counts its own steps, of which the last is whole
    held = re.search(r"action_repeat: (\d+)", (run / "config.yaml").read_text())
    steps = -(-3 // int(held[1])) if held else 3
    done = engine("play", run, "env.max_steps=3", "--record", tmp_path / "game.gif")
    skip_without_library(done)
    assert done.returncode == 0, done.stderr
    assert f"episode 1: {steps} step{'s' if steps > 1 else ''}; " in done.stdout and str(run) in done.stdout
    # and as a player of an environment that was named
    done = engine("play", env, run, "env.max_steps=2", "--actions", "sample")
    assert done.returncode == 0, done.stderr
    paced = f"was trained with env.action_repeat={held[1]}, which is 1 here" if held and held[1] != "1" else ""
    assert (paced in done.stderr) if paced else "action_repeat" not in done.stderr, done.stderr


def test_a_run_plays_as_it_was_trained(engine, tmp_path):
    run = tmp_path / "run"
    done = engine(
        *("train", "ppo", "cartpole", "--sinks", "jsonl", "--out", run),
        *("train.steps=1", "env.max_steps=7"),
    )
    assert done.returncode == 0, done.stderr
    assert "episode 1: 7 steps" in engine("play", run).stdout
    assert "episode 1: 5 steps" in engine("play", run, "env.max_steps=5").stdout


def test_a_recording_is_not_overwritten_unasked(engine, tmp_path):
    file = tmp_path / "game.gif"
    file.write_bytes(b"mine")
    words = ("play", "cartpole", "env.max_steps=3", "--record", file)
    done = engine(*words)
    assert done.returncode == 2 and "--overwrite" in done.stderr
    assert "episode" not in done.stdout and file.read_bytes() == b"mine"
    assert engine(*words, "--overwrite").returncode == 0
    assert file.read_bytes().startswith(b"GIF89a")
    assert [path.name for path in tmp_path.iterdir()] == ["game.gif"]


def test_a_recording_that_cannot_be_written_is_refused_before_the_match(engine, tmp_path):
    done = engine("play", "cartpole", "--record", tmp_path / "nowhere" / "game.gif")
    assert done.returncode == 2 and "nowhere" in done.stderr
    assert "episode" not in done.stdout


def test_an_environment_without_a_picture_is_told_in_words(examples):
    done = examples("play", "points", "--seed", 3)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("step 1  action ") and " reward " in lines[0] and " sees " in lines[0]
    assert lines[-1].startswith(f"episode 1: {len(lines) - 1} steps; return of random ")
    done = examples("play", "points", "--record", "game.gif")
    assert done.returncode == 2 and "no picture" in done.stderr


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["hockey", "human"], "a terminal in colour"),
        (["kg", "human"], "keys say no action of kg: it has 23 categories, and none is called by a direction"),
        (["hockey", "wek"], "weak, strong"),
        (["hockey", "weak", "weak"], "has 1 player, got 2"),
        (["hockey", "--record", "game.avi"], ".png, .gif or .mp4"),
        (["hockey", "env.oponent=weak"], "did you mean env.opponent"),
        (["hocky"], "did you mean hockey"),
    ],
)
def test_each_mistake_is_one_line(engine, arguments, expected):
    done = engine("play", *arguments)
    assert done.returncode == 2
    assert expected in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("how, status", [(b"\x1b", 0), (2, 130), (15, 143)])
def test_a_person_plays_at_a_terminal_which_is_as_before_afterwards(how, status):
    code, shown, before, after = at_a_terminal(["hockey", "human", "--fps", "100"], how)
    assert code == status, shown[-400:]
    assert "▀" in shown and "\x1b[38;2;" in shown
    assert "escape leaves, arrows or WASD move, q and e turn" in shown
    # before what is counted, which a narrow terminal cuts
    assert re.search(r"step 3\d*, return -?\d+\.\d\d  goals 0", shown), shown[-400:]
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    assert before == after


def test_a_person_plays_categories_step_by_step():
    # a step for each time that keys are pressed, two together or a digit
    taps = (b"d", b"wa", b"\x1b[C", b"\x1b")
    code, shown, before, after = at_a_terminal(["goodhart", "human", "--fps", "100"], b"", taps=taps)
    assert code == 0 and before == after, shown[-400:]
    assert "escape leaves, arrows or WASD move, 0 up left, 1 left, " in shown
    assert re.findall(r"step (\d+), ", shown)[-1] == "3", shown[-400:]
