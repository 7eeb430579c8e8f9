"""Min-SGD: a step on the example of smallest loss."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.reduce import smallest
from holdfast.method import Weigh
from holdfast.types import Batch


class MinSGD(Weigh):
    """Draw candidates, train on the one of smallest loss.

    ``i* = argmin l_i`` over the candidates; the loss is ``l_i*``, not divided by their number.

    Parameters
    ----------
    candidates: how many compete; None is the whole batch, as in the PRL paper, where it hardly learns anything. A
        smaller number splits a batch into groups, each with winners of its own; 1 is ordinary training.
    keep: winners of each group, at least 1.

    Shapes
    ------
    Losses (B,) -> weights (B,) of zeros and ones.

    Differs from the paper: Shah et al. draw few candidates for each step; here groups of one batch stand for them.

    Reference: Shah, Wu and Sanghavi, "Choosing the Sample with Lowest Loss makes SGD Robust", AISTATS 2020.

    >>> MinSGD(candidates=4)
    MinSGD(candidates=4)
    """

    name = "min-sgd"

    def __init__(self, candidates: int | None = None, *, keep: int = 1) -> None:
        super().__init__()
        if keep < 1 or (candidates is not None and candidates < keep):
            raise HoldfastError(f"keep at least 1 and at most as many as the candidates, not {keep} of {candidates}")
        self.candidates = candidates
        self.keep = keep

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        # Groups follow the rows, so that the order within a batch does not matter.
        order = batch.index.argsort(stable=True)
        groups = order.split(self.candidates or len(order))
        return [self._winners(self.task.losses(output, batch.y), groups) for output in outputs]

    def _winners(self, losses: Tensor, groups: tuple[Tensor, ...]) -> Tensor:
        kept = torch.zeros_like(losses)
        for group in groups:
            kept[group[smallest(losses[group], self.keep)]] = 1
        return kept
