"""Confident learning: estimate which labels are wrong by cross-validation, prune them, train again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, outputs_on
from holdfast.functional.confident import Prune, confident_suspects
from holdfast.functional.row_randomness import row_uniforms
from holdfast.methods.multi_stage import MultiStage, even_stages
from holdfast.types import Nets, Plan, Stage


class ConfidentLearning(MultiStage):
    """Train on all folds but one, judge the labels of that one; at last train on the labels that stay.

    The probabilities of each row come from a network that has not seen it; their confident joint with the given labels
    says how many labels of each pair of classes are wrong, and the least likely ones go.

    Parameters
    ----------
    folds: trainings for the probabilities, at least 2; 0 prunes nothing.
    each: epochs of each of them, of those asked for; None takes half of all together.
    prune: which labels are pruned: see ``confident_suspects``.

    Shapes
    ------
    Probabilities (N, C), labels (N,) -> rows that stay.

    Differs from the authors' code: the trainings share the epochs asked for; counts are rounded one by one.

    Reference: Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 2021.

    >>> ConfidentLearning(folds=5)
    ConfidentLearning(folds=5)
    """

    name = "confident-learning"
    fold: Tensor
    expected: Tensor
    kept: Tensor

    def __init__(self, folds: int = 3, *, each: int | None = None, prune: Prune = "both") -> None:
        super().__init__()
        if folds < 0 or folds == 1 or (each is not None and each < 1):
            raise HoldfastError(f"folds must be 0 or at least 2 and each at least 1, not {folds} and {each}")
        if prune not in get_args(Prune):
            raise HoldfastError(f"prune is one of {', '.join(get_args(Prune))}, not {prune!r}")
        self.folds = folds
        self.each = each
        self.prune = prune
        self._now = folds

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        n = len(data)
        fold = torch.empty(n, dtype=torch.int64)
        fold[row_uniforms(n, data.generator.initial_seed(), 0).argsort()] = torch.arange(n) % max(1, self.folds)
        self.register_buffer("fold", fold.to(data.device))
        self.register_buffer("expected", torch.zeros(n, data.task.outputs, device=data.device))
        self.register_buffer("kept", torch.ones(n, dtype=torch.bool, device=data.device))

    def length(self, epochs: int) -> int:
        """Epochs of each fold."""
        if self.each is not None:
            return self.each
        return max(1, epochs // (2 * self.folds)) if self.folds else 0

    def stages(self, epochs: int) -> Sequence[Stage]:
        return even_stages(self.folds, self.length(epochs), epochs)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        length = self.length(epochs)
        self._now = min(self.folds, epoch // length) if self.folds else 0
        if not self.folds or epoch == 0 or epoch % length or epoch > self.folds * length:
            return
        done = (self.fold == epoch // length - 1).nonzero()[:, 0]
        self.expected[done] = self.task.expected(outputs_on(nets[0], data, done))
        if self._now == self.folds:
            self.kept.copy_(~confident_suspects(self.expected, data.y, self.prune))
        self.restart(nets)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        rows = self.kept if self._now == self.folds else self.fold != self._now
        return None if bool(rows.all()) else Plan(rows.nonzero()[:, 0])
