"""maglev trace analyze on what Nsight Systems exports for SQLite; the tables are those of its published schema."""

import json
import sqlite3

import pytest

THREAD = (1 << 48) + 42 * 0x1000000 + 43
TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, correlationId INT, demangledName INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT, correlationId INT,
                                         copyKind INT, srcKind INT, dstKind INT, bytes INT);
"""
NAMES = ("cudaLaunchKernel_v7000", "cudaMemcpy_v3020", "gemm(float*)", "add(float*)")
LAUNCH, COPY, GEMM, ADD = range(1, 5)


@pytest.fixture
def report(tmp_path):
    """Twenty steps of a millisecond, most of which a copy from pageable memory takes; two kernels each."""
    path = tmp_path / "report.sqlite"
    with sqlite3.connect(path) as file:
        file.executescript(TABLES)
        insert = lambda table, *row: file.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        for number, name in enumerate(NAMES, 1):
            insert("StringIds", number, name)
        for i in range(20):
            at, link = 1_000_000 * i, 10 * i
            insert("NVTX_EVENTS", at, at + 990_000, 59, "step", THREAD, None)
            insert("CUPTI_ACTIVITY_KIND_RUNTIME", at + 1_000, at + 700_000, THREAD, link, COPY)
            insert("CUPTI_ACTIVITY_KIND_MEMCPY", at + 2_000, at + 690_000, 0, 7, link, 1, 0, 2, 1 << 20)
            for k, (name, length) in enumerate(((GEMM, 150_000), (ADD, 30_000)), 1):
                begin = at + 710_000 + 10_000 * k
                insert("CUPTI_ACTIVITY_KIND_RUNTIME", begin, begin + 5_000, THREAD, link + k, LAUNCH)
                start = at + 600_000 + 160_000 * k
                insert("CUPTI_ACTIVITY_KIND_KERNEL", start, start + length, 0, 7, link + k, name)
    file.close()
    return path


def test_a_report_is_analysed_as_other_traces_are(engine, report):
    done = engine("trace", "analyze", report, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    kernels = {kernel["name"]: kernel for kernel in found["kernels"]}
    assert {name: round(1e9 * k["self_s"]) for name, k in kernels.items() if "float" in name} == {
        "gemm(float*)": 20 * 150_000,
        "add(float*)": 20 * 30_000,
    }
    text = engine("trace", "analyze", report).stdout
    assert "pageable" in text and "HtoD" in text


def test_mistakes_are_one_message(engine, report, tmp_path):
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE t (x INT)")
    file.close()
    torn = tmp_path / "torn.sqlite"
    torn.write_bytes(report.read_bytes()[:9000])
    for path, words in ((other, "none that Nsight Systems exported"), (torn, "malformed")):
        done = engine("trace", "analyze", path)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    done = engine("trace", "analyze", report, env={"MAGLEV_SQLITE": "/nowhere/libsqlite3.so"})
    assert done.returncode == 2 and "libsqlite3-0" in done.stderr, done.stderr
