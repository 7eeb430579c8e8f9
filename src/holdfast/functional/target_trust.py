"""How far a given target can be trusted: how right targets scatter near it, and how wrong ones lie anywhere."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

ROUNDS = 30
FREEDOM, MEDIAN = 4.0, 0.7407
"""Degrees of freedom of Student's t, by which right targets scatter: real residuals have heavier tails than a normal
distribution; and the median of its absolute value."""
GROUP, GROUPS = 200, 50
"""Rows that share one spread, neighbours by what is expected of them, and how many such groups there are at most."""
WIDER = 6.0
"""Wrong targets are nowhere denser than evenly spread over so many spreads of right ones."""
EVERYWHERE = 0.1
"""The part of the wrong targets that is taken to lie as all targets do."""


class TargetTrust(NamedTuple):
    """What the residuals of a regression say about its targets."""

    right: Tensor
    """(N,) probability that the given target is right."""
    margin: Tensor
    """(N, q) how far from what is expected 95 % of right targets lie at most."""


def target_trust(expected: Tensor, y: Tensor, certain: Tensor | None = None) -> TargetTrust:
    """The probability that a target is right, from how far it lies from what is expected.

    Right targets scatter around the expectation by Student's t, whose spread follows the expectation: dear diamonds
    scatter more than cheap ones. Wrong targets lie where targets lie at all. Rate, spread and where wrong ones lie are
    fitted by expectation maximisation; the spread is a weighted median, so that wrong targets do not widen it. Targets
    that are certain are right, and have no say in how many of the others are.

    Shape: expected (N, q), y (N, q), certain (N,) targets that are known to be right.

    >>> expected, y = torch.zeros(40, 1), torch.linspace(-1, 1, 40)[:, None]
    >>> y[7] = 30.0
    >>> bool(target_trust(expected, y).right[7] < 0.1)
    True
    """
    expected, y = expected.double(), y.double()
    miss = (y - expected).abs()
    least = (1e-3 * miss.median(0).values).clamp_min(1e-12)
    groups = [_Groups(column) for column in expected.T.contiguous()]
    cells = [_Cells(column) for column in y.T.contiguous()]
    right, rate = torch.ones(len(y), dtype=torch.float64), 0.1
    doubtful = torch.ones(len(y), dtype=torch.bool) if certain is None else ~certain.cpu()
    for _ in range(ROUNDS):
        spread = torch.stack([group.spread(m, right) for group, m in zip(groups, miss.T, strict=True)], 1)
        spread = spread.maximum(least)
        anywhere = torch.stack([cell.density(1 - right) for cell in cells], 1).log()
        odds = _log_t(miss / spread) - spread.log() - anywhere.minimum(-math.log(WIDER) - spread.log())
        right = torch.where(doubtful, torch.sigmoid(odds.sum(1) + math.log((1 - rate) / rate)), 1.0)
        rate = min(max(float((1 - right).sum() / doubtful.sum().clamp_min(1)), 1e-6), 0.9)
    usual = torch.stack([_weighted_quantile(column, right, 0.95) for column in (miss / spread).T])
    return TargetTrust(right, usual * spread)


def _log_t(z: Tensor) -> Tensor:
    """Logarithm of the density of Student's t."""
    scale = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - math.log(FREEDOM * math.pi) / 2
    return scale - (FREEDOM + 1) / 2 * torch.log1p(z.square() / FREEDOM)


class _Groups:
    """Rows in groups of neighbours by what is expected of them."""

    def __init__(self, expected: Tensor) -> None:
        count = max(1, min(GROUPS, len(expected) // GROUP))
        order = expected.argsort(stable=True)
        self._parts = order.tensor_split(count)
        self._centres = np.array([float(expected[part].mean()) for part in self._parts])
        self._expected = expected.numpy()

    def spread(self, miss: Tensor, weight: Tensor) -> Tensor:
        """(N,) the spread of t at each row, between those of the groups, by their weighted median misses."""
        medians = [max(float(_weighted_quantile(miss[part], weight[part], 0.5)), 1e-300) for part in self._parts]
        further = np.append(np.diff(self._centres) > 0, True)
        logs = np.interp(self._expected, self._centres[further], np.log(medians)[further])
        return torch.from_numpy(np.exp(logs)) / MEDIAN


class _Cells:
    """Cells on a line that hold equally many targets: a histogram with a bar for each."""

    def __init__(self, y: Tensor) -> None:
        count = max(4, min(GROUPS, len(y) // GROUPS))
        edges = np.unique(np.quantile(y.numpy(), np.linspace(0, 1, count + 1)))
        self._wide = torch.from_numpy(np.diff(edges)) if len(edges) > 1 else torch.ones(1, dtype=torch.float64)
        self._cell = (torch.searchsorted(torch.from_numpy(edges), y, right=True) - 1).clamp(0, len(self._wide) - 1)

    def density(self, weight: Tensor) -> Tensor:
        """(N,) how densely targets of these weights lie at each target."""
        mass = torch.zeros_like(self._wide).index_add_(0, self._cell, weight + 1e-3)
        mass = (1 - EVERYWHERE) * mass / mass.sum() + EVERYWHERE / len(mass)
        return (mass / self._wide)[self._cell]


def _weighted_quantile(values: Tensor, weight: Tensor, share: float) -> Tensor:
    ordered, order = values.sort()
    sums = weight[order].cumsum(0)
    return ordered[int((sums < share * sums[-1]).sum().clamp_max(len(values) - 1))]
