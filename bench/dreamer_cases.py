"""Dreamer V3's update beside r2dreamer's PyTorch code and the official code in JAX."""

from __future__ import annotations

import dreamer_floor
import floor
import tdmpc2_floor
from machine import commit, cores
from measure import HOME, PEER_PYTHON, VENV, Unavailable, compare, execute
from programs import PEERS, peer_version
from tdmpc2_cases import called, repeats


def dreamer_update(options) -> list:
    """One update of 16 sequences of 64 steps at size1m, from vectors and from pictures."""
    results = []
    for config in (dreamer_floor.VECTOR, dreamer_floor.PIXELS):
        for threads in sorted({1, cores()}):
            options.say(f"dreamer_update, {config.name}, {threads} thread(s)")
            program = options.programs.beside("dreamer_throughput")
            command = [program, "--threads", threads, *repeats(options), config.name]
            ours = called("maglev", command)
            others, absent = [called("autograd", [*command, "--plain"])], []
            for name, repo, python, library in (
                ("r2dreamer", options.r2dreamer, PEER_PYTHON, "torch"),
                ("dreamerv3", options.dreamerv3, VENV / "jax" / "bin" / "python", "jax"),
            ):
                if not repo:
                    absent.append({"name": name, "why": f"no --{name} was given"})
                    continue
                try:
                    version = f"{commit(repo)}, {library} {peer_version(library, python)}"
                except Unavailable as why:
                    absent.append({"name": name, "why": str(why)})
                    continue
                peer = [python, PEERS / f"{name}_update.py", "--repo", repo, "--threads", threads]
                pixels = ["--pixels"] if config.side else []
                others.append(called(name, [*peer, *repeats(options), *pixels], version=version))
            result = compare(ours, others, options.pairs, options.say)
            result["missing"] += absent
            notes = ["figures are updates a second"]
            try:
                gemm = execute([PEER_PYTHON, HOME / "bench" / "gemm.py", "--threads", threads])
                peak = {"fp32": floor.peak_gflops(options.programs, threads), **gemm.report()}
                tdmpc2_floor.add_floor(result, config.update_flop(), peak)
            except Unavailable as why:
                notes.append(f"no floor: {why}")
            variant = (
                f"size1m, {config.name}, {config.batch} x {config.length}, {threads} thread(s)"
            )
            results.append({"variant": variant, **result, "notes": notes})
    return results
