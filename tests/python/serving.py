"""Verbs that serve pages, as a client meets them."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
from urllib.parse import urlencode, urlsplit

from conftest import ENGINE
from waiting import LONG_S


@contextlib.contextmanager
def serving(*words, cwd=None):
    """The address that the engine prints for these words; it must end in order."""
    command = [ENGINE, *map(str, words)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)
    try:
        line = server.stdout.readline()
        assert "http://" in line, server.stderr.read()
        yield re.search(r"http://\S+", line)[0]
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(LONG_S) == 0


def get(url, path, **parameters):
    answer = get_raw(url, path + ("?" + urlencode(parameters) if parameters else ""))
    assert answer[0] == 200, answer
    return json.loads(answer[2])


def get_raw(url, target, headers=None, method="GET"):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LONG_S)
    connection.request(method, target, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body
