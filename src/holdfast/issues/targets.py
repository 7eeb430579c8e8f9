"""How far a given target can be trusted: residuals of two widths, one of right targets and one of wrong ones."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

ROUNDS = 50
WIDER = 3.0
"""Wrong targets miss by at least so many times as much as right ones; where nothing does, none is wrong."""


class TargetTrust(NamedTuple):
    """What the residuals of a regression say about its targets."""

    right: Tensor
    """(N,) probability that the given target is right."""
    spread: Tensor
    """(q,) standard deviation of right targets around what the network expects."""
    rate: float
    """The noise rate."""


def target_trust(expected: Tensor, y: Tensor) -> TargetTrust:
    """The probability that a target is right, from how far it lies from what the network expects.

    Residuals are a mixture of two normal distributions around zero, in units of each target's usual miss: right targets
    and, at least three times as wide, wrong ones. Fitted by expectation maximisation.

    Shape: expected (N, q), y (N, q).

    >>> expected, y = torch.zeros(40, 1), torch.linspace(-1, 1, 40)[:, None]
    >>> y[7] = 30.0
    >>> bool(target_trust(expected, y).right[7] < 0.1)
    True
    """
    residual = (y - expected).double()
    usual = (1.4826 * residual.abs().median(0).values).clamp_min(1e-12)
    square = (residual / usual).square()
    size, q = square.mean(1), residual.shape[1]
    narrow, wide, rate = 1.0, max(float(size.mean()), 2 * WIDER**2), 0.1
    right = torch.ones_like(size)
    for _ in range(ROUNDS):
        # Log odds of the narrow width against the wide one, each target of a row counted as one draw.
        odds = (size / wide - size / narrow) * q / 2 + (torch.tensor(wide / narrow).log() * q / 2)
        right = torch.sigmoid(odds + torch.logit(torch.tensor(1 - rate, dtype=torch.float64)))
        rate = min(max(float(1 - right.mean()), 1e-6), 0.9)
        narrow = max(float((right * size).sum() / right.sum()), 1e-6)
        wide = max(float(((1 - right) * size).sum() / (1 - right).sum().clamp_min(1e-9)), WIDER**2 * narrow)
    spread = (square * right[:, None]).sum(0).div(right.sum()).sqrt() * usual
    return TargetTrust(right, spread, float(1 - right.mean()))
