"""The page of traces: its answers as a client meets them, and the page in a browser."""

import functools
import gzip
import json
import re

import pytest
from serving import get, get_raw, serving
from waiting import wait_for

watching = functools.partial(serving, "watch")
LAYERS = ("collect", "update")


def make_run(folder, iterations=40, kernels=50, name="iter_1-40.json.gz"):
    """A run with one trace: iterations of 1 ms, two stages each, kernels in the second; and a thread of the pool."""
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    status = {"algo": "ppo", "env": "cartpole", "state": "finished", "steps": 1, "total_steps": 1, "return_mean": 1.0}
    status |= {"started": 1.0, "ended": 2.0, "updated": 2.0, "pid": 1, "host": "elsewhere", "message": ""}
    (folder / "run.json").write_text(json.dumps(status))
    (folder / "config.yaml").write_text("seed: 1\n")
    events = [{"ph": "M", "name": "thread_name", "pid": 7, "tid": t, "args": {"name": n}} for t, n in ((1, "main"), (2, "pool 1"))]

    def span(category, name, tid, begin, length, **args):
        events.append({"ph": "X", "cat": category, "name": name, "pid": 7, "tid": tid, "ts": begin, "dur": length, "args": args})

    for i in range(iterations):
        at = 1000.0 * i
        span("stage", "iteration", 1, at, 990, step=i, cycles=3000, instructions=6000)
        span("stage", "collect", 1, at, 400)
        span("stage", "update", 1, at + 400, 590)
        for k in range(kernels):
            span("kernel_cpu", "rare_gemm" if k == 7 else "dense", 1, at + 410 + k * 500 / kernels, 400 / kernels, flops=1000, bytes=64)
        span("wait", "idle", 2, at, 900, on="pool")
    about = {"algorithm": "ppo", "environment": "cartpole", "run": str(folder.name), "dropped": 0}
    file = folder / "traces" / name
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": events, "maglev": about}).encode()))
    (folder / "traces" / name.replace(".json.gz", ".perfetto")).write_bytes(b"\x0a\x02hi")
    return folder


def asked(run="a", trace="iter_1-40.json.gz", **more):
    return {"run": run, "trace": trace, **more}


def test_a_trace_is_served_in_boxes_of_what_can_be_seen(tmp_path):
    make_run(tmp_path / "runs" / "a")
    with watching(tmp_path / "runs", "--port", "0") as url:
        (listed,) = get(url, "/api/traces", run="a")["traces"]
        assert listed["name"] == "iter_1-40.json.gz" and listed["perfetto"] == 4
        trace = get(url, "/api/trace", **asked())
        assert trace["length"] == 39_990_000 and trace["whole"] and trace["about"]["algorithm"] == "ppo"
        assert [(t["name"], t["rows"]) for t in trace["tracks"]] == [("main", 3), ("pool 1", 1)]
        whole = get(url, "/api/boxes", **asked(width=500))
        near = get(url, "/api/boxes", **asked(low=0, high=1_000_000, width=2000, find="GEMM"))
        assert sum(box[5] for box in whole["boxes"]) == 40 * 54
        assert len(whole["boxes"]) < 1000
        named = {near["names"][box[4]]: box for box in near["boxes"]}
        assert named["rare_gemm"][6] == 1 and named["dense"][6] == 0
        assert "FLOPs 1000" in named["dense"][8] and "GFLOP/s" in named["dense"][8]
        assert "IPC 2" in named["iteration"][8] and named["idle"][8] == "waits for pool"
        rows = {row["name"]: row for row in get(url, "/api/self", **asked())["rows"]}
        assert rows["collect"]["self"] == 40 * 400_000 and rows["collect"]["calls"] == 40
        assert rows["dense"]["self"] == pytest.approx(40 * 49 * 8000)
        found = get(url, "/api/find", **asked(find="rare"))
        assert found["spans"] == 40 and found["next"]["begin"] == 480_000
        assert get(url, "/api/find", **asked(find="rare", after=480_000))["next"]["begin"] == 1_480_000
        status, headers, body = get_raw(url, "/perfetto?run=a&trace=iter_1-40.json.gz")
        assert status == 200 and body == "\n\x02hi"
        assert headers["Content-Disposition"] == 'attachment; filename="iter_1-40.perfetto"'


def test_nothing_but_traces_of_runs_is_served(tmp_path):
    make_run(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "a" / "traces" / "broken.json").write_text("{")
    (tmp_path / "runs" / "a" / "traces" / "notes.txt").write_text("secret")
    with watching(tmp_path / "runs", "--port", "0") as url:
        for path in ("/api/trace", "/api/boxes", "/api/self", "/api/find", "/perfetto"):
            for name in ("../run.json", "notes.txt", "..%2Fconfig.json", "", "broken.json", "none.json.gz"):
                status, _, body = get_raw(url, f"{path}?run=a&trace={name}")
                assert status == 404 and "secret" not in body and "seed" not in body, (path, name)
        assert get_raw(url, "/api/boxes?run=a&trace=iter_1-40.json.gz&low=x")[0] == 404
        assert get_raw(url, "/api/trace?run=b&trace=iter_1-40.json.gz")[0] == 404
        # views that are none are the nearest that is one
        for view in ("low=-5&high=1e300", "low=9e18&high=0", "width=-1", "width=999999999"):
            assert get_raw(url, f"/api/boxes?run=a&trace=iter_1-40.json.gz&{view}")[0] == 200


def test_several_hundred_thousand_spans_are_few_boxes(tmp_path):
    make_run(tmp_path / "runs" / "a", iterations=400, kernels=1000)
    with watching(tmp_path / "runs", "--port", "0") as url:
        assert get(url, "/api/trace", **asked())["spans"] > 400_000
        for low, high in ((0, 4e8), (0, 4e7), (1e8, 1.01e8), (1e8, 1.0001e8)):
            _, _, body = get_raw(url, f"/api/boxes?run=a&trace=iter_1-40.json.gz&low={low}&high={high}&width=1500")
            assert len(body) < 1_000_000 and len(json.loads(body)["boxes"]) <= 4 * 2 * 1500


SHOWN = "document.querySelectorAll('#self tbody tr').length > 2"


def view_of(browser):
    """Low and high of the view, as the address keeps them; None: the whole trace."""
    words = dict(re.findall(r"(low|high)=(\d+)", browser.run("location.hash")))
    return (int(words["low"]), int(words["high"])) if words else None


def test_the_page_shows_searches_and_zooms(browser, tmp_path):
    make_run(tmp_path / "runs" / "a")
    make_run(tmp_path / "runs" / "b", iterations=4, name="iter_9.json.gz")
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url + "traces.html#run=a")
        browser.wait(SHOWN)
        assert "ppo on cartpole" in browser.run("document.querySelector('#state').textContent")
        assert view_of(browser) is None
        # what is drawn is no empty picture
        colours = "(() => { const c = document.querySelector('#canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return s.size })()"
        browser.wait(f"{colours} > 8")
        # keys
        browser.run("document.querySelector('#view').focus()")
        browser.press("+")
        browser.press("+")
        low, high = view_of(browser)
        assert high - low == pytest.approx(0.49 * 39_990_000, rel=0.01)
        browser.press("ArrowRight")
        assert view_of(browser)[0] > low
        browser.press("0")
        assert view_of(browser) is None
        # wheel, at a quarter of the width
        box = browser.run("(({x, y, width, height}) => [x, y, width, height])(document.querySelector('#view').getBoundingClientRect())")
        browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=box[0] + box[2] / 4, y=box[1] + 100, deltaX=0, deltaY=-800)
        browser.wait("location.hash.includes('low=')")
        low, high = view_of(browser)
        assert low + (high - low) / 4 == pytest.approx(39_990_000 / 4, rel=0.02)
        before = view_of(browser)
        browser.drag(box[0] + box[2] / 2, box[0] + box[2] / 4, box[1] + 100)
        assert view_of(browser)[0] > before[0]
        # search
        browser.press("/")
        assert browser.run("document.activeElement.id") == "find"
        browser.call("Input.insertText", text="rare")
        browser.wait("document.querySelector('#found').textContent.startsWith('40 spans')")
        browser.run("document.querySelector('#next').click()")
        browser.wait("location.hash.includes('low=472000')")
        browser.run("document.querySelector('#next').click()")
        browser.wait("location.hash.includes('low=1472000')")
        # what lies under the pointer: the found span is in the middle
        browser.wait("performance.getEntriesByType('resource').filter((e) => e.name.includes('low=1464') && e.name.includes('/api/boxes')).length > 0")
        tip = "document.querySelector('#tip').hidden ? '' : document.querySelector('#tip').textContent"
        at = {"x": box[0] + box[2] / 2, "y": box[1] + 20 + 18 + 2 * 17 + 8}
        wait_for(lambda: browser.call("Input.dispatchMouseEvent", type="mouseMoved", **at) is not None and "rare_gemm" in browser.run(tip))
        assert "rare_gemm: 8.0 µs at 1.480 ms; bytes 64, FLOPs 1000" in browser.run(tip)
        # another run
        browser.run("(r => { r.value = 'b'; r.dispatchEvent(new Event('change')) })(document.querySelector('#run'))")
        browser.wait("location.hash.includes('iter_9')")
        assert browser.run("document.querySelector('#perfetto').getAttribute('href')") == "/perfetto?run=b&trace=iter_9.json.gz"
        assert not browser.faults()
        assert all(address.startswith((url, "data:", "about:")) for address in browser.addresses())


def test_the_ruler_has_the_digits_that_its_marks_need(browser, tmp_path):
    make_run(tmp_path / "runs" / "a")
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url + "traces.html")
        browser.wait(SHOWN)
        marks = "import('/flame.js').then(({mark}) => [%s].map((k) => mark(k, %s)))"
        assert browser.run(marks % ("0, 5e7, 1e8, 1e9, 1.05e9", "5e7")) == ["0", "50 ms", "100 ms", "1.00 s", "1.05 s"]
        # far from the begin and near each other
        assert browser.run(marks % ("300e6, 300e6 + 50, 300e6 + 100", "50")) == ["300.00000 ms", "300.00005 ms", "300.00010 ms"]
        assert not browser.faults()


def test_two_fingers_zoom(browser, tmp_path):
    make_run(tmp_path / "runs" / "a")
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        browser.open(url + "traces.html#run=a")
        browser.wait(SHOWN)
        x, y = browser.run("(({x, y, width}) => [x + width / 2, y + 100])(document.querySelector('#view').getBoundingClientRect())")

        def touch(kind, *xs):
            browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": at, "y": y, "id": i} for i, at in enumerate(xs)])

        touch("touchStart", x - 100, x + 100)
        touch("touchMove", x - 200, x + 200)
        touch("touchEnd")
        browser.wait("location.hash.includes('low=')")
        low, high = view_of(browser)
        assert high - low == pytest.approx(39_990_000 / 2, rel=0.05)
        assert not browser.faults()


def test_a_run_without_traces_says_how_to_record_one(browser, tmp_path):
    run = make_run(tmp_path / "runs" / "a")
    for file in (run / "traces").iterdir():
        file.unlink()
    with watching(tmp_path / "runs", "--port", "0") as url:
        assert get(url, "/api/traces", run="a") == {"traces": []}
        browser.open(url + "traces.html")
        browser.wait("document.querySelector('#state')?.textContent.includes('trace.window=50-55')")
        assert not browser.faults()


def test_the_newest_run_that_has_traces_is_shown_first(browser, tmp_path):
    make_run(tmp_path / "runs" / "traced")
    for file in (make_run(tmp_path / "runs" / "bare") / "traces").iterdir():
        file.unlink()
    status = json.loads((tmp_path / "runs" / "bare" / "run.json").read_text())
    (tmp_path / "runs" / "bare" / "run.json").write_text(json.dumps(status | {"started": 9.0}))
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url + "traces.html")
        browser.wait("document.querySelector('#state')?.textContent.includes('ppo on cartpole')")
        assert browser.run("document.querySelector('#run').value") == "traced"
        # one that was asked for stays
        browser.open(url + "traces.html?again#run=bare")
        browser.wait("document.querySelector('#state')?.textContent.includes('trace.window=50-55')")
        assert not browser.faults()


def test_traces_that_are_recorded_while_the_page_is_open_are_offered(browser, tmp_path):
    run = make_run(tmp_path / "runs" / "a")
    for file in (run / "traces").iterdir():
        file.unlink()
    state = "document.querySelector('#state')?.textContent"
    newest = "document.querySelector('#newest')"
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url + "traces.html")
        browser.wait(f"{state}.includes('trace.window=50-55')")
        # the first is shown, for nothing else is
        make_run(tmp_path / "runs" / "a")
        browser.wait(SHOWN)
        browser.run("document.querySelector('#view').focus()")
        browser.press("+")
        view = view_of(browser)
        assert view and browser.run(f"{newest}.hidden")
        # later ones leave the view as it is
        make_run(tmp_path / "runs" / "a", iterations=4, name="iter_60-63.json.gz")
        make_run(tmp_path / "runs" / "b")
        browser.wait(f"!{newest}.hidden")
        assert browser.run(f"{newest}.textContent") == "newest: iter_60-63.json.gz"
        assert view_of(browser) == view and browser.run("document.querySelector('#trace').value") == "iter_1-40.json.gz"
        browser.wait("document.querySelectorAll('#run option').length === 2")
        assert browser.run("document.querySelector('#run').value") == "a"
        browser.run(f"{newest}.click()")
        browser.wait(f"location.hash.includes('iter_60-63') && {newest}.hidden")
        assert not browser.faults()


def test_the_page_is_for_everybody(browser, tmp_path):
    """Narrow, dark, and what axe-core finds."""
    make_run(tmp_path / "runs" / "a")
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.resize(380, 800)
        browser.open(url + "traces.html")
        browser.wait(SHOWN)
        browser.expect_for_everybody()
