"""Co-teaching+: Co-teaching among the examples on which the networks disagree."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.reduce import keep_smallest
from holdfast.methods.sample_selection import Dropping, SampleSelection
from holdfast.noise_model import Rate
from holdfast.task import Classification
from holdfast.types import Batch


class CoTeachingPlus(SampleSelection):
    """As Co-teaching, but both networks pick inside ``D' = {i : argmax f(x_i) != argmax g(x_i)}``.

    Of ``D'`` each network keeps the share ``R(T)`` of smallest loss, and the other trains on it. A batch without
    disagreement is left out.

    Parameters
    ----------
    rate, ramp, forwards: see ``WithNoiseRate``.
    warmup: epochs of plain Co-teaching first: 0 for MNIST, 20 for CIFAR-10, 5 for CIFAR-100 in the paper.
    official: take probabilities for logits as the authors' code does, which bounds the loss and so forgives wrong
        labels; and train on all of ``D'`` where the share to keep is less than one example.

    Shapes
    ------
    Two outputs (B, C) -> two weights (B,) of zeros and ones.

    Differs from the authors' code: as said above unless ``official``; the mean over what is kept is not divided by its
    number again; an empty ``D'`` always skips the batch, where the code trains on all of it in its first steps.

    Reference: Yu et al., "How does Disagreement Help Generalization against Label Corruption?", ICML 2019.

    >>> CoTeachingPlus(0.2, warmup=5)
    CoTeachingPlus(rate=0.2, warmup=5)
    """

    name = "co-teaching-plus"
    requires = Classification
    networks = 2

    def __init__(
        self,
        rate: Rate = "auto",
        *,
        warmup: int = 0,
        official: bool = False,
        **dropping: Unpack[Dropping],
    ) -> None:
        super().__init__(rate, **dropping)
        if warmup < 0:
            raise HoldfastError(f"warmup must be at least 0 epochs, not {warmup}")
        self.warmup = warmup
        self.official = official

    def selected_losses(self, outputs: list[Tensor], labels: list[Tensor]) -> list[Tensor]:
        return super().selected_losses([o.softmax(1) for o in outputs] if self.official else outputs, labels)

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        among = self._among(outputs)
        picks = []
        for losses in self.selected_losses(outputs, [batch.y] * 2):
            kept = torch.zeros_like(batch.weight)
            if len(among):
                dropped = 0.0 if self.official and (1 - self.drop_rate) * len(among) < 1 else self.drop_rate
                kept[among] = keep_smallest(losses[among], dropped)
            picks.append(kept)
        return picks[::-1]

    def _among(self, outputs: list[Tensor]) -> Tensor:
        first, second = (self.task.predict(output) for output in outputs)
        differ = torch.ones_like(first, dtype=torch.bool) if self._epoch < self.warmup else first != second
        return differ.nonzero()[:, 0]
