"""The results page of the prover: each graph, each seed is trained, embedded and ranked, by the program's own verbs.

python3 bench/knowledge_graphs.py --out runs/kg_results            (again to go on where it stopped; about half an hour)
python3 bench/knowledge_graphs.py --out runs/kg_results --graphs family countries_s2 --seeds 3

Writes results.json and results.md there: MRR, Hits and AUC-PR of proofs alone, of the embedding alone and of both, mean and
deviation over seeds. Graphs that come without rules get the surest mined ones of each predicate, from their training triples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
GRAPHS = ["family", "countries_s1", "countries_s2", "countries_s3", "umls", "kinships"]
# graphs without rules: support, confidence and rules a predicate
MINED = {"umls": (10, 0.3, 12), "kinships": (20, 0.3, 12), "nations": (10, 0.5, 12)}
# countries ask for the region of a country alone, among all regions; the others for both arguments among 100 drawn ones
RANKED = {"countries": ["--corruptions", "all"], "": ["--queries", "250", "--corruptions", "100"]}
TRAINED = {"countries": ["env.corrupt=tail"], "": []}


def of_graph(table: dict, graph: str):
    return table["countries"] if graph.startswith("countries") else table[""]


def call(words: list) -> str:
    print("  ./maglev " + " ".join(map(str, words)), flush=True)
    done = subprocess.run([HOME / "maglev", *map(str, words)], capture_output=True, text=True, cwd=HOME)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def with_rules(graph: str, out: Path) -> str:
    """The graph's name, or a folder of it with mined rules."""
    if graph not in MINED:
        return graph
    folder = out / "graphs" / graph
    if not (folder / "rules.txt").exists():
        support, confidence, count = MINED[graph]
        call(["kg", "make", graph, "--out", folder, "--overwrite"])
        mined = ["--support", support, "--confidence", confidence, "--per-head", count]
        call(["kg", "mine", folder, *mined, "--out", folder / "rules.txt", "--overwrite"])
    return str(folder)


def judged(graph: str, seed: int, steps: int | None, out: Path) -> dict:
    """Figures of one seed by name: proof, embedding, both."""
    folder = out / f"{graph}-{seed}"
    result = folder / "ranks.json"
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        data, vectors = with_rules(graph, out), folder / "embedding.safetensors"
        settings = [f"env.data={data}", f"seed={seed}", *of_graph(TRAINED, graph)]
        if steps:
            settings.append(f"train.steps={steps}")
        call(["train", "ppo", "kg", *settings, "--out", folder / "run", "--overwrite"])
        call(["kg", "embed", data, "--out", vectors, "--seed", seed, "--overwrite"])
        ranks = ["rank", folder / "run", "--embedding", vectors, "--json", "--seed", 0]
        temporary = folder / "ranks.part"
        temporary.write_text(call([*ranks, *of_graph(RANKED, graph)]))
        temporary.rename(result)
    return json.loads(result.read_text())


def spread(values: list[float]) -> str:
    mean = statistics.mean(values)
    return f"{mean:.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else f"{mean:.3f}"


def page(results: dict[str, list[dict]]) -> str:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of each run (default: the proven settings')")
    options = parser.parse_args()
    results: dict[str, list[dict]] = {}
    for graph in options.graphs:
        for seed in range(1, options.seeds + 1):
            print(f"{graph}, seed {seed}", flush=True)
            results.setdefault(graph, []).append(judged(graph, seed, options.steps, options.out.resolve()))
            (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
            (options.out / "results.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
