"""The network of a prover (docs/knowledge_graphs.md) in plain torch layers, and as a policy of stable-baselines3.

Every slot is embedded, taken or not, as libraries with padded actions do it. Options are those of ppo.network.proof.
"""

import math

import torch
from sb3_contrib.ppo_mask import MultiInputPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

NETWORK = dict(atoms="transe", goals="mean", embedding=64, width=128, blocks=2, towers="shared", dot="sqrt",
               temperature=0.1, shared="false")


class Embedder(torch.nn.Module):
    """Goals [.., A, 3] to vectors [.., E]: of atoms r + h - t or r - (h + t), their sum, over A or over how many there are."""

    def __init__(self, vocabulary, options):
        super().__init__()
        predicates, constants, _ = vocabulary
        self.predicates = torch.nn.Embedding(predicates, options["embedding"], padding_idx=0)
        self.constants = torch.nn.Embedding(constants, options["embedding"], padding_idx=0)
        self.options = options

    def forward(self, goals):
        r, h, t = self.predicates(goals[..., 0]), self.constants(goals[..., 1]), self.constants(goals[..., 2])
        atoms = {"transe": lambda: r + h - t, "sum": lambda: r - (h + t)}[self.options["atoms"]]()
        count = (goals[..., :1] != 0).sum(-2).clamp(min=1)
        divisor = {"mean": goals.shape[-2], "masked_mean": count, "sum": 1}[self.options["goals"]]
        return atoms.sum(-2) / divisor


class Body(torch.nn.Module):
    """A layer to `width`, then residual blocks; LayerNorm behind each ReLU."""

    def __init__(self, size, width, blocks):
        super().__init__()
        self.linears = torch.nn.ModuleList(torch.nn.Linear(size if i == 0 else width, width) for i in range(blocks + 1))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(blocks + 1))
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        for i, (linear, norm) in enumerate(zip(self.linears, self.norms, strict=True)):
            y = norm(self.relu(linear(x)))
            x = y if i == 0 else x + y
        return x


class Head(torch.nn.Module):
    """Layers with ReLU between them, and behind the last one where so asked."""

    def __init__(self, size, outputs, relu_behind):
        super().__init__()
        sizes = [size, *outputs]
        self.linears = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.relu, self.relu_behind = torch.nn.ReLU(), relu_behind

    def forward(self, x):
        for i, linear in enumerate(self.linears):
            x = linear(x)
            if self.relu_behind or i + 1 < len(self.linears):
                x = self.relu(x)
        return x


class Prover(torch.nn.Module):
    """{"state": [B, A, 3], "successors": [B, S, A, 3]} to logits [B, S], and to what the value is a linear function of.

    Takes the place of stable-baselines3's MlpExtractor."""

    def __init__(self, vocabulary, successors, options):
        super().__init__()
        E, H = options["embedding"], options["width"]
        body, head = (lambda: Body(E, H, options["blocks"])), (lambda: Head(H, [H, E], relu_behind=False))
        self.embedder, self.body, self.policy_head = Embedder(vocabulary, options), body(), head()
        separate = options["towers"] == "separate"
        self.next_body, self.next_head = (body(), head()) if separate else (None, None)
        self.critic_body = None if options["shared"] == "true" else body()
        self.critic = Head(H, [H], relu_behind=True)
        self.latent_dim_pi, self.latent_dim_vf, self.options = successors, H, options

    def compared(self, head, body, embedded):
        x = head(body(embedded))
        return torch.nn.functional.normalize(x, dim=-1) if self.options["dot"] == "l2" else x

    def forward_actor(self, columns):
        state, successors = (self.embedder(columns[name].long()) for name in ("state", "successors"))
        u = self.compared(self.policy_head, self.body, state)
        v = self.compared(self.next_head or self.policy_head, self.next_body or self.body, successors)
        divisor = {"none": 1, "sqrt": math.sqrt(self.options["embedding"]), "l2": self.options["temperature"]}
        return torch.einsum("be,bse->bs", u, v) / divisor[self.options["dot"]]

    def forward_critic(self, columns):
        return self.critic((self.critic_body or self.body)(self.embedder(columns["state"].long())))

    def forward(self, columns):
        return self.forward_actor(columns), self.forward_critic(columns)


class Columns(BaseFeaturesExtractor):
    """Observations as they are."""

    def __init__(self, space):
        super().__init__(space, features_dim=1)

    def forward(self, columns):
        return columns


class ProverPolicy(MultiInputPolicy):
    """For MaskablePPO: policy_kwargs `vocabulary` and `network`, whose options are those of NETWORK."""

    def __init__(self, *args, vocabulary, network, **kwargs):
        self.vocabulary, self.network = vocabulary, NETWORK | network
        super().__init__(*args, features_extractor_class=Columns, **kwargs)

    def _build(self, lr_schedule):
        self.mlp_extractor = Prover(self.vocabulary, int(self.action_space.n), self.network)
        self.action_net = torch.nn.Identity()
        self.value_net = torch.nn.Linear(self.mlp_extractor.latent_dim_vf, 1)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)


def our_name(name):
    """A parameter of ProverPolicy under this engine's name."""
    if name.startswith("value_net."):
        return name.replace("value_net", "value_head")
    part, kind, *rest = name.removeprefix("mlp_extractor.").split(".")
    if part == "embedder":
        return f"{part}.{kind}"
    ours = {"linears.weight": "weight", "linears.bias": "bias", "norms.weight": "gain", "norms.bias": "shift"}
    layer, what = rest
    return f"{part}.{ours[f'{kind}.{what}']}{layer}"
