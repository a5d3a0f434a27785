"""Exhaustive proving beside SWI-Prolog: the same queries, rules and steps, and the same answers or no figure."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from measure import Contender, Unavailable, compare, execute, shown
from programs import PEERS, need


def umls_proofs(options) -> list:
    """Which of the queries of umls are provable in 3 steps, one thread."""
    results = []
    depth, every = (2, "test") if options.quick else (3, "train,valid,test")
    data = options.folder / "umls"
    try:
        execute([need(options.programs.engine), "kg", "make", "umls", "--out", data])
    except Unavailable as why:
        missing = [{"name": "maglev", "why": str(why)}]
        return [{"variant": "umls", "missing": missing, "bystanders": 0.0, "notes": []}]
    # none by itself, of all splits; and what is no fact anyway, for which Prolog keeps its tables
    for splits, exclude in ((every, True), ("valid,test", False)):
        options.say(f"umls_proofs, {splits}")
        results.append(one_of(options, data, splits, depth, exclude))
    return results


def one_of(options, data: Path, splits: str, depth: int, exclude: bool) -> dict:
    steps = {}  # of every query, by the first who answered

    def same(found: list) -> None:
        if steps.setdefault("all", found) != found:
            wrong = sum(a != b for a, b in zip(steps["all"], found, strict=True))
            raise Unavailable(f"its answers to {wrong} of {len(found)} queries are others")

    ours = [options.programs.engine, "prove", data, "--queries", splits, "--depth", depth, "--threads", 1, "--json"]
    ours += ["--exclude-query"] * exclude

    def our_sample() -> float:
        report = execute(ours, one_core=True).report()
        same([count for _, count in report["steps"]])
        return len(report["steps"]) / report["seconds"]

    peers, missing = [], []
    if not shutil.which("swipl"):
        missing.append({"name": "SWI-Prolog", "why": "swipl is not installed (Debian: swi-prolog-nox)"})
    else:
        version = execute(["swipl", "--version"]).output.split()[2]
        for name, words in (("SWI-Prolog, tabled", []), ("SWI-Prolog, no tables", ["plain"])):
            command = [sys.executable, PEERS / "swipl_proofs.py", data, splits, depth, *["exclude"] * exclude, *words]

            def sample(command=command) -> float:
                report = execute(command, one_core=True).report()
                same(report["steps"])
                return report["queries_per_second"]

            peers.append(Contender(name, shown(command, data), sample, version))
    result = compare(Contender("maglev", shown(ours, data), our_sample), peers, options.pairs, options.say)
    result["missing"] += missing
    own = ", none by itself" if exclude else ""
    return {
        "variant": f"umls, {splits}: provable in {depth} steps{own}, queries/s, 1 thread",
        **result,
        "notes": ["every program gives the same number of steps for every query"],
    }
