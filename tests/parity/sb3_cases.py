"""Settings stable-baselines3 and this engine are compared under. Plain data: importing it needs no package.

A case names an environment of sb3_fixture.py and arguments of stable_baselines3.PPO that differ from DEFAULTS; the fixture
says the same in this engine's settings. A schedule is (value at the start, share of it left at the end).
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


def settings(name):
    return DEFAULTS | CASES[name]
