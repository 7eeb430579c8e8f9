"""How labels go wrong: matrices T with T[i, j] = Pr(given j | true i), estimated, applied and judged.

Rows = true class, columns = given class; the given labels of a batch follow ``P @ T``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.noise_rate import confident_joint

Matrix = Tensor | Sequence[Sequence[float]]


def transition_by_anchors(expected: Tensor, quantile: float | None = 0.97) -> Tensor:
    """T from anchor points: what a network expects of the row that looks most like each class.

    Row i of T is what is expected of ``argmax_n expected[n, i]``. With a quantile, rows at and above it are passed over
    for that class: the surest of all are often outliers that the network has memorised.

    Parameters
    ----------
    expected: probabilities of the given labels, from a network trained on them.
    quantile: in (0, 1); None takes the surest row itself, as suits many classes with few rows each.

    Shapes
    ------
    expected (N, C) -> (C, C), rows that sum to one.

    Differs from the authors' code: that writes zeros into the probabilities, which later classes then see.

    Reference: Patrini et al., "Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach",
    CVPR 2017, equations 12 and 13.

    >>> transition_by_anchors(torch.tensor([[0.9, 0.1], [0.3, 0.7]]), None)
    tensor([[0.9000, 0.1000],
            [0.3000, 0.7000]])
    """
    if quantile is not None and not 0 < quantile < 1:
        raise HoldfastError(f"the quantile of the anchors must lie in (0, 1), not {quantile:g}")
    sure = expected
    if quantile is not None:
        edge = expected.quantile(quantile, dim=0, interpolation="higher")
        sure = torch.where(expected >= edge, -1.0, expected)
    chosen = expected[sure.argmax(0)]
    return chosen / chosen.sum(1, keepdim=True)


def transition_by_joint(expected: Tensor, y: Tensor) -> Tensor:
    """T from the confident joint: given and true class of the rows of which the network is confident.

    A true class that no row has stays as it is.

    Shapes
    ------
    expected (N, C) out-of-sample probabilities, y (N,) -> (C, C), rows that sum to one.

    Reference: Northcutt, Jiang and Chuang, "Confident Learning", JAIR 2021.
    """
    joint = confident_joint(expected, y).T
    total = joint.sum(1, keepdim=True)
    return torch.where(total > 0, joint / total.clamp_min(1e-12), torch.eye(len(joint)).to(joint))


def total_variation(estimate: Tensor, true: Tensor) -> Tensor:
    """(C,) half of the summed absolute difference in each row: the share of labels that the estimate misplaces.

    >>> total_variation(torch.eye(2), torch.tensor([[0.8, 0.2], [0.0, 1.0]]))
    tensor([0.2000, 0.0000])
    """
    return (estimate - true).abs().sum(1) / 2


def checked_transition(given: Matrix, classes: int) -> Tensor:
    """A matrix as the losses take it: square, not negative, rows that sum to one."""
    matrix = torch.as_tensor(given, dtype=torch.float32)
    if matrix.shape != (classes, classes):
        raise HoldfastError(
            f"a transition matrix of {classes} classes is {classes} x {classes}, not {list(matrix.shape)}"
        )
    if bool((matrix < 0).any()) or not torch.allclose(matrix.sum(1), torch.ones(classes), atol=1e-4):
        raise HoldfastError("each row of a transition matrix holds probabilities of one true class and sums to one")
    return matrix


def forward_losses(output: Tensor, y: Tensor, transition: Tensor) -> Tensor:
    """(B,) ``-log (P T)[i, y_i]``, summed in the space of logarithms.

    Shape: output (B, C) logits, y (B,) classes or (B, C) shares of classes, transition (C, C).
    """
    log, flips = output.log_softmax(1), transition.log()
    if y.is_floating_point():
        return -(y * (log[:, :, None] + flips).logsumexp(1).clamp_min(-1e4)).sum(1)
    return -(log + flips[:, y].T).logsumexp(1)


def backward_losses(output: Tensor, y: Tensor, transition: Tensor) -> Tensor:
    """(B,) ``sum_c (T^-1)[y_i, c] (-log P_ic)``, an unbiased estimate of the loss against true labels; may be negative.

    Shape: as ``forward_losses``.
    """
    inverse = torch.linalg.pinv(transition)
    weight: Tensor = y @ inverse if y.is_floating_point() else inverse[y]
    return -(weight * output.log_softmax(1)).sum(1)
