"""Time of a call of exported models beside each other: exported_models.py policy.onnx policy_int8.onnx ...

By onnxruntime on one thread, at 1, 64 and 1,024 rows of random inputs; the models take turns, and of each the least of
the rounds counts, so that what else the machine does shows little. Prints a line of JSON a model: bytes, and ms a call by
rows.
"""

import argparse
import json
import os
import time

import numpy as np
import onnxruntime

ROWS = (1, 64, 1024)
SECONDS = 0.03  # of each measurement


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def some_inputs(session, rows):
    rng, feed = np.random.default_rng(0), {}
    for port in session.get_inputs():
        shape = [rows, *port.shape[1:]]
        if port.type == "tensor(float)":
            # noise is uniform, and suits the others
            feed[port.name] = rng.random(shape, dtype=np.float32)
        elif len(shape) == 4:
            feed[port.name] = rng.integers(0, 256, shape).astype(np.uint8)
        else:
            # codes and flags that every model has, and an allowed category
            feed[port.name] = np.ones(shape, np.uint8 if port.type == "tensor(uint8)" else np.int32)
    return feed


def seconds_a_call(session, feed):
    calls, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < SECONDS or calls == 0:
        session.run(None, feed)
        calls += 1
    return took / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    sessions = {path: session_of(path) for path in arguments.models}
    least = {path: {} for path in sessions}
    for rows in ROWS:
        for _ in range(arguments.rounds):
            for path, session in sessions.items():
                took = 1e3 * seconds_a_call(session, some_inputs(session, rows))
                least[path][rows] = min(took, least[path].get(rows, took))
    for path, times in least.items():
        rounded = {rows: float(f"{took:.3g}") for rows, took in times.items()}
        print(json.dumps({"model": path, "bytes": os.path.getsize(path), "ms": rounded}))


if __name__ == "__main__":
    main()
