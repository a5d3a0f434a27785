"""How fast `maglev trace analyze` reads, and with how much memory, on a file that is written for it and removed again.

    python bench/trace_reading.py --gigabytes 2 [--engine .build/release/maglev-engine]

The file is as PyTorch's profiler writes one: operations with their shapes, launches and kernels, one training step after
another, 10,000 spans a step.
"""

import argparse
import os
import subprocess
import tempfile
import time

OPERATION = """  {
    "ph": "X", "cat": "cpu_op", "name": "aten::%s", "pid": 4230, "tid": 4230,
    "ts": %d.%03d, "dur": 18.277,
    "args": {
      "External id": %d,"Record function id": 0, "Sequence number": 21, "Fwd thread id": 0, "Input type": ["float", "Scalar"], "Input Strides": [[64, 1], []], "Input Dims": [[4096, 64], []], "Ev Idx": 2
    }
  },
"""
LAUNCH = """  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4230, "tid": 4230,
    "ts": %d.%03d, "dur": 5.120,
    "args": {
      "External id": %d, "cbid": 211, "correlation": %d
    }
  },
  {
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::%s>", "pid": 0, "tid": 7,
    "ts": %d.%03d, "dur": 11.001,
    "args": {
      "External id": %d, "device": 0, "context": 1, "stream": 7, "correlation": %d, "grid": [128, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %%": 63
    }
  },
"""
STEP = """  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": 4230, "tid": 4230, "ts": %d, "dur": %d
  },
"""
NAMES = ("mm", "addmm", "add_", "copy_", "tanh", "sum", "mul", "view", "empty", "native_layer_norm")
SPANS = 3333  # operations of a step, each with its launch and kernel


def write(path, size):
    spans = step = 0
    now = 4541845357757
    with open(path, "w", buffering=1 << 20) as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        while file.tell() < size:
            file.write(STEP % (step, now, 20 * SPANS))
            for i in range(SPANS):
                link = spans + i + 1
                name = NAMES[i % len(NAMES)]
                file.write(OPERATION % (name, now, i % 1000, link))
                file.write(LAUNCH % (now + 5, i % 1000, link, link, name, now + 8, i % 1000, link, link))
                now += 20
            spans, step = spans + SPANS, step + 1
        file.write('  {"ph": "M", "name": "process_name", "pid": 4230, "args": {"name": "python"}}\n]}\n')
    return 3 * spans + step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--engine", default=".build/release/maglev-engine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        spans = write(path, options.gigabytes * 1e9)
        size = os.path.getsize(path)
        for run in range(3):
            begin = time.perf_counter()
            process = subprocess.Popen([options.engine, "trace", "analyze", path], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            assert status == 0, "the analysis failed"
            cpu = usage.ru_utime + usage.ru_stime
            print(
                f"run {run}: {size / 1e9:.2f} GB, {spans} spans: {cpu:.1f} s of processor time, {size / 1e6 / cpu:.0f} MB/s, "
                f"{time.perf_counter() - begin:.1f} s of wall time, {usage.ru_maxrss / 1e3:.0f} MB of memory"
            )


if __name__ == "__main__":
    main()
