"""What a run's traces hold: windows by setting, environment variable, signal and anomaly; files that others read."""

import gzip
import json
import signal
import time
from collections import Counter
from itertools import pairwise

import pytest
from conftest import newest_manifest
from test_dreamer import SMALL as DREAMER
from test_resume import COMMON, start, wait_for_checkpoints
from test_tdmpc2 import SMALL as TDMPC2
from waiting import LONG_S, wait_for

# 64 steps an iteration, two threads
RUN = ["ppo", "cartpole", *COMMON, "threads=2", "train.steps=6400"]


def traces(run):
    return sorted(p.name for p in (run / "traces").glob("*"))


def read(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def spans(trace):
    return [e for e in trace["traceEvents"] if e["ph"] == "X"]


def train(engine, run, *settings, **options):
    done = engine("train", *RUN, *settings, "--out", run, **options)
    assert done.returncode == 0, done.stderr
    return done


def state_of(run):
    """Hashes of all that a checkpoint holds."""
    return newest_manifest(run)["tensors"]


def fields(message: bytes):
    """(number, value) of a protobuf message: an int, or bytes. Knows nothing of how it was written."""
    place = 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            size = varint()
            assert place + size <= len(message)
            place += size
            yield key >> 3, message[place - size : place]


def test_a_window_is_traced_and_covers_the_wall_time(engine, tmp_path):
    run = tmp_path / "run"
    train(engine, run, "trace.window=20-24,40")
    assert traces(run) == [
        "iter_20-24.json.gz",
        "iter_20-24.perfetto",
        "iter_40.json.gz",
        "iter_40.perfetto",
    ]
    trace = read(run / "traces" / "iter_20-24.json.gz")
    iterations = sorted((e for e in spans(trace) if e["name"] == "iteration"), key=lambda e: e["ts"])
    assert [e["args"]["step"] for e in iterations] == [64 * (n - 1) for n in range(20, 25)]
    # one follows the other: between them only buffers are emptied
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(iterations))
    of_main = [e for e in spans(trace) if e["tid"] == iterations[0]["tid"] and iterations[0]["ts"] <= e["ts"]]
    assert all(any(i["ts"] <= e["ts"] <= i["ts"] + i["dur"] for i in iterations) for e in of_main)
    about = trace["maglev"]
    assert (about["algorithm"], about["environment"], about["mode"]) == ("ppo", "cartpole", "lite")
    assert (about["window"], about["reason"], about["threads"]) == ("20-24", "window", 2)
    assert about["dropped"] == 0 and about["overhead_s"] > 0
    names = Counter((e["cat"], e["name"]) for e in spans(trace))
    for stage in ("collect", "advantages", "update", "flush"):
        assert names["stage", stage] == 5, stage
    assert names["stage", "act"] == names["stage", "env_step"] == 5 * 16
    assert names["stage", "minibatch"] == 5 * 8 and names["stage", "optimiser"] == 5 * 8 * 3
    assert any(cat == "kernel_cpu" for cat, _ in names)


def test_spans_of_a_thread_lie_within_each_other_and_the_same_are_in_both_files(engine, tmp_path):
    run = tmp_path / "run"
    train(engine, run, "trace.window=5-9")
    by_thread = {}
    for e in spans(read(run / "traces" / "iter_5-9.json.gz")):
        by_thread.setdefault(e["tid"], []).append(e)
    for events in by_thread.values():
        ends = []
        for e in events:
            while ends and ends[-1] <= e["ts"] + 1e-6:
                ends.pop()
            # a nanosecond for the decimals of a microsecond
            assert not ends or e["ts"] + e["dur"] <= ends[-1] + 2e-3
            ends.append(e["ts"] + e["dur"])
    # Perfetto's packets, by its field numbers
    packets = [dict(fields(p)) for n, p in fields((run / "traces" / "iter_5-9.perfetto").read_bytes()) if n == 1]
    assert {p[10] for p in packets} == {1}
    assert sum(6 in p for p in packets) == 1
    threads = {}
    for p in packets:
        if 60 in p and 4 in (track := dict(fields(p[60]))):
            threads[track[1]] = dict(fields(track[4]))[2]
    assert set(threads.values()) == set(by_thread)
    depth, begun, last = Counter(), Counter(), Counter()
    for p in (p for p in packets if 11 in p):
        event = dict(fields(p[11]))
        track = event[11]
        assert p[8] >= last[track]
        last[track] = p[8]
        depth[track] += {1: 1, 2: -1}[event[9]]
        assert depth[track] >= 0
        if event[9] == 1:
            begun[threads[track], event[23].decode()] += 1
    assert not any(depth.values())
    assert begun == Counter((tid, e["name"]) for tid, events in by_thread.items() for e in events)


def test_perfettos_own_reader_understands_the_file(engine, tmp_path):
    perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    run = tmp_path / "run"
    train(engine, run, "trace.window=5")
    file = (run / "traces" / "iter_5.perfetto").read_bytes()
    trace = perfetto.Trace.FromString(file)
    names = Counter(p.track_event.name for p in trace.packet if p.HasField("track_event"))
    assert names["iteration"] == 1
    # the same fields in another order: none is unknown to it
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == len(file)


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_a_traced_run_is_the_untraced_one_to_the_bit(mode, engine, tmp_path):
    plain, traced = tmp_path / "plain", tmp_path / "traced"
    train(engine, plain)
    train(engine, traced, "trace.window=3-10,50-60", "trace.every=30", "trace.anomaly=5", f"trace.mode={mode}")
    assert state_of(plain) == state_of(traced)


@pytest.mark.parametrize(
    "algorithm",
    [["tdmpc2", "pendulum", *TDMPC2, "train.steps=1600"], ["dreamer", "cartpole", *DREAMER, "train.steps=2000"]],
    ids=lambda a: a[0],
)
def test_what_learns_from_a_replay_is_traced_by_the_same_seams(algorithm, engine, tmp_path):
    run = tmp_path / "run"
    settings = ["--bare", "--sinks", "jsonl", "threads=2", "train.prefetch=on", "trace.every=20", "trace.length=2"]
    done = engine("train", *algorithm, *settings, "--out", run)
    assert done.returncode == 0, done.stderr
    found = Counter()
    for file in (run / "traces").glob("*.json.gz"):
        found += Counter((e["cat"], e["name"]) for e in spans(read(file)))
    for stage in ("iteration", "collect", "act", "env_step", "update", "sample", "optimiser"):
        assert found["stage", stage] > 0, stage
    if algorithm[0] == "dreamer":
        for stage in ("encode", "observe", "dream", "heads", "critic", "actor", "back"):
            assert found["stage", stage] > 0, stage
    assert found["wait", "prefetch"] > 0
    assert any(cat == "kernel_cpu" for cat, _ in found)


def test_the_environment_says_a_window_in_place_of_the_settings(engine, tmp_path):
    run, shared = tmp_path / "run", tmp_path / "shared"
    train(engine, run, "trace.window=1-2", env={"MAGLEV_TRACE": "7-8", "MAGLEV_TRACE_FOLDER": str(shared)})
    assert not (run / "traces").exists()
    assert sorted(p.name for p in shared.iterdir()) == ["run.iter_7-8.json.gz", "run.iter_7-8.perfetto"]
    # it is no setting of the run
    assert 'window: "1-2"' in (run / "config.yaml").read_text()


def test_torchs_profiler_is_in_the_same_file_on_the_same_clock(engine, tmp_path):
    run = tmp_path / "run"
    # a network that is no panel's goes through torch's operations
    done = train(engine, run, "ppo.fused=false", env={"MAGLEV_TRACE": "7-8", "MAGLEV_TRACE_MODE": "full"})
    # nor are there lines of torch's amid those of the run
    assert "profiler_start" not in done.stdout + done.stderr
    trace = read(run / "traces" / "iter_7-8.json.gz")
    assert trace["maglev"]["mode"] == "full"
    ours = [e for e in spans(trace) if e.get("cat") == "stage" and e["name"] == "update"]
    torchs = [e for e in spans(trace) if e.get("cat") == "cpu_op"]
    assert torchs, "torch told nothing"
    within = [
        t for t in torchs
        if any(o["tid"] == t["tid"] and o["ts"] - 50 <= t["ts"] and t["ts"] + t["dur"] <= o["ts"] + o["dur"] + 50
               for o in ours)
    ]
    assert len(within) >= 0.2 * len(torchs)


def test_shapes_and_memory_are_in_a_full_trace_that_asks_for_them(engine, tmp_path):
    plain, run = tmp_path / "plain", tmp_path / "run"
    full = ["trace.window=7", "trace.mode=full", "ppo.fused=false"]
    train(engine, plain, *full)
    train(engine, run, *full, "trace.shapes=true", "trace.memory=true")

    def found(folder):
        events = read(folder / "traces" / "iter_7.json.gz")["traceEvents"]
        shaped = any("Input Dims" in e.get("args", {}) for e in events)
        return shaped, any(e["name"] == "[memory]" for e in events)

    assert found(plain) == (False, False) and found(run) == (True, True)
    report = json.loads(engine("trace", "analyze", run / "traces" / "iter_7.json.gz", "--json").stdout)
    rows = report["allocations"]
    assert rows and all(row["bytes"] >= row["largest"] > 0 and not row["device"] for row in rows)
    assert not any(row["name"].startswith("aten::empty") for row in rows)
    assert "Allocations" in engine("trace", "analyze", run / "traces" / "iter_7.json.gz").stdout


@pytest.mark.parametrize("setting", ["trace.shapes=true", "trace.memory=true"])
def test_what_only_torchs_profiler_tells_wants_it(setting, engine, tmp_path):
    done = engine("train", *RUN, setting, "--out", tmp_path / "run")
    name = setting.split("=")[0]
    assert done.returncode == 2 and f"[trace] {name} is told by torch's profiler; set trace.mode=full" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("window", ["x", "5-", "-5", "9-5", "1-3,2-4", "5,", "99999999999999999999"])
def test_a_bad_window_is_one_clear_error(window, engine, tmp_path):
    for where, options in (
        ("trace.window", {"settings": [f"trace.window={window}"], "env": {}}),
        ("MAGLEV_TRACE", {"settings": [], "env": {"MAGLEV_TRACE": window}}),
    ):
        run = tmp_path / "run"
        done = engine("train", *RUN, *options["settings"], "--out", run, env=options["env"])
        assert done.returncode != 0
        assert f"[trace] {where} must be iterations such as 50-55" in done.stderr
        assert not run.exists()


def test_a_window_that_cannot_come_is_told_before_training(engine, tmp_path):
    run = tmp_path / "run"
    # 100 iterations
    train(engine, run, "trace.window=99-101,102-103,200", "train.warmup=1")
    log = (run / "log.txt").read_text()
    for window in ("iterations 102-103", "iteration 200"):
        told = f"no trace of {window}, which trace.window asks for: with train.steps as it is iteration 100 is"
        assert log.count(told) == 1 and log.index(told) < log.index("warming up")
    assert [t for t in traces(run) if t.endswith("gz")] == ["iter_99-100.json.gz"]


def test_a_bad_mode_is_one_clear_error(engine, tmp_path):
    done = engine("train", *RUN, "--out", tmp_path / "run", env={"MAGLEV_TRACE_MODE": "fool"})
    assert done.returncode != 0
    assert "[trace] MAGLEV_TRACE_MODE must be lite or full, got 'fool'" in done.stderr


def test_a_run_that_is_resumed_in_a_window_traces_its_rest(engine, tmp_path):
    run = tmp_path / "run"
    # iterations 1 to 50, then 51 on
    train(engine, run, "train.steps=3200", "trace.window=45-55")
    done = engine("train", "--resume", run, "train.steps=6400", "--sinks", "jsonl")
    assert done.returncode == 0, done.stderr
    assert [t for t in traces(run) if t.endswith("gz")] == ["iter_45-50.json.gz", "iter_51-55.json.gz"]


def test_nothing_is_overwritten(engine, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        train(engine, tmp_path / name / "run", "trace.window=2", f"trace.folder={tmp_path / 'shared'}")
    assert sorted(p.name for p in (tmp_path / "shared").glob("*.gz")) == [
        "run.iter_2.2.json.gz",
        "run.iter_2.json.gz",
    ]


def test_a_window_of_torchs_profiler_that_cannot_be_written_ends_with_the_window(engine, tmp_path):
    (tmp_path / "file").touch()
    run = tmp_path / "run"
    train(engine, run, "trace.window=2,4", "trace.mode=full", f"trace.folder={tmp_path / 'file' / 'below'}")
    log = (run / "log.txt").read_text()
    assert "no trace of iteration 2:" in log and "no trace of iteration 4:" in log
    assert "cannot begin" not in log


def test_many_evaluations_leave_room_for_the_spans_of_others(engine, tmp_path):
    run = tmp_path / "run"
    # more of them than a tracer has places for threads
    train(
        engine, run, "train.steps=20000", "train.eval_every=64", "train.eval_episodes=1", "train.save_every=64",
        "trace.anomaly=100000", "trace.window=300",
    )  # fmt: skip
    assert read(run / "traces" / "iter_300.json.gz")["maglev"]["dropped"] == 0


def test_a_window_takes_no_more_than_it_may(engine, tmp_path):
    run = tmp_path / "run"
    train(engine, run, "trace.window=1-100", "trace.size_limit=1")
    about = read(run / "traces" / "iter_1-100.json.gz")["maglev"]
    assert about["dropped"] > 0 and about["spans"] <= (1 << 20) // 56
    assert "found no room" in (run / "log.txt").read_text()


def test_a_signal_asks_for_a_trace(tmp_path):
    run = tmp_path / "run"
    process = start(*RUN, "train.steps=1000000000", "train.save_every=1000000000", "trace.length=4", "--out", run)
    wait_for_checkpoints(run, 1, process)
    process.send_signal(signal.SIGUSR2)
    wait_for(lambda: list(run.glob("traces/*.perfetto")), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 130
    (file,) = (run / "traces").glob("*.json.gz")
    trace = read(file)
    assert trace["maglev"]["reason"] == "signal"
    assert sum(e["name"] == "iteration" for e in spans(trace)) == 4


def test_an_iteration_that_takes_long_is_written(engine, tmp_path):
    run = tmp_path / "run"
    process = start(*RUN, "train.steps=1000000000", "trace.anomaly=1.5", "train.save_every=640", "--out", run)
    wait_for_checkpoints(run, 3, process)

    def saved():
        return max(path.name for path in (run / "checkpoints").glob("step_*"))

    # somebody else's turn, for a while: until it falls within an iteration, and longer where those are slow
    seconds = 0.1
    while not list((run / "traces").glob("*.perfetto")):
        assert seconds < LONG_S
        process.send_signal(signal.SIGSTOP)
        before = saved()
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: saved() > before, process)
        seconds *= 1.5
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 130
    files = list((run / "traces").glob("*.json.gz"))
    assert 1 <= len(files) <= 10
    for file in files:
        trace = read(file)
        assert trace["maglev"]["reason"] == "slow iteration"
        assert sum(e["name"] == "iteration" for e in spans(trace)) == 1
        # a save takes long, and everybody knows
        assert not any(e["name"] == "save" for e in spans(trace))
    assert "the median is" in (run / "log.txt").read_text()


def test_the_iteration_in_which_learning_diverges_is_written(engine, tmp_path):
    run = tmp_path / "run"
    done = engine("train", "ppo", "pendulum", *RUN[2:], "ppo.epochs=4", "ppo.lr=10", "ppo.lr_end=1",
                  "train.log_every=64", "trace.anomaly=1000", "--out", run)
    assert done.returncode == 0, done.stderr
    assert "learning has diverged" in (run / "log.txt").read_text()
    reasons = [read(f)["maglev"]["reason"] for f in (run / "traces").glob("*.json.gz")]
    assert "divergence" in reasons


def test_threads_are_named_and_the_machines_peaks_are_told(engine, tmp_path):
    run = tmp_path / "run"
    train(engine, run, "trace.window=5-9", "env.count=256", "train.steps=60000")
    trace = read(run / "traces" / "iter_5-9.json.gz")
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {"main", "pool 1"} <= names, names
    peaks = trace["maglev"]["peaks"]
    assert peaks["gflops"] > 0.1 and peaks["gbytes_s"] > 0.1
    report = json.loads(engine("trace", "analyze", run / "traces" / "iter_5-9.json.gz", "--json").stdout)
    assert any("roofline" in row for row in report["operations"])


def test_stages_count_where_they_are_told_to(engine, tmp_path):
    off, on = tmp_path / "off", tmp_path / "on"
    train(engine, off, "trace.window=5")
    assert "counters" not in read(off / "traces" / "iter_5.json.gz")["maglev"]
    train(engine, on, "trace.window=5-9", "trace.counters=on")
    file = on / "traces" / "iter_5-9.json.gz"
    trace = read(file)
    said = trace["maglev"]["counters"]
    stages = [e for e in spans(trace) if e["cat"] == "stage"]
    for counter in ("cycles", "instructions", "cache_misses", "branch_misses", "task_clock_ns", "page_faults", "context_switches"):
        lacking = counter in said
        assert all((counter in e["args"]) != lacking for e in stages), (counter, said)
        assert not any(counter in e["args"] for e in spans(trace) if e["cat"] != "stage")
    if said != "counted":
        assert said in (on / "log.txt").read_text()
    if "task_clock_ns" not in said:
        for e in stages:
            assert e["args"]["task_clock_ns"] <= 1e3 * e["dur"] + 1e5
        assert "on a processor" in engine("trace", "analyze", file).stdout


def test_traces_of_two_runs_are_one_with_both_processes(engine, tmp_path):
    files = []
    for name in ("a", "b"):
        train(engine, tmp_path / name, "trace.window=5-9", f"trace.folder={tmp_path / 'shared'}")
        files.append(tmp_path / "shared" / f"{name}.iter_5-9.json.gz")
    out = tmp_path / "both.json.gz"
    done = engine("trace", "merge", *files, "-o", out)
    assert done.returncode == 0, done.stderr
    both = read(out)
    parts = [read(f) for f in files]
    assert len(spans(both)) == sum(len(spans(p)) for p in parts)
    assert both["maglev"]["merged"][1]["clock"] == "the machine's"
    # on one clock: the second run's first iteration is as much later as the system's clock says
    begins = {}
    for e in spans(both):
        if e["name"] == "iteration":
            begins[e["pid"]] = min(e["ts"], begins.get(e["pid"], 1e300))
    (first, second) = sorted(begins.values())
    real = [p["baseTimeNanoseconds"] / 1e3 + min(e["ts"] for e in spans(p) if e["name"] == "iteration") for p in parts]
    assert second - first == pytest.approx(real[1] - real[0], abs=5e4)
    report = json.loads(engine("trace", "analyze", out, "--json").stdout)
    assert [p["iterations"] for p in report["processes"]] == [5, 5]
    assert "Processes" in engine("trace", "analyze", out).stdout
    # by marks that are the same steps, whenever they were
    done = engine("trace", "merge", *files, "-o", tmp_path / "marks.json", "--marks", "iteration")
    assert done.returncode == 0 and "marks" in done.stdout
    assert json.loads((tmp_path / "marks.json").read_text())["maglev"]["merged"][1]["marks"] == 5


def test_merging_says_what_it_cannot_do(engine, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('[{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]')
    bad.write_text("no trace")
    again = tmp_path / "again.json"
    again.write_text(good.read_text())
    for words, said in (
        ([good], "expected <file> <file> ..., got 1"),
        ([good, good], "-o OUT was expected"),
        ([good, bad, "-o", tmp_path / "x.json"], "is no trace"),
        ([good, good, "-o", good], "is there already"),
        ([good, good, "-o", tmp_path / "x.json"], "is given twice"),
        ([good, again, "-o", tmp_path / "x.json", "--marks", "b"], "shares no mark"),
    ):
        done = engine("trace", "merge", *words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (words, done.stderr)
        assert said in done.stderr, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.json", "bad.json", "good.json"]


@pytest.fixture(scope="module")
def judged(engine, tmp_path_factory):
    """A run that plays and one that proves."""
    folder = tmp_path_factory.mktemp("judged")
    train(engine, folder / "plays", "train.steps=640")
    small = ["env.data=countries_s1", "env.count=8", "ppo.rollout=8", "ppo.minibatch=64", "train.steps=64"]
    done = engine("train", "ppo", "kg", *small, "threads=2", "--out", folder / "proves")
    assert done.returncode == 0, done.stderr
    return folder


def work_of(engine, file, *words):
    """The trace of a verb's work, and its stages by `trace analyze`."""
    done = engine(*words, "--trace", file)
    assert done.returncode in (0, 1) and f"traced in {file}" in done.stdout, done.stderr
    trace = json.loads(gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes())
    told = engine("trace", "analyze", file, "--json")
    assert told.returncode == 0, told.stderr
    assert trace["maglev"]["dropped"] == 0 and trace["maglev"]["reason"] == words[0]
    return trace, {row["name"]: row for row in json.loads(told.stdout)["stages"]}


def test_an_evaluation_is_traced_as_a_whole(engine, judged, tmp_path):
    trace, stages = work_of(engine, tmp_path / "t.json.gz", "eval", judged / "plays", "--steps", 640, "--envs", 64)
    # mean and sampled actions, ten time steps each; settings of training are none of its
    assert stages["load"]["calls"] == 1 and stages["judge"]["calls"] == 2
    assert stages["env_step"]["calls"] == stages["settle"]["calls"] == 2 * 10
    assert stages["act"]["calls"] >= 2 * 10
    assert trace["maglev"]["algorithm"] == "ppo" and trace["maglev"]["settings"] == {}
    _, stages = work_of(engine, tmp_path / "random.json", "eval", "cartpole", "random", "--episodes", 2)
    assert stages["judge"]["calls"] == 1 and "act" in stages


def test_a_ranking_is_traced_and_is_the_same(engine, judged, tmp_path):
    words = ["rank", judged / "proves", "--queries", 4, "--corruptions", 50]
    plain = engine(*words, "--scores", tmp_path / "plain.csv")
    assert plain.returncode == 0, plain.stderr
    trace, stages = work_of(engine, tmp_path / "t.json", *words, "--scores", tmp_path / "traced.csv")
    assert (tmp_path / "plain.csv").read_text() == (tmp_path / "traced.csv").read_text()
    for stage in ("load", "index", "questions", "prove", "group", "score", "figures"):
        assert stages[stage]["calls"] >= 1, stage
    names = Counter((e["cat"], e["name"]) for e in spans(trace))
    assert names["stage", "act"] == names["stage", "env_step"] > names["stage", "trials"] > 0
    assert any(cat == "kernel_cpu" for cat, _ in names)


def test_proofs_are_traced(engine, judged, tmp_path):
    _, stages = work_of(engine, tmp_path / "all.json", "prove", "countries_s1", "--queries", "test", "threads=2")
    assert {"data", "index", "search"} <= set(stages)
    query = "locatedInCR(country_003, X)"
    _, stages = work_of(engine, tmp_path / "policy.json", "prove", judged / "proves", query, "--search", "policy")
    assert {"load", "search", "show", "act"} <= set(stages)


def test_torchs_operations_are_in_the_trace_of_an_evaluation(engine, judged, tmp_path):
    words = ["eval", judged / "plays", "--steps", 640, "--actions", "mean"]
    trace, _ = work_of(engine, tmp_path / "t.json", *words, "trace.mode=full")
    assert trace["maglev"]["mode"] == "full"
    assert any(e.get("cat") == "cpu_op" for e in spans(trace))
    done = engine(*words, "--trace", tmp_path / "by_variable.json", env={"MAGLEV_TRACE_MODE": "full"})
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "by_variable.json").read_text())["maglev"]["mode"] == "full"


def test_a_trace_of_work_is_overwritten_only_when_that_is_asked_for(engine, judged, tmp_path):
    file = tmp_path / "t.json"
    file.write_text("mine")
    words = ["rank", judged / "proves", "--queries", 2, "--trace", file]
    done = engine(*words)
    assert done.returncode == 2 and "is there already" in done.stderr and file.read_text() == "mine"
    assert engine(*words, "--overwrite", "--json").returncode == 0
    assert json.loads(file.read_text())["maglev"]["reason"] == "rank"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace.mode=full"], "says how --trace FILE records"),
        (["--trace", "t.json", "trace.window=5"], "trace.window is of iterations of training"),
        (["--trace", "t.json", "trace.mod=full"], "unknown setting 'trace.mod'"),
        (["--trace", "none/t.json"], "none is no folder"),
        (["--overwrite"], "--trace FILE"),
    ],
)
def test_what_is_wrong_with_a_trace_of_work_is_one_line(words, said, engine, judged, tmp_path):
    for verb, run in (("eval", "plays"), ("rank", "proves")):
        done = engine(verb, judged / run, *words, cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not (tmp_path / "t.json").exists()


def test_a_window_in_the_environment_is_said_to_do_nothing_for_an_evaluation(engine, judged):
    done = engine("rank", judged / "proves", "--queries", 2, env={"MAGLEV_TRACE": "5"})
    assert done.returncode == 0 and "MAGLEV_TRACE names iterations of training" in done.stderr
