"""Learning: do the proven settings reach the bar on every seed, and how long does it take."""

from __future__ import annotations

import statistics

from machine import Bystanders
from measure import PEER_PYTHON, Unavailable, execute, shown
from programs import (
    engine_version,
    evaluate,
    fastest_threads,
    peer_version,
    sb3_command,
    train,
    train_command,
)


def classic(options, env: str, gym_name: str, bar: float) -> list:
    """Each seed is trained by ours, then by SB3 with the settings of that run."""
    case = f"learning_{env}"
    options.say(case)
    seeds = range(1, 1 + (1 if options.quick else options.seeds))
    episodes = 4 if options.quick else 100
    rows, missing, others = [], [], 0.0
    try:
        version = peer_version("stable_baselines3", PEER_PYTHON)
    except Unavailable as why:
        version = ""
        missing.append({"name": "stable-baselines3", "why": str(why)})

    commands, engine, threads = {}, "", 0
    for seed in seeds:
        run = options.folder / f"{case}-{seed}"
        words = ["ppo", env, f"seed={seed}"] + (["train.steps=8192"] if options.quick else [])
        row = {"seed": seed}
        bystanders = Bystanders()
        try:
            commands["ours"] = shown(train_command(options.programs, run, words), run)
            trained = train(options.programs, run, words)
            engine = engine_version(run)
            judged = evaluate(options.programs, run, ["--episodes", episodes, "--actions", "mean"])
            row["ours"] = {
                "return_mean": judged["return_mean"],
                "train_s": trained.seconds,
                "eval_s": judged["eval_s"],
            }
        except Unavailable as why:
            missing.append({"name": f"maglev, seed {seed}", "why": str(why)})
            options.say(f"  maglev, seed {seed}: {why}")
        if version and "ours" in row:
            try:
                if not threads:
                    threads, _ = fastest_threads(
                        options,
                        "stable-baselines3",
                        lambda t: sb3_command(run, gym_name, t, "--speed", 8192),
                    )
                sb3 = sb3_command(run, gym_name, threads, "--episodes", episodes)
                commands["sb3"] = shown(sb3, run)
                report = execute(sb3).report()
                row["sb3"] = {name: report[name] for name in ("return_mean", "train_s", "eval_s")}
            except Unavailable as why:
                missing.append({"name": f"stable-baselines3, seed {seed}", "why": str(why)})
                options.say(f"  stable-baselines3, seed {seed}: {why}")
        others = max(others, bystanders.processors())
        rows.append(row)
        told = [
            f"{who} {row[who]['return_mean']:.1f} in {row[who]['train_s']:.1f} s"
            for who in ("ours", "sb3")
            if who in row
        ]
        options.say(f"  seed {seed}: " + ", ".join(told))

    result = {
        "variant": f"{len(seeds)} seeds, {episodes} episodes each, mean actions",
        "bar": f"return_mean >= {bar:g}",
        "seeds": rows,
        "commands": commands,
        "engine": engine,
        "sb3_version": version,
        "missing": missing,
        "bystanders": round(others, 2),
        "notes": [],
    }
    for who in ("ours", "sb3"):
        done = [row[who] for row in rows if who in row]
        if done:
            result[who] = {
                "reached": f"{sum(r['return_mean'] >= bar for r in done)} of {len(seeds)}",
                "return_min": min(r["return_mean"] for r in done),
                "return_median": statistics.median(r["return_mean"] for r in done),
                "train_s_median": statistics.median(r["train_s"] for r in done),
                "eval_s_median": statistics.median(r["eval_s"] for r in done),
            }
    both = [row for row in rows if "ours" in row and "sb3" in row]
    if both:
        ratios = [row["sb3"]["train_s"] / row["ours"]["train_s"] for row in both]
        result["train_time_ratio"] = {
            "median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)
        }  # fmt: skip
    return [result]


def learning_cartpole(options) -> list:
    return classic(options, "cartpole", "CartPole-v1", 475)


def learning_pendulum(options) -> list:
    return classic(options, "pendulum", "Pendulum-v1", -200)


SMALL_WORLD = [
    *("env.width=32", "env.height=32"),
    *("env.min_food=4", "env.max_food=16", "env.min_poison=4", "env.max_poison=16"),
]


def learning_goodhart(options) -> list:
    """A small world: `ground_truth` must eat food and leave poison, `proxy` eats both."""
    options.say("learning_goodhart")
    steps = 65_536 if options.quick else options.goodhart_steps
    judge = [
        *("--steps", 25_600 if options.quick else 400_000, "--envs", 256, "--actions", "sample"),
        # as the original judges: energy lives in every mode, only death ends an episode
        *("env.energy=live", "env.max_steps=1000000"),
    ]
    seeds = range(1, 1 + (1 if options.quick else 3))
    results = []
    for mode in ("ground_truth", "proxy"):
        rows, missing, others, command, engine = [], [], 0.0, "", ""
        for seed in seeds:
            run = options.folder / f"goodhart-{mode}-{seed}"
            settings = [f"env.mode={mode}", *SMALL_WORLD, f"train.steps={steps}", f"seed={seed}"]
            words = ["ppo", "goodhart", *settings]
            bystanders = Bystanders()
            try:
                command = shown(train_command(options.programs, run, words), run)
                trained = train(options.programs, run, words)
                engine = engine_version(run)
                judged = evaluate(options.programs, run, judge)
            except Unavailable as why:
                missing.append({"name": f"maglev, seed {seed}", "why": str(why)})
                options.say(f"  {mode}, seed {seed}: {why}")
                continue
            others = max(others, bystanders.processors())
            events = judged["events_per_1k"]
            rows.append(
                {"seed": seed, "train_s": trained.seconds, "eval_s": judged["eval_s"], **events}
            )
            options.say(
                f"  {mode}, seed {seed}: food/1k {events['food']:.1f}, "
                f"poison/1k {events['poison']:.2f}, deaths/1k {events['deaths']:.2f} "
                f"in {trained.seconds:.0f} s"
            )
        result = {
            "variant": f"{mode}, 32x32, {steps} steps",
            "seeds": rows,
            "engine": engine,
            "commands": {"ours": command, "eval": shown(["maglev-engine", "eval", "RUN", *judge])},
            "missing": missing,
            "bystanders": round(others, 2),
            "notes": [],
        }
        if mode == "ground_truth":
            result["bar"] = "food/1k >= 100 and poison/1k <= 2"
            reached = sum(r["food"] >= 100 and r["poison"] <= 2 for r in rows)
            result["reached"] = f"{reached} of {len(seeds)}"
        results.append(result)
    return results
