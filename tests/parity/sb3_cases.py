"""Settings stable-baselines3 and this engine are compared under. Plain data: importing it needs no package.

A case names an environment of sb3_fixture.py and arguments of stable_baselines3.PPO that differ from DEFAULTS; the fixture
says the same in this engine's settings. A schedule is (value at the start, share of it left at the end).

Cases whose names begin with prover_ are the same arguments (some with smaller steps, SMALLER_STEPS) on this engine's environment kg, with the network `proof`, of
which `network` has the options. docs/ppo.md says which case shows what.
"""

ITERATIONS = 3

DEFAULTS = dict(
    env="cartpole", n_envs=4, n_steps=64, batch_size=64, n_epochs=4, gamma=0.99, gae_lambda=0.95,
    learning_rate=5e-3, clip_range=0.05, clip_range_vf=None, ent_coef=0.0, vf_coef=0.5, max_grad_norm=0.5,
    target_kl=None, adam_eps=1e-5, normalize_advantage=True, net="apart", activation="tanh", seed=7,
)

CASES = {
    "base": {},
    "lambda_one": dict(gae_lambda=1.0, gamma=0.95),
    "lambda_zero": dict(gae_lambda=0.0, learning_rate=3e-3, clip_range=0.03),
    "last_minibatch_short": dict(batch_size=48),
    "last_minibatch_of_one_row": dict(batch_size=51),
    "batch_beyond_the_buffer": dict(batch_size=1000, n_epochs=10),
    "one_environment": dict(n_envs=1, n_steps=128, batch_size=32),
    # one weight's gradient is all but nothing: Adam would divide its rounding by 1e-5
    "many_environments": dict(n_envs=16, n_steps=16, adam_eps=1e-4),
    "advantage_as_it_is": dict(normalize_advantage=False),
    "value_clip": dict(clip_range_vf=0.1),
    "value_weight_two": dict(vf_coef=2.0),
    "entropy_bonus": dict(ent_coef=0.05),
    "target_kl_stops": dict(target_kl=0.001, learning_rate=1e-2),
    "tiny_gradient_clip": dict(max_grad_norm=1e-3),
    "wide_gradient_clip": dict(max_grad_norm=1e3),
    "learning_rate_to_a_tenth": dict(learning_rate=(1e-2, 0.1)),
    "learning_rate_to_zero": dict(learning_rate=(1e-2, 0.0)),
    "clip_to_a_quarter": dict(clip_range=(0.1, 0.25)),
    "value_clip_to_a_quarter": dict(clip_range_vf=(0.1, 0.25)),
    "hot": dict(learning_rate=1.5e-2, n_epochs=6),
    "relu": dict(activation="relu"),
    "shared_trunk": dict(net="shared"),
    # sums over pixels cancel, and Adam divides what rounding leaves of them by its own size, unless eps is above it
    "convolutions": dict(env="pixels", net="cnn", activation="relu", n_steps=32, learning_rate=3e-3, adam_eps=1e-3),
    "gaussian": dict(env="pendulum", gamma=0.9, ent_coef=0.01),
    "gaussian_value_clip": dict(env="pendulum", gamma=0.9, clip_range_vf=0.5, max_grad_norm=5.0),
    "many_heads": dict(env="heads", ent_coef=0.01),
    "masked": dict(env="masked", ent_coef=0.02),
}

# Half of the episodes are cut at the limit. A row goes through some ten goals' towers, each with LayerNorms that make much
# of little: small steps keep what rounding leaves small.
PROVER = dict(env="kg", net="prover", env_settings=dict(data="family", max_steps=4, skip_unary=1), n_steps=32,
              network=dict(embedding=8, width=20, blocks=1), learning_rate=2e-3, clip_range=0.02, adam_eps=1e-4)
SMALLER_STEPS = {
    "lambda_zero": dict(learning_rate=2e-3, clip_range=0.02),
    "target_kl_stops": dict(target_kl=1e-4, learning_rate=4e-3),
    "learning_rate_to_a_tenth": dict(learning_rate=(4e-3, 0.1)),
    "learning_rate_to_zero": dict(learning_rate=(4e-3, 0.0)),
    "clip_to_a_quarter": dict(clip_range=(0.04, 0.25)),
    "batch_beyond_the_buffer": dict(n_epochs=4),
    "tiny_gradient_clip": dict(max_grad_norm=1e-2, learning_rate=5e-3),
    "hot": dict(learning_rate=6e-3),
}
ON_THE_PROVER = [
    "base", "lambda_one", "lambda_zero", "last_minibatch_short", "batch_beyond_the_buffer", "one_environment",
    "many_environments", "advantage_as_it_is", "value_clip", "value_weight_two", "entropy_bonus",
    "target_kl_stops", "tiny_gradient_clip", "wide_gradient_clip", "learning_rate_to_a_tenth", "learning_rate_to_zero",
    "clip_to_a_quarter", "value_clip_to_a_quarter", "hot",
]
CASES |= {f"prover_{name}": PROVER | CASES[name] | SMALLER_STEPS.get(name, {}) for name in ON_THE_PROVER}
CASES |= {
    # normalised advantages of one row are not a number in sb3-contrib, which lacks stable-baselines3's exception
    "prover_last_minibatch_of_one_row": PROVER | dict(batch_size=127, normalize_advantage=False),
    "prover_shared_body": PROVER | dict(network=PROVER["network"] | dict(shared="true", goals="sum", dot="none")),
    "prover_separate_towers": PROVER | dict(network=PROVER["network"] | dict(
        towers="separate", atoms="sum", goals="masked_mean", dot="l2", temperature=0.5)),
    # facts in a row and one rule: whatever the goal, there is one thing to do
    "prover_without_a_choice": PROVER | dict(ent_coef=0.02, env_settings=dict(
        data="chain", max_steps=3, skip_unary=0, end_action="false")),
}

# graphs that are no built-in ones: files of a folder
GRAPHS = {
    "chain": {
        "facts.txt": "".join(f"next(n{i}, n{i + 1}).\n" for i in range(9)) + "reach(n9, n9).\n",
        "rules.txt": "reach(X,Y) :- next(X,Z), reach(Z,Y).\n",
        "train.txt": "".join(f"reach(n{i}, n9).\n" for i in range(9)),
        "valid.txt": "reach(n0, n9).\n",
        "test.txt": "reach(n0, n9).\n",
    },
}


def settings(name):
    return DEFAULTS | CASES[name]
