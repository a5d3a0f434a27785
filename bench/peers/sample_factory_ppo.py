"""Sample Factory's APPO with the settings of a Maglev run.

    sample_factory_ppo.py --config RUN/config.yaml --env CartPole-v1 --threads N --speed STEPS --mode MODE

MODE is `serial` (one process, synchronous), `sync` or `async`: N rollout workers beside its learner,
which waits for them or does not. Unlike the others' it has no shuffle between epochs unless asked,
and clips values; the shuffle is on and the clip out of reach. Its clock is its own training
iterations. Prints one JSON object.
"""

import json
import sys
import tempfile
import time

import gymnasium
import run_settings
import torch
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.misc import ExperimentStatus
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from sample_factory.utils.utils import log

OUT_OF_REACH = 1e9


def make_env(name, _cfg=None, _env_config=None, render_mode=None):
    return gymnasium.make(name, render_mode=render_mode)


class Clock(AlgoObserver):
    """(training iterations, time) as they end."""

    def __init__(self):
        self.ended = []

    def on_training_step(self, runner, training_iteration_since_resume):
        self.ended.append((training_iteration_since_resume, time.perf_counter()))


def flags(config: dict, arguments, updates: int, folder: str) -> list[str]:
    ours, network = config["ppo"], config["ppo"]["network"]
    rows, minibatch = run_settings.rows_of(config), run_settings.minibatch_of(config)
    serial = arguments.mode == "serial"
    workers = 1 if serial else arguments.threads
    settings = {
        "algo": "APPO",
        "env": arguments.env,
        "device": "cpu",
        "seed": config["seed"],
        "train_dir": folder,
        "serial_mode": serial,
        "async_rl": arguments.mode == "async",
        "num_workers": workers,
        "num_envs_per_worker": int(config["env"]["count"]) // workers,
        # double buffering lets a worker step one half while the other half waits for actions
        "worker_num_splits": 1 if serial else 2,
        "rollout": ours["rollout"],
        "batch_size": minibatch,
        "num_batches_per_epoch": rows // minibatch,
        "num_epochs": ours["epochs"],
        "shuffle_minibatches": True,
        "gamma": ours["gamma"],
        "gae_lambda": ours["lambda"],
        "learning_rate": ours["lr"],
        "adam_eps": ours["adam_eps"],
        "max_grad_norm": ours["max_grad_norm"],
        "ppo_clip_ratio": ours["clip"],
        "ppo_clip_value": OUT_OF_REACH,
        "value_loss_coeff": ours["value_coef"],
        "exploration_loss_coeff": ours["entropy"],
        "normalize_input": False,
        "normalize_returns": False,
        "use_rnn": False,
        "actor_critic_share_weights": False,
        "adaptive_stddev": False,
        "nonlinearity": network["activation"],
        "decorrelate_envs_on_one_worker": False,
        "save_every_sec": 3600,
        "save_best_every_sec": 3600,
        "experiment_summaries_interval": 3600,
        "train_for_env_steps": updates * rows,
    }
    words = [f"--{name}={value}" for name, value in settings.items()]
    return [*words, "--encoder_mlp_layers", *(str(int(h)) for h in network["hidden"])]


def main():
    parser = run_settings.parser()
    parser.add_argument("--mode", choices=("serial", "sync", "async"), required=True)
    arguments = parser.parse_args()
    config = run_settings.read(arguments.config, "sample-factory")
    run_settings.constant_rates(config, "sample-factory")
    torch.set_num_threads(arguments.threads)
    log.setLevel("ERROR")
    register_env(arguments.env, make_env)
    rows = run_settings.rows_of(config)
    updates = run_settings.WARM_UP + max(2, arguments.speed // rows)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        words = flags(config, arguments, updates, folder)
        made, _ = parse_sf_args(argv=words)
        _, runner = make_runner(parse_full_cfg(made, words))
        runner.register_observer(clock)
        if runner.init() != ExperimentStatus.SUCCESS or runner.run() != ExperimentStatus.SUCCESS:
            sys.exit("[sample-factory] its run failed")
    counted = [(i, t) for i, t in clock.ended if i >= run_settings.WARM_UP]
    (first, start), (last, end) = counted[0], counted[-1]
    print(json.dumps({"steps_per_second": (last - first) * rows / (end - start)}))


if __name__ == "__main__":
    main()
