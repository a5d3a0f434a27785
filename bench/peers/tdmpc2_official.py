"""The official TD-MPC2, from a checkout, on the processor: one plan or one update, eager.

    tdmpc2_official.py --repo DIR --threads N plan   [--horizon 8 --samples 256 --episodic ...]
    tdmpc2_official.py --repo DIR --threads N update [--batch 256 ...]

Its files are left alone; as they are loaded, 'cuda:0' is read as 'cpu' and Adam's capturable as
False. WorldModel.to(), which fails on placeholders of newer tensordict, does nothing: all is made
where it stays. The settings are its config.yaml's but for those given here. Weights and inputs are
random, one environment plans, an update's batch is ready made. Prints one JSON object: wall and
processor milliseconds, the least and the median of --repeats calls after a warm-up.
"""

import argparse
import importlib.machinery
import json
import re
import statistics
import sys
import time
import types
from pathlib import Path

import torch
import yaml

REPLACED = (("cuda:0", "cpu"), ("capturable=True", "capturable=False"))
OBSERVATIONS, EPISODE = 18, 250  # hockey's
WARM_UP = 2


class OnProcessor(importlib.machinery.SourceFileLoader):
    """Loads a module with REPLACED done, past any compiled file."""

    def get_code(self, fullname):
        source = self.get_source(fullname)
        for text, by in REPLACED:
            source = source.replace(text, by)
        return compile(source, self.path, "exec")


def official(repo: Path):
    """Its modules `common` and `tdmpc2`."""
    folder = repo / "tdmpc2"
    if not (folder / "tdmpc2.py").is_file():
        raise SystemExit(f"tdmpc2_official: {repo} is no checkout of nicklashansen/tdmpc2")
    for place in (folder, folder / "common"):
        finder = importlib.machinery.FileFinder(str(place), (OnProcessor, [".py"]))
        sys.path_importer_cache[str(place)] = finder
    sys.path.insert(0, str(folder))
    import common
    import tdmpc2
    from common.world_model import WorldModel

    WorldModel.to = lambda self, *_, **__: self
    return common, tdmpc2


def config(common, repo: Path, arguments) -> types.SimpleNamespace:
    """config.yaml with the sizes of a model and what its parser adds for a single task."""
    loaded = yaml.safe_load((repo / "tdmpc2" / "config.yaml").read_text())
    number = re.compile(r"[-+]?[\d.]+e[-+]?\d+")  # YAML 1.1 reads 3e-4 as text
    known = {k: float(v) if number.fullmatch(str(v)) else v for k, v in loaded.items()}
    known.update(common.MODEL_SIZE[arguments.size])
    known.update(
        compile=False,
        multitask=False,
        task_dim=0,
        bin_size=(known["vmax"] - known["vmin"]) / (known["num_bins"] - 1),
        obs_shape={"state": (OBSERVATIONS,)},
        action_dim=arguments.actions,
        episode_length=EPISODE,
        episodic=arguments.episodic,
        horizon=arguments.horizon,
        num_samples=arguments.samples,
        num_elites=arguments.elites,
        num_pi_trajs=arguments.policy_trajectories,
        iterations=arguments.iterations,
        num_q=arguments.num_q,
        batch_size=arguments.batch,
    )
    return types.SimpleNamespace(**known)


def plan(agent, cfg):
    obs = torch.randn(1, OBSERVATIONS)
    # warm start: the plan before gives the mean
    return lambda: agent.plan(obs, t0=False, eval_mode=False, task=None)


def update(agent, cfg):
    """An update of a batch [H+1, B, observations], [H, B, actions], [H, B, 1] twice."""
    shape = (cfg.horizon, cfg.batch_size)
    obs = torch.randn(cfg.horizon + 1, cfg.batch_size, OBSERVATIONS)
    action = torch.rand(*shape, cfg.action_dim) * 2 - 1
    reward = torch.randn(*shape, 1)
    terminated = torch.zeros(*shape, 1)
    if cfg.episodic:
        terminated = (torch.rand(*shape, 1) < 0.02).float()
    return lambda: agent._update(obs, action, reward, terminated)


def parameters(model) -> int:
    """Learnt numbers; the ensemble's own modules are placeholders and not counted."""
    parts = [model._encoder, model._dynamics, model._reward, model._pi, model._Qs.params]
    if model._termination:
        parts.append(model._termination)
    return sum(p.numel() for part in parts for p in part.parameters())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", type=Path, required=True, help="checkout of the official code")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("what", choices=("plan", "update"))
    parser.add_argument("--size", type=int, default=5, help="millions of parameters: 1 to 317")
    parser.add_argument("--actions", type=int, default=4)
    parser.add_argument("--horizon", type=int, default=3)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--elites", type=int, default=64)
    parser.add_argument("--policy-trajectories", type=int, default=24)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--num-q", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--episodic", action="store_true")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    repo = arguments.repo.resolve()
    common, tdmpc2 = official(repo)
    cfg = config(common, repo, arguments)
    agent = tdmpc2.TDMPC2(cfg)
    once = (plan if arguments.what == "plan" else update)(agent, cfg)
    for _ in range(WARM_UP):
        once()
    wall, cpu = [], []
    for _ in range(arguments.repeats):
        began = time.perf_counter(), time.process_time()
        once()
        wall.append(1e3 * (time.perf_counter() - began[0]))
        cpu.append(1e3 * (time.process_time() - began[1]))
    figures = {
        "ms": min(wall),
        "cpu_ms": min(cpu),
        "median_ms": statistics.median(wall),
        "median_cpu_ms": statistics.median(cpu),
        "parameters": parameters(agent.model),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
