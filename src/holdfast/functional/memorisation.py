"""How many of the labels that a network fits it has memorised, from rows that were withheld from it."""

from __future__ import annotations

import math

from torch import Tensor


def memorised_fraction(fitted: Tensor, withheld: Tensor) -> float:
    """The share of the fitted labels that the network could not have predicted, at least: 0 for none.

    ``1 - b / a``, where a is the share of labels it meets among the rows it trains on, and b that among withheld rows,
    two standard errors up. Labels of both are wrong alike, so that noise takes no side.

    Shape: (M,) and (K,) whether the network predicts the given label of each row.

    >>> import torch
    >>> round(memorised_fraction(torch.arange(100) < 80, torch.arange(100) < 20), 2)
    0.64
    """
    a = float(fitted.double().mean()) if len(fitted) else 0.0
    # As if two more had been met and two more missed: a few rows must not pass for certainty.
    count = len(withheld) + 4
    b = (float(withheld.sum()) + 2) / count
    b += 2 * math.sqrt(b * (1 - b) / count)
    return max(0.0, 1 - b / a) if a else 0.0
