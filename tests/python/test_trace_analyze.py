"""`maglev trace analyze` through the command line: tables, JSON, against an older trace, and what is no trace."""

import json

import pytest


def kineto(steps, input_us):
    """A trace as PyTorch's profiler writes it: steps of 1000 us and what their input takes."""
    events = [{"ph": "M", "name": "thread_name", "pid": 9, "tid": 9, "args": {"name": "main"}}]
    now = 4541845357757.25
    for step in range(steps):
        length = 1000 + input_us
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 9, "tid": 9, "ts": now, "dur": length},
            {"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#x.__next__", "pid": 9, "tid": 9, "ts": now, "dur": input_us},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": now + input_us, "dur": 900},
        ]
        now += length
    return {"schemaVersion": 1, "traceEvents": events}


def trace(tmp_path, name, *args):
    path = tmp_path / name
    path.write_text(json.dumps(kineto(*args)))
    return str(path)


def test_names_the_bottleneck_with_what_it_costs(engine, tmp_path):
    path = trace(tmp_path, "slow.json", 4, 1000)
    report = json.loads(engine("trace", "analyze", path, "--json").stdout)
    assert report["reliable"] and report["iterations"] == 4
    assert report["findings"][0]["name"] == "slow input"
    assert report["findings"][0]["gain"] == pytest.approx(0.5)
    assert sum(s["self_s"] for s in report["stages"]) + report["outside_s"] + report["untraced_s"] == pytest.approx(
        report["wall_s"]
    )
    text = engine("trace", "analyze", path).stdout
    assert "1. slow input: up to 50.0 % of the time" in text
    assert "\x1b" not in text


def test_finds_nothing_where_nothing_is_wrong(engine, tmp_path):
    assert json.loads(engine("trace", "analyze", trace(tmp_path, "a.json", 4, 10), "--json").stdout)["findings"] == []


def test_says_what_changed_since(engine, tmp_path):
    old, new = trace(tmp_path, "old.json", 4, 100), trace(tmp_path, "new.json", 8, 600)
    against = json.loads(engine("trace", "analyze", new, "--against", old, "--json").stdout)["against"]
    assert against["per_iteration"]
    assert against["wall_now_s"] / against["wall_before_s"] == pytest.approx(1600 / 1100)
    assert [c["name"] for c in against["changes"]] == ["enumerate(DataLoader)#x.__next__"]
    assert "+500.0 %" in engine("trace", "analyze", new, "--against", old).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), ("steps 3\n", "is no trace"), ('{"a": 1}', "is no trace"), ('{"traceEvents": []}', "no span")],
)
def test_says_what_is_no_trace(engine, tmp_path, text, said):
    path = tmp_path / "x.json"
    path.write_text(text)
    answer = engine("trace", "analyze", str(path))
    assert answer.returncode == 2
    assert said in answer.stderr and str(path) in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_reads_a_torn_trace_and_says_so(engine, tmp_path):
    path = tmp_path / "torn.json"
    path.write_text(json.dumps(kineto(4, 100))[:-60])
    report = json.loads(engine("trace", "analyze", str(path), "--json").stdout)
    assert not report["reliable"] and "middle" in report["doubts"][0]


def test_a_name_with_control_characters_ends_no_report(engine, tmp_path):
    path = tmp_path / "x.json"
    event = {"ph": "X", "name": "a\0b\x1b[31m", "cat": "cpu_op", "ts": 1, "dur": 2, "pid": "p\x1b", "tid": 1}
    path.write_text(json.dumps({"traceEvents": [event]}))
    text = engine("trace", "analyze", path).stdout
    assert "Critical path" in text and text.count("a b [31m") == 3 and "\0" not in text and "\x1b" not in text
    (operation,) = json.loads(engine("trace", "analyze", path, "--json").stdout)["operations"]
    assert operation["name"] == "a b [31m"


@pytest.mark.parametrize("wrong", ["no launch", "there twice"])
def test_a_device_whose_operations_are_not_to_be_relied_on_is_told(wrong, engine, tmp_path):
    path = tmp_path / "x.json"
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "ts": 0, "dur": 1000, "pid": 1, "tid": 1}]
    for i in range(4):
        link = {"correlation": i + 1}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7}
        events += [launch | {"ts": 200 * i, "dur": 20, "args": link}]
        events += [kernel | {"ts": 200 * i + 30, "dur": 50, "args": {} if wrong == "no launch" else link}]
    path.write_text(json.dumps({"traceEvents": events if wrong == "no launch" else events + events[1:]}))
    count = "4 of 4 operations of a device have" if wrong == "no launch" else "4 of 8 operations of a device are"
    said = engine("trace", "analyze", path).stdout
    assert f"unreliable: {count} {wrong}" in said and "nothing stands out" not in said, said


def test_what_has_a_name_is_counted_and_summed(engine, tmp_path):
    path = trace(tmp_path, "a.json", 4, 100)
    assert "\n4 calls of 1 operation, 1.0 an iteration\n" in engine("trace", "analyze", path).stdout
    only = engine("trace", "analyze", path, "--only", "::m").stdout
    assert "\n4 calls of 1 operation, 1.0 an iteration: 3.600 ms, 100.0 %\n" in only and "Findings" not in only
    refused = engine("trace", "analyze", path, "--only", "mm", "--json")
    assert refused.returncode == 2 and "leave out --json" in refused.stderr


def test_a_name_is_looked_for_in_every_table(engine, tmp_path):
    path = tmp_path / "x.json"
    events = kineto(4, 100)["traceEvents"]
    for i, ts in enumerate([e["ts"] for e in events if e["name"].startswith("ProfilerStep")]):
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 9, "tid": 9}
        copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7}
        sample = {"ph": "X", "cat": "user_annotation", "name": "## train/sample ##", "pid": 9, "tid": 9}
        events += [sample | {"ts": ts + 200, "dur": 50}]
        events += [launch | {"ts": ts + 200, "dur": 5, "args": {"correlation": i + 1}}]
        events += [copy | {"ts": ts + 210, "dur": 110, "args": {"correlation": i + 1, "bytes": 4000}}]
    path.write_text(json.dumps({"traceEvents": events}))

    def only(text):
        done = engine("trace", "analyze", path, "--only", text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    stages = only("train/sample")
    heading = 'Stages of the main thread (main), names with "train/sample"\n'
    assert heading + "4 calls of 1 stage, 1.0 an iteration: 200.0 us" in stages
    assert "## train/sample ##" in stages and "(untraced)" not in stages and "aten::mm" not in stages
    assert 'Copies, names with "HtoD"' in only("HtoD")
    assert 'Threads, names with "main"' in only("main")
    nears = {"Train/Sample": "did you mean ## train/sample ##?", "smaple": "did you mean sample?", "qqqqqqqq": 'has "qqqqqqqq" in it\n'}
    for text, near in nears.items():
        missed = engine("trace", "analyze", path, "--only", text)
        assert missed.returncode == 2 and missed.stdout == "" and near in missed.stderr, missed.stderr
        assert missed.stderr.count("\n") == 1


def test_each_analysis_may_be_a_line_of_a_history(engine, tmp_path):
    path = tmp_path / "x.json"
    events = kineto(4, 100)["traceEvents"]
    steps = [e["ts"] for e in events if e["name"].startswith("ProfilerStep")]
    for i, ts in enumerate(steps):
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 9, "tid": 9}
        copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7}
        events += [launch | {"ts": ts + 200, "dur": 5, "args": {"correlation": i + 1}}]
        events += [copy | {"ts": ts + 210, "dur": 110, "args": {"correlation": i + 1, "bytes": 4000}}]
    path.write_text(json.dumps({"traceEvents": events}))
    log = tmp_path / "history.jsonl"
    engine("trace", "analyze", path, "--log", log)
    engine("trace", "analyze", path, "--log", log, "--note", "larger batches")
    first, second = [json.loads(line) for line in log.read_text().splitlines()]
    assert "note" not in first and second["note"] == "larger batches"
    assert second["file"] == str(path) and second["iterations"] == 4 and second["date"].endswith("Z")
    assert second["seconds_per_iteration"] == pytest.approx(0.0011)
    assert sum(second["stages"].values()) == pytest.approx(0.0011)
    assert second["copies"] == {"HtoD": {"calls": 1, "bytes": 4000, "seconds": pytest.approx(0.00011)}}
    assert second["devices"]["GPU 0"]["idle"] == pytest.approx(0.9)
    assert second["launches_per_iteration"] == 1
    refused = engine("trace", "analyze", path, "--note", "alone")
    assert refused.returncode == 2 and "--log FILE" in refused.stderr


def test_knows_its_words(engine):
    assert "trace analyze FILE" in engine("trace").stderr
    assert "did you mean analyze" in engine("trace", "analyse").stderr
