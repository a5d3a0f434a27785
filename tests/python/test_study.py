"""maglev study: one command trains, judges and reports, and goes on where it was stopped."""

import json
import re
import shutil
import signal
import subprocess

import pytest
from conftest import ENGINE, HOME
from waiting import LONG_S, wait_for, wait_for_line

SMALL = [
    *("--seeds", 2, "--steps", 8192, "--eval-envs", 32, "--eval-steps", 64),
    *("env.width=32", "env.height=32", "env.min_food=4", "env.max_food=16"),
    *("env.min_poison=4", "env.max_poison=16", "env.count=32", "ppo.rollout=32", "ppo.minibatch=256"),
    *("ppo.network.hidden=[16]", "ppo.network.critic_hidden=[16]"),
]
ARMS = ["--arms", "ground_truth,proxy,proxy_uint8,random"]


@pytest.fixture(scope="module")
def study(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "out"
    report = folder.parent / "page.md"
    done = engine("study", "goodhart", *SMALL, *ARMS, "--out", folder, "--report", report)
    assert done.returncode == 0, done.stderr
    return folder, report


def test_every_arm_is_judged_and_the_report_shows_it(study):
    folder, report = study
    results = json.loads((folder / "results.json").read_text())
    assert list(results["arms"]) == ["ground_truth", "proxy", "proxy_uint8", "random"]
    for name, arm in results["arms"].items():
        energy = arm["sampled"]["energy_per_1k"]
        assert len(energy["values"]) == 2 and energy["values"][0] != energy["values"][1]
        assert ("greedy" in arm) == (name != "random")
    # the same run but for what was learned from
    assert results["arms"]["proxy"]["sampled"] != results["arms"]["proxy_uint8"]["sampled"]
    text = report.read_text()
    figures = re.findall(r"\]\(([a-z_0-9]+\.svg)\)", text)
    assert len(figures) >= 4
    for figure in figures:
        svg = (report.parent / figure).read_text()
        assert svg.startswith("<svg") and len(svg) < 60_000
    assert "./maglev study goodhart --seeds 2 --steps 8192" in text
    assert str(folder) not in text
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == len(figures)
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)", page)


def test_what_nobody_made_smaller_is_judged_by_the_whole_protocol(engine, tmp_path):
    words = ["goodhart", "--seeds", 1, "--arms", "random", "env.width=16", "env.height=16", "env.view=1"]
    few = [*("env.min_food=4", "env.max_food=8"), *("env.min_poison=4", "env.max_poison=8")]
    done = engine("study", *words, *few, "--eval-steps", 2, "--out", tmp_path / "s")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "s" / "study.json").read_text())["protocol"]["envs"] == 8192
    assert "8192 worlds for 2 steps" in done.stderr
    steps = re.search(r"--eval-steps N +steps in each of them \(default (\d+)", engine("study", "--help").stdout)[1]
    # it is left out of the command where it is the default, and said where it is not
    done = engine("study", *words, *few, "--eval-envs", 2, "--eval-steps", steps, "--out", tmp_path / "t")
    assert done.returncode == 0 and f"2 worlds for {steps} steps" in done.stderr, done.stderr
    text = (tmp_path / "t" / "report.md").read_text()
    assert "--eval-envs 2 " in text and "--eval-steps" not in text and steps == "16384"


def test_the_same_command_again_makes_the_same_report_and_no_run(study, engine):
    folder, report = study
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/seed-*/metrics.jsonl")}
    old = (folder / "report.md").read_bytes(), (folder / "results.json").read_bytes()
    done = engine("study", "goodhart", *SMALL, *ARMS, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert old == ((folder / "report.md").read_bytes(), (folder / "results.json").read_bytes())
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_all_arms_take_a_file_of_settings_and_a_profile(engine, tmp_path):
    config = tmp_path / "mine.yaml"
    config.write_text("env: {count: 16}\nppo: {rollout: 16, minibatch: 64, network: {hidden: [24], critic_hidden: [24]}}\n")
    profile = tmp_path / "here.yaml"
    profile.write_text("ppo: {rollout: 8, epochs: 1}\n")
    few = [*("--seeds", 1, "--steps", 512, "--eval-envs", 8, "--eval-steps", 16, "--arms", "ground_truth,proxy")]
    words = [*few, "--bare", "--config", config, "--out", tmp_path / "s", f"+hardware={profile}"]
    done = engine("study", "goodhart", *words)
    assert done.returncode == 0, done.stderr
    for arm in ("ground_truth", "proxy"):
        text = (tmp_path / "s" / arm / "settings.yaml").read_text()
        assert "[24]" in text, text
        stored = (tmp_path / "s" / arm / "seed-1" / "config.yaml").read_text()
        # the file before the profile, the profile before what is built in
        assert re.search(r"rollout: 16\b", stored) and re.search(r"epochs: 1\b", stored), stored
    report = (tmp_path / "s" / "report.md").read_text()
    assert f"--bare --config {config}" in report and f"+hardware={profile}" in report
    for other, named in (
        ([*few, "--bare", "--out", tmp_path / "s", f"+hardware={profile}"], "a study with --config"),
        ([*few, "--config", config, "--out", tmp_path / "s", f"+hardware={profile}"], "a study with --bare"),
    ):
        done = engine("study", "goodhart", *other)
        assert done.returncode == 2 and named in done.stderr, done.stderr
    config.write_text(config.read_text().replace("24", "32"))
    done = engine("study", "goodhart", *words)
    assert done.returncode == 2 and "a study with another --config" in done.stderr, done.stderr


def test_nothing_is_overwritten_unless_it_is_said(study, engine, tmp_path):
    folder, report = study
    refused = engine("study", "goodhart", *SMALL, *ARMS, "--out", folder, "--report", report)
    assert refused.returncode == 2 and "--overwrite" in refused.stderr
    other = engine("study", "goodhart", *SMALL, "--seeds", 3, "--out", folder)
    assert other.returncode == 2 and "seeds 2, not 3" in other.stderr
    (tmp_path / "mine.txt").write_text("x")
    foreign = engine("study", "goodhart", *SMALL, "--out", tmp_path)
    assert foreign.returncode == 2 and "holds no study" in foreign.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_is_made_of_other_arms_begins_with_their_runs(engine, tmp_path):
    arms = ["--arms", "leash_1,quantile_0.25,audited"]
    done = engine("study", "goodhart_mends", *SMALL, "--steps", 32_768, *arms, "--out", tmp_path / "s")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "s" / "results.json").read_text())["arms"]
    assert list(results) == ["base", "unmended", "leash_1", "quantile_0.25", "audited"]
    assert results["base"]["steps"] == results["leash_1"]["steps"] == 32_768
    assert results["audited"]["steps"] == 0
    for seed in (1, 2):
        run = tmp_path / "s" / "leash_1" / f"seed-{seed}"
        assert f"{tmp_path}/s/base/seed-{seed}\"" in (run / "config.yaml").read_text()
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        # it begins as the policy that holds it
        assert abs(rows[0]["loss/leash_kl"]) < 0.1
    # of each kind something else was judged
    energies = [results[name]["sampled"]["energy_per_1k"]["values"] for name in list(results)[:4]]
    assert len({tuple(values) for values in energies}) == 4


@pytest.mark.parametrize(
    "words, named",
    [
        (["godhart"], "goodhart"),
        (["goodhart", "--arms", "proxi"], "proxy"),
        (["goodhart", "--seeds", "0"], "--seeds"),
        (["goodhart", "env.mode=proxy"], "differ in"),
        (["goodhart", "train.steps=10"], "--steps"),
        (["goodhart_pressure", "--steps", "10"], "--steps is what the arms"),
        (["goodhart", "env.energy=frozen"], "judged"),
        (["goodhart", "env.widht=3"], "env.width"),
        (["goodhart", "--report", "x.html"], "Markdown"),
    ],
)
def test_bad_input_is_one_error(words, named, engine, tmp_path):
    done = engine("study", *words, "--out", tmp_path / "s")
    assert done.returncode == 2 and named in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "s").exists()


def test_one_that_was_stopped_goes_on(engine, tmp_path):
    # one that was over before it could be told to stop shows nothing
    for steps in (100_000, 1_000_000, 10_000_000):
        folder = tmp_path / str(steps)
        words = [*SMALL, "--arms", "proxy", "--steps", steps, "--out", folder]
        child = subprocess.Popen(
            [ENGINE, "study", "goodhart", *map(str, words)], cwd=HOME, stderr=subprocess.DEVNULL
        )
        metrics = folder / "proxy" / "seed-1" / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size, child)
        child.send_signal(signal.SIGINT)
        if child.wait(LONG_S) == 130:
            break
    assert child.returncode == 130
    assert not (folder / "report.md").exists()
    done = engine("study", "goodhart", *words)
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "results.json").read_text())
    # as trained, in whole iterations
    trained = json.loads((folder / "proxy" / "seed-1" / "run.json").read_text())["steps"]
    assert results["arms"]["proxy"]["steps"] == trained >= steps


def test_a_run_is_judged_outside_a_study_as_within_it(study, engine, tmp_path):
    folder, _ = study
    seeds, run = folder / "proxy", folder / "ground_truth" / "seed-2"
    how = ["--eval-envs", 32, "--eval-steps", 64]
    done = engine("study", "judge", seeds, run, *how, "--json", "threads=1")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["protocol"] == json.loads((folder / "study.json").read_text())["protocol"]
    kept = [json.loads((folder / "judged" / name).read_text()) for name in ("proxy-1.json", "proxy-2.json", "ground_truth-2.json")]
    for row, judged in zip(report["runs"], kept, strict=True):
        assert (row["sampled"], row["greedy"]) == (judged["sampled"], judged["greedy"])
        assert row["seed"] == judged["seed"] and row["algorithm"] == "ppo"
    kept_of_run = kept[2]
    results = json.loads((folder / "results.json").read_text())["arms"]
    assert report["figures"][str(seeds)]["sampled"] == results["proxy"]["sampled"]

    # groups are tested in pairs, beside a player that needed no training
    truth = folder / "ground_truth"
    report = json.loads(engine("study", "judge", truth, seeds, "random", *how, "--json", "threads=1").stdout)
    compared = report["compared"]["energy_per_1k"]
    assert [(row["first"], row["second"]) for row in compared] == [(str(truth), str(seeds)), (str(truth), "random"), (str(seeds), "random")]
    assert all(0 <= row["welch_p"] <= row["holm_p"] <= 1 and row["verdict"] for row in compared)
    assert report["figures"]["random"]["sampled"] == results["random"]["sampled"]
    (headline,) = report["headlines"]
    means = [results[arm]["sampled"] for arm in ("ground_truth", "proxy")]
    kept, lived = (means[0][name]["mean"] / means[1][name]["mean"] for name in ("efficiency", "restricted_mean"))
    assert headline["failure_index"]["value"] == pytest.approx(1 - 1 / kept)
    assert headline["survival_collapse"]["value"] == pytest.approx(lived)
    text = engine("study", "judge", truth, seeds, *how, "threads=1").stdout
    assert "Goodhart failure index: " in text and "survival collapse: " in text and "Holm p" in text

    # in other worlds
    other = json.loads(engine("study", "judge", run, *how, "--eval-seed", 7, "--json", "threads=1").stdout)
    assert other["protocol"]["seed"] == 7 and other["runs"][0]["sampled"] != kept_of_run["sampled"]

    page = tmp_path / "page.md"
    done = engine("study", "judge", run, *how, "--eval-seed", 7, "--report", page, "env.poison_energy=-3", "threads=1")
    assert done.returncode == 0 and "mean life" in done.stdout and "little food, much poison" in done.stdout
    assert "--eval-seed 7" in page.read_text() and "env.poison_energy=-3" in page.read_text() and "threads=" not in page.read_text()
    assert (tmp_path / "page_survival.svg").exists()


@pytest.mark.parametrize(
    "words, named",
    [
        (["judge"], "expects runs"),
        (["judge", "nowhere"], "nowhere"),
        (["judge", "RUN", "--seeds", 2], "--seeds is of a study"),
        (["judge", "RUN", "RUN"], "is given twice, and nobody is compared with himself"),
        (["judge", "RUN", "random", "random"], "random is given twice"),
        (["judge", "RUN", "threads=-1"], "threads must be in [0, 1024]"),
        (["judge", "RUN", "env.energy=frozen"], "env.energy is set where survival is judged"),
        (["goodhart", "--json"], "--json is of judge"),
        (["goodhart", "proxy"], "expects one study, got also 'proxy'"),
    ],
)
def test_what_cannot_be_judged_is_one_error(words, named, study, engine):
    run = study[0] / "proxy" / "seed-1"
    done = engine("study", *[run if word == "RUN" else word for word in words])
    assert done.returncode == 2 and named in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_seed_that_was_spoilt_ends_no_study(engine, tmp_path):
    words = ["goodhart", *SMALL, "--arms", "proxy", "threads=1", "--out", tmp_path / "s"]
    made = engine("study", *words)
    assert made.returncode == 0, made.stderr
    results = (tmp_path / "s" / "results.json").read_bytes()
    (tmp_path / "s" / "proxy" / "seed-2" / "metrics.jsonl").unlink()
    without = engine("study", *words)
    assert without.returncode == 0 and "without its curve" in without.stderr, without.stderr
    assert "of 2 seeds 1 have their curve here" in (tmp_path / "s" / "report.md").read_text()
    # a removed one is trained again, to the same bits
    shutil.rmtree(tmp_path / "s" / "proxy" / "seed-1")
    (tmp_path / "s" / "judged" / "proxy-1.json").unlink()
    again = engine("study", *words)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "s" / "results.json").read_bytes() == results


def test_one_that_is_stopped_while_it_judges_says_how_it_goes_on(engine, tmp_path):
    report = tmp_path / "new" / "folder" / "page.md"
    words = [*SMALL, "--arms", "random", "--out", tmp_path / "s", "--report", report]
    endless = ["--eval-envs", 8192, "--eval-steps", 16_000_000]
    child = subprocess.Popen(
        [ENGINE, "study", "goodhart", *map(str, [*words, *endless])], cwd=HOME, stderr=subprocess.PIPE, text=True
    )
    wait_for_line(child.stderr, "judging random, seed 1")
    child.send_signal(signal.SIGINT)
    assert child.wait(LONG_S) == 130
    assert "the same command goes on" in child.stderr.read()
    # the folder of a report is made
    done = engine("study", "goodhart", *words, "--overwrite")
    assert done.returncode == 0 and report.exists(), done.stderr


def test_a_player_of_an_environment_is_judged_like_a_run(engine):
    rows = {}
    for player in ("omniscient_seeker", "proxy_seeker", "random"):
        done = engine(
            *("eval", "goodhart", player, "--steps", 40_000, "--envs", 100, "--json"),
            *("env.energy=live",),
        )
        assert done.returncode == 0, done.stderr
        (rows[player],) = json.loads(done.stdout)["results"]
    energy = {name: row["events_per_1k"]["energy"] for name, row in rows.items()}
    assert energy["omniscient_seeker"] > 10 > 0 > energy["proxy_seeker"]
    assert [rows[name]["actions"] for name in rows] == ["scripted", "scripted", "random"]


def test_a_proxy_is_judged_where_it_may_die(study, engine):
    """Its energy was frozen as it learned, which judging undoes, and says so, unless it is given."""
    run = study[0] / "proxy" / "seed-1"
    how = ["--steps", 20_000, "--envs", 50, "--actions", "sample", "--json", "threads=1"]
    usual, live, frozen = (engine("eval", run, *how, *words) for words in ([], ["env.energy=live"], ["env.energy=by_mode"]))
    said = "judged with env.energy=live (as in training: env.energy=by_mode)"
    assert said in usual.stderr and said not in live.stderr + frozen.stderr

    def deaths(done):
        return json.loads(done.stdout)["results"][0]["events_per_1k"]["deaths"]

    assert deaths(usual) == deaths(live) > 0 == deaths(frozen)
    assert "env.energy=live" in json.loads(usual.stdout)["settings"]
    assert json.loads((run / "eval.json").read_text())["settings"][-1] == "env.energy=by_mode"
    done = engine("eval", "goodhart", "random", "env.mode=proxy", *how)
    assert said in done.stderr and deaths(done) > 0
    done = engine("play", run, "--episodes", 1, "--fast")
    assert said in done.stderr and done.returncode == 0


def test_a_quantiliser_of_the_whole_is_its_base(study, engine):
    folder, _ = study
    run, base = folder / "proxy" / "seed-1", folder / "proxy" / "seed-2"

    def judged(*words):
        done = engine("eval", *words, "--steps", 20_000, "--envs", 50, "--actions", "sample", "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        return report, report["results"][0]["events_per_1k"]

    _, alone = judged(base)
    report, whole = judged(run, "--quantile", 1, "--base", base)
    assert report["quantile"] == 1 and report["base"] == str(base)
    # the same draws but where rounding turns one
    assert whole["food"] == pytest.approx(alone["food"], rel=0.05)
    _, part = judged(run, "--quantile", 0.1, "--base", base)
    assert part != whole
    for words, named in (
        (["--quantile", 0.5], "--base"),
        (["--base", base], "--quantile"),
        (["--quantile", 1.5, "--base", base], "--quantile must be a number above 0 and at most 1, got '1.5'"),
        (["--quantile", 0, "--base", base], "--quantile must be a number above 0 and at most 1, got '0'"),
        (["--quantile", 0.5, "--base", folder], "no run"),
    ):
        done = engine("eval", run, *words, "--steps", 100)
        assert done.returncode == 2 and named in done.stderr, done.stderr


@pytest.mark.parametrize(
    "words, named",
    [
        (["goodhart"], "omniscient_seeker, proxy_seeker, random"),
        (["goodhart", "seeker"], "omniscient_seeker, proxy_seeker, random"),
        (["pendulum", "random", "ppo.lr=1"], "env.*"),
        (["pendulum", "random", "--checkpoint", "best"], "--checkpoint"),
    ],
)
def test_a_player_that_cannot_be_judged_is_one_error(words, named, engine):
    done = engine("eval", *words)
    assert done.returncode == 2 and named in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
