"""Adding an environment is one new folder and no other edit."""

import json
import os
import shutil
import subprocess

import pytest

# what the environments' layer is built from: no torch
PARTS = [
    "CMakeLists.txt",
    "cmake",
    "base",
    "engine",
    "envs",
    "examples",
    "kernels",
    "sinks",
    "tests",
    "bench",
]


def test_the_example_environment_trains(examples, tmp_path):
    done = examples(
        "train",
        "ppo",
        "corridor",
        "train.steps=16384",
        "env.count=8",
        "ppo.minibatch=256",
        "ppo.lr=3e-3",
        "env.length=6",
        "--sinks",
        "jsonl",
        "--out",
        tmp_path / "run",
    )
    assert done.returncode == 0, done.stderr
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    # 1 at the goal, -0.01 for each of the other steps: a straight walk of 5 cells with a slip now and then
    assert rows[-1]["return_mean"] > 0.93
    assert rows[-1]["events/slips_per_1k"] == pytest.approx(100, abs=40)


def test_a_copied_folder_is_found_by_the_build(home, tmp_path, tmp_path_factory):
    for part in PARTS:
        source = home / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / part)
    # a header alone; one with assets; one with a source of its own, which only the host steps
    for name in ("corridor", "maze", "dispatch"):
        copied = tmp_path / "envs" / name
        shutil.copytree(tmp_path / "examples" / "envs" / name, copied, dirs_exist_ok=True)
    # and one whose library is not here
    shutil.copytree(tmp_path / "examples" / "envs" / "corridor", tmp_path / "envs" / "absent")
    (tmp_path / "envs" / "absent" / "corridor.h").rename(tmp_path / "envs" / "absent" / "absent.h")
    (tmp_path / "envs" / "absent" / "libraries.cmake").write_text(
        "find_library(MAGLEV_ABSENT absent_library)\n"
        "if(NOT MAGLEV_ABSENT)\n  set(missing libabsent)\nendif()\n"
    )
    # and one that lies in no checkout
    mine = tmp_path_factory.mktemp("my project")
    text = (tmp_path / "examples" / "envs" / "corridor" / "corridor.h").read_text()
    (mine / "envs" / "lane").mkdir(parents=True)
    (mine / "envs" / "lane" / "lane.h").write_text(text.replace("struct Corridor", "struct Lane"))
    cmake = shutil.which("cmake", path=f"{home / '.venv' / 'bin'}:{os.environ['PATH']}")
    ninja = shutil.which("ninja", path=f"{home / '.venv' / 'bin'}:{os.environ['PATH']}")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    # where and as ./maglev builds, so that ccache has what this checkout's build compiled
    build = tmp_path / ".build" / "release"
    env = {
        **os.environ,
        "CCACHE_BASEDIR": str(tmp_path),
        "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime",
    }

    def run(*command):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=env,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    configured = run(
        cmake,
        "-S",
        tmp_path,
        "-B",
        build,
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
        "-DMAGLEV_TRAIN=OFF",
        "-DMAGLEV_CUDA=OFF",
        "-DMAGLEV_MUJOCO=/nowhere",
        f"-DMAGLEV_PLUGINS={mine}",
        "-DCMAKE_BUILD_TYPE=Release",
        *launcher,
    )
    assert "environment absent is left out: libabsent was not found" in configured
    assert "environment dmc_walker is left out: MuJoCo 3.17.0 was not found" in configured
    run(ninja, "-C", build, "env_throughput")

    def throughput(*words):
        program = build / "tests" / "env_throughput"
        return run(program, "--seconds", "0.02", "--repeats", "1", *words)

    assert "corridor" in throughput("corridor", "length=5")
    assert "maze" in throughput("maze", "side=20")
    assert "dispatch" in throughput("dispatch", "queues=5")
    assert "lane" in throughput("lane", "length=5")
    table = (build / "generated" / "env_throughput_env_table.cpp").read_text()
    assert "envs::maze::" in table and "absent" not in table and "dmc" not in table
    for name, message in {
        "absent": "found no libabsent; install it, then build again",
        "dmc_walker": "found no MuJoCo 3.17.0; ./maglev setup fetches it (or: pip install mujoco==3.17.0 dm_control==",
    }.items():
        done = subprocess.run([build / "tests" / "env_throughput", name], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and f"[env] {name} is not in this build, which {message}" in done.stderr
