"""Plug-ins in a folder of their own (MAGLEV_PLUGINS), as CMake sees them: configured, not built."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import BUILD, HOME

TOOLS = f"{HOME / '.venv' / 'bin'}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def configured(tmp_path_factory):
    """configured(folder, ..) configures as the build under test, with plug-ins of these folders."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists():
        pytest.skip("this build left no CMakeCache.txt")
    build = tmp_path_factory.mktemp("build")
    torch = re.search(r"^MAGLEV_TORCH:\w+=(.*)$", cache.read_text(), re.M)[1]

    def configure(*folders):
        words = ["-S", HOME, "-B", build, "-G", "Ninja", f"-DMAGLEV_TORCH={torch}", "-DMAGLEV_CUDA=OFF"]
        words += [f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja', path=TOOLS)}"]
        words += [f"-DMAGLEV_PLUGINS={';'.join(map(str, folders))}"]
        done = subprocess.run(
            [shutil.which("cmake", path=TOOLS), *words], capture_output=True, text=True, timeout=600, check=False
        )
        done.build = build
        done.commands = {}
        if done.returncode == 0:
            rows = json.loads((build / "compile_commands.json").read_text())
            done.commands = {(row["file"], row["command"]) for row in rows}
        return done

    return configure


def test_the_launcher_watches_the_rooms_that_cmake_builds():
    rooms = re.search(r"set\(MAGLEV_PLUGIN_ROOMS (.*)\)", (HOME / "cmake/Plugins.cmake").read_text())[1]
    watched = re.search(r"^ROOMS = \((.*)\)$", (HOME / "launcher/plugins.py").read_text(), re.M)[1]
    assert re.findall(r"\w+", watched) == rooms.split()


@pytest.fixture
def mine(tmp_path):
    """A folder with a plug-in of each kind."""
    folder = tmp_path / "my project"
    corridor = (HOME / "examples/envs/corridor/corridor.h").read_text()
    lane = corridor.replace("Corridor", "Lane").replace('#include "base/env/env.h"', '#include "envs/grid.h"')
    files = {
        "envs/lane/lane.h": lane,
        "envs/grid.h": '#pragma once\n#include "base/env/env.h"\n',
        "networks/wide/wide.cpp": "",
        "algos/luck/luck.cpp": "",
        "algos/luck/luck_test.cpp": "",
        "sinks/drain/drain.cpp": "",
        "verbs/hello/hello.cpp": "",
        "kernels/twice/twice_cpu.cpp": "",
        "kernels/twice/twice_op.cpp": "",
        "tests/envs/tug/tug.h": "",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_plug_ins_of_a_folder_beside_are_in_the_tables_and_leave_the_rest_as_it_was(configured, mine):
    before, with_mine = configured().commands, configured(mine)
    assert with_mine.returncode == 0, with_mine.stderr
    generated = with_mine.build / "generated"
    for program in ("maglev-engine", "maglev-examples", "env_tests", "emulation_tests"):
        assert "envs::lane::entry()" in (generated / f"{program}_env_table.cpp").read_text()
    for table, row in {
        "maglev-engine_algo_makers": "algos::luck::entry",
        "maglev-engine_network_table": "networks::wide::entry()",
        "sink_table": "sinks::drain::entry()",
        "verb_table": "verbs::hello::entry()",
        "kernel_table": "kernels::twice::entry()",
    }.items():
        assert row in (generated / f"{table}.cpp").read_text(), table
    added = {file: command for file, command in with_mine.commands - before}
    gone = before - with_mine.commands
    assert not gone, "other plug-ins compile nothing else anew"
    assert all(str(mine) in file or "env_lane" in file for file in added), added.keys()
    for name in ("networks/wide/wide", "algos/luck/luck", "algos/luck/luck_test", "sinks/drain/drain"):
        assert str(mine / f"{name}.cpp") in added, name
    assert not any("/tests/envs/" in file for file in added), "only rooms of plug-ins are looked into"
    # torch begins at layer three, here too
    assert "torch" not in added[str(generated / "env_lane.cpp")]
    assert "torch" in added[str(mine / "algos/luck/luck.cpp")]


def test_an_environment_of_a_folder_beside_compiles_and_its_messages_name_its_file(configured, mine):
    done = configured(mine)
    build = done.build
    words = shlex.split(dict(done.commands)[str(build / "generated/env_lane.cpp")])
    words = [*words[: words.index("-o")], "-fsyntax-only", *words[words.index("-c") :]]
    env = {**os.environ, "CCACHE_DISABLE": "1"}

    def compiled():
        return subprocess.run(words, cwd=build, env=env, capture_output=True, text=True, check=False)

    done = compiled()
    assert done.returncode == 0, done.stderr
    (mine / "envs/grid.h").write_text("#include <ATen/ATen.h>\n")
    assert "ATen/ATen.h: No such file" in compiled().stderr
    (mine / "envs/lane/lane.h").write_text("wrong")
    assert f"{mine}/envs/lane/lane.h:1" in compiled().stderr


def test_plug_ins_that_are_named_no_more_are_gone(configured, mine):
    with_mine = configured(mine)
    assert (with_mine.build / "generated/envs/lane").is_symlink()
    without = configured()
    assert not os.path.lexists(without.build / "generated/envs/lane")
    assert "lane" not in (without.build / "generated/maglev-engine_env_table.cpp").read_text()
    assert (mine / "envs/lane/lane.h").exists()


@pytest.mark.parametrize("name", ["envs/cartpole/cartpole.h", "envs/pixels.h", "algos/ppo/mine.cpp", "envs/tug/tug.h"])
def test_a_name_of_the_checkouts_own_is_refused(configured, tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).touch()
    done = configured(tmp_path)
    said = " ".join(done.stderr.split())
    plugin = "/".join(name.split("/")[:2])
    place = f"tests/{plugin}" if "tug" in name else plugin
    assert done.returncode != 0
    assert f"MAGLEV_PLUGINS: {tmp_path}/{plugin} and {HOME}/{place} have one name; give yours another" in said


def test_a_name_in_two_folders_is_refused(configured, mine, tmp_path):
    (tmp_path / "other/envs/lane").mkdir(parents=True)
    done = configured(mine, tmp_path / "other")
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"{tmp_path}/other/envs/lane and {mine}/envs/lane have one name" in said
    missing = configured(tmp_path / "nowhere")
    assert missing.returncode != 0 and "is no folder" in " ".join(missing.stderr.split())
