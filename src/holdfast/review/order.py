"""What to ask first."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

REFERENCE = 256
"""Random rows to which closeness is measured."""


class Order(StrEnum):
    """In which order rows are asked about."""

    informative = "informative"
    """Most telling first."""
    trust = "trust"
    """Least trusted first."""
    by_class = "class"
    """By given class, or given value, and in each the least trusted first."""
    sample = "sample"
    """A random sample of all rows, doubtful or not, from which the share of wrong labels can be read off; those apart
    that were reviewed before the run."""


def ordered(order: Order, trust: Array, suspects: Array, crowd: Array, given: Array, unsettled: Array) -> Array:
    """Rows in the order in which to ask about them.

    Parameters
    ----------
    trust, given: (N,) of all rows; the given label as a number.
    suspects: (M,) rows that are doubtful.
    crowd: (M,) how crowded each of them stands.
    unsettled: rows that nobody had reviewed before the run.
    """
    if order is Order.sample:
        return np.random.default_rng(0).permutation(unsettled)
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
