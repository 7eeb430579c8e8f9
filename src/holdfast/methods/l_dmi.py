"""L_DMI: a loss that label noise changes only by a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.methods.multi_stage import HeldOut, MultiStage, check_hold_out
from holdfast.nets.copies import move_towards
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Plan, Stage, Step

_FLOOR = 1e-3  # added to the determinant by the authors' code


class LDMI(MultiStage):
    """Mutual information by determinants: ``L = - log |det U|`` with ``U = Y^T P / B``.

    For labels that go wrong whatever the input is, ``det U`` of given labels is that of true ones times ``det T``, so
    that the loss is the same up to a constant. It does not know which class is which and therefore starts from weights
    of ordinary training: those of the epoch that agrees most with held-out given labels.

    Parameters
    ----------
    warmup: epochs of ordinary training, of those asked for; None takes half of them.
    pace: factor on the learning rate afterwards; the authors go from 0.1 at most to 1e-6.
    hold_out: share of the rows kept out of training, in [0, 1).
    official: add 0.001 to the determinant of the unscaled matrix as the authors' code does, which bounds the loss.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> one loss for the batch; needs batches much larger than the number of classes. A batch
    in which a class is missing has no determinant and teaches nothing.

    Differs from the authors' code: one schedule for the whole stage instead of a new optimizer in each epoch; the
    determinant is computed in float64 by its logarithm.

    Reference: Xu et al., "L_DMI: A Novel Information-theoretic Loss Function for Training Deep Nets Robust to Label
    Noise", NeurIPS 2019.

    >>> LDMI(warmup=20)
    LDMI(warmup=20)
    """

    name = "l-dmi"

    def __init__(
        self, *, warmup: int | None = None, pace: float = 1e-3, hold_out: float = 0.1, official: bool = False
    ) -> None:
        super().__init__()
        check_hold_out(hold_out)
        if (warmup is not None and warmup < 0) or not pace > 0:
            raise HoldfastError(f"warmup must be at least 0 and pace be positive, not {warmup} and {pace:g}")
        self.warmup = warmup
        self.pace = pace
        self.hold_out = hold_out
        self.official = official
        self._informing = False

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.held_out = HeldOut(self.hold_out, nets[0], data)

    def first(self, epochs: int) -> int:
        """Epochs of ordinary training."""
        return max(1, epochs // 2) if self.warmup is None else self.warmup

    def stages(self, epochs: int) -> Sequence[Stage]:
        first = self.first(epochs)
        return (Stage(0), Stage(first, self.pace)) if 0 < first < epochs else (Stage(0, 1.0 if first else self.pace),)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        first = self.first(epochs)
        self._informing = epoch >= first
        if 0 < epoch <= first:
            self.held_out.look(nets[0], data, self._accuracy)
        if epoch == first > 0:
            move_towards(nets[0], self.held_out.best, 1.0)

    def _accuracy(self, output: Tensor, y: Tensor) -> float:
        return self.task.score(self.task.predict(output), y)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        return self.held_out.plan()

    def loss(self, nets: Nets, batch: Batch) -> Step:
        if not self._informing:
            return super().loss(nets, batch)
        output = nets[0](batch.x)
        loss = dmi(output, self.task.encode(batch.y), batch.weight, official=self.official)
        return Step(loss, batch.weight, output.detach())


def dmi(output: Tensor, given: Tensor, weight: Tensor, *, official: bool = False) -> Tensor:
    """``- log |det U|``; a batch without some class gives a constant.

    In several processes the matrix is summed over all of them.

    Shape: output (B, C) logits, given (B, C), weight (B,) -> ().
    """
    ranks = get_ranks()
    weighted = given.double() * weight.double()[:, None]
    local = weighted.T @ output.double().softmax(1)
    # The sum of all, in which only this process's part has a gradient.
    matrix = local + ranks.total(local.detach()) - local.detach()
    total, missing = ranks.total(weight.double().sum()), bool((ranks.total(weighted.sum(0)) == 0).any())
    if missing:
        return 0 * output.sum() - math.log(_FLOOR)
    size = matrix if official else matrix / total
    log = torch.linalg.slogdet(size).logabsdet
    if official:
        log = torch.logaddexp(log, log.new_tensor(_FLOOR).log())
    # Processes average their gradients; the parts of one loss are to be added.
    value: Tensor = -log.to(output.dtype)
    return value if ranks.count == 1 else value.detach() + (value - value.detach()) * ranks.count
