"""PPO in one file, as CleanRL writes it, on the engine's environments: the network, the loss and the loop are yours.

    ./maglev python examples/python/ppo.py

CartPole to its limit of 500 in some seconds of a processor. `maglev.train("ppo", "cartpole")` is the same without a line
of your own, and 20 times as fast.
"""

import argparse
import time

import torch
from torch import nn
from torch.distributions import Categorical

import maglev

parser = argparse.ArgumentParser()
parser.add_argument("--environment", default="cartpole")
parser.add_argument("--num-envs", type=int, default=32)
parser.add_argument("--rollout", type=int, default=128)
parser.add_argument("--steps", type=int, default=300_000)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--minibatches", type=int, default=4)
parser.add_argument("--lr", type=float, default=2.5e-3)
parser.add_argument("--gamma", type=float, default=0.98)
parser.add_argument("--lam", type=float, default=0.9)
parser.add_argument("--clip", type=float, default=0.2)
parser.add_argument("--entropy", type=float, default=0.0)
parser.add_argument("--seed", type=int, default=1)


class Agent(nn.Module):
    """Policy and value of vectors, each a small network of its own."""

    def __init__(self, inputs: int, actions: int):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, actions))
        self.value = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, obs):
        return Categorical(logits=self.policy(obs)), self.value(obs).squeeze(-1)


def train(options) -> Agent:
    torch.manual_seed(options.seed)
    envs = maglev.make(options.environment, options.num_envs, seed=options.seed)
    if envs.device.type == "cpu":
        # threads of torch's wait for each other longer than such small networks compute
        torch.set_num_threads(1)
    T, N = options.rollout, envs.rows
    obs, info = envs.reset()
    agent = Agent(envs.encode(obs).shape[-1], envs.spec.heads[0]).to(envs.device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=options.lr, eps=1e-5)
    iterations = max(1, options.steps // (T * N))
    begin = time.monotonic()

    for iteration in range(iterations):
        for group in optimizer.param_groups:
            group["lr"] = options.lr * (1 - iteration / iterations)

        # collect T steps
        seen, firsts, actions, log_probs, values, rewards, ends = [], [], [], [], [], [], []
        with torch.no_grad():
            for _ in range(T):
                x = envs.encode(obs)
                policy, value = agent(x)
                action = policy.sample()
                seen.append(x), firsts.append(info["is_first"]), values.append(value)
                actions.append(action), log_probs.append(policy.log_prob(action))
                obs, reward, terminated, _, info = envs.step(action)
                rewards.append(reward), ends.append(terminated)
            values.append(agent(envs.encode(obs))[1])
            firsts.append(info["is_first"])

        # advantages; steps that only began an episode are left out of all that follows
        advantage, returns, valid = maglev.gae(
            torch.stack(rewards),
            torch.stack(values),
            torch.stack(ends),
            torch.stack(firsts),
            gamma=options.gamma,
            lam=options.lam,
        )
        flat = [torch.stack(part)[valid] for part in (seen, actions, log_probs)]
        flat += [advantage[valid], returns[valid]]

        # learn from minibatches of it
        for _ in range(options.epochs):
            for rows in torch.randperm(len(flat[0]), device=envs.device).chunk(options.minibatches):
                x, action, old_log_prob, adv, target = (part[rows] for part in flat)
                policy, value = agent(x)
                ratio = (policy.log_prob(action) - old_log_prob).exp()
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - options.clip, 1 + options.clip) * adv).mean()
                loss = policy_loss + 0.5 * (value - target).square().mean() - options.entropy * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

        done = (iteration + 1) * T * N
        if iteration % 10 == 9 or iteration + 1 == iterations:
            speed = done / (time.monotonic() - begin)
            print(f"step {done:,}  return {envs.totals()['return_mean']:.1f}  {speed:,.0f} steps/s", flush=True)
    return agent


if __name__ == "__main__":
    options = parser.parse_args()
    agent = train(options)
    # judged as `./maglev eval` judges, by the likeliest action
    result = maglev.evaluate(lambda obs, info: agent(obs)[0].logits.argmax(-1), options.environment)
    print(f"evaluation: {result['return_mean']:.1f} over {result['episodes']} episodes")
