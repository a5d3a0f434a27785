"""tests/together.sh: what ctest's entry of a case says, beside a program that talks as GoogleTest does."""

import subprocess

import pytest

PROGRAM = r"""#!/bin/sh
case "$1" in
--gtest_filter=-*) ;;
*) echo "alone $*"; exit 5 ;;
esac
echo "[ RUN      ] Sum.of_two"
echo "[       OK ] Sum.of_two (3 ms)"
printf "no end of line "
echo "[ RUN      ] All/Sum.holds/1"
echo "[  SKIPPED ] All/Sum.holds/1 (0 ms)"
echo "[ RUN      ] All/Sum.holds/10"
echo "sum_test.cpp:7: Failure" >&2
echo "[  FAILED  ] All/Sum.holds/10, where GetParam() = 10 (1 ms)"
echo "[ RUN      ] Sum.of_none"
echo "a fault"
kill -SEGV $$
"""


@pytest.fixture
def entry(tmp_path, home):
    """entry.part() and entry.case(name): commands of ctest, whose place this process takes."""
    program = tmp_path / "sum_tests"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    def run(*words):
        command = ["sh", home / "tests" / "together.sh", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    run.log = tmp_path / "sum_tests.part_0.log"
    run.part = lambda: run("--into", run.log, program, "--gtest_filter=-Apart.*")
    run.case = lambda name: run(program, f"--gtest_filter={name}", "--gtest_also_run_disabled_tests")
    return run


def test_a_case_says_what_was_said_of_it_among_the_others(entry):
    part = entry.part()
    assert part.returncode not in (0, 5) and str(entry.log) in part.stdout
    held = entry.case("Sum.of_two")
    assert (held.returncode, held.stdout) == (0, "[ RUN      ] Sum.of_two\n[       OK ] Sum.of_two (3 ms)\n")
    skipped = entry.case("All/Sum.holds/1")
    # what ctest counts as skipped by
    assert skipped.returncode == 0 and "[  SKIPPED ]" in skipped.stdout and "Failure" not in skipped.stdout
    failed = entry.case("All/Sum.holds/10")
    assert failed.returncode == 1 and "sum_test.cpp:7: Failure" in failed.stdout and "fault" not in failed.stdout


def test_a_case_in_which_the_process_ended_failed(entry):
    entry.part()
    ended = entry.case("Sum.of_none")
    assert ended.returncode == 1 and "a fault" in ended.stdout


def test_a_case_that_was_not_run_runs_alone(entry):
    alone = (5, "alone --gtest_filter=Sum.of_two --gtest_also_run_disabled_tests\n")
    before = entry.case("Sum.of_two")
    assert (before.returncode, before.stdout) == alone
    entry.part()
    assert entry.case("Sum.of_many").returncode == 5 and entry.case("Sum.of").returncode == 5
    # what another ctest kept is of another build
    said = entry.log.read_text().split("\n", 1)
    entry.log.write_text("ctest 1 1\n" + said[1])
    after = entry.case("Sum.of_two")
    assert (after.returncode, after.stdout) == alone
