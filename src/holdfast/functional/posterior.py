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
        rows.append(members[_surest(expected[members, number], count)])
    return rows


def _surest(values: Tensor, count: int) -> Tensor:
    """Which values are the largest, in their order; of equal ones the first. To sort them all would take longer."""
    if count == 0:
        return values.new_zeros(0, dtype=torch.int64)
    edge = values.topk(count).values[-1]
    above, level = values > edge, (values == edge).nonzero()[:, 0]
    above[level[: count - int(above.sum())]] = True
    return above.nonzero()[:, 0]


def anchor_transition(expected: Tensor, y: Tensor) -> Tensor:
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


def denoised_posterior(expected: Tensor) -> Tensor:
    """The probability of each true class from what the network expects alone: ``expected S^-1``, clipped at zero.

    Shape: expected (N, C) -> (N, C).
    """
    return without_noise(expected, noise_removal(expected))


def without_noise(expected: Tensor, removal: Tensor) -> Tensor:
    """The same by a matrix that is known already, as ``noise_removal`` has it.

    Shape: expected (M, C), removal (C, C) -> (M, C).
    """
    clean: Tensor = (expected @ removal.to(expected)).clamp_min_(1e-4)
    return clean.div_(clean @ clean.new_ones(clean.shape[1], 1))


def noise_removal(expected: Tensor) -> Tensor:
    """From what a network expects to the probabilities of the true classes, ``S^-1``.

    Outputs of a network that learnt from noisy labels follow ``p S`` with ``p`` the probabilities of the true classes
    and ``S`` what the network expects of the anchors.

    Shape: expected (N, C) -> (C, C).
    """
    says = torch.eye(expected.shape[1], dtype=expected.dtype, device=expected.device)
    for number, rows in enumerate(anchor_rows(expected)):
        if len(rows):
            says[number] = expected[rows].mean(0)
    inverse: Tensor = torch.linalg.pinv(says.double())
    return inverse.to(says)


def label_posterior(clean: Tensor, y: Tensor, flips: Tensor) -> Tensor:
    """The probability of each true class, given the label too: proportional to ``p_c flips[c, y]``.

    Shape: clean (N, C) from ``denoised_posterior``, y (N,), flips (C, C) -> (N, C).
    """
    joint: Tensor = clean * flips[:, y].T
    return joint / joint.sum(1, keepdim=True)


def rival_strength(flips: Tensor, anchors: Tensor) -> Tensor:
    """How plausible the best rival of each label is: 0 for none, 1 for a class that is given it as often as its own.

    A rival must stand out: its share of the label, two standard errors down, less that of the other classes. Else noise
    that has no direction, or the errors of a weak network, would make one of whichever class came out highest.

    Shape: flips (C, C) read off ``anchors`` (C,) rows of each class -> (C,).

    >>> rival_strength(torch.tensor([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), torch.full((3,), 600))
    tensor([0.0000, 0.3600, 0.0000])
    """
    given = flips.diagonal()
    others = flips - torch.diag(given)
    most, who = others.max(0)
    usual = (others.sum(0) - most) / max(1, len(flips) - 2)
    error = (most * (1 - most) / anchors[who].clamp_min(1)).sqrt()
    return ((most - 2 * error - usual) / given).clamp(0, 1)
