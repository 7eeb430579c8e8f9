"""How many labels are wrong, from what a network expects early in training, before it memorises wrong ones.

Both estimates lean to the high side: dropping a few clean examples costs little, keeping wrong ones costs much.
"""

from __future__ import annotations

import math

import torch
from scipy.special import gammaincinv
from torch import Tensor

from holdfast.functional.posterior import anchor_transition

UNSTABLE = 0.5
"""Of predictions that stay from one epoch to the next: with fewer, a network's own errors pass for wrong labels."""


def confident_joint(expected: Tensor, y: Tensor) -> Tensor:
    """(C, C) share of examples by given (row) and true class (column), counted where the network is confident.

    An example counts for the likeliest class j among those with ``p_ij >= t_j``, the mean ``p_.j`` of the examples
    labelled j; rows are then scaled to the given labels.

    Shape: expected (N, C), y (N,) -> (C, C), summing to one.

    Reference: Northcutt, Jiang and Chuang, "Confident Learning", JAIR 2021, equations 1 and 3.
    """
    classes = expected.shape[1]
    best, sure = confident_classes(expected, y)
    pairs = torch.bincount(y[sure] * classes + best[sure], minlength=classes * classes)
    joint = pairs.reshape(classes, classes).to(expected)
    # As in the authors' code: a label that is never confident would else have no row.
    joint.diagonal().clamp_(min=1)
    joint = joint / joint.sum(1, keepdim=True) * torch.bincount(y, minlength=classes)[:, None]
    return joint / joint.sum()


def confident_classes(expected: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) the likeliest class among those with ``p_ij >= t_j``, and whether there is any.

    Shape: expected (N, C), y (N,) -> (N,), (N,).
    """
    own = torch.nn.functional.one_hot(y, expected.shape[1]).to(expected)
    count = own.sum(0)
    # A class that no label names has no threshold, and nothing counts for it.
    threshold = torch.where(count > 0, (expected * own).sum(0) / count.clamp_min(1), 2.0)
    sure = expected >= threshold - 1e-6
    return torch.where(sure, expected, -1.0).argmax(1), sure.any(1)


def undirected_noise_rate(expected: Tensor, y: Tensor) -> float:
    """The share of labels that were replaced by any other class, whichever: noise without a direction.

    Such labels fall on all other classes alike, so on the third that a network finds least likely too, where right
    labels hardly lie even if the network is weak. Memorised labels are missed, and so are those that went to a
    similar class.

    Shape: expected (N, C), y (N,) -> share.

    >>> undirected_noise_rate(torch.tensor([[0.5, 0.3, 0.2]] * 10), torch.tensor([0] * 6 + [1] * 2 + [2] * 2))
    0.4
    """
    classes = expected.shape[1]
    count = max(1, classes // 3)
    least = expected.topk(count, dim=1, largest=False).indices
    found = float((least == y[:, None]).any(1).double().mean())
    return min(1.0, found * (classes - 1) / count)


def label_noise_rate(expected: Tensor, y: Tensor, stability: float = 1.0) -> tuple[float, float, float]:
    """The share of wrong labels, between two bounds.

    The low bound is what the labels of the surest predictions show, a share that sinks once wrong labels are
    memorised. The high one is the share of labels with which the network disagrees: its own errors count there too. The
    estimate lies half way between the low bound and the confident joint, which counts only part of those errors.

    All this needs a network that is mostly right about what it is sure of. Where less than half of its predictions
    stayed as they were an epoch before (``stability``), only labels on unlikely classes can be told from its errors.

    Shape: expected (N, C), y (N,) -> estimate, low, high.
    """
    predicted = expected.argmax(1)
    joint = 1 - float(confident_joint(expected, y).trace())
    high = float((predicted != y).double().mean())
    share = torch.bincount(predicted, minlength=expected.shape[1]) / len(y)
    low = float((share * (1 - anchor_transition(expected, y).diagonal())).sum())
    rate = (low + joint) / 2
    if stability < UNSTABLE:
        rate, low = min(rate, undirected_noise_rate(expected, y)), 0.0
    return rate, min(low, rate), max(high, rate)


def target_noise_rate(expected: Tensor, y: Tensor) -> tuple[float, float, float]:
    """The share of targets that lie far from what the network expects, between two bounds.

    The smallest quarter of the residual norms sets the scale, since wrong targets hardly reach into it even when they
    are many. Far is beyond nine tenths of the norms of a normal distribution with that lower quartile; the bounds take
    39 fortieths and four fifths. Of clean targets about a tenth thus counts as wrong, the safe side.

    Shape: expected (N, q), y (N, q) -> estimate, low, high.
    """
    residual = (expected - y).double()
    size = residual.norm(dim=1)
    order = size.argsort()
    quartile = size[order[(len(size) - 1) // 4]]
    # Targets that err together are fewer than they look: how many directions the nearer half spreads over.
    near = residual[order[: max(1, len(size) // 2)]]
    spread = near.T @ near
    directions = float(spread.trace().square() / spread.square().sum().clamp_min(1e-300))
    rate, low, high = (
        float((size > quartile * (_chi(directions, share) / _chi(directions, 0.25))).double().mean())
        for share in (0.9, 0.975, 0.8)
    )
    return rate, low, high


def _chi(directions: float, share: float) -> float:
    """The value below which a share of the norms of standard normal vectors lies."""
    return math.sqrt(2 * float(gammaincinv(max(1.0, directions) / 2, share)))
