"""What a selection is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.select.points import Points


class Selection(NamedTuple):
    """Points chosen to stand for all n points.

    Tensors where points were a tensor, on their device; NumPy arrays where they were an array.

    Shapes
    ------
    index: (k,) int64, chosen points in the order of their choice.
    weight: (k,) float32, number of points each chosen one stands for; sums to n.
    gain: (k,) float64, what each choice took off the loss; the first counts from n times the largest distance.
    assignment: (n,) int64, position in ``index`` of the nearest chosen point.
    objective: the loss, the summed distance of all points to their nearest chosen one.
    """

    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a selection
    weight: Tensor
    gain: Tensor
    assignment: Tensor
    objective: float


def in_kind(selection: Selection, points: Points) -> Selection:
    """A selection in the kind of array, and on the device, that the points came in."""
    index, weight, gain, assignment, objective = selection
    return Selection(like(index, points), like(weight, points), like(gain, points), like(assignment, points), objective)


def like(values: Tensor, points: Points) -> Tensor:
    """Values in the kind of array that the points came in; typed as a tensor, since both are used alike."""
    if isinstance(points, np.ndarray):
        return values.cpu().numpy()  # type: ignore[return-value]
    return values.to(points.device)


def cluster_sizes(assignment: Tensor, k: int) -> Tensor:
    """How often each of k positions is assigned; (k,) float32."""
    return torch.bincount(assignment, minlength=k).float()
