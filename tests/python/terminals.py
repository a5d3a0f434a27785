"""`maglev play` at a terminal of the test's own."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from conftest import ENGINE, HOME
from waiting import LONG_S


def at_a_terminal(arguments, keys, cwd=None, taps=()):
    """Plays in a terminal of 100 by 40; gives the exit status, what it showed, and its settings before and after.
    When step 3 is shown `keys` are pressed, or a signal of that number comes. Before, one of `taps` is pressed whenever
    half a second has passed and the step that has its place is the last one shown."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    before = termios.tcgetattr(slave)
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [ENGINE, "play", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "MAGLEV_HOME": str(HOME)},
        cwd=cwd,
        start_new_session=True,
    )
    shown, end, sent = b"", time.monotonic() + LONG_S, False
    tapped, due = 0, time.monotonic() + 0.5
    while process.poll() is None and time.monotonic() < end:
        if select.select([master], [], [], 0.05)[0]:
            shown += os.read(master, 65536)
        if not sent and b"step 3" in shown:
            if isinstance(keys, int):
                process.send_signal(keys)
            else:
                os.write(master, keys)
            sent = True
        if tapped < len(taps) and b"step 0" in shown and time.monotonic() > due:
            last = int(re.findall(rb"step (\d+),", shown)[-1])
            assert last <= tapped, "more steps than keys"
            if last < tapped:
                continue
            os.write(master, taps[tapped])
            tapped, due = tapped + 1, time.monotonic() + 0.5
    while select.select([master], [], [], 0.05)[0]:
        shown += os.read(master, 65536)
    process.kill()
    after = termios.tcgetattr(slave)
    os.close(master)
    os.close(slave)
    return process.wait(), shown.decode(errors="replace"), before, after
