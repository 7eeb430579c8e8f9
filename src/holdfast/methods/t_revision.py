"""T-Revision: weight losses by a transition matrix that is corrected during training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.transition import Matrix
from holdfast.methods.forward import Corrected
from holdfast.nets.copies import move_towards
from holdfast.types import Batch, Nets, Plan, Stage


class TRevision(Corrected):
    """Losses weighed by how likely the given label is the true one, then the matrix revised with the network.

    ``L_i = beta_i l_i`` with ``beta_i = P[i, y_i] / (P (T + dT))[i, y_i]``. Three trainings: on given labels, for the
    estimate of T; from its best weights with ``dT = 0`` and ``beta`` constant for the gradient; from the best weights
    of that one, ``dT`` is learnt too, through ``beta``.

    Parameters
    ----------
    transition, estimate, quantile, hold_out: see ``Corrected``; rows stay held out in all three
        trainings, and none are where T is given.
    revise: share of the epochs after the first training in which dT is learnt, in [0, 1); 0 never does.
    pace: factor on the learning rate in the last training; the paper's Adam goes from 0.001 to 5e-7.

    Shapes
    ------
    Outputs (B, C), labels (B,), T (C, C) -> losses (B,).

    Differs from the authors' code: in that, the correction is added again for each example of a batch, or has no
    gradient at all, and rows of T are normalised by the wrong axis. A denominator is at least 1e-6.

    Reference: Xia et al., "Are Anchor Points Really Indispensable in Label-Noise Learning?", NeurIPS 2019.

    >>> TRevision(revise=0.5)
    TRevision(revise=0.5)
    """

    name = "t-revision"

    def __init__(
        self,
        transition: Matrix | None = None,
        *,
        estimate: int | None = None,
        quantile: float | None = 0.97,
        hold_out: float = 0.1,
        revise: float = 0.25,
        pace: float = 5e-4,
    ) -> None:
        super().__init__(transition, estimate=estimate, quantile=quantile, hold_out=hold_out)
        if not 0 <= revise < 1 or not pace > 0:
            raise HoldfastError(f"revise must lie in [0, 1) and pace be positive, not {revise:g} and {pace:g}")
        self.revise = revise
        self.pace = pace
        self._revising = False

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.change = nn.Parameter(torch.zeros_like(self.matrix))

    def last(self, epochs: int) -> int:
        """The epoch from which the matrix is revised."""
        first = self.first(epochs)
        return epochs - int(self.revise * max(0, epochs - first))

    def stages(self, epochs: int) -> Sequence[Stage]:
        last = self.last(epochs)
        return (*super().stages(epochs), *((Stage(last, self.pace),) if last < epochs else ()))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        first, last = self.first(epochs), self.last(epochs)
        super().before_epoch(nets, data, epoch, epochs)
        self._revising = epoch >= last
        if first < epoch <= last:
            self.held_out.look(nets[0], data, self._agreement)
        if epoch == last:
            move_towards(nets[0], self.held_out.best, 1.0)

    def value(self, output: Tensor, y: Tensor) -> float:
        return float((output.argmax(1) == y).double().mean())

    def _agreement(self, output: Tensor, y: Tensor) -> float:
        return float(((output.softmax(1) @ self.matrix).argmax(1) == y).double().mean())

    def go_on(self, nets: Nets) -> None:
        move_towards(nets[0], self.held_out.best, 1.0)
        self.held_out.reset()

    def corrected(self, output: Tensor, y: Tensor) -> Tensor:
        given, expected = self.task.encode(y), output.softmax(1)
        mixed = expected @ (self.matrix + self.change)
        beta = (given * expected).sum(1) / (given * mixed).sum(1).clamp_min(1e-6)
        return (beta if self._revising else beta.detach()) * self.task.losses(output, y)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        return self.held_out.plan()

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        # The correction has a part in every loss, so that its gradient always exists.
        return super().losses(output, batch) + 0 * self.change.sum()
