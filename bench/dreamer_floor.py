"""The multiplications that an update of Dreamer V3 cannot do without: python3 bench/dreamer_floor.py

Counted are products and convolutions, two operations a multiply-add, after every saving that keeps
the result: heads see each step of a dream once, the dream's first step are the replayed ones, and no
gradient goes to what has none. A backward pass counts twice its forward pass, or once where inputs
need no gradient. At the rate of `gemm.py` this is the least time. Alone it prints the parts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from floor import layers

BINS, WINDOW, STAGES = 255, 25, 4
MULTIPLES = (2, 3, 4, 4)


@dataclass(frozen=True)
class Config:
    """Sizes of one measured configuration; by default size1m and the published batch."""

    name: str = "vector"
    vector: int = 24
    side: int = 0
    actions: int = 6
    batch: int = 16
    length: int = 64
    horizon: int = 15
    deter: int = 512
    hidden: int = 64
    stoch: int = 32
    classes: int = 4
    blocks: int = 8
    depth: int = 4
    units: int = 64

    @property
    def flat_stoch(self) -> int:
        return self.stoch * self.classes

    @property
    def feature(self) -> int:
        return self.deter + self.flat_stoch

    @property
    def small_image(self) -> int:
        return (self.side >> STAGES) ** 2 * self.depth * MULTIPLES[-1]

    @property
    def token(self) -> int:
        return (self.units if self.vector else 0) + (self.small_image if self.side else 0)

    @property
    def core(self) -> int:
        """The recurrent state's step."""
        inputs = self.hidden * (self.feature + self.actions)
        width = self.deter // self.blocks
        return inputs + self.deter * (width + 3 * self.hidden) + 3 * self.deter * width

    @property
    def convolutions(self) -> int:
        """Of one image on its way in; the way out has the same."""
        channels, sum_of = 3, 0
        for stage, multiple in enumerate(MULTIPLES):
            out = self.depth * multiple
            sum_of += (self.side >> stage) ** 2 * WINDOW * channels * out
            channels = out
        return sum_of

    @property
    def sight(self) -> int:
        """Encoder and decoder."""
        U, flop = self.units, 0
        if self.vector:
            flop += layers(self.vector, U, U, U) + layers(self.feature, U, U, U, self.vector)
        if self.side:
            first = self.deter * self.small_image // self.blocks
            first += layers(self.flat_stoch, 2 * U, self.small_image)
            flop += 2 * self.convolutions + first
        return flop

    def parts(self) -> dict:
        """Operations of one update, by part."""
        N, H, F, U = self.batch * self.length, self.horizon, self.feature, self.units
        posterior = layers(self.deter + self.token, self.hidden, self.flat_stoch)
        prior = layers(self.deter, self.hidden, self.hidden, self.flat_stoch)
        policy, value = layers(F, U, U, U, 2 * self.actions), layers(F, U, U, U, BINS)
        reward, going_on = layers(F, U, BINS), layers(F, U, 1)
        macs = {
            "encoder and decoder": 3 * N * self.sight,
            "recurrent model, replayed": 3 * N * (self.core + posterior + prior),
            "dream": N * H * (self.core + prior) + N * (H + 1) * policy,
            "heads": N * (H + 1) * (reward + going_on + value) + N * H * value,
            "back through heads": 2 * N * (reward + going_on + value)
            + N * H * (2 * (policy + value) - 2 * F * U),
        }
        return {name: 2 * count for name, count in macs.items()}

    def update_flop(self) -> int:
        return sum(self.parts().values())


VECTOR = Config()
PIXELS = Config("pixels", vector=0, side=64)


if __name__ == "__main__":
    for config in (VECTOR, PIXELS):
        told = {name: round(flop * 1e-9, 2) for name, flop in config.parts().items()}
        print(json.dumps({"case": config.name, "gflop": config.update_flop() * 1e-9, **told}))
