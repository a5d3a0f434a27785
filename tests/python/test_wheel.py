"""`./maglev wheel`: what is built as a wheel, and how it runs where there is no checkout (docs/installing.md).

pip installs it into a folder of its own, torch lies beside it by a link, and the interpreter is that of the tests.
"""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import BUILD, HOME
from waiting import LONG_S, wait_for

sys.path.insert(0, str(HOME))
from launcher import elf, verbs, wheel
from launcher import installed as installed_command
from launcher.console import Failure

if not any((BUILD / "python").glob("_engine.*")):
    pytest.skip("the build has no module of Python", allow_module_level=True)

TORCH = Path(importlib.util.find_spec("torch").origin).parent
SHORT = ["train.steps=2048", "env.count=8", "ppo.rollout=64", "ppo.minibatch=256", "threads=1", "seed=1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return wheel.write_wheel(BUILD, TORCH, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def files(made):
    """By name."""
    with zipfile.ZipFile(made) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class Installed:
    """A wheel as pip installs it; nothing says where the checkout is."""

    def __init__(self, made: Path, folder: Path):
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
        subprocess.run([*pip, "--prefix", folder, made], check=True, capture_output=True)
        self.site = next(folder.glob("lib*/python*/site-packages"))
        self.maglev = folder / "bin" / "maglev"
        # a torch for GPUs has the libraries of its vendor beside it
        for package in (TORCH, *TORCH.parent.glob("nvidia")):
            (self.site / package.name).symlink_to(package)
        self.folder = folder / "empty"
        self.folder.mkdir()
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "PYTHONPATH": str(self.site)}

    def start(self, *words, python=False, **env):
        command = [sys.executable] if python else [self.maglev]
        return subprocess.Popen(
            [*command, *map(str, words)], cwd=self.folder, env={**self.env, **env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *words, **options):
        process = self.start(*words, **options)
        process.out, process.err = process.communicate(timeout=LONG_S)
        return process


@pytest.fixture(scope="module")
def installed(made, tmp_path_factory):
    return Installed(made, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def run_folder(installed):
    done = installed.run("train", "ppo", "cartpole", *SHORT, "--out", "runs/a")
    assert done.returncode == 0, done.err
    return installed.folder / "runs" / "a"


def test_the_record_tells_each_file_by_hash_and_size(files):
    (record,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    rows = list(csv.reader(io.StringIO(files[record].decode())))
    assert [row[0] for row in rows] == list(files)
    for name, told, size in rows[:-1]:
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        assert (told, size) == (f"sha256={digest}", str(len(files[name]))), name
    assert rows[-1] == [record, "", ""]


def test_the_same_build_gives_the_same_bytes_and_leaves_nothing_beside(made, tmp_path):
    again = wheel.write_wheel(BUILD, TORCH, tmp_path)
    assert again.read_bytes() == made.read_bytes()
    assert list(tmp_path.iterdir()) == [again]


def test_it_holds_what_the_engine_reads_and_no_sources(files):
    configs = {f"maglev_engine/{path.relative_to(HOME)}" for path in HOME.glob("configs/*/*.yaml")}
    assert configs == {name for name in files if "/configs/" in name}
    for name in (
        "maglev_engine/__main__.py",
        "maglev_engine/maglev-engine",
        "maglev_engine/launcher/installed.py",
        *(f"maglev_engine/{path.relative_to(HOME)}" for path in HOME.glob("envs/gymnasium/*.py")),
        "maglev_engine/verbs/export_/check.py",
        "maglev_engine/verbs/export_/check_int8.py",
        "maglev_engine/verbs/sweep/optuna_ask.py",
        "maglev/__init__.py",
        "maglev/py.typed",
        "maglev_sync/__main__.py",
    ):
        assert name in files
    allowed = (".py", ".pyi", ".yaml", "/py.typed", "/maglev-engine")
    others = [n for n in files if ".dist-info/" not in n and "/lib/" not in n and not n.endswith(allowed)]
    assert len(others) == 1 and re.fullmatch(r"maglev/_engine\.cpython-\w+-\w+-linux-gnu\.so", others[0]), others
    # whatever a verb or an environment runs by Python
    scripts = {path.relative_to(HOME) for room in ("envs", "verbs") for path in (HOME / room).rglob("*.py")}
    assert {f"maglev_engine/{path}" for path in scripts} <= set(files)
    licences = {name.split("/licenses/")[1] for name in files if "/licenses/" in name}
    assert {"LICENSE", "NOTICE", "THIRD_PARTY.md", "uplot/LICENSE", "pybind11/LICENSE"} <= licences


def test_a_plug_ins_proven_settings_stand_in_place_of_the_checkouts(tmp_path, monkeypatch):
    theirs = tmp_path / "configs" / "ppo" / "cartpole.yaml"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("seed: 7\n")
    monkeypatch.setattr(wheel, "plugin_folders", lambda: [str(tmp_path)])
    files = wheel.python_files()
    assert files["maglev_engine/configs/ppo/cartpole.yaml"].content == theirs.read_bytes()
    assert files["maglev_engine/configs/ppo/goodhart.yaml"].content == (HOME / "configs/ppo/goodhart.yaml").read_bytes()


def test_libraries_are_looked_for_beside_it_and_each_is_there(files, tmp_path):
    bundled = {name.split("/lib/")[1] for name in files if "/lib/" in name}
    for name in [n for n in files if n.endswith(("/maglev-engine", ".so")) and "/lib/" not in n]:
        file = tmp_path / "file"
        file.write_bytes(files[name])
        told = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True, check=True).stdout
        (path,) = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", told)
        assert path.split(":")[:3] == [f"$ORIGIN/../{part}" for part in ("maglev_engine/lib", "torch/lib", "mujoco")]
        assert all(part.startswith("$ORIGIN/../") for part in path.split(":"))
        for library in elf.needed(file):
            beside = library in bundled or (TORCH / "lib" / library).exists()
            assert beside or re.match(wheel.SYSTEM_LIBRARIES, library), library


def test_a_file_without_folders_beside_it_is_refused(tmp_path):
    with pytest.raises(Failure, match="run path"):
        elf.looking_beside(Path(shutil.which("env")).read_bytes())
    text = (BUILD / "maglev-engine").read_bytes().replace(b"$ORIGIN/../torch/lib", b"/ORIGIN/../torch/lib")
    with pytest.raises(Failure, match=r"must end with its \$ORIGIN folders, got /"):
        elf.looking_beside(text)


def test_dependencies_are_those_of_the_requirements_files(files):
    (metadata,) = [text.decode() for name, text in files.items() if name.endswith("/METADATA")]
    asked = re.findall(r"^Requires-Dist: (.*)$", metadata, re.M)
    version = wheel.torch_version(TORCH)[0].split("+")[0]
    assert f"torch=={version}" in asked
    assert not any(line.startswith(("cmake", "ninja")) for line in asked)
    assert [line for line in asked if line.startswith("numpy")] == [
        line for line in wheel.requirement_lines("requirements.txt") if line.startswith("numpy")
    ]
    extras = {path.stem.removeprefix("requirements-"): path for path in HOME.glob("requirements-*.txt")}
    del extras["test"]
    assert set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.M)) == set(extras)
    for extra, path in extras.items():
        for line in wheel.requirement_lines(path.name):
            assert f'{line}; extra == "{extra}"' in asked
    (cmake,) = re.findall(r"project\(maglev VERSION (\S+)", (HOME / "CMakeLists.txt").read_text())
    assert re.search(rf"^Version: {re.escape(cmake)}(\+\w+)?$", metadata, re.M)


def test_the_name_says_python_and_glibc(made, files):
    tag = re.fullmatch(r"maglev_engine-[\w.+]+-(cp\d+)-\1-manylinux_2_(\d+)_\w+\.whl", made.name)
    assert tag and tag[1] == f"cp{sys.version_info.major}{sys.version_info.minor}", made.name
    here = int(os.confstr("CS_GNU_LIBC_VERSION").split(".")[1])
    assert 17 <= int(tag[2]) <= max(here, 39)
    (about,) = [text.decode() for name, text in files.items() if name.endswith("/WHEEL")]
    assert f"Tag: {'-'.join(made.stem.split('-')[2:])}\n" in about and "Root-Is-Purelib: false" in about


def test_it_trains_judges_and_resumes_without_a_checkout(installed, run_folder):
    settings = (run_folder / "config.yaml").read_text()
    assert "seed: 1" in settings
    done = installed.run("eval", "runs/a", "--episodes", 4)
    assert done.returncode == 0, done.err
    done = installed.run("train", "--resume", "runs/a", "train.steps=4096")
    assert done.returncode == 0, done.err
    # settings proven in configs/, and commands as they are typed here
    done = installed.run("train", "ppo", "goodhart", "--help")
    assert "configs/ppo/goodhart.yaml" in done.out, done.out[:400]
    assert "maglev train ppo cartpole" in (run_folder / "reproduce.md").read_text()
    assert "./maglev" not in (run_folder / "reproduce.md").read_text()


def test_status_and_signals_are_the_engines(installed, tmp_path):
    assert installed.run("eval", "runs/nothing").returncode == 2
    run = tmp_path / "run"
    process = installed.start("train", "ppo", "cartpole", *SHORT, "train.steps=100000000", "--out", run)
    wait_for((run / "run.json").exists, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, err
    assert "maglev train --resume" in out + err and "./maglev" not in out + err


def test_python_imports_and_trains(installed):
    script = (
        "import maglev; envs = maglev.make('cartpole', 4); envs.reset(); "
        f"run = maglev.train('ppo', 'cartpole', {SHORT}); print(maglev.__file__, run.evaluate(episodes=2)['episodes'])"
    )
    done = installed.run("-c", script, python=True)
    assert done.returncode == 0, done.err
    assert done.out.splitlines()[-1] == f"{installed.site}/maglev/__init__.py 2"
    script = "import os, sys; print(sys.executable, os.environ['MAGLEV_HOME'], *sys.argv[1:]); sys.exit(6)"
    done = installed.run("python", "-c", script, "--help")
    assert done.returncode == 6 and done.out == f"{sys.executable} {installed.site}/maglev_engine --help\n", done.err


def test_gymnasiums_environments_are_stepped_by_its_python(installed, tmp_path):
    pytest.importorskip("gymnasium")
    words = ["envs", "gymnasium", "env.id=CartPole-v1"]
    done = installed.run(*words)
    assert done.returncode == 0 and "observation" in done.out, done.err
    # without it the extra is named
    (tmp_path / "gymnasium.py").write_text('raise ModuleNotFoundError("none", name="gymnasium")')
    done = installed.run(*words, PYTHONPATH=f"{tmp_path}:{installed.site}")
    assert done.returncode == 2 and f"{sys.executable} -m pip install 'maglev-engine[gymnasium]'" in done.err


@pytest.mark.parametrize(
    "words, env", [(["build"], {}), (["help", "test"], {}), (["train", "ppo", "cartpole"], {"MAGLEV_PLUGINS": "/x"})]
)
def test_what_wants_sources_is_told_so(installed, words, env):
    done = installed.run(*words, **env)
    assert done.returncode == 2 and done.out == ""
    assert "wants a checkout" in done.err and len(done.err.splitlines()) == 1


def test_another_torch_is_refused_in_a_line(installed, tmp_path):
    other = tmp_path / "torch"
    (other / "lib").mkdir(parents=True)
    (other / "lib" / "libtorch_cpu.so").touch()
    (other / "__init__.py").touch()
    (other / "version.py").write_text("__version__ = '1.0.0+cpu'\ncuda = None\n")
    done = installed.run("envs", PYTHONPATH=f"{tmp_path}:{installed.site}")
    assert done.returncode == 2 and len(done.err.splitlines()) == 1
    assert "built with torch " in done.err and "has 1.0.0+cpu" in done.err and "pip install torch==" in done.err


def test_a_torch_in_another_folder_of_packages_is_found(installed):
    (installed.site / "torch").unlink()
    try:
        done = installed.run("--version")
    finally:
        (installed.site / "torch").symlink_to(TORCH)
    assert done.returncode == 0 and done.out.startswith("maglev "), done.err


def test_trackers_that_are_missing_are_named_with_their_extra(installed, run_folder, tmp_path):
    (tmp_path / "wandb.py").write_text('raise ModuleNotFoundError("none", name="wandb")')
    done = installed.run("sync", run_folder, "--to", "wandb", "--offline", PYTHONPATH=f"{tmp_path}:{installed.site}")
    assert done.returncode == 2 and "'maglev-engine[wandb]'" in done.err, done.err


def test_each_verb_of_the_launcher_is_there_or_wants_sources():
    assert sorted([*installed_command.FOR_SOURCES, "python", "sync", "help"]) == sorted(verbs.LAUNCHER_VERBS)


def test_help_names_its_verbs(installed):
    done = installed.run("--help")
    assert done.returncode == 0 and "maglev train ppo goodhart" in done.out
    assert "  train " in done.out and "./maglev" not in done.out
