"""Forward and Backward: a loss corrected by how often each class is mistaken for each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.transition import (
    Matrix,
    backward_losses,
    checked_transition,
    forward_losses,
    transition_by_anchors,
)
from holdfast.methods.multi_stage import HeldOut, MultiStage, check_hold_out, quarter
from holdfast.types import Batch, Nets, Plan, Stage


class Corrected(MultiStage):
    """Base of methods that know, or first find out, the transition matrix T of the labels.

    Where T is not given, a first training on the noisy labels estimates it from anchor points, by the weights of the
    epoch with the least loss on held-out given labels; then training starts from scratch.

    Parameters
    ----------
    transition: T (C, C), rows = true class; None estimates it.
    estimate: epochs of the first training, of those asked for; None takes a quarter of them.
    quantile: of a class's probabilities, by which its anchor is found; None takes the largest
        (``transition_by_anchors``).
    hold_out: share of the rows kept out of the first training, in [0, 1).
    """

    matrix: Tensor

    def __init__(
        self,
        transition: Matrix | None = None,
        *,
        estimate: int | None = None,
        quantile: float | None = 0.97,
        hold_out: float = 0.1,
    ) -> None:
        super().__init__()
        check_hold_out(hold_out)
        if estimate is not None and estimate < 1:
            raise HoldfastError(f"the first training needs at least one epoch, not {estimate}")
        self.transition = None if transition is None else torch.as_tensor(transition).tolist()
        self.estimate = estimate
        self.quantile = quantile
        self.hold_out = hold_out
        self._correcting = transition is not None

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        classes = data.task.outputs
        known = torch.eye(classes) if self.transition is None else checked_transition(self.transition, classes)
        self.register_buffer("matrix", known.to(data.device))
        self.held_out = HeldOut(0.0 if self.transition is not None else self.hold_out, nets[0], data)

    def first(self, epochs: int) -> int:
        """Epochs before the matrix is known."""
        return 0 if self.transition is not None else quarter(self.estimate, epochs)

    def stages(self, epochs: int) -> Sequence[Stage]:
        first = self.first(epochs)
        return (Stage(0), Stage(first)) if 0 < first < epochs else (Stage(0),)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        first = self.first(epochs)
        self._correcting = epoch >= first
        if 0 < epoch <= first:
            self.held_out.look(nets[0], data, self.value)
        if epoch == first > 0:
            expected = self.task.expected(data.outputs(self.held_out.best))
            self.matrix.copy_(transition_by_anchors(expected, self.quantile))
            self.go_on(nets)

    def value(self, output: Tensor, y: Tensor) -> float:
        """How good a network of the first training is, from what it makes of held-out rows."""
        return -float(self.task.losses(output, y).mean())

    def go_on(self, nets: Nets) -> None:
        """What training with the matrix starts from."""
        self.restart(nets)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        return None if self._correcting else self.held_out.plan()

    def corrected(self, output: Tensor, y: Tensor) -> Tensor:
        """(B,) losses by the matrix."""
        raise NotImplementedError(f"{type(self).__name__} must define corrected(output, y)")

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        return self.corrected(output, batch.y) if self._correcting else self.task.losses(output, batch.y)


class Forward(Corrected):
    """Cross entropy of what the network expects of *given* labels: ``L_i = - log (P T)[i, y_i]``.

    Its minimum is that of the cross entropy against true labels. Prediction uses P.

    Parameters
    ----------
    transition, estimate, quantile, hold_out: see ``Corrected``.

    Shapes
    ------
    Outputs (B, C), labels (B,), T (C, C) -> losses (B,).

    Differs from the authors' code: the first training is a part of the epochs asked for; zeros are not written into the
    probabilities from which anchors are taken.

    Reference: Patrini et al., "Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach",
    CVPR 2017.

    >>> Forward(quantile=None)
    Forward(quantile=None)
    """

    name = "forward"

    def corrected(self, output: Tensor, y: Tensor) -> Tensor:
        return forward_losses(output, y, self.matrix)


class Backward(Corrected):
    """Losses weighed by the inverse of the matrix: ``L_i = sum_c (T^-1)[y_i, c] (- log P_ic)``.

    Its expectation is the loss against true labels; single losses may be negative, and a matrix that is hard to invert
    makes them large. ``Forward`` is usually the better choice.

    Parameters
    ----------
    transition, estimate, quantile, hold_out: see ``Corrected``.

    Shapes
    ------
    Outputs (B, C), labels (B,), T (C, C) -> losses (B,).

    Differs from the authors' code: as ``Forward``; a singular matrix is pseudo-inverted.

    Reference: Patrini et al., CVPR 2017.

    >>> Backward(estimate=5)
    Backward(estimate=5)
    """

    name = "backward"

    def corrected(self, output: Tensor, y: Tensor) -> Tensor:
        return backward_losses(output, y, self.matrix)
