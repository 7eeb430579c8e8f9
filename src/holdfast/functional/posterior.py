"""What a network's expectations and the given labels together say about the true labels.

All of it is read off the most confident rows of each predicted class, the anchors: there the network is taken to be
right, so the labels given to them show how labels go wrong, and the network's own doubt shows how far its outputs have
taken over the noise. Rows = true class, columns = observed class.
"""

from __future__ import annotations

import torch
from torch import Tensor


def anchor_rows(expected: Tensor, share: float = 0.1, least: int = 10) -> list[Tensor]:
    """Rows of each predicted class of which the network is surest; none where fewer than ``least`` are predicted.

    Shape: expected (N, C) -> C index tensors.
    """
    predicted = expected.argmax(1)
    rows = []
    for number in range(expected.shape[1]):
        members = (predicted == number).nonzero()[:, 0]
        count = 0 if len(members) < least else max(least, int(share * len(members)))
        rows.append(members[expected[members, number].argsort(descending=True, stable=True)[:count]])
    return rows


def flip_matrix(expected: Tensor, y: Tensor) -> Tensor:
    """How labels go wrong: the labels given to the anchors of each class, rows that sum to one.

    No flip is held to be impossible; a class without anchors is taken to be labelled rightly. Estimate it before
    selecting: selection makes a network surest of the labels it has selected, and then the anchors look clean.

    Shape: expected (N, C), y (N,) -> (C, C).
    """
    classes = expected.shape[1]
    given = torch.eye(classes, dtype=expected.dtype, device=expected.device)
    for number, rows in enumerate(anchor_rows(expected)):
        if len(rows):
            given[number] = torch.bincount(y[rows], minlength=classes) / len(rows)
    return (given + 1e-3) / (1 + classes * 1e-3)


def clean_posterior(expected: Tensor) -> Tensor:
    """The probability of each true class from what the network expects alone.

    Outputs of a network that learnt from noisy labels follow ``p S`` with ``p`` the probabilities of the true classes
    and ``S`` what the network expects of the anchors; so ``p = expected S^-1``, clipped at zero.

    Shape: expected (N, C) -> (N, C).
    """
    says = torch.eye(expected.shape[1], dtype=expected.dtype, device=expected.device)
    for number, rows in enumerate(anchor_rows(expected)):
        if len(rows):
            says[number] = expected[rows].mean(0)
    clean: Tensor = (expected @ torch.linalg.pinv(says)).clamp_min(1e-4)
    return clean / clean.sum(1, keepdim=True)


def label_posterior(clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
    """The probability of each true class, given the label too: proportional to ``p_c flips[c, y]``.

    Shape: clean (N, C) from ``clean_posterior``, y (N,), flips (C, C) -> (N, C).
    """
    joint: Tensor = clean * flips[:, y].T
    return joint / joint.sum(1, keepdim=True)
