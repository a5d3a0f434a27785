"""The same totals of one PyTorch trace by Maglev and by HTA (HolisticTraceAnalysis), with time and memory of both.

    python bench/peers/hta_trace.py TRACE.json.gz --engine .build/release/maglev-engine [--copies 20] [--runs 3]

Run by a Python that has HolisticTraceAnalysis; needs no GPU. --copies repeats the trace's events, each copy behind the one
before in time, which makes a long trace of a short one.
"""

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def open_trace(path):
    return gzip.open(path, "rt") if path.endswith(".gz") else open(path)


def grown(path, copies, folder):
    """The trace with its events `copies` times, as a plain file."""
    with open_trace(path) as file:
        trace = json.load(file, strict=False)
    timed = [e for e in trace["traceEvents"] if "ts" in e]
    spans = [e for e in timed if e.get("ph") == "X" and e.get("cat") != "Trace"]
    begin = min(float(e["ts"]) for e in spans)
    period = max(float(e["ts"]) + float(e["dur"]) for e in spans) - begin + 1000
    most_link = 1 + max(
        int(e.get("args", {}).get(key, 0)) for e in timed for key in ("correlation", "External id") if e.get("args")
    )
    target = os.path.join(folder, "grown.json")
    with open(target, "w") as out:
        beside = {k: v for k, v in trace.items() if k != "traceEvents"}
        out.write(json.dumps(beside)[:-1] + (", " if beside else "") + '"traceEvents": [\n')
        out.write(",\n".join(json.dumps(e) for e in trace["traceEvents"] if "ts" not in e or e.get("ph") == "M"))
        for copy in range(copies):
            for event in timed:
                if event.get("ph") == "M" or event.get("cat") == "Trace":
                    continue
                event = dict(event, ts=round(float(event["ts"]) + copy * period, 3))
                if event.get("args"):
                    args = event["args"] = dict(event["args"])
                    for key in ("correlation", "External id"):
                        if int(args.get(key, 0)) > 0:
                            args[key] = int(args[key]) + copy * most_link
                if "id" in event and str(event["id"]).isdigit():
                    event["id"] = int(event["id"]) + copy * most_link
                if event.get("name", "").startswith("ProfilerStep#"):
                    event["name"] = f"ProfilerStep#{int(event['name'][13:]) + 1000 * copy}"
                out.write(",\n" + json.dumps(event))
        out.write("\n]}\n")
    return target


def hta_totals(path):
    from hta.trace_analysis import TraceAnalysis

    begin = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir="", include_last_profiler_step=True)
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    types, _ = analysis.get_gpu_kernel_breakdown(visualize=False)
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "active": float(row["kernel_time(us)"]) / 1e6,
        "compute": float(row["compute_time(us)"]) / 1e6,
        "other": float(row["non_compute_time(us)"]) / 1e6,
        "types": {r["kernel_type"]: float(r["sum"]) / 1e6 for _, r in types.iterrows()},
    }


def child(command):
    """Seconds of wall and processor time and the most memory of a command, with what it printed."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"{command} failed"
    return {
        "wall": time.perf_counter() - begin,
        "cpu": usage.ru_utime + usage.ru_stime,
        "rss": usage.ru_maxrss * 1024,
        "text": text.decode(),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--engine", default=".build/release/maglev-engine")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hta-child", action="store_true")
    options = parser.parse_args()
    if options.hta_child:
        print("\n" + json.dumps(hta_totals(options.trace)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = grown(options.trace, options.copies, folder) if options.copies > 1 else options.trace
        with open_trace(path) as file:
            size = file.seek(0, os.SEEK_END) if not path.endswith(".gz") else len(file.read())
        ours, theirs = [], []
        for _ in range(options.runs):
            ours.append(child([options.engine, "trace", "analyze", path, "--json"]))
            theirs.append(child([sys.executable, __file__, path, "--hta-child"]))
        report = json.loads(ours[0]["text"])
        device = report["devices"][0]["active"]
        hta = json.loads(theirs[0]["text"].strip().splitlines()[-1])
        for name, mine, other in (
            ("from first to last work", device["length_s"], hta["active"]),
            ("compute", device["compute_s"], hta["compute"]),
            ("copies, communication", device["other_s"], hta["other"]),
        ):
            print(f"{name:24} maglev {mine:.6f} s  HTA {other:.6f} s  ratio {mine / other if other else 1:.4f}")

        def middle(rows, key):
            return statistics.median(r[key] for r in rows)

        print(f"trace                    {size / 1e6:.1f} MB, {report['spans']} spans, median of {options.runs}")
        print(f"processor time           maglev {middle(ours, 'cpu'):.3f} s  HTA {middle(theirs, 'cpu'):.3f} s"
              f"  ratio {middle(theirs, 'cpu') / middle(ours, 'cpu'):.1f}")
        print(f"wall time                maglev {middle(ours, 'wall'):.3f} s  HTA {middle(theirs, 'wall'):.3f} s")
        print(f"memory                   maglev {middle(ours, 'rss') / 1e6:.0f} MB  HTA {middle(theirs, 'rss') / 1e6:.0f} MB"
              f"  ratio {middle(theirs, 'rss') / middle(ours, 'rss'):.1f}")
        print(f"maglev                   {size / 1e6 / middle(ours, 'cpu'):.0f} MB/s of processor time")


if __name__ == "__main__":
    main()
