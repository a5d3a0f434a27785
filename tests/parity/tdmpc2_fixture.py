"""TD-MPC2 from its public formulas, in f64, one operation after another: what this engine's is compared with.

    python tests/parity/tdmpc2_fixture.py OUT [CASE ...]

writes OUT/<case>.case (tests/parity/case_file.h reads it): weights, batches and observations as f32, and what the formulas
make of them. tdmpc2_replay feeds the same to the shipped code. Random numbers are those of kernels/noise: Philox 4x32-10.
"""

import math
import pathlib
import sys

import numpy as np
import torch

BINS, LOW, HIGH = 101, -10.0, 10.0
ACT, UPDATE = 2, 7  # purposes of random streams
SAFE_EDGE = 1e-4  # how near a choice may come to another one
DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.uint8: "u8"}

DEFAULTS = dict(
    obs=7, actions=3, enc_dim=24, mlp_dim=32, latent_dim=24, num_q=4, horizon=3, samples=48, elites=8,
    policy_trajectories=6, iterations=3, batch=10, rows=2, episodic="off", termination="hard", terminal_action="sample",
    temperature=0.5, min_std=0.05, max_std=2.0, rho=0.5, tau=0.01, lr=3e-4, enc_lr_scale=0.3, grad_clip=20.0,
    entropy_coef=1e-4, consistency_coef=20.0, reward_coef=0.1, value_coef=0.1, termination_coef=1.0, dropout=0.01,
    discount=0.97,
)
CASES = {
    "functions": {},
    "default": {},
    "episodic": dict(episodic="on"),
    "soft_mean": dict(episodic="on", termination="soft", terminal_action="mean", horizon=5, num_q=3),
    "one_step": dict(horizon=1, policy_trajectories=0),
    "tight_clip": dict(grad_clip=0.05, rho=0.7, dropout=0.2),
}


# --- random numbers -------------------------------------------------------------------------------------------------


def philox(seed, stream, counters):
    """Words [n, 4] of Philox 4x32-10 at 64-bit counters (Salmon et al., 2011)."""
    u64, low = np.uint64, np.uint64(0xFFFFFFFF)
    c = [counters & low, counters >> u64(32), np.full_like(counters, stream & 0xFFFFFFFF), np.full_like(counters, stream >> 32)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = u64(0xD2511F53) * c[0], u64(0xCD9E8D57) * c[2]
        c = [(p1 >> u64(32)) ^ c[1] ^ u64(k0), p1 & low, (p0 >> u64(32)) ^ c[3] ^ u64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 1)


def uniforms(seed, stream, first, count):
    index = np.arange(count, dtype=np.uint64) + np.uint64(first)
    words = philox(seed, stream, index // np.uint64(4))[np.arange(count), (index % np.uint64(4)).astype(int)]
    return torch.tensor(((words >> np.uint64(9)).astype(np.float64) + 0.5) / 2.0**23)


def normals(seed, stream, first, count):
    """Box and Muller's: cosine at even indices, sine of the same angle at odd ones."""
    start = first // 2 * 2
    u = uniforms(seed, stream, start, (first + count - start + 1) // 2 * 2).reshape(-1, 2)
    radius, angle = torch.sqrt(-2 * torch.log(u[:, 0])), 2 * math.pi * u[:, 1]
    pairs = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], 1).flatten()
    return pairs[first - start: first - start + count]


# --- formulas -------------------------------------------------------------------------------------------------------


def symlog(x):
    return torch.sign(x) * torch.log1p(x.abs())


def symexp(x):
    return torch.sign(x) * torch.expm1(x.abs())


def two_hot(x):
    place = (symlog(x).clamp(LOW, HIGH) - LOW) / ((HIGH - LOW) / (BINS - 1))
    below = place.floor().long()
    share = place - below
    code = torch.zeros(*x.shape, BINS, dtype=torch.float64)
    code.scatter_(-1, below.unsqueeze(-1), (1 - share).unsqueeze(-1))
    return code.scatter_add_(-1, ((below + 1) % BINS).unsqueeze(-1), share.unsqueeze(-1))


def two_hot_loss(logits, x):
    return -(two_hot(x) * torch.log_softmax(logits, -1)).sum(-1)


def two_hot_inverse(logits):
    return symexp((torch.softmax(logits, -1) * torch.linspace(LOW, HIGH, BINS, dtype=torch.float64)).sum(-1))


def simnorm(x):
    return torch.softmax(x.reshape(*x.shape[:-1], x.shape[-1] // 8, 8), -1).reshape(x.shape)


def mish(x):
    return x * torch.tanh(torch.nn.functional.softplus(x))


def layer_norm(x, gain, shift):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5) * gain + shift


def percentile(x, q):
    x = x.sort().values
    place = q * (len(x) - 1)
    low = math.floor(place)
    high = min(low + 1, len(x) - 1)
    return x[low] + (place - low) * (x[high] - x[low])


def running_scale(scale, x, tau):
    wanted = (percentile(x, 0.95) - percentile(x, 0.05)).clamp(min=1.0)
    return scale + tau * (wanted - scale)


def policy_draw(head, noise):
    mean, spread = head.chunk(2, -1)
    log_std = -10 + 0.5 * 12 * (torch.tanh(spread) + 1)
    gauss = (-0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
    action = torch.tanh(mean + noise * log_std.exp())
    log_prob = gauss - torch.log(torch.relu(1 - action**2) + 1e-6).sum(-1)
    scaled = -log_prob * (gauss * mean.shape[-1] / (log_prob + 1e-8))
    return action, torch.tanh(mean), -log_prob, scaled


# --- the model ------------------------------------------------------------------------------------------------------


class Model:
    """Networks that read one flat f64 vector, in the order of algos/tdmpc2/model_shape.h."""

    def __init__(self, c, flat=None, generator=None):
        self.c = c
        M, D, A = c["mlp_dim"], c["latent_dim"], c["actions"]
        self.widths = {"encoder": [c["obs"], c["enc_dim"], D], "dynamics": [D + A, M, M, D], "reward": [D + A, M, M, BINS]}
        if c["episodic"] == "on":
            self.widths["termination"] = [D, M, M, 1]
        for i in range(c["num_q"]):
            self.widths[f"q{i}"] = [D + A, M, M, BINS]
        self.widths["policy"] = [D, M, M, 2 * A]
        self.places, at = {}, 0
        for name, widths in self.widths.items():
            layers = []
            for i, (n, m) in enumerate(zip(widths[:-1], widths[1:])):
                normed = i + 2 < len(widths) or name in ("encoder", "dynamics")
                parts = [(m, n), (m,)] + [(m,), (m,)] * normed
                layers.append([(at := at + math.prod(s), s) for s in parts])
            self.places[name] = layers
        self.size = at
        self.flat = self.random(generator) if flat is None else flat

    def random(self, generator):
        """Weights under which every head says something and no choice is a tie; f32 numbers."""
        flat = torch.randn(self.size, generator=generator, dtype=torch.float64) * 0.1
        for layers in self.places.values():
            for layer in layers:
                end, shape = layer[0]
                flat[end - math.prod(shape):end] *= 10 / math.sqrt(shape[1])
                if len(layer) == 4:
                    end = layer[2][0]
                    flat[end - layer[2][1][0]:end] += 1
        return flat.float().double()

    def begin(self, name):
        end, shape = self.places[name][0][0]
        return end - math.prod(shape)

    def q_range(self):
        return self.begin("q0"), self.places[f"q{self.c['num_q'] - 1}"][-1][-1][0]

    def run(self, name, x, keep=None, flat=None, base=0):
        flat = self.flat if flat is None else flat
        layers = self.places[name]
        for i, layer in enumerate(layers):
            w = [flat[end - math.prod(s) - base:end - base].view(s) for end, s in layer]
            x = x @ w[0].T + w[1]
            if i == 0 and keep is not None:
                x = x * keep
            if len(w) == 4:
                x = layer_norm(x, w[2], w[3])
                x = simnorm(x) if i + 1 == len(layers) else mish(x)
        return x


def pair_of(u, n):
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    return pairs[min(int(u * len(pairs)), len(pairs) - 1)]


# --- plan -----------------------------------------------------------------------------------------------------------


def plan(model, obs, prev_mean, is_first, seed, row, step):
    c = model.c
    H, S, P, E, I, A = (c[k] for k in ("horizon", "samples", "policy_trajectories", "elites", "iterations", "actions"))
    episodic, edge = c["episodic"] == "on", math.inf
    sizes = [H * P * A, I * H * (S - P) * A, I * S * A, I, E, A]
    starts = [0]
    for n in sizes:
        starts.append(starts[-1] + (n + 3) // 4 * 4)
    stream = (ACT << 56) | row
    draw = lambda f, kind, at, count: f(seed, stream, step * 2**26 + starts[kind] + at, count)  # noqa: E731

    z0 = model.run("encoder", obs)
    actions = torch.zeros(H, S, A, dtype=torch.float64)
    noise = draw(normals, 0, 0, H * P * A).view(H, P, A)
    z = z0.expand(P, -1)
    for t in range(H):
        actions[t, :P] = policy_draw(model.run("policy", z), noise[t])[0]
        z = model.run("dynamics", torch.cat([z, actions[t, :P]], 1))
    mean, std = torch.zeros(H, A, dtype=torch.float64), torch.full((H, A), c["max_std"], dtype=torch.float64)
    if not is_first:
        mean[:-1] = prev_mean[1:]
    for k in range(I):
        noise = draw(normals, 1, k * H * (S - P) * A, H * (S - P) * A).view(H, S - P, A)
        actions[:, P:] = (mean[:, None] + std[:, None] * noise).clamp(-1, 1)
        value, ended, z = torch.zeros(S, dtype=torch.float64), torch.zeros(S, dtype=torch.float64), z0.expand(S, -1)
        for t in range(H):
            x = torch.cat([z, actions[t]], 1)
            value = value + c["discount"]**t * (1 - ended) * two_hot_inverse(model.run("reward", x))
            z = model.run("dynamics", x)
            if episodic:
                chance = torch.sigmoid(model.run("termination", z).squeeze(1))
                if c["termination"] == "hard":
                    edge = min(edge, (chance - 0.5).abs().min().item())
                    ended = (ended + (chance > 0.5)).clamp(max=1)
                else:
                    ended = 1 - (1 - ended) * (1 - chance)
        drawn, middle, _, _ = policy_draw(model.run("policy", z), draw(normals, 2, k * S * A, S * A).view(S, A))
        x = torch.cat([z, middle if c["terminal_action"] == "mean" else drawn], 1)
        i, j = pair_of(draw(uniforms, 3, k, 1).item(), c["num_q"])
        q = (two_hot_inverse(model.run(f"q{i}", x)) + two_hot_inverse(model.run(f"q{j}", x))) / 2
        value = value + c["discount"]**H * (1 - ended) * q
        best, elites = value.sort(descending=True, stable=True)
        edge = min(edge, (best[E - 1] - best[E]).item(), (best[:E - 1] - best[1:E]).min().item())
        elites = elites[:E]
        scores = torch.exp(c["temperature"] * (best[:E] - best[0]))
        scores = scores / scores.sum()
        chosen = actions[:, elites]
        mean = (scores[None, :, None] * chosen).sum(1)
        std = torch.sqrt((scores[None, :, None] * (chosen - mean[:, None])**2).sum(1)).clamp(c["min_std"], c["max_std"])
    gumbel = torch.log(scores) - torch.log(-torch.log(draw(uniforms, 4, 0, E)))
    top = gumbel.sort(descending=True).values
    edge = min(edge, (top[0] - top[1]).item())
    action = chosen[0, gumbel.argmax()]
    noisy = (action + std[0] * draw(normals, 5, 0, A)).clamp(-1, 1)
    return dict(action=action, noisy=noisy, mean=mean), edge


# --- update ---------------------------------------------------------------------------------------------------------


def update(c, flat, target, batch, moments, scale, seed, number):
    H, B, A, M, n = c["horizon"], c["batch"], c["actions"], c["mlp_dim"], c["num_q"]
    draw = lambda f, kind, *shape: f(seed, (UPDATE << 56) | kind, number << 32, math.prod(shape)).view(shape)  # noqa: E731
    keep = lambda kind, *shape: (draw(uniforms, kind, *shape) >= c["dropout"]).double() / (1 - c["dropout"])  # noqa: E731
    obs, action, reward, terminated = batch
    leaf = flat.clone().requires_grad_(True)
    model, first_q = Model(c, leaf), Model(c, leaf).q_range()[0]
    rho = c["rho"] ** torch.arange(H + 1, dtype=torch.float64)

    with torch.no_grad():
        next_z = model.run("encoder", obs[1:])
        a, _, _, _ = policy_draw(model.run("policy", next_z), draw(normals, 0, H, B, A))
        x = torch.cat([next_z, a], -1)
        pair = pair_of(draw(uniforms, 1, 1).item(), n)
        q = torch.stack([two_hot_inverse(model.run(f"q{i}", x, flat=target, base=first_q)) for i in pair]).min(0).values
        goal = reward + c["discount"] * (1 - terminated) * q

    zs = [model.run("encoder", obs[0])]
    for t in range(H):
        zs.append(model.run("dynamics", torch.cat([zs[-1], action[t]], -1)))
    zs = torch.stack(zs)
    x = torch.cat([zs[:-1], action], -1)
    consistency = sum(rho[t] * ((zs[t + 1] - next_z[t])**2).mean() for t in range(H)) / H
    reward_loss = (rho[:H] * two_hot_loss(model.run("reward", x), reward).mean(1)).sum() / H
    drops = keep(4, n, H, B, M)
    value_loss = sum((rho[:H] * two_hot_loss(model.run(f"q{i}", x, drops[i]), goal).mean(1)).sum() for i in range(n)) / (H * n)
    total = c["consistency_coef"] * consistency + c["reward_coef"] * reward_loss + c["value_coef"] * value_loss
    termination = torch.zeros((), dtype=torch.float64)
    if c["episodic"] == "on":
        logit = model.run("termination", zs[1:]).squeeze(-1)
        termination = torch.nn.functional.binary_cross_entropy_with_logits(logit, terminated)
        total = total + c["termination_coef"] * termination
    total.backward()

    p = model.begin("policy")
    grad, new, clipped = leaf.grad.clone(), flat.clone(), torch.zeros_like(flat)
    rates = torch.full((p,), c["lr"], dtype=torch.float64)
    rates[:model.places["encoder"][-1][-1][0]] *= c["enc_lr_scale"]
    first, second, steps = moments

    def adam(begin, end, rate, eps):
        g = grad[begin:end]
        norm = g.norm()
        g = clipped[begin:end] = g * min(1.0, c["grad_clip"] / (norm.item() + 1e-6))
        m = 0.9 * first[begin:end] + 0.1 * g
        v = 0.999 * second[begin:end] + 0.001 * g**2
        k = steps + 1
        new[begin:end] -= rate * (m / (1 - 0.9**k)) / (torch.sqrt(v / (1 - 0.999**k)) + eps)
        return norm

    norm = adam(0, p, rates, 1e-8)

    # the policy, with the value networks as they are now
    z = zs.detach()
    moved = new.clone().requires_grad_(True)
    model = Model(c, moved)
    a, _, entropy, scaled = policy_draw(model.run("policy", z), draw(normals, 2, H + 1, B, A))
    pair, drops = pair_of(draw(uniforms, 3, 1).item(), n), keep(5, 2, H + 1, B, M)
    x = torch.cat([z, a], -1)
    q = sum(two_hot_inverse(model.run(f"q{i}", x, drops[k])) for k, i in enumerate(pair)) / 2
    scale = running_scale(scale, q[0].detach(), c["tau"])
    policy_loss = (-(c["entropy_coef"] * scaled + q / scale).mean(1) * rho).mean()
    policy_loss.backward()
    grad = moved.grad.clone()
    policy_norm = adam(p, len(flat), c["lr"], 1e-5)

    low, high = model.q_range()
    target = target + c["tau"] * (new[low:high] - target)
    figures = [consistency, reward_loss, value_loss, termination, total, norm, policy_loss, entropy.mean(), policy_norm, scale,
               q.mean(), goal.mean()]
    # each network's gradients beside its own largest
    largest = torch.zeros_like(flat)
    for name, layers in model.places.items():
        begin, end = model.begin(name), layers[-1][-1][0]
        largest[begin:end] = clipped[begin:end].abs().max()
    return dict(params=new, grad=clipped / largest, largest=largest, target=target, scale=scale.reshape(1),
                figures=torch.stack([f.detach() for f in figures]))


# --- files ----------------------------------------------------------------------------------------------------------


def write(path, options, numbers, tensors):
    lines = [f"option {k} {v}" for k, v in options.items()] + [f"number {k} {v}" for k, v in numbers.items()]
    data = []
    for name, t in tensors.items():
        t = (t.float() if t.dtype == torch.float64 else t).contiguous()
        lines.append(" ".join(["tensor", name, DTYPES[t.dtype], str(t.dim()), *map(str, t.shape)]))
        data.append(t.numpy().tobytes())
    path.write_bytes(("\n".join([*lines, "end"]) + "\n").encode() + b"".join(data))


def functions(generator):
    x = torch.cat([torch.linspace(-5, 5, 41, dtype=torch.float64), torch.tensor([-3e4, 0, 3e4, 1e-3], dtype=torch.float64)])
    x = x.float().double()
    logits = torch.randn(45, BINS, generator=generator, dtype=torch.float64).float().double()
    wide = torch.randn(9, 48, generator=generator, dtype=torch.float64).float().double()
    # where tanh saturates, 1 - tanh^2 has no digits left in f32
    head, noise = (0.4 * torch.randn(20, k, generator=generator, dtype=torch.float64).float().double() for k in (8, 4))
    head, noise = head.float().double(), noise.float().double()
    action, _, entropy, scaled = policy_draw(head, noise)
    return dict(x=x, logits=logits, wide=wide, head=head, noise=noise, two_hot_loss=two_hot_loss(logits, x),
                two_hot_inverse=two_hot_inverse(logits), simnorm=simnorm(wide), action=action, entropy=entropy,
                scaled_entropy=scaled, running_scale=running_scale(torch.tensor(3.0, dtype=torch.float64), x, 0.01).reshape(1))


def options_of(c):
    """The settings in this engine's words."""
    return {k: v for k, v in c.items() if k not in ("obs", "actions", "rows")} | dict(seed_steps=1)


def case(c, seed):
    """Numbers and tensors of a plan and an update; None where a choice of the plan is too near another one."""
    generator = torch.Generator().manual_seed(seed)
    randn = lambda *s: torch.randn(*s, generator=generator, dtype=torch.float64).float().double()  # noqa: E731
    model = Model(c, generator=generator)
    H, B, A, N, step = c["horizon"], c["batch"], c["actions"], c["rows"], 41
    low, high = model.q_range()
    out = dict(params=model.flat, obs=randn(N, c["obs"]), prev_mean=torch.tanh(randn(N, H, A)).float().double(),
               is_first=torch.tensor([n % 2 for n in range(N)], dtype=torch.uint8))
    plans = [plan(model, out["obs"][n:n + 1], out["prev_mean"][n], out["is_first"][n].item(), seed, n, step) for n in range(N)]
    if min(edge for _, edge in plans) < SAFE_EDGE:
        return None
    for key in ("action", "noisy", "mean"):
        out[f"plan/{key}"] = torch.stack([p[key] for p, _ in plans])

    target = (model.flat[low:high] + 0.05 * randn(high - low)).float().double()
    batch = (randn(H + 1, B, c["obs"]), torch.tanh(randn(H, B, A)).float().double(), 2 * randn(H, B),
             (randn(H, B) > 1.2).double())
    moments = (0.01 * randn(model.size), (0.02 * randn(model.size) ** 2 + 1e-3).float().double(), 7)
    moments = (moments[0].float().double(), moments[1], moments[2])
    out |= dict(target=target, batch_obs=batch[0], batch_action=batch[1], batch_reward=batch[2], batch_terminated=batch[3],
                first=moments[0], second=moments[1])
    done = update(c, model.flat, target, batch, moments, torch.tensor(1.5, dtype=torch.float64), seed, 3)
    out |= {f"update/{k}": v for k, v in done.items()}
    numbers = dict(seed=seed, step=step, obs=c["obs"], actions=A, rows=N, adam_steps=moments[2], updates=3)
    return numbers, out


def main():
    torch.set_num_threads(1)
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        c = DEFAULTS | CASES[name]
        if name == "functions":
            write(folder / f"{name}.case", {}, {}, functions(torch.Generator().manual_seed(1)))
            continue
        seed = next(s for s in range(1, 100) if (made := case(c, s)) is not None)
        numbers, tensors = made
        assert numbers["seed"] == seed
        write(folder / f"{name}.case", options_of(c), numbers, tensors)


if __name__ == "__main__":
    main()
