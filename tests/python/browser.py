"""A headless Chromium, spoken to over pipes (DevTools protocol): tests of pages need no package for it."""

import base64
import importlib.util
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from waiting import LONG_S

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def axe_script():
    """axe-core: of a package of requirements-test.txt, or another one at $MAGLEV_AXE."""
    package = importlib.util.find_spec("axe_core_python")
    file = os.environ.get("MAGLEV_AXE") or (package and Path(package.origin).parent / "axe.min.js")
    if not file:
        pytest.skip("axe-core is not here: install requirements-test.txt, or set MAGLEV_AXE to its axe.min.js")
    return Path(file).read_text()


class Browser:
    """One page of one browser."""

    def __init__(self, profile, width=1280, height=900):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if not program:
            pytest.skip("no Chromium is installed: apt-get install chromium")
        self.ids = itertools.count(1)
        self.messages = []
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += ["--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe"]

        # the browser reads commands at 3 and writes answers at 4
        def take_pipes():
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [program, *flags, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=take_pipes,
            close_fds=False,
        )
        os.close(to_read)
        os.close(to_write)
        self.waiting = b""
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)

    def receive(self, until):
        while b"\0" not in self.waiting:
            left = until - time.monotonic()
            assert left > 0 and select.select([self.answers], [], [], left)[0], "the browser gives no answer"
            piece = os.read(self.answers, 1 << 20)
            assert piece, "the browser ended"
            self.waiting += piece
        text, self.waiting = self.waiting.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, timeout_s=LONG_S, **parameters):
        number = next(self.ids)
        command = {"id": number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + timeout_s
        while True:
            message = self.receive(until)
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self.messages.append(message)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def run(self, script, timeout_s=LONG_S):
        """The value of an expression, or of the promise it gives."""
        answer = self.call("Runtime.evaluate", timeout_s, expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition, timeout_s=LONG_S):
        """Until the expression holds; returns its value."""
        until = time.monotonic() + timeout_s
        while not (value := self.run(condition)):
            assert time.monotonic() < until, f"not within {timeout_s} s: {condition}\n{self.faults()}"
            time.sleep(0.1)
        return value

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def drag(self, from_x, to_x, y):
        for kind, x, buttons in (("mouseMoved", from_x, 0), ("mousePressed", from_x, 1), ("mouseMoved", to_x, 1), ("mouseReleased", to_x, 0)):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=buttons, **button)

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def serious_faults(self):
        """What axe-core finds that keeps people from using the page."""
        self.run(axe_script() + "; 0")
        found = self.run("axe.run().then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes.map((n) => n.html).slice(0, 3)]))")
        return [fault for fault in found if fault[0] in ("serious", "critical")]

    def expect_for_everybody(self):
        """Of the page that is open at a width of 380: nothing is cut off, dark is dark, and axe-core finds nothing serious."""
        assert self.run("document.documentElement.scrollWidth") <= 380
        self.resize(1280, 900)
        light = self.run("getComputedStyle(document.body).backgroundColor")
        self.colours("dark")
        assert self.run("getComputedStyle(document.body).backgroundColor") != light
        for scheme in ("light", "dark"):
            self.colours(scheme)
            assert not self.serious_faults()

    def faults(self):
        """Errors in scripts, and what the page's rules forbade."""
        self.run("0")
        found = [m["params"] for m in self.messages if m.get("method") == "Runtime.exceptionThrown"]
        found += [m["params"] for m in self.messages if m.get("method") == "Log.entryAdded" and m["params"]["entry"]["level"] == "error"]
        return found

    def addresses(self):
        """Everything the page asked for."""
        return [m["params"]["request"]["url"] for m in self.messages if m.get("method") == "Network.requestWillBeSent"]
