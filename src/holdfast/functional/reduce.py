"""The one weighted reduction, the one ranking, and the one place where a rate becomes a count."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.ranks import get_ranks


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """``sum_i w_i v_i / sum_i w_i``; zero, with a gradient of zero, where nothing has weight.

    In a process that trains with others this is its part of the mean over the batches of all, times their number:
    gradients are averaged over the processes, and so become those of the one mean.

    Shape: values (B,), weight (B,) -> ().
    """
    ranks = get_ranks()
    kind = torch.promote_types(values.dtype, weight.dtype)
    weight = weight.to(kind)
    total = ranks.total(weight.sum()).clamp_min(torch.finfo(kind).tiny)  # nothing of nothing is nothing
    # One product, of which the loss is a link less than of a sum and a quotient: this runs at every step.
    mean = torch.dot(values.to(kind), weight / total)
    return mean if ranks.count == 1 else mean * ranks.count


def keep_count(rate: float, size: int, *, official: bool = False) -> int:
    """How many of ``size`` examples stay when a share ``rate`` goes: ``max(1, floor((1 - rate) size))``.

    The small constant keeps a product such as (1 - 0.9) * 10 = 0.9999... from losing an example; ``official``
    truncates the product as the released codes of Co-teaching and PRL do, which may keep nothing.

    >>> keep_count(0.9, 10), keep_count(0.25, 4), keep_count(0.9, 10, official=True)
    (1, 3, 0)
    """
    return int((1 - rate) * size) if official else max(1, math.floor((1 - rate) * size + 1e-9))


def smallest(values: Tensor, count: int) -> Tensor:
    """Positions of the smallest values in ascending order; of equal ones the first comes first.

    Shape: values (B,) -> (count,).
    """
    return values.argsort(stable=True)[:count]


def keep_smallest(scores: Tensor, rate: float) -> Tensor:
    """One for the examples that stay when the share ``rate`` of the largest scores goes, zero for the others.

    Shape: scores (B,) -> (B,).
    """
    kept = torch.zeros_like(scores)
    kept[smallest(scores, keep_count(rate, len(scores)))] = 1
    return kept


def robust_mean(rows: Tensor, rate: float) -> Tensor:
    """The mean of gradients without those of largest norm: Algorithm 1 of the PRL paper.

    Sort the rows of ``G`` by ``||z_i||_2``, remove the share ``rate`` of largest norm, return the mean of the rest.
    Its error is O(rate * L) where clean gradients are bounded by L, else O(rate * sqrt(d)) (Theorem 2).

    Parameters
    ----------
    rows: G, one gradient a row.
    rate: share of corrupted rows, in [0, 1); rather over- than underestimated.

    Shapes
    ------
    (m, d) -> (d,).

    Reference: "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", Algorithm 1.

    >>> robust_mean(torch.tensor([[3.0, 4.0], [0.6, 0.8], [1.0, 0.0]]), 0.3)
    tensor([0.8000, 0.4000])
    """
    if rows.dim() != 2 or len(rows) == 0:
        raise HoldfastError(f"robust_mean takes a matrix of one gradient a row, not the shape {tuple(rows.shape)}")
    check_noise_rate(rate)
    return rows[smallest(rows.norm(dim=1), keep_count(rate, len(rows)))].mean(0)


def check_noise_rate(rate: float) -> None:
    """A share to drop; something must stay."""
    if not 0 <= rate < 1:
        raise HoldfastError(f"a noise rate must lie in [0, 1), not {rate:g}")
