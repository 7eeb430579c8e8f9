"""Co-teaching+: Co-teaching among the examples on which the networks disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.forget import Forget
from holdfast.functional.reduce import keep_smallest
from holdfast.method import Batch, Nets
from holdfast.methods.rated import Filter, Forwards, Rate
from holdfast.task import require_classes

if TYPE_CHECKING:
    from holdfast.feed import Feed


class CoTeachingPlus(Filter):
    """As Co-teaching, but both networks pick inside ``D' = {i : argmax f(x_i) != argmax g(x_i)}``.

    Of ``D'`` each network keeps the share ``R(T)`` of smallest loss, and the other trains on it. A batch without
    disagreement is left out.

    Parameters
    ----------
    rate, ramp, forwards: see ``Rated``.
    warmup: epochs of plain Co-teaching first: 0 for MNIST, 20 for CIFAR-10, 5 for CIFAR-100 in the paper.
    official: take probabilities for logits as the authors' code does, which bounds the loss and so forgives wrong
        labels; and train on all of ``D'`` where the share to keep is less than one example.

    Shapes
    ------
    Two outputs (B, C) -> two weights (B,) of zeros and ones.

    Differs from the authors' code: as told above unless ``official``; the mean over what is kept is not divided by its
    number again; an empty ``D'`` always skips the batch, where the code trains on all of it in its first steps.

    Reference: Yu et al., "How does Disagreement Help Generalization against Label Corruption?", ICML 2019.

    >>> CoTeachingPlus(0.2, warmup=5)
    CoTeachingPlus(rate=0.2, warmup=5)
    """

    networks = 2

    def __init__(
        self,
        rate: Rate = "auto",
        *,
        ramp: int | Forget = 10,
        forwards: Forwards = "auto",
        warmup: int = 0,
        official: bool = False,
    ) -> None:
        super().__init__(rate, ramp=ramp, forwards=forwards)
        if warmup < 0:
            raise HoldfastError(f"warmup must be at least 0 epochs, not {warmup}")
        self.warmup = warmup
        self.official = official

    def begin(self, nets: Nets, data: Feed) -> None:
        require_classes(data.task, "Co-teaching+ compares predicted classes")
        super().begin(nets, data)

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        return self.task.losses(output.softmax(1) if self.official else output, y)

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        among = self._among(outputs)
        picks = []
        for output in outputs:
            kept = torch.zeros_like(batch.weight)
            if len(among):
                forget = 0.0 if self.official and (1 - self.forget) * len(among) < 1 else self.forget
                kept[among] = keep_smallest(self.losses(output, batch.y)[among], forget)
            picks.append(kept)
        return picks[::-1]

    def _among(self, outputs: list[Tensor]) -> Tensor:
        first, second = (self.task.predict(output) for output in outputs)
        differ = torch.ones_like(first, dtype=torch.bool) if self._epoch < self.warmup else first != second
        return differ.nonzero()[:, 0]
