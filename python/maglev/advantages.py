"""Advantages over a rollout of environments that begin again by themselves."""

from __future__ import annotations

from typing import NamedTuple

import torch

from maglev import _engine


class Advantages(NamedTuple):
    advantage: torch.Tensor  # [T, rows] f32
    returns: torch.Tensor  # [T, rows] f32: advantage + value
    valid: torch.Tensor  # [T, rows] bool: not of the steps that only began an episode, which are to be left out of losses


def gae(
    reward: torch.Tensor,
    value: torch.Tensor,
    terminated: torch.Tensor,
    is_first: torch.Tensor,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
) -> Advantages:
    """Generalised advantage estimation (Schulman et al. 2016), the engine's kernel.

    reward, terminated: [T, rows] of steps 0 to T-1. value, is_first: [T+1, rows] of the observations before each step,
    and of the last one. Truncated episodes are bootstrapped by the value of their last observation, which is in its
    place, since the step that follows only begins the next episode.
    """
    advantage, returns, valid = _engine.gae(
        reward.float().contiguous(),
        value.detach().float().contiguous(),
        terminated.to(torch.uint8).contiguous(),
        is_first.to(torch.uint8).contiguous(),
        gamma,
        lam,
    )
    return Advantages(advantage, returns, valid.bool())
