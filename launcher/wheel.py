"""`./maglev wheel`: what is built, and what it reads when it runs, as a wheel in dist/ (docs/installing.md).

The same build gives the same bytes, and a wheel is there as a whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from launcher.building import ENGINE
from launcher.console import HOME, Failure, screen
from launcher.elf import found, least_glibc, looking_beside, needed
from launcher.environment import requirement_lines
from launcher.plugins import plugin_folders
from launcher.torch_package import torch_version

OUT = HOME / "dist"
# the engine's folder beside torch's, whose files lie as in a checkout
ENGINE_FOLDER = "maglev_engine"
# with the program `maglev` itself, of which a wheel's command is made
COMMAND = [f"launcher/{name}.py" for name in ("__init__", "console", "installed", "torch_package")]
# what PEP 600 lets a wheel ask the system for, of what we do; the CUDA runtime comes with torch's builds for GPUs
SYSTEM_LIBRARIES = r"ld-linux|lib(c|m|dl|rt|pthread|gcc_s|z|stdc\+\+|cudart)\.so"
# of a checkout and of folders of plug-ins: what the engine reads and Python's processes run
READ_AT_RUN_TIME = ("configs/*/*.yaml", "envs/*/*.py", "verbs/*/*.py")
PACKAGES = (
    "maglev/*.py",
    "maglev/*.pyi",
    "maglev/py.typed",
    "maglev_sync/*.py",
    "maglev_sync/py.typed",
)
LICENCES = ("LICENSE", "NOTICE", "THIRD_PARTY.md", "base/web/third_party/uplot/LICENSE")
# whose code is in the program or beside it; where Debian keeps what their licences want told
SYSTEM_LICENCES = "/usr/share/doc/{}/copyright"
SYSTEM_PACKAGES = ("libhwy-dev", "libxxhash-dev", "libyaml-cpp-dev", "nlohmann-json3-dev")
# of requirements.txt, what only a build wants; of requirements-<extra>.txt, what only tests do
BUILD_TOOLS = ("cmake", "ninja")
NO_EXTRAS = ("test",)
# the first day of the format
TIME = (1980, 1, 1, 0, 0, 0)


class Entry(NamedTuple):
    content: bytes
    runs: bool = False


def project(field: str) -> str:
    """A line of pyproject.toml, for which Python 3.10 has no reader."""
    text = (HOME / "pyproject.toml").read_text()
    return re.search(rf'^{field} = "(.*)"$', text, re.M).group(1)


def version_of(torch: Path) -> str:
    """The project's; of a build with a torch for GPUs with that one's variant, 0.1.0+cu130."""
    version, has_cuda = torch_version(torch)
    return project("version") + (f"+{version.partition('+')[2] or 'cuda'}" if has_cuda else "")


def metadata(torch: Path, licences: list[str]) -> str:
    """With the requirements files as dependencies: torch as it is built with, and extras by their names."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project('name')}",
        f"Version: {version_of(torch)}",
        f"Summary: {project('description')}",
        f"Requires-Python: {project('requires-python')}",
        "License-Expression: Apache-2.0",
        *(f"License-File: {name}" for name in licences),
    ]
    for line in requirement_lines("requirements.txt"):
        name = re.split("[=<>; ]", line)[0]
        if name == "torch":
            line = f"torch=={torch_version(torch)[0].partition('+')[0]}"
        if name not in BUILD_TOOLS:
            lines.append(f"Requires-Dist: {line}")
    for path in sorted(HOME.glob("requirements-*.txt")):
        extra = path.stem.removeprefix("requirements-")
        if extra not in NO_EXTRAS:
            lines.append(f"Provides-Extra: {extra}")
            lines += [
                f'Requires-Dist: {line}; extra == "{extra}"'
                for line in requirement_lines(path.name)
            ]
    return "\n".join(lines) + "\n"


def tag_of(module: Path, programs: list[Path]) -> str:
    """The Python and the system that a wheel with this module and these programs is for."""
    told = re.fullmatch(r"_engine\.cpython-(\d+)-(\w+)-linux-gnu\.so", module.name)
    if not told:
        raise Failure(
            f"[wheel] {module.name} is for no Python that wheels are made for: CPython on Linux with glibc"
        )
    python, machine = f"cp{told[1]}", told[2]
    return f"{python}-{python}-manylinux_2_{least_glibc(programs)}_{machine}"


def licence_files(torch: Path) -> dict[str, Entry]:
    """By name; a line says which are not here."""
    found = {name.removeprefix("base/web/third_party/"): HOME / name for name in LICENCES}
    # whose headers the module of Python is made with, by way of torch
    beside = torch.parent / f"torch-{torch_version(torch)[0]}.dist-info"
    found["pybind11/LICENSE"] = beside / "licenses/third_party/pybind11/LICENSE"
    found |= {f"{name}/copyright": Path(SYSTEM_LICENCES.format(name)) for name in SYSTEM_PACKAGES}
    missing = [str(path) for path in found.values() if not path.exists()]
    if missing:
        screen.say(f"without {', '.join(missing)}: to give the wheel away add these licences to it")
    return {name: Entry(path.read_bytes()) for name, path in found.items() if path.exists()}


def python_files() -> dict[str, Entry]:
    """What is no part of the build. A plug-in's stand in place of the checkout's of the same name."""
    found = {f"{ENGINE_FOLDER}/__main__.py": HOME / "maglev"}
    found |= {f"{ENGINE_FOLDER}/{path}": HOME / path for path in COMMAND}
    for root in map(Path, (HOME, *reversed(plugin_folders()))):
        for path in (path for pattern in READ_AT_RUN_TIME for path in root.glob(pattern)):
            found[f"{ENGINE_FOLDER}/{path.relative_to(root)}"] = path
    python = HOME / "python"
    for path in (path for pattern in PACKAGES for path in python.glob(pattern)):
        found[str(path.relative_to(python))] = path
    return {name: Entry(path.read_bytes()) for name, path in found.items()}


def bundled(programs: list[Path], torch: Path) -> dict[str, Path]:
    """The shared libraries that these ask for and that are neither every system's nor of packages beside torch."""
    libraries = {}
    for program in programs:
        places = found(program)
        for name in needed(program):
            if re.match(SYSTEM_LIBRARIES, name):
                continue
            if name not in places:
                raise Failure(
                    f"[wheel] {program.name} asks for {name}, which is not found here: build again"
                )
            if torch.resolve().parent not in places[name].resolve().parents:
                libraries[name] = places[name]
    for path in libraries.values():
        more = [name for name in needed(path) if not re.match(SYSTEM_LIBRARIES, name)]
        if more:
            raise Failure(
                f"[wheel] {path} asks for {', '.join(more)}, which it would not find: link it statically"
            )
    return libraries


def built_files(build: Path, torch: Path) -> tuple[dict[str, Entry], str]:
    """The program, the module of Python and libraries, and the tag of a wheel with them."""
    engine, modules = build / ENGINE, list((build / "python").glob("_engine.*"))
    if len(modules) != 1 or not engine.exists():
        raise Failure(
            f"[wheel] an engine and a module of Python are expected in {build}, got {len(modules)} modules"
        )
    libraries = bundled([engine, modules[0]], torch)
    files = {
        f"{ENGINE_FOLDER}/lib/{name}": Entry(path.read_bytes()) for name, path in libraries.items()
    }
    files[f"{ENGINE_FOLDER}/{ENGINE}"] = Entry(looking_beside(engine.read_bytes()), runs=True)
    files[f"maglev/{modules[0].name}"] = Entry(looking_beside(modules[0].read_bytes()))
    return files, tag_of(modules[0], [engine, modules[0], *libraries.values()])


def write_archive(path: Path, files: dict[str, Entry], record: str):
    """A zip file of all of them in order, the last of which tells the others' hashes and sizes."""
    lines = []
    for name, entry in files.items():
        hashed = (
            base64.urlsafe_b64encode(hashlib.sha256(entry.content).digest()).rstrip(b"=").decode()
        )
        lines.append(f"{name},sha256={hashed},{len(entry.content)}\n")
    files = {**files, record: Entry("".join([*lines, f"{record},,\n"]).encode())}
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, entry in files.items():
            about = zipfile.ZipInfo(name, TIME)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.create_system = 3  # whose files have the rights that follow
            about.external_attr = (0o100755 if entry.runs else 0o100644) << 16
            archive.writestr(about, entry.content)
    os.replace(temporary, path)


def write_wheel(build: Path, torch: Path, out: Path = OUT) -> Path:
    """The wheel of a build that has the engine and the module of Python; `torch` is the package it is linked with."""
    files, tag = built_files(build, torch)
    files |= python_files()
    stem = f"{project('name').replace('-', '_')}-{version_of(torch)}"
    info = f"{stem}.dist-info"
    licences = licence_files(torch)
    about = {
        **{f"licenses/{name}": entry for name, entry in licences.items()},
        "METADATA": Entry(metadata(torch, sorted(licences)).encode()),
        "WHEEL": Entry(
            f"Wheel-Version: 1.0\nGenerator: maglev\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
        ),
        "entry_points.txt": Entry(
            f"[console_scripts]\nmaglev = {ENGINE_FOLDER}.__main__:main\n".encode()
        ),
    }
    # what tells of the others comes last
    ordered = {name: files[name] for name in sorted(files)}
    ordered |= {f"{info}/{name}": about[name] for name in sorted(about)}
    wheel = out / f"{stem}-{tag}.whl"
    write_archive(wheel, ordered, f"{info}/RECORD")
    return wheel
