"""The launcher, in a copy of its files. Compiler, CMake and Ninja are stubs that note their calls;
Python's venv and pip are real, torch and numpy are a folder that looks like them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from waiting import LONG_S, wait_for, wait_for_line

FILES = ["maglev", "CMakeLists.txt", "CMakePresets.json"]
FILES += [f"requirements{name}.txt" for name in ("", "-mujoco", "-gymnasium", "-pykeen", "-test", "-wandb", "-mlflow")]
STUBS = {
    "g++": 'case "$*" in *-dumpversion*) echo 12;; *) cat >/dev/null;; esac',
    "cmake": 'case "$1" in --version) echo "cmake version 3.25.1"; exit;; esac\n'
    'echo "cmake $*" >>"$CALLS"; mkdir -p .build/release; touch .build/release/CMakeCache.txt\n'
    'exit ${CMAKE_STATUS:-0}',
    "ctest": 'echo "${CTEST_SAYS:-100% tests passed, 0 tests failed out of 7}"\n'
    'echo; echo "Total Test time (real) = 0.1 sec"; exit ${CTEST_STATUS:-0}',
    # a file named broken.cpp does not compile; the engine tells what it was given
    "ninja": 'case "$1" in --version) echo 1.11.1; exit;; esac\n'
    'echo "begin ninja $*" >>"$CALLS"; while [ -n "$NINJA_WAITS_FOR" ] && [ ! -e "$NINJA_WAITS_FOR" ]; do sleep 0.05; done\n'
    "if [ -e broken.cpp ]; then\n"
    '  printf "[1/2] Building broken.o\\nFAILED: broken.o\\n"\n'
    '  printf "g++ -c broken.cpp\\nbroken.cpp:1: error: no\\n"\n'
    '  echo "end" >>"$CALLS"; exit 1\n'
    "fi\n"
    'cp engine.sh .build/release/maglev-engine; echo "[1/1] Linking"; echo "end" >>"$CALLS"',
}
PYTEST = """
import os
status = int(os.environ.get("PYTEST_STATUS", 0))
print("1 failed, 2 passed in 0.10s" if status else "3 passed in 0.10s")
raise SystemExit(status)
"""
ENGINE = """#!/bin/sh
echo "arguments: $*"
echo "folder: $(pwd)"
echo "home: $MAGLEV_HOME"
trap 'exit 33' TERM
if [ "$2" = wait ]; then touch "$3"; while :; do sleep 0.05; done; fi
exit 7
"""


class Checkout:
    """A copy of the launcher with stubbed tools."""

    def __init__(self, folder: Path, home: Path):
        self.folder = folder / "checkout"
        self.calls_file = folder / "calls"
        self.torch = folder / "packages" / "torch"
        stubs = folder / "stubs"
        for made in (self.folder, stubs, self.torch / "lib", self.folder / "verbs" / "train"):
            made.mkdir(parents=True)
        for name in FILES:
            shutil.copy(home / name, self.folder / name)
        shutil.copytree(
            home / "launcher",
            self.folder / "launcher",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        for name, body in STUBS.items():
            (stubs / name).write_text(f"#!/bin/sh\n{body}\n")
            (stubs / name).chmod(0o755)
        shutil.copytree(
            home / "python" / "maglev_sync",
            self.folder / "python" / "maglev_sync",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        (self.folder / "engine.sh").write_text(ENGINE)
        (self.folder / "engine.sh").chmod(0o755)
        (self.folder / "verbs" / "train" / "train.cpp").write_text("// a verb\n")
        (self.torch / "__init__.py").touch()
        (self.torch / "lib" / "libtorch_cpu.so").touch()
        (self.torch / "version.py").write_text("__version__ = '2.13.0'\ncuda = None\n")
        tests = (home / "requirements-test.txt").read_text().split("\n")
        # a tracker's are wanted in their versions
        trackers = "".join((home / f"requirements-{name}.txt").read_text() for name in ("wandb", "mlflow"))
        versions = dict(re.findall(r"^([\w-]+)==(\S+)", trackers, re.M))
        for name in {"numpy", *versions, *[line.split("==")[0] for line in tests if "==" in line]}:
            package = self.torch.parent / f"{name.replace('-', '_')}-2.0.0.dist-info"
            package.mkdir()
            (package / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {versions.get(name, '2.0.0')}\n"
            )
        pytest_stub = self.torch.parent / "pytest"
        pytest_stub.mkdir()
        (pytest_stub / "__main__.py").write_text(PYTEST)
        self.env = {
            "PATH": f"{stubs}:/usr/bin:/bin",
            "HOME": str(folder),
            "CALLS": str(self.calls_file),
            "MAGLEV_NO_INSTALL": "1",
            "MAGLEV_TORCH": str(self.torch),
        }

    def start(self, *arguments, cwd=None, **env):
        return subprocess.Popen(
            [sys.executable, self.folder / "maglev", *arguments],
            cwd=cwd or self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, cwd=None, **env):
        process = self.start(*arguments, cwd=cwd, **env)
        process.out, process.err = process.communicate(timeout=LONG_S)
        return process

    def calls(self) -> list[str]:
        """The build tools' calls since the last question."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return [line.removeprefix("begin ").split()[0] for line in lines if line != "end"]


@pytest.fixture
def fresh(tmp_path, home):
    """A checkout in which nothing was run."""
    return Checkout(tmp_path, home)


@pytest.fixture(scope="module")
def made(tmp_path_factory, home):
    """A checkout that is set up and built; tests leave it so."""
    checkout = Checkout(tmp_path_factory.mktemp("made"), home)
    done = checkout.run("train")
    assert done.returncode == 7, done.err
    checkout.first_words = done.err.splitlines()[0]
    checkout.calls()
    return checkout


@pytest.fixture(scope="module")
def with_venv(tmp_path_factory, home):
    """A checkout whose .venv, which takes seconds to make, is there."""
    checkout = Checkout(tmp_path_factory.mktemp("with_venv"), home)
    done = checkout.run("setup")
    assert done.returncode == 0, done.err
    return checkout


@pytest.fixture
def anew(with_venv):
    """A checkout that is set up anew, but for the .venv."""
    (with_venv.folder / ".venv" / "maglev.json").unlink(missing_ok=True)
    return with_venv


@pytest.fixture(scope="module")
def without_numpy(tmp_path_factory, home):
    """A checkout whose numpy is missing."""
    checkout = Checkout(tmp_path_factory.mktemp("without_numpy"), home)
    shutil.rmtree(checkout.torch.parent / "numpy-2.0.0.dist-info")
    return checkout


def test_an_older_python_is_told_which_is_needed(home):
    (needed,) = re.findall(r'requires-python = ">=([\d.]+)"', (home / "pyproject.toml").read_text())
    older = f"import runpy, sys; sys.version_info = (3, {int(needed.split('.')[1]) - 1}, 0); runpy.run_path({str(home / 'maglev')!r})"
    done = subprocess.run([sys.executable, "-c", older], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"Python >= {needed} is needed, this is 3." in done.stderr, done.stderr


@pytest.mark.parametrize(
    "system, machine, largest, refused",
    [
        ("Linux", "x86_64", 2**63 - 1, None),
        ("Linux", "aarch64", 2**63 - 1, None),
        # of 32 bits on a processor that has 64
        ("Linux", "aarch64", 2**31 - 1, "this Python has 32 bits, Linux on aarch64"),
        ("Linux", "riscv64", 2**63 - 1, "this Python has 64 bits, Linux on riscv64"),
        ("Darwin", "arm64", 2**63 - 1, "this Python has 64 bits, Darwin on arm64"),
    ],
)
def test_a_machine_that_torch_has_no_packages_for_is_told_which_have(home, monkeypatch, system, machine, largest, refused):
    monkeypatch.syspath_prepend(home)
    from launcher import environment
    from launcher.console import Failure

    monkeypatch.setattr(environment.platform, "system", lambda: system)
    monkeypatch.setattr(environment.platform, "machine", lambda: machine)
    monkeypatch.setattr(environment.sys, "maxsize", largest)
    if refused is None:
        return environment.check_machine()
    with pytest.raises(Failure) as failure:
        environment.check_machine()
    assert str(failure.value) == f"[setup] Maglev runs with 64 bits as Linux on x86_64 or Linux on aarch64; {refused}"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"], ["test", "--help"]])
def test_help_names_the_main_commands_and_sets_nothing_up(fresh, arguments):
    done = fresh.run(*arguments)
    assert done.returncode == 0
    for expected in (
        "./maglev train ppo goodhart",
        "./maglev test",
        "setup",
        "clean",
        "verbs of the engine: train",
    ):
        assert expected in done.out
    assert not (fresh.folder / ".venv").exists() and not (fresh.folder / ".build").exists()


def test_unknown_verb_is_answered_with_a_near_one_before_any_set_up(fresh):
    done = fresh.run("trian", "ppo")
    assert done.returncode == 2
    assert "unknown verb 'trian'" in done.err and "did you mean train?" in done.err
    assert not (fresh.folder / ".venv").exists()


def test_unknown_preset_and_option_name_what_there_is(fresh):
    preset, option = fresh.run("build", "--preset", "fast"), fresh.run("build", "--fast")
    assert preset.returncode == option.returncode == 2
    assert "release, dev, cuda, asan, aarch64, got 'fast'" in preset.err
    assert "does not take '--fast'" in option.err


def test_missing_system_packages_are_named_in_one_line_with_the_command(fresh, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    done = fresh.run("setup", PATH=str(empty))
    assert done.returncode == 2 and len(done.err.splitlines()) == 1
    assert "g++ >= 11" in done.err and "apt-get install -y" in done.err
    assert not (fresh.folder / ".venv").exists()


def test_missing_header_is_named_with_its_package(fresh, tmp_path):
    compiler = tmp_path / "stubs" / "g++"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *-dumpversion*) echo 12;; *) echo "missing xxhash.h";; esac\n'
    )
    done = fresh.run("setup")
    assert done.returncode == 2
    assert (
        "missing: xxhash.h; install" in done.err
        and "libxxhash-dev" in done.err
        and "libgtest" not in done.err
    )


def test_old_compiler_counts_as_missing(fresh, tmp_path):
    compiler = tmp_path / "stubs" / "g++"
    compiler.write_text(compiler.read_text().replace("echo 12", "echo 9"))
    assert "missing: g++ >= 11; install" in fresh.run("setup").err


def test_wrong_torch_folder_is_refused(fresh):
    done = fresh.run("setup", MAGLEV_TORCH="/usr")
    assert done.returncode == 2 and "MAGLEV_TORCH=/usr is no torch package" in done.err


BY_CHOICE = {
    "mujoco": ("MuJoCo's environments", "libmujoco.so.1"),
    "gymnasium": ("Python's environments", "envs/registration.py"),
    "pykeen": ("PyKEEN's knowledge graphs", "datasets/umls/train.txt"),
}


@pytest.mark.parametrize("package", BY_CHOICE)
def test_wrong_folder_of_a_package_by_choice_is_refused(anew, package):
    name = f"MAGLEV_{package.upper()}"
    done = anew.run("setup", **{name: "/usr"})
    assert done.returncode == 2 and f"{name}=/usr is no {package} package" in done.err


@pytest.mark.parametrize("package", BY_CHOICE)
def test_what_is_by_choice_is_gone_without_and_setup_tries_it_again(anew, package):
    gives, proof = BY_CHOICE[package]
    done = anew.run("train")
    assert done.returncode == 7, done.err
    assert f"without {gives}: missing Python packages: {package}==" in done.err
    state = anew.folder / ".venv" / "maglev.json"
    assert json.loads(state.read_text())[package] == ""
    assert f"without {gives}" not in anew.run("train").err, "what is known to be missing is not asked for again"
    assert f"without {gives}" in anew.run("setup").err
    folder = anew.folder / "elsewhere" / package
    (folder / proof).parent.mkdir(parents=True)
    (folder / proof).touch()
    done = anew.run("setup", **{f"MAGLEV_{package.upper()}": str(folder)})
    assert done.returncode == 0 and json.loads(state.read_text())[package] == str(folder)
    shutil.rmtree(folder)
    assert f"without {gives}" in anew.run("train").err, "what is gone is looked for anew"


def test_package_that_cannot_be_fetched_is_named_in_one_line_and_no_state_is_left(without_numpy):
    done = without_numpy.run(
        "setup", MAGLEV_NO_INSTALL="", PIP_NO_INDEX="1", PIP_CONFIG_FILE="/dev/null"
    )
    errors = [line for line in done.err.splitlines() if line.startswith("maglev: ")]
    assert done.returncode == 2 and len(errors) == 1
    assert "could not fetch numpy==" in errors[0] and ".build/setup.log" in errors[0]
    assert not (without_numpy.folder / ".venv" / "maglev.json").exists()


def test_python_packages_are_not_installed_when_that_is_forbidden(without_numpy):
    done = without_numpy.run("setup")
    assert done.returncode == 2 and "missing Python packages: numpy==" in done.err


def test_the_first_line_says_what_the_first_run_does_and_how_long_it_takes(made):
    assert made.first_words.startswith("first run: fetches torch, compiles 1 files; about ")
    assert "processor(s), later ones start at once" in made.first_words
    assert "first run" not in made.run("train").err


def test_time_left_begins_with_what_files_cost_and_learns_the_builds_own_pace(home, monkeypatch):
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("MAGLEV_JOBS", "2")
    from launcher.building import SECONDS_PER_STEP, time_left

    assert time_left(0, 100, 0) == 100 * SECONDS_PER_STEP / 2
    assert abs(time_left(1000, 1100, 1000) - 100) < 2
    assert time_left(7, 7, 60) == 0


def test_version_and_help_of_a_verb_are_answered(fresh, made):
    done = fresh.run("--version")
    assert done.returncode == 0 and done.out.startswith("maglev 0.")
    assert not (fresh.folder / ".build").exists()
    assert "arguments: --version" in made.run("--version").out
    assert "arguments: train --help" in made.run("help", "train").out
    assert "./maglev test" in made.run("help", "setup").out


def test_a_commit_alone_is_built_as_the_engine_names_it(fresh):
    def git(*words):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", fresh.folder, *name, *words], check=True, capture_output=True)

    git("init")
    git("add", "launcher")
    fresh.run("train")
    fresh.calls()
    fresh.run("train")
    assert fresh.calls() == []
    git("commit", "-m", "one")
    fresh.run("train")
    assert fresh.calls() == ["ninja"]


def test_an_early_interruption_is_no_traceback(fresh):
    console = fresh.folder / "launcher" / "console.py"
    # programs that a script starts behind itself ignore it, and so would this one
    console.write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = fresh.run("train")
    assert done.returncode == 130
    assert done.err == "maglev: interrupted\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_does_not_stop_the_engine(made, closed):
    command = f'exec "{sys.executable}" "{made.folder}/maglev" train {closed}'
    done = subprocess.run(["sh", "-c", command], env=made.env, check=False, capture_output=True)
    assert done.returncode == 7, done.stderr


def test_a_wheel_wants_engine_and_module_and_says_what_it_goes_without(made):
    done = made.run("wheel")
    assert set(made.calls()) <= {"ninja"} and not (made.folder / "dist").exists()
    assert done.returncode == 2, done.err
    if Path(sysconfig.get_paths()["include"], "Python.h").exists():
        assert "whoever installs it has none of MuJoCo's environments" in done.err
        assert "[wheel] an engine and a module of Python are expected in " in done.err
    assert made.run("wheel", "here").returncode == 2


def test_another_path_builds_nothing_anew(made, tmp_path):
    (tmp_path / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "ccache").chmod(0o755)
    assert made.run("train", PATH=f"{tmp_path}:{made.env['PATH']}").returncode == 7
    assert made.calls() == []


def test_engine_gets_arguments_home_and_working_folder_and_its_status_is_returned(made, tmp_path):
    done = made.run("train", "ppo", "a b=1", cwd=tmp_path)
    assert done.returncode == 7
    assert done.out.splitlines() == [
        "arguments: train ppo a b=1",
        f"folder: {tmp_path}",
        f"home: {made.folder}",
    ]


def test_python_has_the_package_on_its_path_and_gets_arguments(made, tmp_path):
    script = "import os, sys; print(os.environ['PYTHONPATH'], os.getcwd(), *sys.argv[1:]); sys.exit(6)"
    done = made.run("python", "-c", script, "one", "--help", cwd=tmp_path, PYTHONPATH="/elsewhere")
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        assert done.returncode == 2 and "Python's headers" in done.err and "python3-dev" in done.err
        return
    assert done.returncode == 6, done.err
    assert done.out == f"{made.folder / 'python'}:/elsewhere {tmp_path} one --help\n"
    assert "ninja" in made.calls()


@pytest.mark.parametrize("words", [["sync", "--help"], ["help", "sync"]])
def test_sync_explains_itself_before_any_set_up(fresh, words):
    done = fresh.run(*words)
    assert done.returncode == 0 and "--to TRACKER" in done.out and "--follow" in done.out
    wrong = fresh.run("sync", "runs/a", "--to", "wandbb")
    assert wrong.returncode == 2 and "got 'wandbb'; did you mean wandb?" in wrong.err
    assert not (fresh.folder / ".venv").exists()


@pytest.mark.parametrize("package", ["wandb", "mlflow-skinny"])
def test_sync_names_the_packages_of_a_tracker_that_are_missing(made, package):
    found = made.torch.parent / f"{package.replace('-', '_')}-2.0.0.dist-info" / "METADATA"
    whole = found.read_text()
    try:
        for text in (f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0.0\n", None):
            found.write_text(text) if text else found.unlink()
            done = made.run("sync", "runs/a", "--to", package.split("-")[0])
            assert done.returncode == 2 and f"missing Python packages: {package}==" in done.err
    finally:
        found.write_text(whole)


def test_tests_have_trackers_packages_as_sync_fetches_them(home):
    sys.path.insert(0, str(home / "python"))
    from maglev_sync.several import TRACKERS as sent_to

    from launcher.environment import TRACKERS, requirement_lines

    assert TRACKERS == sent_to
    tests = requirement_lines("requirements-test.txt")
    assert [line for name in TRACKERS for line in requirement_lines(f"requirements-{name}.txt") if line not in tests] == []


def test_sync_wants_no_set_up(anew):
    done = anew.run("sync", "runs/a", "--to", "wandb")
    assert done.returncode == 2 and "runs/a is no folder of a run" in done.err
    assert not (anew.folder / ".venv" / "maglev.json").exists()


def test_sync_builds_nothing_and_hands_over_in_the_same_folder(made, tmp_path):
    made.calls()
    done = made.run("sync", "runs/a", "--to", "mlflow", cwd=tmp_path)
    assert done.returncode == 2 and "runs/a is no folder of a run" in done.err
    assert not made.calls()


def test_signals_reach_the_engine(made, tmp_path):
    process = made.start("train", "wait", str(tmp_path / "started"))
    wait_for((tmp_path / "started").exists, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LONG_S)
    assert process.returncode == 33


def test_nothing_is_built_while_sources_stay_the_same(made):
    made.run("train")
    assert made.calls() == []


def test_edited_added_and_removed_sources_are_built(made):
    source = made.folder / "engine" / "part.cpp"
    source.parent.mkdir(exist_ok=True)
    for change in (
        lambda: source.write_text("1"),
        lambda: source.write_text("2"),
        lambda: os.utime(source, (1, 1)),
        source.unlink,
    ):
        change()
        assert made.run("train").returncode == 7
        assert made.calls() == ["ninja"]
    made.run("train")
    assert made.calls() == []


def test_run_folders_and_documents_are_no_sources(made):
    for folder in ("runs", "docs", ".cache"):
        (made.folder / folder).mkdir()
        (made.folder / folder / "file").write_text("x")
    made.run("train")
    assert made.calls() == []


def test_removed_engine_is_built_again(made):
    (made.folder / ".build" / "release" / "maglev-engine").unlink()
    assert made.run("train").returncode == 7
    assert made.calls() == ["ninja"]


def test_changed_cmake_arguments_configure_afresh(made):
    made.run("train", MAGLEV_CMAKE_ARGS="-DMAGLEV_CUDA=OFF")
    assert made.calls() == ["cmake", "ninja"]
    made.run("train")
    assert made.calls() == ["cmake", "ninja"]


class Plugins:
    """A folder of plug-ins beside a checkout that is built; it is forgotten in the end."""

    def __init__(self, checkout, folder):
        self.checkout, self.folder = checkout, folder
        self.env = folder / "envs" / "walk" / "walk.h"
        self.env.parent.mkdir(parents=True)
        self.env.touch()

    def run(self, *words, **env):
        """The build tools' calls of a command, each with its words."""
        self.done = self.checkout.run(*(words or ["train"]), **env)
        calls = self.checkout.calls_file
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [line.removeprefix("begin ") for line in lines if line != "end"]


@pytest.fixture
def plugins(made, tmp_path):
    beside = Plugins(made, tmp_path / "my project")
    yield beside
    beside.run(MAGLEV_PLUGINS="")
    assert beside.run() == []


def test_plug_ins_are_named_once_and_seen_by_all_commands(plugins, tmp_path):
    cmake, ninja = plugins.run(MAGLEV_PLUGINS="my project", cwd=tmp_path)
    assert cmake.endswith(f"-DMAGLEV_PLUGINS={plugins.folder}") and ninja.startswith("ninja ")
    assert f"from now on with the plug-ins of {plugins.folder}" in plugins.done.err
    for env in ({}, {"cwd": "/"}, {"MAGLEV_PLUGINS": f"{plugins.folder}:{plugins.folder}"}):
        assert plugins.run(**env) == [] and "plug-ins" not in plugins.done.err
    second = Plugins(plugins.checkout, tmp_path / "second")
    both = f"{second.folder}:{plugins.folder}"
    assert plugins.run(MAGLEV_PLUGINS=both)[0].endswith(f"-DMAGLEV_PLUGINS={both.replace(':', ';')}")
    cmake, _ = plugins.run(MAGLEV_PLUGINS="")
    assert cmake.endswith("-DMAGLEV_PLUGINS=")
    assert plugins.run() == []


def test_naming_plug_ins_keeps_what_is_built(plugins):
    cmake, _ = plugins.run(MAGLEV_PLUGINS=str(plugins.folder))
    assert "--fresh" not in cmake
    # nor is it lost where CMake refuses a folder, and later commands go on with those before it
    failed = plugins.run(MAGLEV_PLUGINS="", CMAKE_STATUS="1")
    assert plugins.done.returncode == 1 and len(failed) == 1
    cmake, _ = plugins.run()
    assert "--fresh" not in cmake and cmake.endswith(f"-DMAGLEV_PLUGINS={plugins.folder}")


def test_an_edit_of_a_plug_in_is_built(plugins):
    plugins.run(MAGLEV_PLUGINS=str(plugins.folder))
    plugins.env.write_text("// more")
    assert [call.split()[0] for call in plugins.run()] == ["ninja"]
    (plugins.folder / "configs").mkdir()
    (plugins.folder / "train.py").write_text("# mine")
    (plugins.folder / "configs" / "walk.yaml").write_text("seed: 1")
    assert plugins.run() == [], "what no build reads is no source"


def test_plug_ins_stay_named_in_setup_and_clean(plugins):
    assert plugins.run("setup", MAGLEV_PLUGINS=str(plugins.folder)) == []
    plugins.run("clean")
    cmake, _ = plugins.run()
    assert cmake.endswith(f"-DMAGLEV_PLUGINS={plugins.folder}")


def test_a_folder_without_plug_ins_is_refused(plugins, tmp_path):
    (tmp_path / "empty").mkdir()
    for wrong in ("/nowhere", str(tmp_path / "empty"), str(plugins.env.parent.parent)):
        assert plugins.run(MAGLEV_PLUGINS=wrong) == []
        assert plugins.done.returncode == 2 and len(plugins.done.err.splitlines()) == 1
        assert f"MAGLEV_PLUGINS: {wrong} is no folder with envs, " in plugins.done.err
    plugins.run(MAGLEV_PLUGINS=str(plugins.folder))
    shutil.rmtree(plugins.folder)
    assert plugins.run() == []
    assert f"{plugins.folder}, which was named before, is no folder" in plugins.done.err


def test_verbs_of_plug_ins_are_known_before_the_first_build(fresh, tmp_path):
    verb = tmp_path / "mine" / "verbs" / "hello" / "hello.cpp"
    verb.parent.mkdir(parents=True)
    verb.touch()
    done = fresh.run("helo", MAGLEV_PLUGINS=str(tmp_path / "mine"))
    assert done.returncode == 2 and "did you mean hello" in done.err, done.err


@pytest.mark.parametrize(
    "told, built_for",
    [
        ("9.0", "90"),
        ("12.0\\n8.6\\n8.6\\n7.5", "75;86;100"),  # the newest that this nvcc knows, for a newer one
        ("7.0\\n8.6", "86"),  # one that it no longer knows
        ("7.0", "80;90"),
        ("[N/A]", "80;90"),
        (None, "80;90"),
    ],
)
def test_device_code_is_built_for_the_gpus_that_are_here(told, built_for, home, tmp_path):
    asked = tmp_path / "asked.cmake"
    asked.write_text(
        f'include({home}/cmake/Capabilities.cmake)\nmaglev_capabilities(here {tmp_path}/nvcc)\nmessage("for ${{here}}.")\n'
    )
    tools = {"nvcc": "compute_75\\ncompute_80\\ncompute_86\\ncompute_90\\ncompute_100\\n"}
    if told is not None:
        tools["nvidia-smi"] = told + "\\n"
    for name, prints in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{prints}'\n")
        (tmp_path / name).chmod(0o755)
    path = {"PATH": str(tmp_path)}
    words = [shutil.which("cmake"), "-P", asked]
    done = subprocess.run(words, env={**os.environ, **path}, capture_output=True, text=True, check=True)
    assert f"for {built_for}." in done.stderr, done.stderr


def test_failed_build_shows_the_messages_and_is_tried_again(made):
    (made.folder / "broken.cpp").touch()
    for _ in range(2):
        done = made.run("train")
        assert done.returncode == 1
        assert "broken.cpp:1: error: no" in done.err and "g++ -c" not in done.err
        assert "g++ -c broken.cpp" in (made.folder / ".build" / "release" / "build.log").read_text()
        assert made.calls() == ["ninja"]
    (made.folder / "broken.cpp").unlink()
    assert made.run("train").returncode == 7
    made.calls()


@pytest.mark.parametrize(
    ("ctest_says", "ctest_status", "pytest_status", "status"),
    [
        ("100% tests passed, 0 tests failed out of 7", 0, 0, 0),
        ("100% tests passed out of 7", 0, 0, 0),
        ("86% tests passed, 1 tests failed out of 7", 8, 0, 1),
        ("100% tests passed out of 7", 0, 1, 1),
    ],
)
def test_both_summaries_come_last_and_either_failure_counts(
    made, ctest_says, ctest_status, pytest_status, status
):
    done = made.run(
        "test",
        CTEST_SAYS=ctest_says,
        CTEST_STATUS=str(ctest_status),
        PYTEST_STATUS=str(pytest_status),
    )
    made.calls()
    pytest_says = "1 failed, 2 passed in 0.10s" if pytest_status else "3 passed in 0.10s"
    assert done.out.splitlines()[-2:] == [ctest_says, pytest_says]
    assert done.returncode == status


def test_two_builds_at_once_run_one_after_the_other(made, tmp_path):
    (made.folder / "new.cpp").touch()
    made.calls()
    first = made.start("build", NINJA_WAITS_FOR=str(tmp_path / "go on"))
    wait_for(made.calls_file.exists, first)
    second = made.start("build")
    wait_for_line(second.stderr, "waiting for another ./maglev")
    (tmp_path / "go on").touch()
    for process in (first, second):
        process.communicate(timeout=LONG_S)
    lines = [line.split()[0] for line in made.calls_file.read_text().splitlines()]
    made.calls()
    assert lines == ["begin", "end", "begin", "end"]


def test_set_up_runs_again_only_when_requirements_change(made):
    log = made.folder / ".build" / "setup.log"
    state = made.folder / ".venv" / "maglev.json"
    before = log.stat().st_mtime_ns
    assert made.run("build").returncode == 0
    assert log.stat().st_mtime_ns == before
    key = json.loads(state.read_text())["key"]
    with open(made.folder / "requirements.txt", "a") as requirements:
        requirements.write("# changed\n")
    assert made.run("build").returncode == 0
    assert log.stat().st_mtime_ns != before and json.loads(state.read_text())["key"] != key


def test_half_made_environment_is_repaired(made):
    python = made.folder / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python")
    done = made.run("setup")
    assert done.returncode == 0, done.err
    assert subprocess.run([python, "-m", "pip", "--version"], check=False).returncode == 0


def test_clean_removes_the_build_and_leaves_runs_and_environment(fresh):
    for folder in (".build/release", ".venv", ".carry", "runs"):
        (fresh.folder / folder).mkdir(parents=True)
    assert fresh.run("clean").returncode == 0
    assert not (fresh.folder / ".build" / "release").exists() and (fresh.folder / ".venv").exists()
    assert fresh.run("clean", "--all").returncode == 0
    assert not (fresh.folder / ".venv").exists() and (fresh.folder / "runs").exists()
