"""Provers of knowledge graphs: exhaustive beside SWI-Prolog, with the same answers or no figure; trained beside
stable-baselines3; the environment alone, and ranking, beside nobody."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from machine import cores
from measure import HOME, PEER_PYTHON, Contender, Unavailable, compare, execute, shown
from ppo_cases import TRIAL_UPDATES, our_run, sampled
from programs import PEERS, need, peer_command, peer_version, train


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

    ours = [options.programs.engine, "prove", data, "--queries", splits, "--depth", depth, "threads=1", "--json"]
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


REPORT = HOME / "configs" / "ppo" / "kg_report.yaml"
SLOTS = 130  # successors that the published prover pads to


def prover_ppo(options) -> list:
    """The published prover's training step on family, collecting and learning: successors packed,
    every slot embedded, and stable-baselines3's PPO with masks.

    8 time steps an update stand in for its 128: the work a step is the same.
    """
    options.say("prover_ppo")
    count, rollout, epochs = (16, 8, 1) if options.quick else (128, 8, 5)
    rows = count * rollout
    words = ["ppo", "kg", "--bare", "--config", REPORT, f"env.count={count}", f"env.successors={SLOTS}"]
    words += [f"ppo.rollout={rollout}", f"ppo.minibatch={rows}", f"ppo.epochs={epochs}", f"train.log_every={rows}"]
    run = options.folder / "prover_ppo"
    ours = our_run(options, run, words, rows, trial=TRIAL_UPDATES)
    every_slot = [*words, "ppo.network.proof.packed=false"]
    padded = our_run(options, options.folder / "prover_padded", every_slot, rows, trial=TRIAL_UPDATES)
    padded.name = "maglev, every slot"
    peers, absent = [padded], []
    if not options.peers or "stable-baselines3" in options.peers:
        try:
            program = need(options.programs.beside("env_pipe"))

            def command_for(threads, updates):
                return peer_command("sb3_prover_ppo.py", run, program, threads, "--speed", updates * rows)

            version = peer_version("sb3_contrib", PEER_PYTHON, "sb3-contrib")
            peers.append(sampled(options, "stable-baselines3", version, command_for, rows))
        except Unavailable as why:
            absent.append({"name": "stable-baselines3", "why": str(why)})
    result = compare(ours, peers, options.pairs, options.say)
    result["missing"] += absent
    variant = f"family, {SLOTS} slots, {count} environments x {rollout} steps, {epochs} epochs, minibatch {rows}"
    return [{"variant": f"{variant}, {cores()} cores", **result, "notes": []}]


def kg_env(options) -> list:
    """The environment without a policy: derivations of the goals of 128 environments, and steps."""
    options.say("kg_env")
    seconds = 0.02 if options.quick else 0.5
    results = []
    for select in ("bound", "leftmost"):
        command = [options.programs.beside("proving_throughput"), "--seconds", seconds, "--repeats", 1]
        command.append(f"select={select}")
        for what in ("derivations_per_second", "steps_per_second"):

            def sample(command=command, what=what) -> float:
                return execute([need(command[0]), *command[1:]]).report()[what]

            result = compare(Contender("maglev", shown(command), sample), [], options.pairs, options.say)
            told = what.replace("_per_second", "/s")
            variant = f"family, select={select}, 128 environments: {told} of one thread's processor time"
            results.append({"variant": variant, **result, "notes": []})
    return results


def family_ranking(options) -> list:
    """Candidates a second: 50 queries of family, 50 corruptions of each argument, greedy proofs of up to 20
    steps by the published prover's network after a short training; all threads.
    """
    options.say("family_ranking")
    run = options.folder / "family_ranking"
    steps = 1 << (14 if options.quick else 15)
    config = HOME / "configs" / "ppo" / "kg_report.yaml"
    train(options.programs, run, ["ppo", "kg", "--config", config, f"train.steps={steps}"])
    asked = ["--queries", 50, "--corruptions", 50, "--modes", "both", "--width", 1]
    ranking = [options.programs.engine, "rank", run, *asked, "--json"]
    told = {}

    def our_sample() -> float:
        told.update(json.loads(execute(ranking).output))
        return 1e3 / told["milliseconds_per_candidate"]

    ours = Contender("maglev", shown(ranking, run), our_sample)
    result = compare(ours, [], options.pairs, options.say)
    notes = []
    if told:
        each, proof = told["steps"] / told["different"], told["scores"]["proof"]
        notes = [
            f"{told['candidates']} candidates, {told['different']} of them different, {each:.1f} steps each",
            f"{100 * proof['proved_true']:.0f} % of the true ones proved, "
            f"{100 * proof['proved_false']:.1f} % of the others",
        ]
    variant = "family, E 250, H 256, 8 blocks: greedy proofs, candidates/s"
    return [{"variant": variant, **result, "notes": notes}]
