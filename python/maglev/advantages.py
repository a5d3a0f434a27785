"""Advantages over a rollout of environments that begin again by themselves."""

from __future__ import annotations

from typing import NamedTuple

import torch

from maglev import _engine
from maglev.given import Numbers, number, tensor_of


class Advantages(NamedTuple):
    advantage: torch.Tensor  # [T, rows] f32
    returns: torch.Tensor  # [T, rows] f32: advantage + value
    valid: torch.Tensor  # [T, rows] bool: not of the steps that only began an episode, which are to be left out of losses


def gae(
    reward: Numbers,
    value: Numbers,
    terminated: Numbers,
    is_first: Numbers,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
) -> Advantages:
    """Generalised advantage estimation (Schulman et al. 2016), the engine's kernel.

    reward, terminated: [T, rows] of steps 0 to T-1. value, is_first: [T+1, rows] of the observations before each step,
    and of the last one. Truncated episodes are bootstrapped by the value of their last observation, which is in its
    place, since the step that follows only begins the next episode.
    """
    given = {"reward": reward, "value": value, "terminated": terminated, "is_first": is_first}
    columns = {name: tensor_of(column, f"[gae] {name}").detach() for name, column in given.items()}
    for name, column in columns.items():
        if column.dim() != 2:
            times = "T" if name in ("reward", "terminated") else "T+1"
            raise _engine.Error(f"[gae] {name} must be [{times}, rows], also of one row, got {list(column.shape)}")
    shares = {"gamma": number(gamma, "[gae] gamma"), "lam": number(lam, "[gae] lam")}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise _engine.Error(f"[gae] {name} must be in 0..1, got {share}")
    advantage, returns, valid = _engine.gae(
        columns["reward"].float().contiguous(),
        columns["value"].float().contiguous(),
        columns["terminated"].to(torch.uint8).contiguous(),
        columns["is_first"].to(torch.uint8).contiguous(),
        *shares.values(),
    )
    return Advantages(advantage, returns, valid.bool())
