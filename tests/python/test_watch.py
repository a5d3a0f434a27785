"""maglev watch: the server as a client meets it, and the page in a browser."""

import functools
import json
import math
import os
import re
import signal
import subprocess
from urllib.parse import urlencode, urlsplit

import pytest
from conftest import ENGINE, HOME
from serving import get, get_raw, serving
from waiting import LONG_S, wait_for

TIMES = {"time/environment": 0.2, "time/policy": 0.3, "time/learn": 0.45, "time/copy": 0.01}


watching = functools.partial(serving, "watch")


def make_run(folder, rows=50, state="finished", seed=1, lr=3e-4, started=1.0, gain=1.0, message=""):
    folder.mkdir(parents=True)
    status = {"algo": "ppo", "env": "cartpole", "state": state, "steps": 100 * rows, "total_steps": 100 * rows}
    status |= {"return_mean": gain * rows, "started": started, "ended": 2.0, "updated": 2.0, "pid": 1, "host": "elsewhere", "message": message}
    (folder / "run.json").write_text(json.dumps(status))
    (folder / "config.yaml").write_text(f"seed: {seed}\nppo:\n  lr: {lr}\n  epochs: 4\n")
    with (folder / "metrics.jsonl").open("w") as file:
        for i in range(rows):
            row = {"step": 100 * (i + 1), "seconds": 0.1 * i, "steps_per_second": 1000.0, "return_mean": gain * i + 3 * math.sin(seed + i / 3)}
            row |= {"episodes": i, "loss/entropy": 1 / (1 + i), "loss/explained_variance": i / rows, "events/food_per_1k": i % 7, "actions/0": i / rows, "actions/1": 1 - i / rows, **TIMES}
            file.write(json.dumps(row) + "\n")
    return folder


@pytest.fixture(scope="module")
def trained(engine, tmp_path_factory):
    """A small real run."""
    run = tmp_path_factory.mktemp("watch") / "runs" / "real"
    done = engine("train", "ppo", "cartpole", "train.steps=20000", "train.log_every=2000", "--sinks", "jsonl", "--out", run)
    assert done.returncode == 0, done.stderr
    return run


def test_a_real_run_is_served(trained):
    with watching(trained.parent, "--port", "0") as url:
        (run,) = get(url, "/api/runs")["runs"]
        assert run["name"] == "real" and run["state"] == "finished" and run["env"] == "cartpole"
        assert run["labels"] == {"actions/0": "push left", "actions/1": "push right"}
        assert get(url, "/api/settings", run="real")["settings"]["ppo.epochs"].isdigit()
        curves = get(url, "/api/curves", run="real", points=100)
        rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
        assert curves["rows"] == len(rows) and curves["read"] == 1 and curves["damaged"] == 0
        speed = curves["columns"]["steps_per_second"]
        assert speed["step"] == [row["step"] for row in rows]
        assert speed["mean"] == pytest.approx([row["steps_per_second"] for row in rows], rel=1e-5)
        assert speed["seconds"] == pytest.approx([row["seconds"] for row in rows], rel=1e-5)
        # of a policy, how often each action was taken, whatever it is
        left, right = (curves["columns"][f"actions/{k}"]["mean"] for k in range(2))
        assert [a + b for a, b in zip(left, right)] == pytest.approx([1] * len(rows), rel=1e-5) and 0 < left[0] < 1
        assert set(curves["columns"]) == {key for row in rows for key in row} - {"step", "seconds"}
        # asked again with what came before, only what may still change comes
        more = get(url, "/api/curves", run="real", points=100, generation=curves["generation"], **{"from": curves["next"]})
        assert len(more["columns"].get("steps_per_second", {"step": []})["step"]) <= 1
        status, headers, page = get_raw(url, "/")
        assert status == 200 and headers["Content-Type"].startswith("text/html") and "<main>" in page
        assert "uPlot (v1.6" in get_raw(url, "/uPlot.iife.min.js")[2]


def test_pages_name_only_what_is_in_the_program():
    for folder in ("base/web/page", "verbs/watch/page", "verbs/play/page"):
        for file in (HOME / folder).iterdir():
            text = file.read_text().replace("http://www.w3.org/2000/svg", "")
            assert "://" not in text and '"//' not in text, f"{file} names another machine"


def test_others_are_refused(trained):
    with watching(trained, "--port", "0") as url:
        port = urlsplit(url).port
        assert get_raw(url, "/api/runs", {"Host": f"evil.example:{port}"})[0] == 403
        assert get_raw(url, "/api/runs", {"Origin": "http://evil.example"})[0] == 403
        assert get_raw(url, "/api/runs", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "empty"})[0] == 403
        assert get_raw(url, "/api/runs", method="POST")[0] == 405
        # nothing but runs that are listed
        for run in ("/etc", "../real", "real", ""):
            assert get_raw(url, "/api/settings?" + urlencode({"run": run}))[0] == 404
        assert get_raw(url, "/etc/passwd")[0] == 404
        name = str(trained)
        for question in ("points=x", "axis=step&low=x", "axis=y"):
            path = "/api/part" if "axis" in question else "/api/curves"
            assert get_raw(url, f"{path}?{question}&" + urlencode({"run": name}))[0] == 404
    # any loopback address is this machine's own
    with watching(trained, "--port", "0", "--host", "127.0.0.2") as url:
        assert "//127.0.0.2:" in url and get_raw(url, "/")[0] == 200
    with watching(trained, "--port", "0", "--host", "0.0.0.0") as url:
        here = f"http://127.0.0.1:{urlsplit(url).port}"
        assert get_raw(here, "/")[0] == 401
        status, headers, _ = get_raw(here, "/?" + urlsplit(url).query)
        assert status == 303 and headers["Location"] == "/"
        assert get_raw(here, "/", {"Cookie": headers["Set-Cookie"].split(";")[0]})[0] == 200


def test_mistakes_are_one_message(engine, trained, tmp_path):
    done = engine("watch", tmp_path / "none")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "is no folder; name a run" in done.stderr
    done = engine("watch", tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "holds no run" in done.stderr
    with watching(trained, "--port", "0") as url:
        port = urlsplit(url).port
        done = engine("watch", trained, "--port", port)
        assert done.returncode == 2 and f"port {port} of 127.0.0.1 is in use; give another" in done.stderr
    done = engine("watch", trained, "--host", "192.0.2.1")
    assert done.returncode == 2 and "cannot be listened at" in done.stderr


def test_a_file_that_grows_breaks_and_is_mended(tmp_path):
    run = make_run(tmp_path / "runs" / "a", rows=20)
    metrics = run / "metrics.jsonl"
    with watching(tmp_path / "runs", "--port", "0") as url:
        assert get(url, "/api/curves", run="a")["rows"] == 20
        with metrics.open("a") as file:
            file.write('{"step": 2100, "return_m')
        answer = get(url, "/api/curves", run="a")
        assert (answer["rows"], answer["damaged"]) == (20, 0)
        with metrics.open("a") as file:
            file.write('ean": 5}\n{"step": broken}\n')
        answer = get(url, "/api/curves", run="a")
        assert (answer["rows"], answer["damaged"], answer["named"]) == (21, 1, ['line 22: {"step": broken}'])
        # a resumed run leaves out what was behind its checkpoint
        kept = metrics.read_text().splitlines(keepends=True)[:10]
        (run / "new").write_text("".join(kept))
        os.replace(run / "new", metrics)
        assert get(url, "/api/curves", run="a")["rows"] == 10


def test_a_thousand_runs_are_listed_and_only_those_asked_for_are_read(tmp_path):
    for i in range(1000):
        make_run(tmp_path / f"arm-{i // 100}" / f"run-{i}", rows=1, seed=i)
    with watching(tmp_path, "--port", "0") as url:
        runs = get(url, "/api/runs")["runs"]
        assert len(runs) == 1000
        assert {run["name"] for run in runs} >= {"arm-0/run-0", "arm-9/run-999"}
        assert get(url, "/api/curves", run="arm-3/run-345")["rows"] == 1


def test_a_large_file_is_shown_from_samples_until_it_is_read(browser, tmp_path):
    """Its shape is there before its rows are, and in the end every row counts."""
    run = make_run(tmp_path / "runs" / "large", rows=1)
    rows = 400_000
    with (run / "metrics.jsonl").open("w") as file:
        for begin in range(0, rows, 1000):
            file.write("".join(f'{{"step": {i + 1}, "seconds": {i}, "return_mean": {i % 1000}, "loss/entropy": 0.123456789012345678, "episodes": {i}}}\n' for i in range(begin, begin + 1000)))
    assert (run / "metrics.jsonl").stat().st_size > 36 << 20
    with watching(tmp_path / "runs", "--port", "0") as url:
        first = get(url, "/api/curves", run="large", points=500)
        assert first["columns"]["return_mean"]["step"][-1] > 0.9 * rows and len(first["columns"]["return_mean"]["step"]) <= 1000
        browser.open(url)
        browser.wait(drawn("return_mean"))
        wait_for(lambda: get(url, "/api/curves", run="large", points=500)["read"] == 1)
        curves = get(url, "/api/curves", run="large", points=500)
        assert curves["rows"] == rows and curves["damaged"] == 0
        column = curves["columns"]["return_mean"]
        assert min(column["low"]) == 0 and max(column["high"]) == 999
        assert not browser.faults()


def charts(browser):
    return browser.run("[...document.querySelectorAll('.panel')].map((p) => p.dataset.column)")


def drawn(column):
    return f"document.querySelector('[data-column=\"{column}\"] canvas') !== null"


def test_actions_are_called_as_the_environment_calls_them(browser, tmp_path):
    run = make_run(tmp_path / "runs" / "named")
    status = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(status | {"labels": {"actions/0": "push left", "actions/1": "push right"}}))
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        title = "document.querySelector('[data-column=\"actions/1\"] h3')?.textContent.trim()"
        browser.wait(f"{title} === 'actions/1 push right'")


def test_the_page_shows_runs_beside_each_other(browser, tmp_path):
    for seed in (1, 2, 3):
        make_run(tmp_path / "runs" / f"slow/seed-{seed}", seed=seed, gain=0.5)
    make_run(tmp_path / "runs" / "fast", seed=1, lr=1e-3, started=9.0)
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
        assert browser.run("document.querySelectorAll('#list li').length") == 4
        assert charts(browser)[0] == "return_mean"
        assert {"loss/entropy", "loss/explained_variance", "events/food_per_1k", "steps_per_second"} <= set(charts(browser))
        actions = "[...document.querySelectorAll('#panels h2')].find((title) => title.innerText === 'Actions').closest('details')"
        assert browser.run(f"[...{actions}.querySelectorAll('.panel')].map((p) => p.dataset.column)") == ["actions/0", "actions/1"]
        titles = f"[...{actions}.querySelectorAll('h3')].map((title) => title.textContent.trim())"
        assert browser.run(titles) == ["actions/0", "actions/1"], "a run that does not say what they are"
        legend = browser.run("[...document.querySelectorAll('#legend li')].map((e) => e.textContent)")
        assert legend == ["fast", "slow/seed-* (3 seeds)"]
        settings = browser.run("document.querySelector('#settings table').innerText")
        assert "ppo.lr" in settings and "seed" in settings and "epochs" not in settings
        assert "learn 45 %" in browser.run("document.querySelector('#time-shares').innerText")
        # apart, over time, smoothed
        browser.run("document.querySelector('#group').click()")
        assert browser.run("document.querySelectorAll('#legend li').length") == 4
        browser.run("(axis => { axis.value = 'seconds'; axis.dispatchEvent(new Event('change')) })(document.querySelector('#axis'))")
        assert "axis=seconds" in browser.run("location.hash") and "seeds=apart" in browser.run("location.hash")
        browser.run("(s => { s.value = 0.9; s.dispatchEvent(new Event('input')) })(document.querySelector('#smoothing'))")
        browser.wait(drawn("return_mean"))
        # search and choice
        browser.press("/")
        assert browser.run("document.activeElement.id") == "search"
        browser.call("Input.insertText", text="slow 3")
        assert browser.run("[...document.querySelectorAll('#list .name')].map((e) => e.textContent)") == ["slow/seed-3"]
        browser.run("document.querySelector('#choose').click()")
        assert browser.run("document.querySelectorAll('#legend li').length") == 1
        assert not browser.faults()
        assert all(address.startswith((url, "data:", "about:")) for address in browser.addresses())


def test_the_first_view_cuts_no_group_of_seeds(browser, tmp_path):
    make_run(tmp_path / "runs" / "new", lr=1e-2, started=9.0)
    for name, lr, started in (("a", 1e-3, 8.0), ("b", 1e-4, 7.0), ("c", 1e-5, 6.0)):
        for seed in (1, 2, 3):
            make_run(tmp_path / "runs" / name / f"seed-{seed}", seed=seed, lr=lr, started=started)
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
        browser.wait("document.querySelectorAll('#legend li').length === 3")
        legend = browser.run("[...document.querySelectorAll('#legend li')].map((e) => e.textContent)")
        assert legend == ["a/seed-* (3 seeds)", "b/seed-* (3 seeds)", "new"]


def test_why_a_run_failed_stands_above_the_curves(browser, tmp_path):
    make_run(tmp_path / "runs" / "good", started=9.0)
    make_run(tmp_path / "runs" / "bad", rows=0, state="failed", message="[gymnasium] the motor is gone")
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
        assert browser.run("document.querySelector('#notices').innerText.trim()") == "bad, failed: [gymnasium] the motor is gone"
        assert browser.run("[...document.querySelectorAll('#list .warn')].map((e) => e.textContent)") == ["failed"]
        # once it goes on there is nothing to tell
        status = json.loads((tmp_path / "runs" / "bad" / "run.json").read_text())
        (tmp_path / "runs" / "bad" / "run.json").write_text(json.dumps(status | {"state": "finished", "message": "", "updated": 3.0}))
        browser.wait("document.querySelector('#notices').innerText.trim() === ''")
        browser.wait("document.querySelectorAll('#list .warn').length === 0")
        assert not browser.faults()


def test_a_range_is_zoomed_by_mouse_and_keys(browser, tmp_path):
    make_run(tmp_path / "runs" / "long", rows=6000)
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
        box = browser.run("(({x, y, width, height}) => [x, y, width, height])(document.querySelector('[data-column=\"return_mean\"] .u-over').getBoundingClientRect())")
        browser.drag(box[0] + box[2] * 0.25, box[0] + box[2] * 0.5, box[1] + box[3] / 2)
        browser.wait("!document.querySelector('#whole').disabled")
        # finer points of the part are fetched
        parts = wait_for(lambda: browser.run("1") and [a for a in browser.addresses() if "/api/part" in a])
        low, high = (float(re.search(rf"{name}=([\d.]+)", parts[0])[1]) for name in ("low", "high"))
        assert low == pytest.approx(150_000, rel=0.03) and high == pytest.approx(300_000, rel=0.03)
        part = get(url, "/api/part", run="long", axis="step", low=low, high=high, points=800)
        whole = get(url, "/api/curves", run="long", points=400)
        inside = [x for x in whole["columns"]["return_mean"]["step"] if low <= x <= high]
        finer = [x for x in part["columns"]["return_mean"]["step"] if low <= x <= high]
        assert len(finer) > 2 * len(inside) > 50
        browser.run("document.querySelector('[data-column=\"loss/entropy\"] .chart').focus()")
        browser.press("-")
        browser.press("ArrowRight")
        assert not browser.run("document.querySelector('#whole').disabled")
        browser.press("0")
        assert browser.run("document.querySelector('#whole').disabled")
        assert not browser.faults()


def texts(browser, selector):
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)")


def test_the_address_keeps_what_is_shown_and_keys_stay_within_it(browser, tmp_path):
    make_run(tmp_path / "runs" / "long", rows=600)
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url + "#run=long&low=20000&high=40000&metrics=loss")
        browser.wait(drawn("loss/entropy"))
        assert charts(browser) == ["loss/entropy", "loss/explained_variance"]
        focus = "document.querySelector('[data-column=\"loss/entropy\"] .chart').focus()"
        browser.run(focus)
        browser.press("ArrowRight")
        assert "low=25000&high=45000" in browser.run("location.hash")
        for _ in range(9):
            browser.press("ArrowRight")
        low, high = (float(re.search(rf"{name}=([\d.]+)", browser.run("location.hash"))[1]) for name in ("low", "high"))
        assert high - low == 20_000 and 59_000 < high <= 60_000, "rows end at step 60,000"
        for _ in range(9):
            browser.press("-")
        assert browser.run("document.querySelector('#whole').disabled") and "low=" not in browser.run("location.hash")
        # other words in the field, and another address in the same tab
        browser.run("(m => { m.value = 'per_1k'; m.dispatchEvent(new Event('input')) })(document.querySelector('#metrics'))")
        assert charts(browser) == ["events/food_per_1k"] and "metrics=per_1k" in browser.run("location.hash")
        browser.run("(m => { m.value = 'none such'; m.dispatchEvent(new Event('input')) })(document.querySelector('#metrics'))")
        assert texts(browser, "#notices p") == ['No metric has "none such" in its name.']
        browser.open(url + "#run=long&metrics=speed")
        browser.wait("document.querySelectorAll('.panel').length === 0 && document.querySelector('#metrics')?.value === 'speed'")
        assert not browser.faults()


def test_values_below_the_cursor_are_of_its_step(browser, tmp_path):
    make_run(tmp_path / "runs" / "long", rows=200, started=2.0)
    make_run(tmp_path / "runs" / "short", rows=50, lr=1e-3)
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
        browser.run("document.querySelector('[data-column=\"episodes\"]').scrollIntoView({block: 'center'})")
        browser.wait(drawn("episodes"))
        panel = "[data-column=\"episodes\"]"
        browser.wait("document.querySelectorAll('[data-column=\"episodes\"] .values li').length === 2")
        assert texts(browser, panel + " .values li") == ["199", "49"]
        x, y, width = browser.run(f"(({{x, y, width}}) => [x, y, width])(document.querySelector('{panel} .u-over').getBoundingClientRect())")
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + width / 2, y=y + 20)
        browser.wait(f"document.querySelector('{panel} h3').innerText.includes('at 1')")
        step = float(re.search(r"at ([\d.]+)k steps", browser.run(f"document.querySelector('{panel} h3').innerText"))[1]) * 1000
        assert step == pytest.approx(10_000, rel=0.02)
        # the short one had ended by then
        assert texts(browser, panel + " .values li") == [str(int(step / 100) - 1), "-"]
        assert not browser.faults()


def test_numbers_are_short_and_told_apart(browser, tmp_path):
    make_run(tmp_path / "runs" / "a")
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
        say = "import('/page.js').then((page) => page.{})"
        assert browser.run(say.format("axis_durations([3600, 3610, 3620])")) == ["1 h", "1.003 h", "1.006 h"]
        assert browser.run(say.format("axis_durations([0, 30, 60, 90])")) == ["0 s", "30 s", "1 min", "1.5 min"]
        assert [browser.run(say.format(f"short({number})")) for number in (1234, 7.4e36, 3e-7)] == ["1.234k", "7.40e+36", "3.00e-7"]


def test_what_there_is_not_is_said(browser, tmp_path):
    """Runs without a common name, without an episode, without rows, and one that is not there."""
    make_run(tmp_path / "runs" / "one", seed=1)
    make_run(tmp_path / "runs" / "two", seed=2)
    bare = make_run(tmp_path / "runs" / "bare", rows=0, lr=1)
    status = json.loads((bare / "run.json").read_text()) | {"state": "running", "return_mean": None, "total_steps": 5000}
    (bare / "run.json").write_text(json.dumps(status))
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
        assert texts(browser, "#legend li") == ["bare", "one and others (2 seeds)"]
        (told,) = [text for text in texts(browser, "#list .about") if "running" in text]
        assert told.endswith("0 of 5k steps · no episode has ended")
        assert texts(browser, "#notices p") == ["bare has written no metrics yet"]
        browser.run("document.querySelector('#clear').click()")
        assert texts(browser, "#notices p") == ["No run is shown: choose some from the list."]
        browser.open(url + "?again#run=gone")
        browser.wait("document.querySelectorAll('#notices p').length > 0")
        assert texts(browser, "#notices p") == ["[watch] there is no run gone here"]
        # it is asked for now and then, about as often as the list
        browser.run("new Promise((done) => setTimeout(done, 1500))")
        asked = {of: sum(f"/api/{of}" in a for a in browser.addresses()) for of in ("curves?run=gone", "runs")}
        assert asked["curves?run=gone"] <= 10 * asked["runs"], asked


def test_a_page_whose_server_ended_says_so(browser, tmp_path):
    make_run(tmp_path / "runs" / "a")
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait(drawn("return_mean"))
    browser.wait("document.querySelector('#state.warn')?.innerText.startsWith('the server does not answer: ')")
    # what was shown stays
    assert browser.run("document.querySelectorAll('.panel').length") > 5 and texts(browser, "#notices p") == []


def test_long_names_and_many_settings_stay_readable(browser, tmp_path):
    name = "a_name_that_somebody_gave_to_see_how_long_one_may_be_" * 3
    for k, lr in enumerate((1e-3, 1e-4)):
        run = make_run(tmp_path / "runs" / f"{name}{k}", lr=lr)
        (run / "config.yaml").write_text("seed: 1\nppo:\n" + "".join(f"  setting_{i}: {k}\n" for i in range(80)))
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": 5100, "seconds": 6, f"events/{name}_per_1k": 1}) + "\n")
    with watching(tmp_path / "runs", "--port", "0") as url:
        for width in (400, 1280):
            browser.resize(width, 800)
            browser.open(url + f"?{width}")
            browser.wait(f"location.search === '?{width}' && {drawn('return_mean')}")
            assert browser.run("[...document.querySelectorAll('h3, #legend, #list')].filter((e) => e.scrollWidth > e.clientWidth).length") == 0
            assert browser.run("document.documentElement.scrollWidth") <= width
            # whose settings they are, however far one is down or to the side
            browser.run("(box => { box.scrollIntoView(); box.scrollTop = 1e6; box.scrollLeft = 1e6 })(document.querySelector('#settings'))")
            place = "(({top, left}) => [top, left])(document.querySelector('#settings%s').getBoundingClientRect())"
            top, left = browser.run(place % "")
            assert browser.run(place % " thead th:last-child")[0] == pytest.approx(top, abs=2)
            assert browser.run(place % " tbody tr:last-child th")[1] == pytest.approx(left, abs=2)
        # and whose curves
        browser.run("document.querySelector('[data-column=\"steps_per_second\"]').scrollIntoView()")
        assert browser.run("document.querySelector('#legend').getBoundingClientRect().top") == pytest.approx(0, abs=2)
        assert not browser.faults()


def test_a_training_run_is_seen_as_it_goes(browser, tmp_path):
    run = tmp_path / "runs" / "live"
    train = subprocess.Popen(
        [ENGINE, "train", "ppo", "cartpole", "train.steps=100000000", "train.log_every=20000", "threads=1", "--sinks", "jsonl", "--out", str(run)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size > 0, train)
        with watching(tmp_path / "runs", "--port", "0") as url:
            browser.open(url)
            # "episodes: live 1200", once it is drawn
            label = "(document.querySelector('[data-column=\"episodes\"] .chart').getAttribute('aria-label').match(/live .*/) ?? [''])[0]"
            browser.wait(drawn("return_mean"))
            assert browser.run("document.querySelector('#state').textContent") == "1 run, 1 training"
            browser.run("document.querySelector('[data-column=\"episodes\"]').scrollIntoView()")
            first = browser.wait(label)
            browser.wait(f"{label} !== {json.dumps(first)}")
            assert not browser.faults()
    finally:
        train.send_signal(signal.SIGINT)
        train.wait(LONG_S)


def test_a_folder_of_a_thousand_runs_is_searched(browser, tmp_path):
    for i in range(1000):
        make_run(tmp_path / "runs" / f"run-{i}", rows=2, seed=i)
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.open(url)
        browser.wait("document.querySelectorAll('#list li').length === 200")
        assert "800 more" in browser.run("document.querySelector('#more').textContent")
        # keys need not go through all of them
        browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
        assert browser.run("(first => { first.focus(); const seen = first.clientWidth; first.click(); return [seen > 20, document.activeElement.id] })(document.querySelector('button, a, input'))") == [True, "board"]
        browser.run("document.querySelector('#search').focus()")
        browser.call("Input.insertText", text="run-77")
        assert browser.run("document.querySelectorAll('#list li').length") == 11
        # the runs that are shown at first, and no others
        asked = {a for a in browser.addresses() if "/api/curves" in a}
        assert len({re.search(r"run=([^&]+)", a)[1] for a in asked}) <= 6


def test_the_page_is_for_everybody(browser, tmp_path):
    """Narrow, dark, and what axe-core finds."""
    for seed in (1, 2):
        make_run(tmp_path / "runs" / f"seed-{seed}", seed=seed)
    with watching(tmp_path / "runs", "--port", "0") as url:
        browser.resize(380, 800)
        browser.open(url)
        browser.wait("document.querySelectorAll('.panel').length > 5")
        browser.expect_for_everybody()
