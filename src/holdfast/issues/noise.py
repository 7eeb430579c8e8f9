"""The noise rate, in all and of each class, and the transition matrix; each with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from holdfast.functional.label_trust import Trust, bayes, fit_transition

DRAWS = 40
ROUNDS = 3
"""Of expectation maximisation in each draw, from the matrix of all rows."""
INTERVAL = (0.025, 0.975)


@dataclass(frozen=True)
class Noise:
    """Noise rate and transition matrix as the given labels and a network's expectations have them.

    The intervals hold 95 % of bootstrap draws: they say how much chance among the rows matters, not how far the network
    itself may be mistaken.

    Attributes
    ----------
    rate: the noise rate: estimate, low, high.
    classes: one line a given class: labels, the noise rate among them, low, high.
    transition, low, high: (C, C) transition matrix: the probability of each given class in each true class.
    """

    rate: tuple[float, float, float]
    classes: pd.DataFrame
    transition: Tensor
    low: Tensor
    high: Tensor


def noise_of(trust: Trust, y: Tensor, names: Sequence[str], seed: int = 0) -> Noise:
    """Estimate noise rate and transition matrix, and draw rows again and again for the intervals."""
    source = torch.Generator().manual_seed(seed)
    total, classes = len(y), len(names)
    wrong = 1 - trust.right(y)
    count = torch.bincount(y, minlength=classes)
    rates, own, matrices = [], [], []
    for _ in range(DRAWS):
        weight = torch.bincount(torch.randint(total, (total,), generator=source), minlength=total).double()
        matrix = fit_transition(trust.evidence, y, trust.transition, weight, ROUNDS)
        drawn = weight * (1 - bayes(trust.evidence, y, matrix).gather(1, y[:, None])[:, 0])
        sums = _by_class(drawn, y, classes)
        own.append(sums / _by_class(weight, y, classes).clamp_min(1))
        rates.append(sums.sum() / total)
        matrices.append(matrix)
    low, high = _interval(torch.stack(own))
    table = pd.DataFrame(
        {
            "class": list(names),
            "labels": count.numpy(),
            "wrong": (_by_class(wrong, y, classes) / count.clamp_min(1)).numpy(),
            "low": low.numpy(),
            "high": high.clamp_max(1).numpy(),
        }
    )
    least, most = _interval(torch.stack(rates))
    return Noise(
        (float(wrong.mean()), float(least), float(most)), table, trust.transition, *_interval(torch.stack(matrices))
    )


def _by_class(values: Tensor, y: Tensor, classes: int) -> Tensor:
    return torch.zeros(classes, dtype=torch.float64).index_add_(0, y, values.double())


def _interval(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Low and high quantile over the first axis; sorted, since ``quantile`` refuses large tensors."""
    ordered = draws.sort(0).values
    low, high = (ordered[round(q * (len(draws) - 1))] for q in INTERVAL)
    return low, high
