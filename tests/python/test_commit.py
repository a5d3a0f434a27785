"""The commit that a build names: cmake/Commit.cmake, as each build runs it, in checkouts of a few files."""

import os
import re
import shutil
import subprocess

import pytest


class Checkout:
    """A folder of sources that git may know."""

    def __init__(self, folder, home):
        self.folder, self.out = folder / "sources", folder / "commit.cpp"
        self.script = home / "cmake" / "Commit.cmake"
        path = f"{home / '.venv' / 'bin'}:{os.environ['PATH']}"
        self.cmake = shutil.which("cmake", path=path)
        self.write("engine/a.cpp")

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *words):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", "-C", self.folder, *name, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-m", "more")
        return self.git("rev-parse", "HEAD")[:12]

    def built(self, *plugins, **env):
        """What a build with these folders of plug-ins now names."""
        words = ["-D", f"SOURCES={self.folder}", f"-DPLUGINS={';'.join(map(str, plugins))}"]
        words += ["-D", f"OUT={self.out}", "-P", self.script]
        subprocess.run([self.cmake, *words], check=True, env={**os.environ, **env})
        return re.search(r'kEngineCommit = "(.*)";', self.out.read_text())[1]


@pytest.fixture
def checkout(tmp_path, home):
    made = Checkout(tmp_path, home)
    made.git("init")
    return made


def test_a_build_names_the_commit_it_was_made_of(checkout):
    first = checkout.commit()
    assert checkout.built() == first
    checkout.write("engine/a.cpp", "// more")
    second = checkout.commit()
    assert second != first and checkout.built() == second


@pytest.mark.parametrize("name", ["engine/a.cpp", "envs/mine/mine.h", "verbs/watch/page/watch.js"])
def test_a_source_that_is_edited_or_new_is_a_change(checkout, name):
    commit = checkout.commit()
    checkout.write(name, "// mine")
    assert checkout.built() == commit + "+changes"
    assert checkout.built() != checkout.commit() == checkout.built()


@pytest.mark.parametrize("name", ["docs/a.md", "engine/a_test.cpp", "tests/main.cpp", "bench/b.cpp"])
def test_what_no_program_is_made_of_is_no_change(checkout, name):
    commit = checkout.commit()
    checkout.write(name, "mine")
    assert checkout.built() == commit


def test_a_build_names_the_commits_of_its_plug_ins(checkout, tmp_path, home):
    checkout.commit()
    mine, without = Checkout(tmp_path / "mine", home), tmp_path / "no checkout"
    mine.git("init")
    commit = mine.commit()
    (tmp_path / "no checkout").mkdir()

    def named():
        checkout.built(mine.folder, without, GIT_CEILING_DIRECTORIES=str(tmp_path))
        return re.findall(r'PluginFolder\{R"\((.*)\)", "(.*)"\}', checkout.out.read_text())

    assert named() == [(str(mine.folder), commit), (str(without), "")]
    mine.write("envs/mine/mine.h")
    assert named()[0][1] == commit + "+changes"
    checkout.built()
    assert "array<PluginFolder, 0>" in checkout.out.read_text()


def test_nothing_is_written_while_the_commit_is_the_same(checkout):
    checkout.commit()
    checkout.built()
    os.utime(checkout.out, (1, 1))
    checkout.built()
    assert checkout.out.stat().st_mtime == 1


def test_a_build_without_git_or_a_checkout_names_none(checkout, tmp_path, home):
    (tmp_path / "bare").mkdir()
    assert Checkout(tmp_path / "bare", home).built(GIT_CEILING_DIRECTORIES=str(tmp_path)) == ""
    checkout.commit()
    assert checkout.built(PATH=str(tmp_path)) == ""
