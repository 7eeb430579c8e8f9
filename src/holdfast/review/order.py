"""What to ask first."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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


def ordered(order: Order, trust: Array, suspects: Array, given: Array, unsettled: Array) -> Array:
    """Rows in the order in which to ask about them.

    Parameters
    ----------
    trust, given: (N,) of all rows; the given label as a number.
    suspects: (M,) rows that are doubtful.
    unsettled: rows that nobody had reviewed before the run.
    """
    if order is Order.sample:
        return np.random.default_rng(0).permutation(unsettled)
    if order is Order.trust:
        key = np.argsort(trust[suspects], kind="stable")
    elif order is Order.by_class:
        key = np.lexsort((trust[suspects], given[suspects]))
    else:
        key = np.argsort(-telling(trust[suspects]), kind="stable")
    rows: Array = suspects[key]
    return rows


def telling(trust: Array) -> Array:
    """(N,) how much an answer changes: most for labels as likely right as wrong.

    How many rows are near plays no part: where it did, answers went to a few classes, and a network trained with them
    gained less (docs/loop.md).

    >>> telling(np.array([0.5, 0.01])).round(2).tolist()
    [1.0, 0.04]
    """
    doubt: Array = 4 * trust * (1 - trust)
    return doubt
