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

from holdfast.functional.flips import cells_of
from holdfast.functional.label_trust import Trust, transition_of
from holdfast.kept import Kept, Probabilities

DRAWS = 40
ROUNDS = 3
"""Of expectation maximisation in each draw, from the matrix of all rows."""
DRAWN = 50_000
"""Rows that are drawn from at most."""
INTERVAL = (0.025, 0.975)
NORMAL = 1.96
"""Standard deviations that hold 95 % of a normal distribution."""
Rate = tuple[float, float, float]
"""An estimate and the interval it lies in: noise rates, or numbers of labels."""
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
    transition, low, high: (C, C) transition matrix: the probability of each given class in each true class, of labels
        that nobody had reviewed before the run. Of more than 32 classes it is sparse, with the pairs that occur, and
        has no interval.
    """

    rate: tuple[float, float, float]
    classes: pd.DataFrame
    transition: Tensor
    low: Tensor | None
    high: Tensor | None


def noise_of(trust: Trust, y: Tensor, names: Sequence[str], certain: Tensor | None = None, seed: int = 0) -> Noise:
    """Estimate noise rate and transition matrix, and draw rows again and again for the intervals.

    Shape: y (N,), certain (N,) labels that are known to be right; they count among all, and never as wrong.
    """
    classes = len(names)
    wrong = 1 - trust.right(y).double()
    count = torch.bincount(y, minlength=classes)
    own = _by_class(wrong, y, classes) / count.clamp_min(1)
    doubtful = torch.ones(len(y)).double() if certain is None else (~certain).double()
    drawn = [_draws(trust, table, power, y, doubtful, seed) for power, table in trust.tables if power != 1]
    rates, shares, matrices = zip(*drawn, strict=True)
    (least, most), (low, high) = _interval(rates), _interval(shares)
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
    bounds = (None, None) if isinstance(trust.posterior, Kept) else _interval(matrices)
    return Noise((rate, min(rate, float(least)), max(rate, float(most))), table, trust.transition, *bounds)


def _draws(
    trust: Trust, table: Tensor, power: float, y: Tensor, doubtful: Tensor, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(D,) noise rates, (D, C) of each class, and (D, C, C) transition matrices of rows drawn again and again; empty
    ones where only a few classes are kept of each row.

    Of very many rows some are drawn from, and what the draws differ by is made smaller as the root of their number
    has it.
    """
    source = torch.Generator().manual_seed(seed)
    total, classes = min(len(y), DRAWN), trust.evidence.shape[1]
    cells = every = cells_of(trust.evidence, y).raised(power)
    given, some = y, doubtful
    if total < len(y):
        rows = torch.randperm(len(y), generator=source)[:total]
        cells, given, some = every.take(rows), y[rows], doubtful[rows]
    chosen = [torch.randint(total, (total,), generator=source) for _ in range(DRAWS)]
    weight = torch.stack([torch.bincount(rows, minlength=total) for rows in chosen]).double()
    wrong, tables = cells.drawn(table, weight * some, ROUNDS)
    count = torch.stack([_by_class(each, given, classes) for each in weight])
    rates, own = wrong.sum(1) / total, wrong / count.clamp_min(1)
    if total == len(y):
        return rates, own, tables
    usual, middle = cells.drawn(table, some[None], ROUNDS)
    whole, _ = every.drawn(table, doubtful[None], 0)
    count, closer = _by_class(torch.ones(total), given, classes), (total / len(y)) ** 0.5
    rates = whole.sum() / len(y) + closer * (rates - usual.sum() / total)
    own = whole / torch.bincount(y, minlength=classes).clamp_min(1) + closer * (own - usual / count.clamp_min(1))
    return (
        rates.clamp(0, 1),
        own.clamp(0, 1),
        (table + closer * (tables - middle)).clamp(0, 1) if len(tables) else tables,
    )


def noise_after(noise: Noise, trust: Trust, y: Tensor, right: Tensor, true: Tensor, rate: Rate, left: Rate) -> Noise:
    """The same after a review, which has settled some labels and calibrated the trust in others.

    Classes keep the intervals that they had, in parts of their rate, or have those of all labels if these are wider.

    Parameters
    ----------
    right: (N,) the probability that each label is right by now.
    true: (N,) the classes that reviewers have settled, -1 elsewhere.
    rate: the noise rate by now, low and high.
    left: the number of wrong labels that nobody has reviewed, low and high.
    """
    classes, settled = len(noise.classes), true >= 0
    count = torch.bincount(y, minlength=classes).clamp_min(1)
    found = _by_class(torch.where(settled, 1 - right, 0.0), y, classes) / count
    rest = _by_class(torch.where(settled, 0.0, 1 - right), y, classes) / count
    own, low, high = torch.tensor(noise.classes[["wrong", "low", "high"]].to_numpy(dtype=np.float64)).T
    low, high = (bound / own.clamp_min(1e-12) for bound in (low, high))
    least, most = (value / left[0] if left[0] > 0 else 1.0 for value in left[1:])
    table = noise.classes.assign(
        wrong=(found + rest).numpy(),
        low=(found + rest * low.clamp_max(least)).numpy(),
        high=(found + rest * high.clamp_min(most)).clamp_max(1).numpy(),
    )
    before = trust.right(y)
    others = (1 - right) / (1 - before).clamp_min(1e-12)
    transition = transition_of(_corrected(trust.posterior, y, right, others, true), y)
    if noise.low is None or noise.high is None:
        return Noise(rate, table, transition, None, None)
    moved = transition - noise.transition
    return Noise(rate, table, transition, (noise.low + moved).clamp(0, 1), (noise.high + moved).clamp(0, 1))


def _corrected(posterior: Probabilities, y: Tensor, right: Tensor, others: Tensor, true: Tensor) -> Probabilities:
    """(N, C) the probability of each true class, that of the given one known anew and the others in proportion; true
    classes (N,) that are settled, -1 elsewhere, are certain. Of many classes those settled count as far as they are
    among the kept ones."""
    done = true >= 0
    if isinstance(posterior, Kept):
        own = (posterior.number == y[:, None]) & (posterior.value > 0)
        value = torch.where(own, right[:, None], posterior.value * others[:, None])
        found = (posterior.number == true[:, None]) & (posterior.value > 0)
        return posterior.with_values(torch.where(done[:, None], found.to(value), value))
    posterior = (posterior * others[:, None]).scatter(1, y[:, None], right[:, None].to(posterior * others[:, None]))
    posterior[done] = torch.nn.functional.one_hot(true[done], posterior.shape[1]).to(posterior)
    return posterior


@dataclass(frozen=True)
class WrongLabels:
    """How many labels of a run are wrong, as every command tells it.

    Attributes
    ----------
    rate, low, high: the noise rate, the mean of the probabilities that a label is wrong, and its interval.
    flagged: labels that are each likelier wrong than right.
    rows: all of them.
    review: what reviewers have found since the run, by which all of this is calibrated; None where there is nothing.

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
    review: Review | None = None

    @property
    def estimate(self) -> str:
        after = "" if self.review is None else f" after {self.review.answered:,} answers; before: {self.review.own}"
        return f"wrong labels, estimated: {self.rate:.1%} ({self.low:.1%} to {self.high:.1%}){after}"

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


@dataclass(frozen=True)
class Review:
    """What reviewers have found in a run.

    Attributes
    ----------
    answered, wrong: rows that they have settled, and how many labels of them were wrong.
    left: wrong labels that nobody has reviewed: estimate, low, high.
    before: the noise rate as the run had it, low and high.

    >>> print(Review(120, 38, (310.2, 251.0, 380.9), (0.12, 0.1, 0.14)))
    38 of 120 reviewed labels were wrong; about 310 wrong ones are left (251 to 381)
    """

    answered: int
    wrong: int
    left: Rate
    before: Rate

    @property
    def own(self) -> str:
        """The noise rate before the review, in words."""
        return "{:.1%} ({:.1%} to {:.1%})".format(*self.before)

    def __str__(self) -> str:
        estimate, low, high = (round(value) for value in self.left)
        found = f"{self.wrong:,} of {self.answered:,} reviewed labels were wrong"
        return f"{found}; about {estimate:,} wrong ones are left ({low:,} to {high:,})"


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
