"""How many labels are wrong, from what a network expects early in training, before it learns wrong labels by heart.

Both estimates lean to the high side: dropping a few clean examples costs little, keeping wrong ones costs much.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.functional.posterior import flip_matrix

CUT = 2.5
"""Residuals above so many robust standard deviations count as wrong."""


def confident_joint(expected: Tensor, y: Tensor) -> Tensor:
    """(C, C) share of examples by given (row) and true class (column), counted where the network is confident.

    An example counts for the likeliest class j among those with ``p_ij >= t_j``, the mean ``p_.j`` of the examples
    labelled j; rows are then scaled to the given labels.

    Shape: expected (N, C), y (N,) -> (C, C), summing to one.

    Reference: Northcutt, Jiang and Chuang, "Confident Learning", JAIR 2021, equations 1 and 3.
    """
    classes = expected.shape[1]
    own = torch.nn.functional.one_hot(y, classes).to(expected)
    count = own.sum(0)
    # A class that no label names has no threshold, and nothing counts for it.
    threshold = torch.where(count > 0, (expected * own).sum(0) / count.clamp_min(1), 2.0)
    sure = expected >= threshold - 1e-6
    best = torch.where(sure, expected, -1.0).argmax(1)
    told = sure.any(1)
    pairs = torch.bincount(y[told] * classes + best[told], minlength=classes * classes)
    joint = pairs.reshape(classes, classes).to(expected)
    # As in the authors' code: a label that is never confident would else have no row.
    joint.diagonal().clamp_(min=1)
    joint = joint / joint.sum(1, keepdim=True) * count[:, None]
    return joint / joint.sum()


def wrong_labels(expected: Tensor, y: Tensor) -> tuple[float, float, float]:
    """The share of wrong labels, between two bounds.

    The low bound is what the labels of the surest predictions show, a share that sinks once wrong labels are learnt by
    heart. The high one is the share of labels with which the network disagrees: its own errors count there too. The
    estimate lies half way between the low bound and the confident joint, which counts only part of those errors.

    Shape: expected (N, C), y (N,) -> estimate, low, high.
    """
    predicted = expected.argmax(1)
    joint = 1 - float(confident_joint(expected, y).trace())
    high = float((predicted != y).double().mean())
    share = torch.bincount(predicted, minlength=expected.shape[1]) / len(y)
    low = float((share * (1 - flip_matrix(expected, y).diagonal())).sum())
    rate = (low + joint) / 2
    return rate, min(low, rate), max(high, rate)


def wrong_targets(expected: Tensor, y: Tensor) -> tuple[float, float, float]:
    """The share of targets that lie far from what the network expects, between two bounds.

    Far is beyond 2.5 robust standard deviations of the residual norms that are not far, found by cutting again and
    again; the bounds cut at 3 and at 2.

    Shape: expected (N, q), y (N, q) -> estimate, low, high.
    """
    size = (expected - y).norm(dim=1)
    rate, low, high = (_beyond(size, cut) for cut in (CUT, 3.0, 2.0))
    return rate, min(low, rate), max(high, rate)


def _beyond(size: Tensor, cut: float) -> float:
    kept = torch.ones_like(size, dtype=torch.bool)
    for _ in range(50):
        now = size <= cut * 1.4826 * size[kept].median()
        if bool((now == kept).all()):
            break
        kept = now
    return 1 - float(kept.double().mean())
