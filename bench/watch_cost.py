"""What watching costs a training: processor time with and without three viewers, in turn.

    python3 bench/watch_cost.py [--engine FILE] [--pairs N] [--steps N]

A viewer asks as the page does: for curves every 2 s, for the list every 5 s. The server's processor time is taken as a
share of what the machine has; viewers sit elsewhere in life, so theirs is left out.
"""

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
VIEWERS = 3


def processor_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def view(port, name, over):
    """One viewer, until `over` is set."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    generation, begin, turn = "", 0, 0

    def ask(path):
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    while not over.is_set():
        if turn % 5 < 2:
            ask("/api/runs")
        answer = ask(f"/api/curves?run={name}&points=400&generation={generation}&from={begin}")
        generation, begin = answer["generation"], answer["next"]
        turn += 2
        over.wait(2)


def train(engine, folder, steps, watched):
    """(processor seconds of the training, wall seconds, the server's share of all processors)"""
    run = folder / "run"
    words = ["train", "ppo", "cartpole", f"train.steps={steps}", "--sinks", "jsonl", "--out", str(run)]
    begin = time.monotonic()
    process = subprocess.Popen([engine, *words], stdout=subprocess.DEVNULL)
    server, over, viewers = None, threading.Event(), []
    if watched:
        while not (run / "config.yaml").exists():
            time.sleep(0.02)
        server = subprocess.Popen([engine, "watch", str(folder), "--port", "0"], stdout=subprocess.PIPE, text=True)
        port = int(server.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        start = processor_s(server.pid)
        since = time.monotonic()
        viewers = [threading.Thread(target=view, args=(port, "run", over)) for _ in range(VIEWERS)]
        for viewer in viewers:
            viewer.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    if status:
        sys.exit("the training failed")
    share = 0.0
    if watched:
        share = (processor_s(server.pid) - start) / (time.monotonic() - since) / len(os.sched_getaffinity(0))
        over.set()
        for viewer in viewers:
            viewer.join()
        server.send_signal(signal.SIGINT)
        server.wait()
    return usage.ru_utime + usage.ru_stime, wall, share


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default=str(HOME / ".build" / "release" / "maglev-engine"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20_000_000)
    options = parser.parse_args()
    ratios, walls, shares = [], [], []
    for pair in range(options.pairs):
        results = {}
        # who goes first changes
        for watched in (False, True) if pair % 2 else (True, False):
            with tempfile.TemporaryDirectory() as folder:
                results[watched] = train(options.engine, Path(folder), options.steps, watched)
        ratios.append(results[True][0] / results[False][0])
        walls.append(results[True][1] / results[False][1])
        shares.append(results[True][2])
        print(f"pair {pair + 1}: processor time {results[True][0]:.2f} / {results[False][0]:.2f} s = {ratios[-1]:.4f}, "
              f"clock {results[True][1]:.2f} / {results[False][1]:.2f} s, server {100 * shares[-1]:.3f} % of all processors", flush=True)
    print(f"median: training's processor time x {statistics.median(ratios):.4f}, clock x {statistics.median(walls):.4f}, "
          f"server {100 * statistics.median(shares):.3f} %")


if __name__ == "__main__":
    main()
