"""Decoupling: two networks learn where they disagree."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.method import Method
from holdfast.ranks import get_ranks
from holdfast.task import Classification
from holdfast.types import Batch, Nets, Step


class Decoupling(Method):
    """Each of two networks takes a step on its own loss over the examples on which their predictions differ.

    ``L_f = sum over D of l_i / max(|D|, m)`` with ``D = {i : argmax f(x_i) != argmax g(x_i)}``; where D is empty
    nothing is learnt.

    Parameters
    ----------
    least: m as a share of the batch, in [0, 1]; 0 is the mean over D, 0.1 what one released code takes.
    warmup: epochs of ordinary training of both networks first.

    Shapes
    ------
    Two outputs (B, C) -> weights (B,) of zeros and ones.

    Differs from the paper: the warm-up counts epochs instead of steps.

    Reference: Malach and Shalev-Shwartz, 'Decoupling "when to update" from "how to update"', NeurIPS 2017.

    >>> Decoupling(least=0.1)
    Decoupling(least=0.1)
    """

    name = "decoupling"
    requires = Classification
    networks = 2

    def __init__(self, *, least: float = 0.0, warmup: int = 0) -> None:
        super().__init__()
        if not 0 <= least <= 1 or warmup < 0:
            raise HoldfastError(f"least must lie in [0, 1] and warmup be at least 0, not {least:g} and {warmup}")
        self.least = least
        self.warmup = warmup
        self._epoch = 0

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._epoch = epoch

    def loss(self, nets: Nets, batch: Batch) -> Step:
        outputs = [net(batch.x) for net in nets]
        detached = [output.detach() for output in outputs]
        weight = self.differ(detached) * batch.weight
        differing, whole = (get_ranks().total(each.sum()) for each in (weight, batch.weight))
        # The mean over D, scaled down where D is smaller than m.
        scale = differing / torch.maximum(differing, self.least * whole).clamp_min(1e-12)
        parts = [scale * weighted_mean(self.task.losses(output, batch.y), weight) for output in outputs]
        return Step(torch.stack(parts).sum(), weight, torch.stack(detached).mean(0))

    def differ(self, outputs: list[Tensor]) -> Tensor:
        """(B,) one where the predictions differ."""
        first, second = (self.task.predict(output) for output in outputs)
        return torch.ones(len(first), device=first.device) if self._epoch < self.warmup else (first != second).float()
