"""How many labels are wrong: noise rate, in all and of each class, transition matrix, and flags, in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.functional.label_trust import ASSUMED, Trust, bayes, fit_transition, trust_at

DRAWS = 40
ROUNDS = 3
"""Of expectation maximisation in each draw, from the matrix of all rows."""
INTERVAL = (0.025, 0.975)
NORMAL = 1.96
"""Standard deviations that hold 95 % of a normal distribution."""
APART = 1.5
"""An expected number so many times the flagged one, or the flagged one so many times it, asks for a word."""


@dataclass(frozen=True)
class Noise:
    """Noise rate and transition matrix as the given labels and a network's expectations have them.

    The intervals hold 95 % of bootstrap draws whether the evidence is half or twice as sharp as assumed: chance among
    the rows and the one assumption that no likelihood can check. Errors that all networks share with those who gave the
    labels are outside them.

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
    classes = len(names)
    wrong = 1 - trust.right(y)
    count = torch.bincount(y, minlength=classes)
    own = _by_class(wrong, y, classes) / count.clamp_min(1)
    drawn = [_draws(trust_at(trust.evidence, y, power), y, classes, seed) for power in (min(ASSUMED), max(ASSUMED))]
    (least, most), (low, high), (low_matrix, high_matrix) = (_interval(parts) for parts in zip(*drawn, strict=True))
    table = pd.DataFrame(
        {
            "class": list(names),
            "labels": count.numpy(),
            "wrong": own.numpy(),
            "low": low.minimum(own).numpy(),
            "high": high.maximum(own).clamp_max(1).numpy(),
        }
    )
    rate = float(wrong.mean())
    return Noise(
        (rate, min(rate, float(least)), max(rate, float(most))), table, trust.transition, low_matrix, high_matrix
    )


def _draws(trust: Trust, y: Tensor, classes: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(D,) noise rates, (D, C) of each class, and (D, C, C) transition matrices of rows drawn again and again."""
    source = torch.Generator().manual_seed(seed)
    total = len(y)
    rates, own, matrices = [], [], []
    for _ in range(DRAWS):
        weight = torch.bincount(torch.randint(total, (total,), generator=source), minlength=total).double()
        matrix = fit_transition(trust.evidence, y, trust.transition, weight, ROUNDS)
        drawn = weight * (1 - bayes(trust.evidence, y, matrix).gather(1, y[:, None])[:, 0])
        sums = _by_class(drawn, y, classes)
        own.append(sums / _by_class(weight, y, classes).clamp_min(1))
        rates.append(sums.sum() / total)
        matrices.append(matrix)
    return torch.stack(rates), torch.stack(own), torch.stack(matrices)


@dataclass(frozen=True)
class WrongLabels:
    """How many labels of a run are wrong, as every command tells it.

    Attributes
    ----------
    rate, low, high: the noise rate, the mean of the probabilities that a label is wrong, and its interval.
    flagged: labels that are each likelier wrong than right.
    rows: all of them.

    >>> found = WrongLabels(0.08, 0.07, 0.09, flagged=1, rows=500)
    >>> found.estimate, found.flags
    ('wrong labels, estimated: 8.0% (7.0% to 9.0%)', '1 of 500 rows flagged')
    >>> found.difference
    '40 labels are expected to be wrong, but only 1 is itself likelier wrong than right'
    """

    rate: float
    low: float
    high: float
    flagged: int
    rows: int

    @property
    def estimate(self) -> str:
        return f"wrong labels, estimated: {self.rate:.1%} ({self.low:.1%} to {self.high:.1%})"

    @property
    def flags(self) -> str:
        return f"{self.flagged:,} of {self.rows:,} rows flagged"

    @property
    def expected(self) -> int:
        """How many labels the rate comes to."""
        return round(self.rate * self.rows)

    @property
    def difference(self) -> str:
        """Why far more labels, or far fewer, are expected to be wrong than are flagged; empty where they are not.

        The first is a sum of probabilities, the second counts those over one half.
        """
        exact = self.rate * self.rows
        if self.expected == self.flagged or self.flagged / APART <= exact <= self.flagged * APART:
            return ""
        expected = f"{self.expected:,} label{'s are' if self.expected != 1 else ' is'} expected to be wrong"
        if exact < self.flagged:
            return f"{expected}, as many of the {self.flagged:,} flagged are only just likelier wrong than right"
        if self.flagged == 0:
            return f"{expected}, but no single one is likelier wrong than right"
        single = f"only {self.flagged:,} {'are each' if self.flagged > 1 else 'is itself'} likelier wrong than right"
        return f"{expected}, but {single}"


def rate_by_trust(trust: NDArray[Any]) -> tuple[float, float, float]:
    """Noise rate from the probability that each label is right, where there is no transition matrix."""
    wrong = 1 - trust
    mean, spread = float(wrong.mean()), float(np.sqrt((wrong * (1 - wrong)).sum() + len(wrong) * wrong.var()))
    reach = NORMAL * spread / len(wrong)
    return mean, max(0.0, mean - reach), min(1.0, mean + reach)


def _by_class(values: Tensor, y: Tensor, classes: int) -> Tensor:
    return torch.zeros(classes, dtype=torch.float64).index_add_(0, y, values.double())


def _interval(draws: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The lowest low and the highest high quantile over the first axis of each; sorted, since ``quantile`` refuses
    large tensors."""
    ordered = [each.sort(0).values for each in draws]
    low, high = ([each[round(q * (len(each) - 1))] for each in ordered] for q in INTERVAL)
    return torch.stack(low).amin(0), torch.stack(high).amax(0)
