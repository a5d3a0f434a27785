"""The original two-player hockey environment from a checkout: its speed, its figures, its motions.

    hockey_python.py --repo DIR speed --players random|bots --seconds S
    hockey_python.py --repo DIR figures --games N [--clear-keeping]
    hockey_python.py --repo DIR record --out FILE

`speed` is one core's steps/s with resets inside the clock, as the environment is used. `figures`
are what a port is compared with: results of weak against strong, lengths, speeds, how the puck is
kept and shot. `record` writes motions with their starts and actions, for comparing step by step.
Prints one JSON object.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

os.environ["SDL_VIDEODRIVER"] = "dummy"

import numpy as np  # noqa: E402

# actions of the random player, drawn before the clock starts
DRAWN = 4096
WARM_UP_STEPS = 500


def seeded(hockey, mode: str, seed: int):
    """A new environment in its first state of `seed`, and the numbers drawn for that state."""
    env = hockey.HockeyEnv(mode=hockey.Mode[mode])
    drawn = []
    uniform = env.r_uniform

    def told(low, high):
        drawn.append(float(uniform(low, high)))
        return drawn[-1]

    env.r_uniform = told
    env.reset(one_starting=seed % 2 == 0, seed=seed)
    return env, drawn


def bots(hockey, seed: int):
    """Weak for player one, strong for player two; both draw from numpy's global generator."""
    np.random.seed(seed)
    return hockey.BasicOpponent(weak=True), hockey.BasicOpponent(weak=False)


def both_act(env, players) -> np.ndarray:
    one, two = players
    return np.hstack([one.act(env._get_obs()), two.act(env.obs_agent_two())])


def speed(hockey, kind: str, seconds: float) -> dict:
    env, _ = seeded(hockey, "NORMAL", 0)
    players = bots(hockey, 0)
    actions = np.random.default_rng(0).uniform(-1, 1, (DRAWN, 8)).astype(np.float32)

    def run(steps: int):
        for t in range(steps):
            action = actions[t % DRAWN] if kind == "random" else both_act(env, players)
            if env.step(action)[2]:
                env.reset()

    run(WARM_UP_STEPS)
    steps, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        run(WARM_UP_STEPS)
        steps += WARM_UP_STEPS
    return {
        "steps_per_second": steps / (time.perf_counter() - wall),
        "steps_per_cpu_second": steps / (time.process_time() - cpu),
    }


def games(hockey, count: int, clear: bool) -> dict:
    """Results of weak (player one) against strong, sides starting in turn. A reset leaves who keeps
    the puck as it was, unless `clear`."""
    results, undecided, decided = Counter(), Counter(), []
    env, _ = seeded(hockey, "NORMAL", 0)
    players = bots(hockey, 0)
    for game in range(count):
        env.reset(one_starting=game % 2 == 0, seed=game)
        if clear:
            env.player1_has_puck = env.player2_has_puck = 0
        length, done = 0, False
        while not done:
            done = env.step(both_act(env, players))[2]
            length += 1
        results[env.winner] += 1
        if env.winner:
            decided.append(length)
        else:
            undecided[length] += 1
    return {
        "weak_against_strong": {
            "games": count,
            "wins": results[1],
            "draws": results[0],
            "losses": results[-1],
        },
        "undecided_length": dict(undecided),
        "decided_length": {
            "mean": float(np.mean(decided)),
            "quartiles": np.quantile(decided, [0.25, 0.5, 0.75]).tolist(),
        },
    }


def placed(env, one=(2, 4), two=(8, 4), puck=(5, 4), moving=(0, 0)):
    """Players at rest and the puck, in coordinates of the rink (centre 5, 4)."""
    state = np.zeros(18)
    for at, place in ((0, one), (6, two), (12, puck)):
        state[at : at + 2] = np.asarray(place) - (5, 4)
    state[14:16] = moving
    env.set_state(state)


def lengths_at_rest(hockey) -> dict:
    """Steps of a game in which nobody moves, by mode."""
    lengths = {}
    for mode in ("NORMAL", "TRAIN_SHOOTING"):
        env, _ = seeded(hockey, mode, 1)
        lengths[mode] = 1
        while not env.step(np.zeros(8))[2]:
            lengths[mode] += 1
    return lengths


def motions(hockey) -> dict:
    """Speeds and counters of single motions."""
    env, _ = seeded(hockey, "NORMAL", 0)
    placed(env, one=(2, 1.25), puck=(8, 7))
    thrust = [float(env.step(np.eye(8)[1])[0][4]) for _ in range(30)]

    env, _ = seeded(hockey, "NORMAL", 0)
    spin = [float(env.step(np.eye(8)[2])[0][5]) for _ in range(30)]

    env, _ = seeded(hockey, "NORMAL", 0)
    placed(env, puck=(3, 4), moving=(-5, 0))
    kept, shot = [], []
    for _ in range(40):
        obs = env.step(np.zeros(8))[0]
        kept.append(int(obs[16]))
        shot.append(float(np.hypot(*obs[14:16])))
    shape = env.player1.massData
    return {
        "thrust_speeds": thrust,
        "turn_speeds": spin,
        "keep_counter": kept,
        "puck_speed_while_kept_and_shot": shot,
        "player": {
            "mass": float(shape.mass),
            "inertia": float(shape.I),
            "centre": [float(x) for x in shape.center],
        },
        "puck": {"mass": float(env.puck.mass), "inertia": float(env.puck.inertia)},
        "lengths": lengths_at_rest(hockey),
    }


def followed(env, name: str, actions, drawn=(), **start) -> dict:
    """A motion from the present state; `actions` is an array [T, 8] or a function of the step."""
    rows = {
        "actions": [],
        "observations": [],
        "puck_spins": [],
        "rewards": [],
        "rewards_two": [],
        "done": [],
        "winner": [],
    }
    first = env._get_obs().tolist()
    for t in range(start.pop("steps")):
        action = np.asarray(actions(t) if callable(actions) else actions[t], dtype=np.float32)
        obs, reward, done, _, _ = env.step(action)
        rows["actions"].append(action.tolist())
        rows["observations"].append(np.asarray(obs, dtype=float).tolist())
        rows["puck_spins"].append(float(env.puck.angularVelocity))
        rows["rewards"].append(reward)
        rows["rewards_two"].append(env.get_reward_agent_two(env.get_info_agent_two()))
        rows["done"].append(bool(done))
        rows["winner"].append(int(env.winner))
        if done:
            break
    return {"name": name, "mode": env.mode.name, "drawn": list(drawn), "first": first, **rows}


# single motions: start, the action of both players held throughout
SCENES = {
    "puck_into_upper_wall": ({"puck": (5, 6), "moving": (2, 8)}, {}),
    "puck_into_lower_wall_fast": ({"puck": (4, 3), "moving": (-3, -24)}, {}),
    "puck_into_corner_left": ({"one": (3, 2), "puck": (1.8, 6.3), "moving": (-6, 3)}, {}),
    "puck_into_corner_right": ({"two": (7, 2), "puck": (8.2, 6.3), "moving": (6, 3)}, {}),
    "puck_past_wall_into_goal_right": ({"two": (7, 6), "puck": (7, 4), "moving": (20, 1)}, {}),
    "puck_against_racket_front": ({"puck": (4, 4.1), "moving": (-8, 0)}, {}),
    "puck_against_racket_edge": ({"puck": (4, 4.4), "moving": (-8, 0)}, {}),
    "puck_from_behind_racket": ({"one": (3, 4), "puck": (1.6, 4), "moving": (10, 0)}, {}),
    "puck_against_racket_turning": ({"puck": (4, 4.2), "moving": (-8, 0.5)}, {2: 1, 6: 1}),
    "player_up_into_wall": ({"one": (2, 4), "puck": (8, 6.5)}, {1: 1}),
    "player_left_into_goal": ({"one": (2, 4), "puck": (8, 6.5)}, {0: -1}),
    "player_right_to_centre": ({"one": (2, 4), "puck": (8, 6.5)}, {0: 1}),
    "players_both_to_centre": ({"puck": (8, 6.5)}, {0: 1, 4: 1}),
    "player_turning_to_its_limit": ({"puck": (8, 6.5)}, {2: 1, 6: -0.5}),
    "player_diagonal_into_corner": ({"puck": (8, 6.5)}, {0: -1, 1: 1}),
    "player_pushes_puck": ({"puck": (2.6, 4)}, {0: 1}),
    "keep_then_shoot_at_once": ({"puck": (3, 4), "moving": (-5, 0)}, {3: 1}),
    "keep_while_moving": ({"puck": (3, 4), "moving": (-5, 0)}, {1: 0.5, 2: 0.3}),
    "shot_of_player_two": ({"puck": (7, 4), "moving": (5, 0)}, {6: 0.5}),
}
SCENE_STEPS = 60
HELD = 10  # steps that a random action lasts


def recorded(hockey) -> list:
    rows = []
    for name, (start, held) in SCENES.items():
        env, _ = seeded(hockey, "NORMAL", 0)
        placed(env, **start)
        action = np.zeros(8)
        for at, value in held.items():
            action[at] = value
        rows.append(followed(env, name, lambda _: action, steps=SCENE_STEPS))
    for mode in ("NORMAL", "TRAIN_SHOOTING", "TRAIN_DEFENSE"):
        for seed in range(4):
            env, drawn = seeded(hockey, mode, seed)
            chosen = np.random.default_rng(seed).uniform(-1, 1, (26, 8))
            actions = np.repeat(chosen, HELD, axis=0)
            rows.append(followed(env, f"random_{mode}_{seed}", actions, drawn, steps=len(actions)))
            env, drawn = seeded(hockey, mode, seed)
            players = bots(hockey, seed)
            rows.append(
                followed(
                    env,
                    f"weak_against_strong_{mode}_{seed}",
                    lambda _, env=env, players=players: both_act(env, players),
                    drawn,
                    steps=300,
                )
            )
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", type=Path, required=True, help="checkout of the environment")
    kinds = parser.add_subparsers(dest="kind", required=True)
    fast = kinds.add_parser("speed")
    fast.add_argument("--players", choices=("random", "bots"), required=True)
    fast.add_argument("--seconds", type=float, default=3)
    told = kinds.add_parser("figures")
    told.add_argument("--games", type=int, default=1000)
    told.add_argument("--clear-keeping", action="store_true", help="at every reset")
    kinds.add_parser("record").add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.repo.resolve()))
    from hockey import hockey_env as hockey

    if arguments.kind == "speed":
        print(json.dumps(speed(hockey, arguments.players, arguments.seconds)))
    elif arguments.kind == "figures":
        played = games(hockey, arguments.games, arguments.clear_keeping)
        print(json.dumps({**motions(hockey), **played}))
    else:
        rows = recorded(hockey)
        arguments.out.write_text(json.dumps(rows))
        steps = sum(len(row["actions"]) for row in rows)
        print(json.dumps({"trajectories": len(rows), "steps": steps}))


if __name__ == "__main__":
    main()
