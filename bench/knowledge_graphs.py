"""The results page of the prover: each graph, each seed is trained, embedded and ranked, by the program's own verbs.

python3 bench/knowledge_graphs.py --out runs/kg_results                          (again to go on where it stopped)
python3 bench/knowledge_graphs.py --out runs/kg_results --graphs family countries_s2 --seeds 3
python3 bench/knowledge_graphs.py --out runs/kg_results --page docs/kg_results.md

Writes results.json and results.md there: MRR, Hits and AUC-PR of greedy proofs, of those of a beam whose width the
first seed's valid queries choose, of the embedding, of rules and of all joined with the beam's proofs, mean and
deviation over seeds; then, without proofs, of mined rules and the embedding over all test queries. --page puts both
tables where that page has them.
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
    "countries": ["train.steps=80000", *REGIONS],
    "": ["train.steps=200000"],
}
# family among 100 drawn candidates, the others among all
RANKED = {
    "family": ["--queries", "100", "--corruptions", "100"],
    "countries": ["--corruptions", "all"],
    "": ["--queries", "60", "--corruptions", "all"],
}
# widths of beams that are tried on valid queries; four times the work must earn so much of their MRR
WIDTHS, EARNED = [1, 4, 16], 0.02
GREEDY = "proof, greedy"
# ranked by rules over all test queries among all constants: those that come with the graph, and all that are mined
MINED = {"umls": ["--support", 10], "kinships": ["--support", 20]}
BEGIN, BEGIN_MINED, END = "<!-- bench/knowledge_graphs.py -->\n", "<!-- of mined rules -->\n", "<!-- end -->\n"


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

    def vectors(self, graph: str, seed: int) -> Path:
        """The embedding of one seed."""
        file = self.out / f"{graph}-{seed}" / "embedding.safetensors"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_suffix(".part")
            self.call(["kg", "embed", graph, "--out", temporary, "--seed", seed, "--overwrite"])
            temporary.rename(file)
        return file

    def ranked(self, result: Path, words: list) -> dict:
        """What rank says, kept in a file."""
        if not result.exists():
            temporary = result.with_suffix(".part")
            temporary.write_text(self.call(["rank", *words, "--json", "--seed", 0, f"threads={self.threads}"]))
            temporary.rename(result)
        return json.loads(result.read_text())

    def trained(self, graph: str, seed: int) -> Path:
        """The run of one seed."""
        run = self.out / f"{graph}-{seed}" / "run"
        if not run.exists():
            temporary = run.with_suffix(".part")
            settings = [f"env.data={graph}", f"seed={seed}", f"threads={self.threads}", *of_graph(TRAINED, graph)]
            self.call(["train", "ppo", "kg", *settings, "--out", temporary, "--overwrite"])
            temporary.rename(run)
        return run

    def width(self, graph: str, seed: int) -> int:
        """The least width that ranks valid queries as well as any, but for what is not worth the work."""
        run, mrr = self.trained(graph, seed), {}
        for width in WIDTHS:
            asked = [run, *of_graph(RANKED, graph), "--split", "valid", "--width", width]
            report = self.ranked(run.parent / f"valid-{width}.json", asked)
            mrr[width] = report["scores"]["proof"]["mrr"]
        print(f"  {graph}: MRR of valid queries by width {mrr}", flush=True)
        return next(width for width in WIDTHS if mrr[width] >= max(mrr.values()) - EARNED)

    def judged(self, graph: str, seed: int, width: int) -> dict:
        """Figures of one seed by name: greedy proofs, and at a width proofs, embedding, rules, joined."""
        run, vectors = self.trained(graph, seed), self.vectors(graph, seed)
        asked = [run, *of_graph(RANKED, graph)]
        greedy = self.ranked(run.parent / "greedy.json", [*asked, "--width", 1])
        ranks = self.ranked(run.parent / f"ranks-{width}.json", [*asked, "--width", width, "--embedding", vectors])
        ranks["scores"][GREEDY] = greedy["scores"]["proof"]
        return ranks

    def by_rules(self, graph: str, seed: int) -> dict[tuple, dict]:
        """Figures of one seed over all test queries, by how many rules there are and how they are aggregated."""
        folder, vectors, figures = self.out / f"{graph}-mined", self.vectors(graph, seed), {}
        if not folder.exists():
            self.call(["kg", "make", graph, "--out", folder.with_suffix(".part"), "--overwrite"])
            mine = ["kg", "mine", graph, *MINED[graph], "--confidence", 0.3, "--per-head", 0]
            self.call([*mine, "--out", folder.with_suffix(".part") / "rules.txt", "--overwrite"])
            folder.with_suffix(".part").rename(folder)
        for data in (graph, folder):
            rules = json.loads(self.call(["kg", "stats", data, "--json"]))["rules"]
            for how in ("max", "noisy-or"):
                result = vectors.parent / f"rules-{rules}-{how}.json"
                asked = [data, "--embedding", vectors, "--corruptions", "all", "--aggregate", how]
                figures[rules, how] = self.ranked(result, asked)
        return figures


def spread(values: list[float]) -> str:
    mean = statistics.mean(values)
    return f"{mean:.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else f"{mean:.3f}"


def table_of(results: dict[str, list[dict]]) -> str:
    lines = [
        "| graph | scores | MRR | Hits@1 | @3 | @10 | AUC-PR | true proved | false proved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for graph, seeds in results.items():
        for scoring in (GREEDY, "proof", "embedding", "rules", "joined"):
            if scoring == "proof" and seeds[0]["width"] == 1:
                continue
            rows = [seed["scores"][scoring] for seed in seeds]
            cells = [spread([row[k] for row in rows]) for k in ("mrr", "hits1", "hits3", "hits10", "auc_pr")]
            if "proof" in scoring:
                cells += [
                    f"{100 * statistics.mean(row[k] for row in rows):.1f} %" for k in ("proved_true", "proved_false")
                ]
            else:
                cells += ["", ""]
            name = f"proof, {seeds[0]['width']} wide" if scoring == "proof" else scoring
            lines.append(f"| {graph if scoring == GREEDY else ''} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def mined_table_of(results: dict[str, list[dict[tuple, dict]]]) -> str:
    lines = [
        "| graph | rules | scores | MRR | Hits@1 | @3 | @10 | AUC-PR | weight of rules |",
        "|---|---|---|---|---|---|---|---|---|",
    ]

    def row(graph, rules, name, reports, scoring):
        rows = [report["scores"][scoring] for report in reports]
        cells = [spread([one[k] for one in rows]) for k in ("mrr", "hits1", "hits3", "hits10", "auc_pr")]
        weights = ", ".join(f"{report['joined']['weights']['rules']:.3g}" for report in reports)
        cells.append(weights if scoring == "joined" else "")
        lines.append(f"| {graph} | {rules} | {name} | " + " | ".join(cells) + " |")

    for graph, seeds in results.items():
        row(graph, "", "embedding", [next(iter(seed.values())) for seed in seeds], "embedding")
        for rules, how in seeds[0]:
            reports = [seed[rules, how] for seed in seeds]
            # rules know no seed
            row("", rules, f"rules, {how}", reports[:1], "rules")
            row("", rules, f"joined, {how}", reports, "joined")
    return "\n".join(lines) + "\n"


def put(page: Path, begin: str, table: str) -> None:
    text = page.read_text()
    if begin not in text or END not in text.split(begin, 1)[1]:
        sys.exit(f"{page} has no place for the table: a line {begin.strip()} and behind it a line {END.strip()}")
    before, rest = text.split(begin, 1)
    page.write_text(before + begin + table + END + rest.split(END, 1)[1])


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
        chosen = pool.map(lambda graph: runs.width(graph, options.seeds[0]), options.graphs)
        widths = dict(zip(options.graphs, chosen))
        waiting = {
            graph: [pool.submit(runs.judged, graph, seed, width) for seed in options.seeds]
            for graph, width in widths.items()
        }
        for graph, seeds in waiting.items():
            results[graph] = [seed.result() for seed in seeds]
            (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
            (options.out / "results.md").write_text(table_of(results))
    # one after another: the seeds share a folder of mined rules
    mined = {g: [runs.by_rules(g, seed) for seed in options.seeds] for g in options.graphs if g in MINED}
    tables = {BEGIN: table_of(results), BEGIN_MINED: mined_table_of(mined)}
    (options.out / "results.md").write_text("\n".join(tables.values()))
    print("\n".join(tables.values()))
    for begin, table in tables.items():
        if options.page:
            put(options.page, begin, table)


if __name__ == "__main__":
    main()
