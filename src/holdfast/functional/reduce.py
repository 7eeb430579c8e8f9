"""The one weighted reduction, the one ranking, and the one place where a rate becomes a count."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.ranks import here


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """``sum_i w_i v_i / sum_i w_i``; zero, with a gradient of zero, where nothing has weight.

    In a process that trains with others this is its part of the mean over the batches of all, times their number:
    gradients are averaged over the processes, and so become those of the one mean.

    Shape: values (B,), weight (B,) -> ().
    """
    ranks = here()
    total = ranks.total(weight.sum())
    mean = (values * weight).sum() / torch.where(total > 0, total, torch.ones_like(total))
    return mean if ranks.count == 1 else mean * ranks.count


def keep_count(rate: float, size: int) -> int:
    """How many of ``size`` examples stay when a share ``rate`` goes: ``max(1, floor((1 - rate) size))``.

    The small constant keeps a product such as (1 - 0.9) * 10 = 0.9999... from losing an example.

    >>> keep_count(0.9, 10), keep_count(0.25, 4)
    (1, 3)
    """
    return max(1, math.floor((1 - rate) * size + 1e-9))


def smallest(values: Tensor, count: int) -> Tensor:
    """Positions of the smallest values in ascending order; of equal ones the first comes first.

    Shape: values (B,) -> (count,).
    """
    return values.argsort(stable=True)[:count]
