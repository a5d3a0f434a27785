"""The results page of the prover: each graph, each seed is trained, embedded and ranked, by the program's own verbs.

python3 bench/knowledge_graphs.py --out runs/kg_results                          (again to go on where it stopped)
python3 bench/knowledge_graphs.py --out runs/kg_results --graphs family countries_s2 --seeds 3
python3 bench/knowledge_graphs.py --out runs/kg_results --page docs/kg_results.md

Writes results.json and results.md there: MRR, Hits and AUC-PR of proofs alone, of the embedding alone and of both, mean and
deviation over seeds. --page puts the table where that page has one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
GRAPHS = ["family", "countries_s1", "countries_s2", "countries_s3", "umls", "kinships"]
# besides the proven settings: wrong regions have proofs as well, so false queries are asked, of regions alone
REGIONS = ["env.corrupt=tail", "env.negatives=1", "env.end_action=true", "ppo.entropy=0.2"]
TRAINED = {
    "family": ["train.steps=200000"],
    "countries": ["train.steps=80000", *REGIONS],
    "": ["train.steps=60000"],
}
# family among 100 drawn candidates, the others among all
RANKED = {
    "family": ["--queries", "100", "--corruptions", "100"],
    "countries": ["--corruptions", "all"],
    "": ["--queries", "60", "--corruptions", "all"],
}
BEGIN, END = "<!-- bench/knowledge_graphs.py -->\n", "<!-- end -->\n"


def of_graph(table: dict, graph: str):
    return table.get(graph.split("_")[0], table[""])


class Runs:
    """Runs of one folder, made by `program`: the launcher, or an engine."""

    def __init__(self, program: Path, out: Path, threads: int):
        self.program, self.out, self.threads = program, out, threads

    def call(self, words: list) -> str:
        print("  ./maglev " + " ".join(map(str, words)), flush=True)
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, cwd=HOME)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        return done.stdout

    def judged(self, graph: str, seed: int) -> dict:
        """Figures of one seed by name: proof, embedding, both."""
        folder = self.out / f"{graph}-{seed}"
        result = folder / "ranks.json"
        if not result.exists():
            folder.mkdir(parents=True, exist_ok=True)
            vectors, threads = folder / "embedding.safetensors", f"threads={self.threads}"
            settings = [f"env.data={graph}", f"seed={seed}", threads, *of_graph(TRAINED, graph)]
            self.call(["train", "ppo", "kg", *settings, "--out", folder / "run", "--overwrite"])
            self.call(["kg", "embed", graph, "--out", vectors, "--seed", seed, "--overwrite"])
            ranks = ["rank", folder / "run", "--embedding", vectors, "--json", "--seed", 0, threads]
            temporary = folder / "ranks.part"
            temporary.write_text(self.call([*ranks, *of_graph(RANKED, graph)]))
            temporary.rename(result)
        return json.loads(result.read_text())


def spread(values: list[float]) -> str:
    mean = statistics.mean(values)
    return f"{mean:.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else f"{mean:.3f}"


def table_of(results: dict[str, list[dict]]) -> str:
    lines = [
        "| graph | scores | MRR | Hits@1 | @3 | @10 | AUC-PR | true proved | false proved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for graph, seeds in results.items():
        for scoring in ("proof", "embedding", "both"):
            rows = [seed["scores"][scoring] for seed in seeds]
            cells = [spread([row[k] for row in rows]) for k in ("mrr", "hits1", "hits3", "hits10", "auc_pr")]
            if scoring == "proof":
                cells += [
                    f"{100 * statistics.mean(row[k] for row in rows):.1f} %" for k in ("proved_true", "proved_false")
                ]
            else:
                cells += ["", ""]
            lines.append(f"| {graph if scoring == 'proof' else ''} | {scoring} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def put(page: Path, table: str) -> None:
    text = page.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"{page} has no place for the table: a line {BEGIN.strip()} and behind it a line {END.strip()}")
    before, rest = text.split(BEGIN, 1)
    page.write_text(before + BEGIN + table + END + rest.split(END, 1)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4, 5], help="(default 3 4 5)")
    parser.add_argument("--jobs", type=int, default=1, help="seeds side by side (default 1)")
    parser.add_argument("--threads", type=int, default=0, help="of each (default 0: all)")
    parser.add_argument("--engine", type=Path, default=HOME / "maglev", help="(default: the launcher)")
    parser.add_argument("--page", type=Path, help="a page whose table is replaced")
    options = parser.parse_args()
    runs = Runs(options.engine.resolve(), options.out.resolve(), options.threads)
    results: dict[str, list[dict]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = {graph: [pool.submit(runs.judged, graph, seed) for seed in options.seeds] for graph in options.graphs}
        for graph, seeds in waiting.items():
            results[graph] = [seed.result() for seed in seeds]
            (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
            (options.out / "results.md").write_text(table_of(results))
    print(table_of(results))
    if options.page:
        put(options.page, table_of(results))


if __name__ == "__main__":
    main()
