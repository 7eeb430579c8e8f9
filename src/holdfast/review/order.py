"""What to ask first, and how many wrong labels remain."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.issues.noise import NORMAL

Array = NDArray[Any]

REFERENCE = 256
"""Random rows to which closeness is measured."""
BINS = 10
WORTH = 20.0
"""How many reviewed rows of a bin the run's own trust counts for."""


class Order(StrEnum):
    """In which order rows are asked about."""

    informative = "informative"
    """Most telling first."""
    trust = "trust"
    """Least trusted first."""
    by_class = "class"
    """By given class, or given value, and in each the least trusted first."""
    sample = "sample"
    """A random sample of all rows, doubtful or not, from which the share of wrong labels can be read off."""


def ordered(order: Order, trust: Array, suspects: Array, crowd: Array, given: Array) -> Array:
    """Rows in the order in which to ask about them.

    Parameters
    ----------
    trust, given: (N,) of all rows; the given label as a number.
    suspects: (M,) rows that are doubtful.
    crowd: (M,) how crowded each of them stands.
    """
    if order is Order.sample:
        return np.random.default_rng(0).permutation(len(trust))
    if order is Order.trust:
        key = np.argsort(trust[suspects], kind="stable")
    elif order is Order.by_class:
        key = np.lexsort((trust[suspects], given[suspects]))
    else:
        key = np.argsort(-telling(trust[suspects], crowd), kind="stable")
    rows: Array = suspects[key]
    return rows


def crowding(features: Tensor, rows: Array, seed: int = 0) -> Array:
    """(M,) how many others are near each of some rows, from 0 for the loneliest to 1.

    It is the row's place by its summed likeness to the nearest of some random rows. Never all rows by all.

    Shape: features (N, d) of unit length, rows (M,) -> (M,).
    """
    chosen = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))[:REFERENCE]
    near = max(1, len(chosen) // 20)
    reference = features[chosen].T
    parts = torch.from_numpy(rows).split(8192)
    likeness = torch.cat([(features[part] @ reference).topk(near, dim=1).values.sum(1) for part in parts])
    place = likeness.argsort(stable=True).argsort(stable=True)
    crowd: Array = (place.double() / max(1, len(rows) - 1)).numpy()
    return crowd


def telling(trust: Array, crowd: Array) -> Array:
    """(N,) how much an answer changes: most for labels as likely right as wrong; of these, with many others near.

    A crowd decides between equals alone: where it counted for more, answers went to a few classes, and a network
    trained with them gained less (benchmarks/review.py).

    >>> telling(np.array([0.5, 0.01]), np.array([1.0, 1.0])).round(2).tolist()
    [1.0, 0.04]
    """
    doubt: Array = 4 * trust * (1 - trust)
    return doubt + 1e-6 * crowd


class Remaining(NamedTuple):
    """How many wrong labels nobody has reviewed yet."""

    estimate: float
    low: float
    high: float


def remaining(trust: Array, reviewed: Array, wrong: Array) -> Remaining:
    """How many of the labels that are not reviewed are wrong: what the run says, corrected by what reviewers found.

    In each tenth of trust the noise rate is Beta-distributed, first around what the run says as if that were
    worth twenty reviews, then with the reviews added. Reviewed rows of a bin stand for the others of the bin.

    Shape: trust (N,), reviewed (N,) whether reviewed, wrong (N,) whether found wrong; the interval holds 95 %.
    """
    return Tally(trust, reviewed, wrong).remaining()


class Tally:
    """The counts behind ``remaining``, which follow each review without looking at all rows again."""

    def __init__(self, trust: Array, reviewed: Array, wrong: Array) -> None:
        self._doubt = 1 - trust
        self._place = np.minimum((trust * BINS).astype(np.int8), BINS - 1)
        self._reviewed, self._wrong = reviewed.copy(), reviewed & wrong
        size = np.bincount(self._place, minlength=BINS)
        self._prior = np.bincount(self._place, weights=self._doubt, minlength=BINS) / np.maximum(size, 1)
        left = ~reviewed
        self._seen = np.bincount(self._place[reviewed], minlength=BINS)
        self._found = np.bincount(self._place[self._wrong], minlength=BINS)
        self._left = np.bincount(self._place[left], minlength=BINS)
        self._left_doubt = np.bincount(self._place[left], weights=self._doubt[left], minlength=BINS)

    def set(self, row: int, reviewed: bool, wrong: bool) -> None:
        """A row was reviewed, found otherwise, or opened again."""
        place, wrong = self._place[row], reviewed and wrong
        change = int(reviewed) - int(self._reviewed[row])
        self._found[place] += int(wrong) - int(self._wrong[row])
        self._seen[place] += change
        self._left[place] -= change
        self._left_doubt[place] -= change * self._doubt[row]
        self._reviewed[row], self._wrong[row] = reviewed, wrong

    def remaining(self) -> Remaining:
        share = (WORTH * self._prior + self._found) / (WORTH + self._seen)
        # Of a bin it matters not what its average is but what is left of it.
        shift = np.divide(share, self._prior, out=np.ones(BINS), where=self._prior > 0)
        expected = np.minimum(np.maximum(self._left_doubt, 0) * shift, self._left)
        # Doubt about the share, which all rows of the bin have in common, and chance of each row.
        doubt = share * (1 - share) / (WORTH + self._seen + 1)
        variance = float((self._left**2 * doubt + self._left * share * (1 - share)).sum())
        total, spread = float(expected.sum()), NORMAL * float(np.sqrt(variance))
        return Remaining(total, max(0.0, total - spread), min(float(self._left.sum()), total + spread))
