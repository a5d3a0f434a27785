"""maglev play --web: the server as a client meets it, and the page in a browser."""

import base64
import io
import json
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from PIL import Image
from serving import get, get_raw, serving

SMALL = {
    "cartpole": ("ppo", "ppo.rollout=32", "env.count=8", "ppo.network.hidden=[16,16]"),
    "pendulum": ("ppo", "ppo.rollout=32", "env.count=8", "ppo.network.hidden=[16]"),
    "goodhart": ("ppo", "ppo.rollout=16", "env.count=8", "env.width=32", "env.height=32", "env.view=3", "env.max_steps=40"),
}
GOODHART = ("env.max_food=64", "env.max_poison=64", "ppo.network.cnn.channels=[8]", "ppo.network.hidden=[16]")


@pytest.fixture(scope="module")
def runs(engine, tmp_path_factory):
    """A small run of each environment."""
    folder = tmp_path_factory.mktemp("play")
    for env, (algo, *settings) in SMALL.items():
        more = GOODHART if env == "goodhart" else ()
        done = engine("train", algo, env, "--bare", "--sinks", "jsonl", "--out", folder / env, "train.steps=256", *settings, *more)
        assert done.returncode == 0, done.stderr
    return folder


def game(url, count, **key):
    """The first steps of a game."""
    frames = []
    while len(frames) < count:
        frames += get(url, "/api/frames", **{"from": len(frames), "count": count - len(frames)}, **key)["frames"]
    return frames


def test_the_page_plays_what_the_terminal_plays(engine, runs):
    told = engine("play", runs / "cartpole", "--seed", 4, "env.max_steps=30").stdout
    with serving("play", runs / "cartpole", "--web", "--port", 0, "--seed", 4, "env.max_steps=30") as url:
        frames = game(url, 31)
        last = next(frame for frame in frames if frame["over"])
        assert f"episode 1: {last['step']} steps" in told and f" {last['returns'][0]:.2f}" in told
        assert [frame["n"] for frame in frames] == list(range(31))
        for frame in frames:
            if frame["acted"]:
                assert sum(frame["probs"]) == pytest.approx(1, abs=2e-3) and len(frame["probs"]) == 2
                # the most likely one
                assert frame["probs"][int(frame["action"][0])] == max(frame["probs"])
                assert np.isfinite(frame["value"])
        picture = Image.open(io.BytesIO(base64.b64decode(frames[0]["picture"].split(",")[1])))
        assert picture.size == (540, 450) and len(picture.convert("RGB").getcolors(1 << 20)) > 2
        # the same again, another seed, drawn actions: games of their own
        assert game(url, 31) == frames
        assert game(url, 5, seed=5) != frames[:5]
        drawn = game(url, 31, actions="sample")
        assert any(frame["acted"] and frame["probs"][int(frame["action"][0])] < 0.5 for frame in drawn)


def expect_complete(insight):
    """Integrated gradients add up to what was asked, less the same of nothing seen."""
    integrated = [v for part in insight["inputs"] for v in part["integrated"]]
    # four digits of each number, and the rule's own error, which explanation_test.cpp bounds
    error = 0.02 * sum(map(abs, integrated)) + 1e-4
    assert abs(sum(integrated) - (insight["asked"] - insight["baseline"])) <= error


def of_places(tensor):
    return np.array(tensor, dtype=float)


@pytest.mark.parametrize("env", SMALL)
@pytest.mark.parametrize("of", ["action", "value"])
def test_what_mattered_sums_to_what_was_asked(runs, env, of):
    with serving("play", runs / env, "--web", "--port", 0) as url:
        frames = game(url, 6)
        insight = get(url, "/api/insight", n=4, of=of)
        assert insight["layers"] and insight["inputs"]
        for layer in insight["layers"]:
            assert len(layer["values"]) == layer["shape"][0]
        for part in insight["inputs"]:
            places = int(np.prod(part["shape"][-2:] if len(part["shape"]) == 3 else part["shape"]))
            assert len(part["seen"]) == np.prod(part["shape"])
            assert len(part["gradient"]) == len(part["integrated"]) == places
            assert np.any(of_places(part["gradient"]) != 0)
        expect_complete(insight)
        asked_of_action = {"cartpole": "the logit of category ", "goodhart": "the logit of category ", "pendulum": "the mean of action 0"}
        assert insight["question"].startswith("the value" if of == "value" else asked_of_action[env])
        if of == "value":
            assert insight["asked"] == pytest.approx(frames[4]["value"], rel=1e-3, abs=1e-5)
        if env == "goodhart":
            assert insight["inputs"][0]["name"] == "window" and insight["inputs"][0]["shape"] == [2, 7, 7]
            assert len(frames[4]["probs"]) == 8
        if env == "pendulum":
            assert len(frames[4]["mean"]) == len(frames[4]["deviation"]) == 1


@pytest.mark.parametrize("shared", ["false", "true"])
def test_a_policy_that_remembers_shows_its_memory(engine, tmp_path, shared):
    settings = ("ppo.rollout=32", "env.count=8", "ppo.network.hidden=[16]", "ppo.network.memory=6", f"ppo.network.shared={shared}")
    done = engine("train", "ppo", "cartpole", "--bare", "--sinks", "jsonl", "--out", tmp_path / "run", "train.steps=256", "env.velocities=false", *settings)
    assert done.returncode == 0, done.stderr
    with serving("play", tmp_path / "run", "--web", "--port", 0) as url:
        frames = game(url, 31)
        for frame in frames:
            if frame["acted"]:
                assert sum(frame["probs"]) == pytest.approx(1, abs=2e-3)
                assert frame["probs"][int(frame["action"][0])] == max(frame["probs"])
                assert np.isfinite(frame["value"])
        cells = []
        for of in ("action", "value"):
            insight = get(url, "/api/insight", n=4, of=of)
            cells = insight["layers"][-1:] if shared == "true" else insight["layers"][-2:]
            assert [layer["name"] for layer in cells] == (["memory"] if shared == "true" else ["policy memory", "value memory"])
            assert all(layer["shape"] == [6] and np.any(of_places(layer["values"]) != 0) for layer in cells)
            (vector,) = insight["inputs"]
            assert np.any(of_places(vector["gradient"]) != 0)
            expect_complete(insight)
            if of == "value":
                assert insight["asked"] == pytest.approx(frames[4]["value"], rel=1e-3, abs=1e-5)
        # whatever was played since, a kept step is what it was
        game(url, 40)
        assert get(url, "/api/insight", n=4, of="value")["layers"][-len(cells) :] == cells


def test_world_models_show_what_they_can(engine, tmp_path):
    for algo, env in (("tdmpc2", "pendulum"), ("dreamer", "cartpole")):
        done = engine("train", algo, env, "--sinks", "jsonl", "--out", tmp_path / algo, "train.steps=64")
        assert done.returncode == 0, done.stderr
    with serving("play", tmp_path / "tdmpc2", "--web", "--port", 0) as url:
        frame = game(url, 3)[2]
        assert len(frame["mean"]) == 1 and -2 <= frame["mean"][0] <= 2 and "probs" not in frame
        insight = get(url, "/api/insight", n=2, of="value")
        assert [layer["name"] for layer in insight["layers"]] == ["latent"]
        assert insight["asked"] == pytest.approx(frame["value"], rel=1e-3, abs=1e-5)
        (vector,) = insight["inputs"]
        assert vector["shape"] == [3] and len(vector["integrated"]) == 3
    with serving("play", tmp_path / "dreamer", "--web", "--port", 0) as url:
        frame = game(url, 3)[2]
        assert sum(frame["probs"]) == pytest.approx(1, abs=2e-3) and "value" not in frame
        insight = get(url, "/api/insight", n=2)
        assert [layer["name"] for layer in insight["layers"]] == ["state"]
        assert insight["question"] == f"the logit of category {int(frame['action'][0])}"
        (vector,) = insight["inputs"]
        assert vector["shape"] == [4]
        expect_complete(insight)
        # a policy alone has no value to ask for
        assert not get(url, "/api/insight", n=2, of="value")["inputs"]


@pytest.mark.parametrize("algo, env, shape", [("tdmpc2", "pendulum_pixels", [3, 64, 64]), ("dreamer", "cartpole_pixels", [3, 64, 64])])
def test_world_models_show_what_mattered_of_an_image(engine, tmp_path, algo, env, shape):
    done = engine("train", algo, env, "--bare", "--sinks", "jsonl", "--out", tmp_path / "run", "train.steps=64")
    assert done.returncode == 0, done.stderr
    with serving("play", tmp_path / "run", "--web", "--port", 0) as url:
        game(url, 3)
        for of in ("action", "value") if algo == "tdmpc2" else ("action",):
            insight = get(url, "/api/insight", n=2, of=of)
            (image,) = insight["inputs"]
            assert image["name"] == "image" and image["shape"] == shape
            seen = of_places(image["seen"])
            assert seen.min() >= 0 and 0.5 < seen.max() <= 1
            assert len(image["integrated"]) == 64 * 64
            if of == "action":
                assert np.any(of_places(image["gradient"]) != 0)
                expect_complete(insight)


def test_who_is_no_policy_has_a_page_too(engine):
    with serving("play", "hockey_duel", "weak", "strong", "--web", "--port", 0) as url:
        about = get(url, "/api/about")
        assert about["players"] == ["weak", "strong"] and about["env"] == "hockey_duel" and not about["heads"]
        frames = game(url, 4)
        assert len(frames[0]["rewards"]) == 2 and "probs" not in frames[0] and "mean" not in frames[0]
        assert get(url, "/api/insight", n=1) == {"layers": [], "inputs": []}


def test_only_what_is_asked_rightly_is_answered(runs):
    with serving("play", runs / "cartpole", "--web", "--port", 0) as url:
        for question in ("seed=x", "seed=-1", "actions=greedy", "from=1e9"):
            assert get_raw(url, "/api/frames?" + question)[0] == 404, question
        status, _, text = get_raw(url, "/api/insight?n=99999")
        assert status == 404 and "step 99999 is not kept" in text
        assert "action or value" in get_raw(url, "/api/insight?n=0&of=luck")[2]
        # however much is wanted, an answer is bounded
        assert len(get(url, "/api/frames", **{"from": 10**15, "count": 10**15})["frames"]) <= 64
        assert get_raw(url, "/api/frames", {"Origin": "http://evil.example"})[0] == 403
        assert get_raw(url, "/api/frames", {"Host": "evil.example"})[0] == 403
        assert get_raw(url, "/api/frames", method="POST")[0] == 405
        assert get_raw(url, "/api/nothing")[0] == 404


def test_mistakes_are_one_message(engine, examples, runs, tmp_path):
    def said(done):
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    (tmp_path / "empty").mkdir()
    for folder in ("nowhere", "empty"):
        assert f"{folder} is no run; name the folder of one" in said(engine("play", tmp_path / folder, "--web"))
    # a folder where one stands needs no slash to be told from an environment
    assert "empty is no run; name the folder of one" in said(engine("play", "empty", "--web", cwd=tmp_path))
    assert "--record is for the terminal" in said(engine("play", "cartpole", "--web", "--record", tmp_path / "a.gif"))
    assert "add --web" in said(engine("play", "cartpole", "--port", 0))
    assert "a human plays at the terminal" in said(engine("play", "hockey", "human", "--web"))
    assert "no picture" in said(examples("play", "points", "--web"))
    with serving("play", "cartpole", "--web", "--port", 0) as url:
        port = urlsplit(url).port
        assert f"port {port} of 127.0.0.1 is in use; give another" in said(engine("play", "cartpole", "--web", "--port", port))


def shown(browser):
    """The number of the step that is shown."""
    return int(browser.run("document.querySelector('#place').value"))


def text(selector):
    return f"(document.querySelector({json.dumps(selector)})?.innerText ?? '')"


def test_the_page_plays_pauses_and_goes_back(browser, runs):
    with serving("play", runs / "cartpole", "--web", "--port", 0, "--seed", 3) as url:
        browser.open(url)
        browser.wait("document.querySelector('#picture')?.naturalWidth === 540")
        assert "cartpole" in browser.run(text("#about"))
        # it plays by itself
        first = shown(browser)
        browser.wait(f"Number(document.querySelector('#place').value) > {first + 3}")
        browser.press(" ")
        assert browser.run(text("#toggle")) == "play"
        at = shown(browser)
        browser.run("new Promise((done) => setTimeout(done, 400))")
        assert shown(browser) == at
        # keys and buttons go step by step, and what they show is that step
        browser.press("ArrowRight")
        browser.wait(f"Number(document.querySelector('#place').value) === {at + 1}")
        browser.press("ArrowLeft")
        browser.press("ArrowLeft")
        assert shown(browser) == at - 1
        browser.run("document.querySelector('#forward').click()")
        assert shown(browser) == at
        frame = game(url, at + 1, seed=3)[at]
        assert browser.run("document.querySelector('#picture').src") == frame["picture"]
        assert browser.run(text("[data-name=step]")).startswith(f"{frame['step']} of episode {frame['episode']}")
        browser.press("Home")
        assert shown(browser) == 0 and browser.run("document.querySelector('#back').disabled")
        browser.press("End")
        assert shown(browser) >= at
        # speed
        speed = int(browser.run("document.querySelector('#speed').value"))
        browser.press("+")
        faster = int(browser.run("document.querySelector('#speed').value"))
        browser.press("-")
        assert faster > speed == int(browser.run("document.querySelector('#speed').value"))
        # another game, which the address keeps
        browser.run("(s => { s.value = 8; document.querySelector('#actions').value = 'sample'; s.form.requestSubmit() })(document.querySelector('#seed'))")
        assert browser.run("location.hash") == "#" + urlencode({"seed": 8, "actions": "sample"})
        other = game(url, 1, seed=8, actions="sample")[0]["picture"]
        browser.wait(f"document.querySelector('#picture').src === {json.dumps(other)}")
        assert not browser.faults()
        assert all(address.startswith((url, "data:", "about:")) for address in browser.addresses())


def test_the_page_shows_what_the_policy_makes_of_it(browser, runs):
    with serving("play", runs / "goodhart", "--web", "--port", 0) as url:
        browser.open(url)
        browser.wait("document.querySelectorAll('#layers canvas').length > 1")
        browser.press(" ")
        # a step in which there was an action, as there is none behind an episode's last
        browser.press("Home")
        assert browser.run("document.querySelectorAll('#bars li').length") == 8
        assert browser.run("document.querySelectorAll('#bars .taken').length") == 1
        bars = browser.run("[...document.querySelectorAll('#bars li')].map((bar) => bar.innerText.split(':')[0])")
        assert bars[:4] == ["0 up left", "1 left", "2 down left", "3 up"]
        browser.wait("document.querySelector('#value canvas') !== null")
        seen = browser.run("[...document.querySelectorAll('#inputs canvas')].map((c) => [c.width, c.height, c.getAttribute('aria-label')])")
        assert [size[:2] for size in seen] == [[7, 7], [7, 7]] and "what mattered" in seen[1][2]
        assert "nothing is seen" in browser.run(text("#sum"))
        browser.run("(s => { s.value = 'gradient'; s.dispatchEvent(new Event('change')) })(document.querySelector('#how'))")
        browser.wait(f"{text('#sum')}.includes('would rise')")
        browser.run("(s => { s.value = 'value'; s.dispatchEvent(new Event('change')) })(document.querySelector('#of'))")
        browser.wait(f"{text('#sum')}.startsWith('The value')")
        assert not browser.faults()
    with serving("play", runs / "pendulum", "--web", "--port", 0) as url:
        browser.open(url)
        browser.wait("document.querySelectorAll('#inputs .mattered li').length === 3")
        browser.wait(f"{text('#sum')}.startsWith('The mean of action 0, ')")
        assert "±" in browser.run(text("#bars"))
        assert not browser.faults()


def test_the_page_waits_for_its_server_and_says_when_it_has_ended(browser, runs):
    with serving("play", "hockey_duel", "weak", "weak", "--web", "--port", 0) as url:
        browser.call("Network.setBlockedURLs", urls=["*/api/about*"])
        browser.open(url)
        browser.wait(f"{text('#state')}.startsWith('the server does not answer: ')")
        assert browser.run("document.querySelector('#game').inert"), "nothing can be played yet"
        browser.colours("dark")
        browser.call("Network.setBlockedURLs", urls=[])
        browser.wait("document.querySelector('#picture').naturalWidth > 0")
        assert not browser.run("document.querySelector('#game').inert")
        assert browser.run(text("#about")) == "hockey_duel: 2 × weak"
        assert browser.run(text("#state")) == "" and browser.run("document.title") == "Maglev: play hockey_duel"
    browser.wait(f"{text('#state')}.startsWith('the server does not answer: ')")
    assert not [m for m in browser.messages if m.get("method") == "Runtime.exceptionThrown"]


def test_numbers_stand_on_one_line_with_their_bars(browser, runs):
    for env in ("goodhart", "pendulum"):
        with serving("play", runs / env, "--web", "--port", 0) as url:
            for width in (1400, 800):
                browser.resize(width, 900)
                browser.open(f"{url}?{width}")
                browser.wait(f"location.search === '?{width}' && document.querySelectorAll('#bars li').length > 0 && document.querySelectorAll('#layers canvas').length > 0")
                browser.press(" ")
                browser.press("Home")
                heights = browser.run("[...document.querySelectorAll('.bars li')].map((item) => item.clientHeight)")
                assert max(heights) < 28, (env, width, heights)
                if env == "pendulum":
                    assert "Each number: its place, what was seen, and how much it mattered." in browser.run(text("#inputs"))
                outside = "[...document.querySelectorAll('.track span')].filter((piece) => piece.offsetLeft < 0 || piece.offsetLeft + piece.offsetWidth > piece.parentElement.clientWidth + 1).length"
                assert browser.run(outside) == 0
            assert not [m for m in browser.messages if m.get("method") == "Runtime.exceptionThrown"]


def test_the_page_is_for_everybody(browser, runs):
    """Narrow, dark, and what axe-core finds."""
    with serving("play", runs / "goodhart", "--web", "--port", 0) as url:
        browser.resize(380, 800)
        browser.open(url)
        browser.wait("document.querySelectorAll('#layers canvas').length > 1")
        browser.press(" ")
        browser.expect_for_everybody()
