"""SAC in one file, as CleanRL writes it, on the engine's environments and replay: the networks, the losses and the loop are
yours.

    ./maglev python examples/python/sac.py

Pendulum to a return of about -143 in a minute of a processor. --priorities 0.6 draws transitions by the critics' errors.
"""

import argparse
import math
import time

import torch
from torch import nn

import maglev

parser = argparse.ArgumentParser()
parser.add_argument("--environment", default="pendulum")
parser.add_argument("--num-envs", type=int, default=4)
parser.add_argument("--steps", type=int, default=20_000, help="of all environments")
parser.add_argument("--first-steps", type=int, default=1000, help="of random actions, before the first update")
parser.add_argument("--updates", type=int, default=2, help="after each step of all environments")
parser.add_argument("--capacity", type=int, default=1_000_000)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--priorities", type=float, default=None, help="power of its error by which a transition is drawn")
parser.add_argument("--beta", type=float, default=0.4, help="how far what is drawn more often counts for less")
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--tau", type=float, default=0.005)
parser.add_argument("--seed", type=int, default=1)


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, outputs))


class Actor(nn.Module):
    """A normal distribution, squashed into the bounds of the environment's actions."""

    def __init__(self, inputs: int, low: torch.Tensor, high: torch.Tensor):
        super().__init__()
        self.network = network(inputs, 2 * len(low))
        self.register_buffer("scale", (high - low) / 2)
        self.register_buffer("middle", (high + low) / 2)

    def mean(self, obs):
        return self.network(obs).chunk(2, -1)[0].tanh() * self.scale + self.middle

    def forward(self, obs):
        """(action, log-probability) of one draw, with gradients through the action."""
        mean, log_std = self.network(obs).chunk(2, -1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        x = normal.rsample()
        # log of the derivative of tanh, where it is far out too
        slope = 2 * (math.log(2) - x - nn.functional.softplus(-2 * x))
        return x.tanh() * self.scale + self.middle, (normal.log_prob(x) - slope - self.scale.log()).sum(-1)


class Critics(nn.Module):
    """Two, of which the lower one counts."""

    def __init__(self, inputs: int):
        super().__init__()
        self.first, self.second = network(inputs, 1), network(inputs, 1)

    def forward(self, obs, action):
        x = torch.cat([obs, action], -1)
        return self.first(x).squeeze(-1), self.second(x).squeeze(-1)


def train(options) -> Actor:
    torch.manual_seed(options.seed)
    envs = maglev.make(options.environment, options.num_envs, seed=options.seed)
    if envs.device.type == "cpu":
        # threads of torch's wait for each other longer than such small networks compute
        torch.set_num_threads(1)
    replay = maglev.Replay(
        envs, options.capacity, batch=options.batch, priorities=options.priorities, seed=options.seed, copy=False
    )
    low, high = torch.tensor(envs.spec.low), torch.tensor(envs.spec.high)
    obs, info = envs.reset()
    inputs = envs.encode(obs).shape[-1]
    actor = Actor(inputs, low, high).to(envs.device)
    critics, targets = Critics(inputs + len(low)).to(envs.device), Critics(inputs + len(low)).to(envs.device)
    targets.load_state_dict(critics.state_dict())
    log_alpha = torch.zeros((), device=envs.device, requires_grad=True)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=options.lr)
    critic_optimizer = torch.optim.Adam(critics.parameters(), lr=options.lr)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=options.lr)
    begin = time.monotonic()

    for step in range(0, options.steps, envs.rows):
        # one step of all environments
        with torch.no_grad():
            action = envs.sample() if step < options.first_steps else actor(envs.encode(obs))[0]
        next_obs, reward, terminated, truncated, next_info = envs.step(action)
        replay.add(obs=obs, action=action, reward=reward, terminated=terminated, truncated=truncated, **info)
        obs, info = next_obs, next_info

        for _ in range(options.updates if step >= options.first_steps else 0):
            batch = replay.sample(beta=options.beta)
            x, next_x = envs.encode(batch.obs.flatten(0, 1)).chunk(2)
            alpha = log_alpha.detach().exp()

            # critics; what a limit cut has a future, what terminated has none
            with torch.no_grad():
                next_action, log_prob = actor(next_x)
                value = torch.min(*targets(next_x, next_action)) - alpha * log_prob
                target = batch.reward[0] + options.gamma * ~batch.terminated[0] * value
            weights = 1 if batch.weights is None else batch.weights
            errors = [q - target for q in critics(x, batch.action[0])]
            critic_loss = sum((weights * error.square()).mean() for error in errors)
            critic_optimizer.zero_grad()
            critic_loss.backward()
            critic_optimizer.step()
            if options.priorities is not None:
                replay.update_priorities(batch, sum(error.detach().abs() for error in errors) / 2)

            # actor, and how much its entropy is worth
            drawn, log_prob = actor(x)
            actor_loss = (alpha * log_prob - torch.min(*critics(x, drawn))).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            alpha_loss = -(log_alpha.exp() * (log_prob.detach() - len(low))).mean()
            alpha_optimizer.zero_grad()
            alpha_loss.backward()
            alpha_optimizer.step()

            with torch.no_grad():
                for slow, fast in zip(targets.parameters(), critics.parameters()):
                    slow.lerp_(fast, options.tau)

        done = step + envs.rows
        if done % 2000 < envs.rows or done >= options.steps:
            speed = done / (time.monotonic() - begin)
            print(f"step {done:,}  return {envs.totals()['return_mean']:.1f}  {speed:,.0f} steps/s", flush=True)
    return actor


if __name__ == "__main__":
    options = parser.parse_args()
    actor = train(options)
    # judged as `./maglev eval` judges, by the mean
    result = maglev.evaluate(lambda obs, info: actor.mean(obs), options.environment)
    print(f"evaluation: {result['return_mean']:.1f} over {result['episodes']} episodes")
