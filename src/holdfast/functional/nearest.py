"""How far the nearest rows are, among a sample of them: the cost grows with the rows, not with their square."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SAMPLE = 10_000
"""Rows among which near ones are sought, drawn at random where there are more."""
BLOCK = 1024


class Nearest(NamedTuple):
    """Of each row the distances to its k nearest others in the sample, and to the k nearest of its own label."""

    distance: Tensor
    """(N, k) ascending."""
    own: Tensor
    """(N, k) ascending; infinite where the label has fewer rows in the sample."""


def nearest(x: Tensor, label: Tensor, k: int) -> Nearest:
    """Euclidean distances to the nearest rows of a sample, the row itself left out.

    Memory holds a block of rows by the sample, and never all by all.

    Shape: x (N, d), label (N,) -> (N, k) and (N, k).

    >>> nearest(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 0]), 1).distance[:, 0]
    tensor([1., 1., 2.])
    """
    among = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    points, theirs = x[among].float(), label[among]
    half = points.square().sum(1) / 2
    k = max(1, min(k, len(among) - 1))
    place = torch.full((len(x),), -1)
    place[among] = torch.arange(len(among))
    distance, own = torch.empty(len(x), k), torch.empty(len(x), k)
    for rows in torch.arange(len(x)).split(BLOCK):
        block = x[rows].float()
        # |a - b|^2 = |a|^2 - 2 (a b - |b|^2 / 2): nearest where the bracket is largest.
        near = block @ points.T - half
        itself = place[rows]
        near[itself >= 0, itself[itself >= 0]] = -torch.inf
        found = near.topk(k, 1)
        distance[rows] = _exact(block, points, found.indices)
        near[label[rows][:, None] != theirs] = -torch.inf
        found = near.topk(k, 1)
        exact = _exact(block, points, found.indices)
        own[rows] = exact.masked_fill(found.values.isinf(), torch.inf)
    return Nearest(distance.sort(1).values, own.sort(1).values)


def _exact(block: Tensor, points: Tensor, index: Tensor) -> Tensor:
    """(B, k) distances without the rounding of the product above, which is large where rows nearly coincide."""
    return (block[:, None] - points[index]).square().sum(2).sqrt()
