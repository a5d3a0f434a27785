"""What parity tests share: a fixture from tests/parity, and a program of ours that goes through it again."""

import os
import subprocess
import sys

from conftest import BUILD, HOME

PARITY = HOME / "tests" / "parity"
# its modules are imported by name
sys.path.insert(0, str(PARITY))


def replay_of(name, folder, **environment):
    """Lines of NAME_replay by case: {case: {quantity: worst difference, or "verdict": "ok"}}."""
    subprocess.run([sys.executable, PARITY / f"{name}_fixture.py", folder], check=True, env={**os.environ, **environment})
    done = subprocess.run([BUILD / "tests" / f"{name}_replay", folder], stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, 1), f"{name}_replay ended with status {done.returncode}"
    cases = {}
    for case, word, *figure in (line.split(maxsplit=2) for line in done.stdout.splitlines()):
        cases.setdefault(case, {})["verdict" if not figure else word] = figure[0] if figure else word
    return cases
