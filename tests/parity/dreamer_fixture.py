"""Dreamer V3 from its public formulas, in f64, one operation after another: what this engine's is compared with.

    python tests/parity/dreamer_fixture.py OUT [CASE ...]

writes OUT/<case>.case (tests/parity/case_file.h reads it): weights, sequences and random numbers, the losses the formulas
make of them and, by automatic differentiation of these formulas, every weight's gradient. dreamer_replay feeds the same to
the shipped code.
"""

import math
import pathlib
import sys

import torch
import torch.nn.functional as F

DTYPES = {torch.float64: "f64", torch.int64: "i64", torch.uint8: "u8"}
MULTIPLES = (2, 3, 4, 4)
BINS = 255

DEFAULTS = dict(
    height=0, width=0, channels=0, vector=6, heads=[], actions=2, deter=24, hidden=6, stoch=3, classes=5, blocks=4, depth=2,
    units=7, T=6, B=3, imagination=4, horizon=20, **{"lambda": 0.9}, unimix=0.02, free_nats=0.6, entropy_coef=0.05,
    dynamics_coef=0.9, representation_coef=0.2, reconstruction_coef=1.1, reward_coef=0.7, continue_coef=1.3,
    objective="reconstruction", redundancy_coef=0.4, off_diagonal=0.03,
    policy_coef=0.8, value_coef=1.2, replay_value_coef=0.3, slow_coef=0.6, range_rate=0.05,
)
CASES = {
    "vector": {},
    "categories": dict(heads=[3, 2], actions=5),
    "image": dict(height=48, width=33, channels=3, vector=0, T=3),
    "three_halvings": dict(height=32, width=24, channels=3, vector=0, T=3),
    "one_halving": dict(height=5, width=8, channels=2, vector=0),
    "both": dict(height=16, width=32, channels=4, heads=[4], actions=4, T=4),
    # sides that do not halve
    "filled": dict(height=10, width=21, channels=3, vector=0, T=4),
    "short_dreams": {"imagination": 1, "horizon": 333, "lambda": 0.95, "free_nats": 0.0},
    "redundancy": dict(objective="redundancy", height=16, width=16, channels=3, heads=[3], actions=3),
    "redundancy_of_vectors": dict(objective="redundancy", B=4),
    "long_returns": dict(imagination=6, free_nats=30.0, actions=1, **{"lambda": 1.0}),
}


# --- weights ------------------------------------------------------------------------------------------------------------


def dense_shapes(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def mlp_shapes(name, inputs, layers, units):
    shapes = {}
    for i in range(layers):
        shapes |= dense_shapes(f"{name}.dense{i}", inputs if i == 0 else units, units)
        shapes[f"{name}.norm{i}.scale"] = (units,)
    return shapes


def head_shapes(name, inputs, layers, units, outputs):
    return mlp_shapes(f"{name}.hidden", inputs, layers, units) | dense_shapes(f"{name}.out", units, outputs)


def block_shapes(name, inputs, outputs, blocks):
    return {f"{name}.weight": (blocks, inputs // blocks, outputs // blocks), f"{name}.bias": (outputs,)}


def stages(c):
    """How often an image is halved: as often as leaves 3 places a side, 1 to 4 times."""
    shorter = min(c["height"], c["width"])
    return max([1] + [n for n in (2, 3, 4) if -(-shorter // 2**n) >= 3])


def channels(c):
    """Behind each halving: of fewer than four the last multiples."""
    return [multiple * c["depth"] for multiple in MULTIPLES[-stages(c):]]


def places(c):
    """Of the sides of a halved image; what is missing to a multiple is filled up."""
    return [-(-c[side] // 2 ** stages(c)) for side in ("height", "width")]


def weight_shapes(c):
    z, feature = c["stoch"] * c["classes"], c["deter"] + c["stoch"] * c["classes"]
    small = math.prod(places(c)) * 4 * c["depth"]
    shapes, token = {}, 0
    if c["vector"]:
        shapes |= mlp_shapes("encoder.vector", c["vector"], 3, c["units"])
        token += c["units"]
    if c["channels"]:
        inputs = c["channels"]
        for i, out in enumerate(channels(c)):
            shapes[f"encoder.convolution{i}.weight"], shapes[f"encoder.convolution{i}.bias"] = (out, inputs, 5, 5), (out,)
            shapes[f"encoder.norm{i}.scale"] = (out,)
            inputs = out
        token += small
    for name, width in (("deter", c["deter"]), ("stoch", z), ("action", c["actions"])):
        shapes |= mlp_shapes(f"rssm.from_{name}", width, 1, c["hidden"])
    shapes |= block_shapes("rssm.mix", c["deter"] + c["blocks"] * 3 * c["hidden"], c["deter"], c["blocks"])
    shapes["rssm.mix_norm.scale"] = (c["deter"],)
    shapes |= block_shapes("rssm.gates", c["deter"], 3 * c["deter"], c["blocks"])
    shapes |= head_shapes("rssm.posterior", c["deter"] + token, 1, c["hidden"], z)
    shapes |= head_shapes("rssm.prior", c["deter"], 2, c["hidden"], z)
    shapes |= head_shapes("policy", feature, 3, c["units"], c["actions"] if c["heads"] else 2 * c["actions"])
    decodes = c["objective"] == "reconstruction"
    if not decodes:
        shapes["projector.weight"] = (token, feature)
    if decodes and c["channels"]:
        shapes |= block_shapes("decoder.from_deter", c["deter"], small, c["blocks"])
        shapes |= mlp_shapes("decoder.from_stoch", z, 1, 2 * c["units"])
        shapes |= dense_shapes("decoder.from_stoch_out", 2 * c["units"], small)
        inputs = 4 * c["depth"]
        shapes["decoder.norm.scale"] = (inputs,)
        for i in reversed(range(stages(c))):
            out = channels(c)[i - 1] if i else c["channels"]
            shapes[f"decoder.convolution{i}.weight"], shapes[f"decoder.convolution{i}.bias"] = (out, inputs, 5, 5), (out,)
            if i:
                shapes[f"decoder.norm{i}.scale"] = (out,)
            inputs = out
    if decodes and c["vector"]:
        shapes |= head_shapes("decoder.vector", feature, 3, c["units"], c["vector"])
    shapes |= head_shapes("reward", feature, 1, c["units"], BINS)
    shapes |= head_shapes("going_on", feature, 1, c["units"], 1)
    shapes |= head_shapes("value", feature, 3, c["units"], BINS)
    return shapes


def random_weights(shapes, generator):
    weights = {}
    for name, shape in shapes.items():
        values = torch.randn(shape, generator=generator)
        if name.endswith("scale"):
            weights[name] = 1 + 0.2 * values
        elif shape == (BINS,):
            # what is far from 0 is unlikely, or no other bin would show in a mean
            weights[name] = 0.1 * values - (torch.arange(BINS) - BINS // 2).abs() / 5
        elif name.endswith("bias"):
            weights[name] = 0.1 * values
        else:
            inputs = math.prod(shape[1:]) if len(shape) != 3 else shape[1]
            weights[name] = values / math.sqrt(inputs)
    return weights


# --- layers -------------------------------------------------------------------------------------------------------------


def silu(x):
    return x / (1 + torch.exp(-x))


def norm(w, name, x):
    return silu(x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-4) * w[f"{name}.scale"])


def dense(w, name, x):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def mlp(w, name, x):
    i = 0
    while f"{name}.dense{i}.weight" in w:
        x = norm(w, f"{name}.norm{i}", dense(w, f"{name}.dense{i}", x))
        i += 1
    return x


def head(w, name, x):
    return dense(w, f"{name}.out", mlp(w, f"{name}.hidden", x))


def block_dense(w, name, parts):
    """A list of what each block sees to a list of what each gives."""
    bias = w[f"{name}.bias"].chunk(len(parts))
    return [part @ w[f"{name}.weight"][b] + bias[b] for b, part in enumerate(parts)]


def convolution(w, name, x):
    """x [N, H, W, C]."""
    y = F.conv2d(x.permute(0, 3, 1, 2), w[f"{name}.weight"], w[f"{name}.bias"], padding="same")
    return y.permute(0, 2, 3, 1)


def symlog(x):
    return torch.sign(x) * torch.log(1 + torch.abs(x))


# --- the world model ----------------------------------------------------------------------------------------------------


def encode(c, w, image, vector):
    tokens = []
    if c["vector"]:
        tokens.append(mlp(w, "encoder.vector", symlog(vector)))
    if c["channels"]:
        height, width = (2 ** stages(c) * side for side in places(c))
        x = torch.zeros(len(image), height, width, c["channels"])
        x[:, : c["height"], : c["width"]] = image.double() / 255 - 0.5
        for i in range(stages(c)):
            x = convolution(w, f"encoder.convolution{i}", x)
            # the largest of each 2 x 2
            x = torch.maximum(torch.maximum(x[:, ::2, ::2], x[:, 1::2, ::2]), torch.maximum(x[:, ::2, 1::2], x[:, 1::2, 1::2]))
            x = norm(w, f"encoder.norm{i}", x)
        tokens.append(x.reshape(x.shape[0], -1))
    return torch.cat(tokens, -1)


def next_deter(c, w, h, z, a):
    a = a / torch.clamp(torch.abs(a), min=1).detach()
    shared = torch.cat([mlp(w, f"rssm.from_{k}", v) for k, v in (("deter", h), ("stoch", z), ("action", a))], -1)
    own = h.chunk(c["blocks"], -1)
    x = torch.cat(block_dense(w, "rssm.mix", [torch.cat([part, shared], -1) for part in own]), -1)
    x = norm(w, "rssm.mix_norm", x)
    out = []
    for part, gates in zip(own, block_dense(w, "rssm.gates", list(x.chunk(c["blocks"], -1)))):
        reset, candidate, update = gates.chunk(3, -1)
        new = torch.tanh(torch.sigmoid(reset) * candidate)
        share = torch.sigmoid(update - 1)
        out.append(share * new + (1 - share) * part)
    return torch.cat(out, -1)


def categoricals(c, logits):
    logits = logits.reshape(*logits.shape[:-1], c["stoch"], c["classes"])
    return (1 - c["unimix"]) * torch.softmax(logits, -1) + c["unimix"] / c["classes"]


def draw(probs, uniform):
    """The first category whose cumulative probability is above the uniform, as a one-hot vector."""
    ends = torch.cumsum(probs, -1)
    category = torch.argmax((ends > uniform[..., None]).to(torch.int64), -1)
    # rounding may leave the last end below a uniform close to 1
    category = torch.where(ends[..., -1] <= uniform, probs.shape[-1] - 1, category)
    return F.one_hot(category, probs.shape[-1]).double()


def draw_state(probs, uniform):
    return (draw(probs.detach(), uniform) + probs - probs.detach()).flatten(-2)


def decode(c, w, h, z):
    made = {}
    if c["channels"]:
        (height, width), depth, g = places(c), 4 * c["depth"], c["blocks"]
        parts = block_dense(w, "decoder.from_deter", list(h.chunk(g, -1)))
        # a block makes channels of its own at every place
        by_h = torch.cat([p.reshape(-1, height, width, depth // g) for p in parts], -1)
        by_z = dense(w, "decoder.from_stoch_out", mlp(w, "decoder.from_stoch", z)).reshape(-1, height, width, depth)
        x = norm(w, "decoder.norm", by_h + by_z)
        for i in reversed(range(stages(c))):
            x = convolution(w, f"decoder.convolution{i}", x.repeat_interleave(2, 1).repeat_interleave(2, 2))
            if i:
                x = norm(w, f"decoder.norm{i}", x)
        made["image"] = torch.sigmoid(x[:, : c["height"], : c["width"]])
    if c["vector"]:
        made["vector"] = head(w, "decoder.vector", torch.cat([h, z], -1))
    return made


def divergence(p, q):
    return (p * (torch.log(p) - torch.log(q))).sum((-2, -1))


def redundancy(c, projected, token):
    """Correlations over rows, [E, E], from one pair of numbers to the next: 1 with its own, 0 with any other."""

    def standard(x):
        x = x - x.sum(0) / len(x)
        return x / torch.sqrt((x * x).sum(0) / len(x) + 1e-8)

    a, b, total = standard(projected), standard(token), 0
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            together = (a[:, i] * b[:, j]).sum() / len(a)
            total = total + ((together - 1) ** 2 if i == j else c["off_diagonal"] * together**2)
    return total


# --- returns ------------------------------------------------------------------------------------------------------------


def bins():
    half = torch.tensor([-math.expm1(20 - 20 * i / 127) for i in range(128)])
    return torch.cat([half, -half[:-1].flip(0)])


def two_hot(x):
    b = bins()
    code = torch.zeros(*x.shape, BINS)
    for place in torch.cartesian_prod(*[torch.arange(n) for n in x.shape]).reshape(-1, x.dim()).tolist():
        value = min(max(float(x[tuple(place)]), float(b[0])), float(b[-1]))
        k = min(int((b <= value).sum()) - 1, BINS - 2)
        share = (value - float(b[k])) / float(b[k + 1] - b[k])
        code[(*place, k)], code[(*place, k + 1)] = 1 - share, share
    return code


def cross_entropy(logits, target):
    return -(two_hot(target.detach()) * torch.log_softmax(logits, -1)).sum(-1)


def mean_of(logits):
    return (torch.softmax(logits, -1) * bins()).sum(-1)


def returns(reward, value, terminated, ended, discount, share):
    """[T + 1, N] each to [T, N], a trajectory at a time."""
    T = reward.shape[0] - 1
    out = torch.zeros(T, reward.shape[1])
    for n in range(reward.shape[1]):
        later = value[T, n]
        for t in range(T - 1, -1, -1):
            future = later * share + value[t + 1, n] * (1 - share) if ended[t + 1, n] == 0 else value[t + 1, n]
            later = reward[t + 1, n] + discount * (1 - terminated[t + 1, n]) * future
            out[t, n] = later
    return out


# --- actions ------------------------------------------------------------------------------------------------------------


def act(c, logits, numbers):
    if c["heads"]:
        parts = logits.split(c["heads"], -1)
        return torch.cat([draw(torch.softmax(p, -1), numbers[..., i]) for i, p in enumerate(parts)], -1)
    mean, std = logits.chunk(2, -1)
    return torch.tanh(mean) + (0.9 * torch.sigmoid(std + 2) + 0.1) * numbers


def likelihood(c, logits, action):
    """Log-probability of an action and the distribution's entropy, summed over its parts."""
    if c["heads"]:
        pairs = [
            torch.distributions.OneHotCategorical(logits=p) for p in logits.split(c["heads"], -1)
        ]
        taken = action.split(c["heads"], -1)
        return sum(d.log_prob(a) for d, a in zip(pairs, taken)), sum(d.entropy() for d in pairs)
    mean, std = logits.chunk(2, -1)
    d = torch.distributions.Normal(torch.tanh(mean), 0.9 * torch.sigmoid(std + 2) + 0.1)
    return d.log_prob(action).sum(-1), d.entropy().sum(-1)


# --- a whole update's loss ----------------------------------------------------------------------------------------------


def losses(c, w, slow, batch, noise, spread):
    T, B, H = c["T"], c["B"], c["imagination"]
    keep = 1 - batch["is_first"]
    discount = 1 - 1 / c["horizon"]
    out = {}

    # observe
    rows = lambda x: None if x is None else x.flatten(0, 1)
    token = encode(c, w, rows(batch.get("image")), rows(batch.get("vector"))).reshape(T, B, -1)
    h, z = batch["deter"], F.one_hot(batch["stoch"].long(), c["classes"]).double().flatten(-2)
    hs, zs, posterior = [], [], []
    for t in range(T):
        k = keep[t][:, None]
        h = next_deter(c, w, h * k, z * k, batch["action"][t] * k)
        p = categoricals(c, head(w, "rssm.posterior", torch.cat([h, token[t]], -1)))
        z = draw_state(p, noise["posterior"][t])
        hs.append(h), zs.append(z), posterior.append(p)
    h, z, posterior = torch.stack(hs), torch.stack(zs), torch.stack(posterior)
    prior = categoricals(c, head(w, "rssm.prior", h))
    feature = torch.cat([h, z], -1)
    out["deter"], out["stoch"] = h, z.detach().reshape(T, B, c["stoch"], -1).round().argmax(-1)

    # the world model
    if c["objective"] == "reconstruction":
        made = decode(c, w, h.flatten(0, 1), z.flatten(0, 1))
        error = 0
        if c["channels"]:
            error = error + ((made["image"] - rows(batch["image"]).double() / 255) ** 2).sum((1, 2, 3))
        if c["vector"]:
            error = error + ((made["vector"] - symlog(rows(batch["vector"]))) ** 2).sum(-1)
        out["observation"] = c["reconstruction_coef"] * error.mean()
    else:
        projected = feature.flatten(0, 1) @ w["projector.weight"].T
        out["observation"] = c["redundancy_coef"] * redundancy(c, projected, token.flatten(0, 1).detach())
    out["reward"] = c["reward_coef"] * cross_entropy(head(w, "reward", feature), batch["reward"]).mean()
    chance = torch.sigmoid(head(w, "going_on", feature)[..., 0])
    target = (1 - batch["terminated"]) * discount
    out["going_on"] = -c["continue_coef"] * (target * torch.log(chance) + (1 - target) * torch.log(1 - chance)).mean()
    floor = torch.tensor(c["free_nats"])
    out["dynamics"] = c["dynamics_coef"] * torch.maximum(divergence(posterior.detach(), prior), floor).mean()
    out["representation"] = c["representation_coef"] * torch.maximum(divergence(posterior, prior.detach()), floor).mean()
    out["divergence"] = divergence(posterior, prior).mean()

    # imagine
    with torch.no_grad():
        dh, dz = h.flatten(0, 1), z.flatten(0, 1).round()
        features, actions = [], []
        for t in range(H + 1):
            features.append(torch.cat([dh, dz], -1))
            actions.append(act(c, head(w, "policy", features[-1]), noise["action"][t]))
            if t < H:
                dh = next_deter(c, w, dh, dz, actions[-1])
                dz = draw(categoricals(c, head(w, "rssm.prior", dh)), noise["prior"][t]).flatten(-2)
        dream, actions = torch.stack(features), torch.stack(actions)
        chance = torch.sigmoid(head(w, "going_on", dream)[..., 0])
        value = mean_of(head(w, "value", dream))
        ret = returns(mean_of(head(w, "reward", dream)), value, 1 - chance, torch.zeros_like(chance), 1, c["lambda"])
        weight = torch.cumprod(chance, 0)[:H]
        now = torch.quantile(ret.flatten(), torch.tensor([0.05, 0.95]))
        spread = (1 - c["range_rate"]) * spread + c["range_rate"] * now
        scale = max(1.0, float(spread[1] - spread[0]))
        slow_value = mean_of(head(slow, "value", dream))
    out["range"], out["returns"] = spread, ret

    # actor and critic
    log_prob, entropy = likelihood(c, head(w, "policy", dream[:H]), actions[:H])
    out["policy"] = -c["policy_coef"] * (weight * (log_prob * (ret - value[:H]) / scale + c["entropy_coef"] * entropy)).mean()
    logits = head(w, "value", dream[:H])
    both = cross_entropy(logits, ret) + c["slow_coef"] * cross_entropy(logits, slow_value[:H])
    out["value"] = c["value_coef"] * (weight * both).mean()

    # and on what was replayed
    target = returns(batch["reward"], ret[0].reshape(T, B), batch["terminated"], batch["ended"], discount, c["lambda"])
    logits = head(w, "value", feature[:-1])
    slow_value = mean_of(head(slow, "value", feature[:-1])).detach()
    both = cross_entropy(logits, target) + c["slow_coef"] * cross_entropy(logits, slow_value)
    out["replay_value"] = c["replay_value_coef"] * ((1 - batch["ended"][:-1]) * both).mean()
    terms = ("observation", "reward", "going_on", "dynamics", "representation", "policy", "value", "replay_value")
    out["total"] = sum(out[k] for k in terms)
    return out


def random_batch(c, generator):
    T, B, H = c["T"], c["B"], c["imagination"]
    rand = lambda *s: torch.rand(*s, generator=generator)
    randn = lambda *s: torch.randn(*s, generator=generator)
    if c["heads"]:
        parts = [F.one_hot((rand(T, B) * k).long(), k).double() for k in c["heads"]]
        action = torch.cat(parts, -1)
    else:
        action = 2 * rand(T, B, c["actions"]) - 1
    ended = (rand(T, B) < 0.3).double()
    ended[0] = 0
    first = torch.cat([torch.tensor([[0.0, 1.0] + [0.0] * (B - 2)]), ended[:-1]])
    ended = ended * (1 - first)
    batch = dict(
        is_first=first, action=action, reward=3 * randn(T, B) * (1 - first), terminated=ended * (rand(T, B) < 0.6), ended=ended,
        deter=torch.tanh(randn(B, c["deter"])), stoch=(rand(B, c["stoch"]) * c["classes"]).to(torch.uint8),
    )
    if c["vector"]:
        batch["vector"] = 3 * randn(T, B, c["vector"])
    if c["channels"]:
        batch["image"] = (256 * rand(T, B, c["height"], c["width"], c["channels"])).to(torch.uint8)
    numbers = len(c["heads"]) or c["actions"]
    noise = dict(
        posterior=rand(T, B, c["stoch"]), prior=rand(H, T * B, c["stoch"]),
        action=rand(H + 1, T * B, numbers) if c["heads"] else randn(H + 1, T * B, numbers),
    )
    return batch, noise


def case(name):
    c = DEFAULTS | CASES[name]
    generator = torch.Generator().manual_seed(list(CASES).index(name) + 1)
    shapes = weight_shapes(c)
    weights = random_weights(shapes, generator)
    slow = random_weights({k: s for k, s in shapes.items() if k.startswith("value.")}, generator)
    batch, noise = random_batch(c, generator)
    spread = torch.tensor([-0.5, 2.0])
    learned = {k: v.clone().requires_grad_() for k, v in weights.items()}
    out = losses(c, learned, slow, batch, noise, spread)
    gradients = torch.autograd.grad(out["total"], list(learned.values()))

    sizes = ("height", "width", "channels", "vector", "actions", "deter", "hidden", "stoch", "classes", "blocks", "depth", "units")
    numbers = {k: c[k] for k in sizes} | {f"head{i}": k for i, k in enumerate(c["heads"])}
    options = {k: v for k, v in c.items() if k not in (*sizes, "heads", "T", "B")}
    tensors = {f"weight.{k}": v for k, v in weights.items()} | {f"slow.{k[6:]}": v for k, v in slow.items()}
    tensors |= {f"batch.{k}": v for k, v in batch.items()} | {f"noise.{k}": v for k, v in noise.items()}
    tensors |= {"spread": spread} | {f"out.{k}": v.detach() for k, v in out.items()}
    tensors |= {f"grad.{k}": g for k, g in zip(learned, gradients)}
    return options, numbers, tensors


def write(path, options, numbers, tensors):
    lines = [f"option {k} {v}" for k, v in options.items()] + [f"number {k} {v}" for k, v in numbers.items()]
    data = []
    for name, t in tensors.items():
        t = t.contiguous()
        lines.append(" ".join(["tensor", name, DTYPES[t.dtype], str(t.dim()), *map(str, t.shape)]))
        data.append(t.numpy().tobytes())
    path.write_bytes(("\n".join([*lines, "end"]) + "\n").encode() + b"".join(data))


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or CASES:
        write(out / f"{name}.case", *case(name))


if __name__ == "__main__":
    main()
