"""What to ask first, and how many wrong labels remain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.issues.noise import NORMAL

Array = NDArray[Any]

REFERENCE = 1024
"""Random rows to which closeness is measured."""
BINS = 10
WORTH = 20.0
"""How many reviewed rows of a bin the run's own trust counts for."""


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
    place = np.minimum((trust * BINS).astype(int), BINS - 1)
    size = np.bincount(place, minlength=BINS)
    prior = np.bincount(place, weights=1 - trust, minlength=BINS) / np.maximum(size, 1)
    seen = np.bincount(place[reviewed], minlength=BINS)
    found = np.bincount(place[reviewed], weights=wrong[reviewed].astype(float), minlength=BINS)
    share = (WORTH * prior + found) / (WORTH + seen)
    # Of a bin it matters not what its average is but what is left of it.
    left = np.bincount(place[~reviewed], minlength=BINS)
    shift = np.divide(share, prior, out=np.ones(BINS), where=prior > 0)
    expected = np.minimum(np.bincount(place[~reviewed], weights=1 - trust[~reviewed], minlength=BINS) * shift, left)
    # Doubt about the share, which all rows of the bin have in common, and chance of each row.
    doubt = share * (1 - share) / (WORTH + seen + 1)
    variance = float((left**2 * doubt + left * share * (1 - share)).sum())
    total, spread = float(expected.sum()), NORMAL * float(np.sqrt(variance))
    return Remaining(total, max(0.0, total - spread), min(float(left.sum()), total + spread))
