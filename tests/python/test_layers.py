"""The layers of docs/architecture.md: includes only go down, in no circle, and what lies in the tree is built."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, HOME

# rooms from the bottom up; those of one line do not know each other
LAYERS = [
    ["base/trace"],
    ["base/core"],
    ["base/config", "base/onnx", "base/simd", "base/device", "base/mujoco", "base/statistics", "base/datalog", "base/timeline", "base/web", "base/processes"],
    ["base/env", "base/metrics", "base/picture", "base/search"],
    ["envs", "sinks", "kernels"],
    ["engine/device"],
    ["kernels: torch"],
    ["engine/group"],
    ["engine/data", "engine/host"],
    ["engine/trace"],
    ["engine/nn"],
    ["engine/algo", "engine/embeddings", "networks"],
    ["algos", "engine/run"],
    ["engine/play"],
    ["engine/export", "engine/train"],
    ["verbs"],
    ["python"],
]
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
SHIPPED = ("base", "engine", "envs", "kernels", "sinks", "networks", "algos", "verbs", "python")


def tracked():
    listing = subprocess.run(
        ["git", "-C", HOME, "ls-files", *SHIPPED], capture_output=True, text=True, check=True
    )
    return [f for f in listing.stdout.split() if re.search(r"\.(h|cpp|cu|cuh)$", f)]


def room_of(file: str) -> str:
    top, second = file.split("/")[:2]
    if top == "kernels" and re.search(r"_op\.(h|cpp)$", file):
        return "kernels: torch"
    return f"{top}/{second}" if top in ("base", "engine") else top


def includes(file: str):
    return re.findall(r'#\s*include "([^"]+)"', (HOME / file).read_text())


def arrows_up(files, included):
    """`file -> include` of every include that does not go down, or into the same room."""
    known = set(files)
    wrong = []
    for file in files:
        for target in included(file):
            if target in known and room_of(target) != room_of(file):
                if RANK[room_of(target)] >= RANK[room_of(file)]:
                    wrong.append(f"{file} -> {target}")
    return wrong


def shipped():
    """What is built into the program: tests beside the code may look anywhere."""
    return [f for f in tracked() if not f.endswith("_test.cpp")]


def test_every_room_has_its_place():
    rooms = {room_of(f) for f in shipped()}
    assert rooms <= set(RANK), f"name them in LAYERS and docs/architecture.md: {rooms - set(RANK)}"
    assert set(RANK) <= rooms, f"gone from the tree: {set(RANK) - rooms}"


def test_includes_go_down():
    wrong = arrows_up(shipped(), includes)
    assert not wrong, "includes that go up or sideways:\n" + "\n".join(wrong)


def test_an_arrow_up_is_found():
    files = ["base/core/error.h", "engine/train/trainer.h", "kernels/gae/gae_op.cpp"]
    looks = {"base/core/error.h": ["engine/train/trainer.h"]}
    assert arrows_up(files, lambda f: looks.get(f, [])) == [
        "base/core/error.h -> engine/train/trainer.h"
    ]


def test_plug_ins_do_not_know_the_plug_ins_beside_them():
    """What two networks or algorithms share lies below them, and an algorithm knows networks by their table alone."""
    for file in shipped():
        if file.startswith(("networks/", "algos/")):
            own = "/".join(file.split("/")[:2])
            foreign = [
                i for i in includes(file) if i.startswith(("networks/", "algos/")) and not i.startswith(own + "/")
            ]
            assert not foreign, f"{file} includes {foreign}"


def test_files_include_each_other_in_no_circle():
    files = {f: [i for i in includes(f)] for f in shipped() if f.endswith((".h", ".cuh"))}
    done, path = set(), []

    def visit(file):
        # Highway includes a source once an instruction set
        assert file not in path, "a circle: " + " -> ".join([*path[path.index(file) :], file])
        if file in done or file not in files:
            return
        path.append(file)
        for target in files[file]:
            visit(target)
        path.pop()
        done.add(file)

    for file in files:
        visit(file)


def test_torch_begins_at_layer_three():
    below = {room for rooms in LAYERS[: LAYERS.index(["engine/device"])] for room in rooms}
    for file in shipped():
        if room_of(file) in below:
            found = re.findall(r"#\s*include <((?:torch|ATen|c10)/[^>]+)>", (HOME / file).read_text())
            assert not found, f"{file} includes {found}"


def test_no_file_takes_all_of_torch():
    """<torch/torch.h> costs 5 s a file more than what is used of it."""
    listing = subprocess.run(
        ["git", "-C", HOME, "ls-files", *SHIPPED, "tests", "bench", "cmake"],
        capture_output=True,
        text=True,
        check=True,
    )
    sources = [f for f in listing.stdout.split() if f.endswith((".h", ".cpp"))]
    whole = [f for f in sources if "#include <torch/torch.h>" in (HOME / f).read_text()]
    assert not whole, f"include <ATen/ATen.h> and what else is used: {whole}"


def test_every_source_is_built():
    database = BUILD / "compile_commands.json"
    if not database.exists():
        pytest.skip("this build left no compile_commands.json")
    compiled = {Path(row["file"]) for row in json.loads(database.read_text())}
    # a group of sources is compiled as one that includes them
    groups = [f.read_text() for f in compiled if f.parent.name == "Unity"]
    built = compiled | {Path(f) for text in groups for f in re.findall(r'#include "([^"]+)"', text)}
    # environments whose libraries were not found, and what only they use
    table = BUILD / "generated" / "maglev-engine_left_out_envs.cpp"
    left_out = re.findall(r'LeftOutEnv\{"(\w+)"', table.read_text())
    rooms = [f"envs/{name}/" for name in left_out] + ["base/mujoco/"] * ("dmc_walker" in left_out)
    # what needs Python's headers
    rooms += ["python/bindings/module.cpp"] * (not list((BUILD / "python").glob("_engine*")))
    missing = [
        f
        for f in tracked()
        if f.endswith(".cpp") and HOME / f not in built and not f.startswith(tuple(rooms))
    ]
    assert not missing, f"no target builds {missing}"


def naming(commands, folder):
    """Sources whose own definitions name the folder, by their paths in it."""
    return {
        str(Path(one["file"]).relative_to(folder))
        for one in commands
        if re.search(rf"-D\w+=\S*{re.escape(str(folder))}/", one["command"])
    }


def test_few_sources_are_told_where_the_checkout_is():
    """A compiler cache knows what others compile again in another checkout."""
    database = BUILD / "compile_commands.json"
    if not database.exists():
        pytest.skip("this build left no compile_commands.json")
    told = {"tests/places.cpp", "base/datalog/pykeen.cpp", "envs/gymnasium/workers.cpp"}
    assert naming(json.loads(database.read_text()), HOME) <= told


def test_a_source_that_is_told_where_the_checkout_is_is_found():
    commands = [
        {"file": "/c/base/a.cpp", "command": 'c++ -I/c -DPLACE=\\"/c/base\\" -c /c/base/a.cpp'},
        {"file": "/c/base/b.cpp", "command": "c++ -I/c -DPLACE=1 -c /c/base/b.cpp"},
    ]
    assert naming(commands, "/c") == {"base/a.cpp"}


def types_by_name(files):
    """{full name: files that define a type of it}, of types that other files can see."""
    found = {}
    for file in files:
        spaces = []
        for line in (HOME / file).read_text().splitlines():
            if opened := re.match(r"(?:inline )?namespace ?([\w:]*) ?\{$", line):
                spaces.append(opened[1])
            elif line.startswith("}  // namespace") and spaces:
                spaces.pop()
            elif (made := re.match(r"(?:class|struct) (\w+)(?: final)?(?: :[^:].*)? \{", line)) and "" not in spaces:
                found.setdefault("::".join([*spaces, made[1]]), set()).add(file)
    return found


def test_a_name_is_one_type(tmp_path):
    """Two types of one name are one to the linker, which keeps either's functions for both."""
    twice = {name: sorted(files) for name, files in types_by_name(tracked()).items() if len(files) > 1}
    assert not twice, twice


def test_two_types_of_one_name_are_found(tmp_path):
    for name in ("a.h", "b.h"):
        (tmp_path / name).write_text("namespace maglev {\n\nclass Twice {\n};\n\n}  // namespace maglev\n")
    found = types_by_name([tmp_path / "a.h", tmp_path / "b.h"])
    assert len(found["maglev::Twice"]) == 2
