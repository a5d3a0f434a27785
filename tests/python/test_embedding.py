"""The programs of examples/programs, which embed the engine."""

import subprocess


def test_a_program_around_the_engine_hears_of_its_run(build_folder, tmp_path):
    small = ["env.count=8", "ppo.rollout=64", "ppo.minibatch=256", "train.steps=4096", "threads=1"]
    run = tmp_path / "run"
    program = build_folder / "example_progress"
    done = subprocess.run(
        [program, run, *small], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    *longer, summary = done.stdout.splitlines()
    lasted = [int(line.split()[-2]) for line in longer]
    assert len(lasted) > 1 and lasted == sorted(set(lasted))
    words = summary.split()
    assert words[1] == "episodes," and int(words[5]) == lasted[-1]
    assert 0 < float(words[-1]) < 0.7  # of two actions, at most log 2
    assert (run / "metrics.jsonl").exists()

    # a mistake is one line
    done = subprocess.run([program, run], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2 and done.stderr.startswith("progress: ")
