"""How tests wait: for a state, never for a time. A deadline is for what never comes, however slow the machine is."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

# as long as a program that is to end may take
LONG_S = 300


def wait_for(condition, process=None, timeout_s=LONG_S):
    """What the condition gives, once it is true; of a process that ended before, what it said."""
    deadline = time.monotonic() + timeout_s
    # what a process did last counts
    over = False
    while not (found := condition()):
        assert not over, process.stderr.read() if process.stderr else "it ended"
        over = process is not None and process.poll() is not None
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)
    return found


def wait_for_line(stream, text):
    """What a program writes up to a line with this text in it."""
    said = ""
    while text not in said:
        line = stream.readline()
        assert line, said
        said += line
    return said


def ask_twice(pid, number):
    """One request to end that comes as two signals: what stands still meanwhile hears both at once."""
    other = signal.SIGTERM if number != signal.SIGTERM else signal.SIGQUIT
    for each in (signal.SIGSTOP, number, other, signal.SIGCONT):
        os.kill(pid, each)


class Gate:
    """Until it is opened, runs in whose words it is stand still behind their tenth step."""

    def __init__(self, file):
        pytest.importorskip("gymnasium")
        self.file = file
        # the words of a run, and where the environment is found
        kwargs = json.dumps({"file": str(file)})
        self.words = ["ppo", "gymnasium", "env.id=gym_samples:Gate-v0", f"env.kwargs={kwargs}", "env.workers=1"]
        self.env = {"PYTHONPATH": str(Path(__file__).parent)}

    def wait_for(self, count, process):
        """Until so many runs have come to it, of those that the process is or began."""
        wait_for(lambda: len(list(self.file.parent.glob(f"{self.file.name}.*"))) >= count, process)

    def open(self):
        self.file.touch()
