"""InstDisc: each row is a class of its own, told from others by what the memory bank holds of it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.augment import Augment
from holdfast.contrastive.base import Contrastive, Recipe, embedding_width, unit
from holdfast.contrastive.memory import MemoryBank, check_memory
from holdfast.contrastive.moco import check_temperature
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Step


class InstDisc(Contrastive):
    """The row that an embedding belongs to is to be told among all rows, by what a memory bank holds of each.

    ``L_i = -log(exp(v_i f_i / tau) / sum_j exp(v_j f_i / tau)) + a |f_i - v_i|^2`` over n rows (equation 2): ``f_i``
    the network's, ``v`` the bank's embeddings. With m negatives it is estimated by noise contrast (equations 7 and 9):
    ``-log h(v_i) - sum_j log(1 - h(v_j))``, ``v_j`` of rows drawn at random, ``h(v) = P / (P + m / n)`` with
    ``P = exp(v f_i / tau) / Z`` and ``Z`` n times the mean of ``exp(v_j f_i / tau)`` in the first batch.

    Parameters
    ----------
    negatives: m; 0: all rows, as the authors have it for CIFAR-10; 4,096 for ImageNet. With few rows the estimate is
        unsteady.
    momentum: of the memory bank, in [0, 1).
    temperature: tau, positive; 0.07 for ImageNet.
    proximal: a, at least 0; 30 in the paper, none in the authors' code.

    Shapes
    ------
    One view (B, ...) -> embeddings (B, h), of the bank (B, h) and (m, h) -> losses (B,).

    Differs from the authors' code: a batch shares its negatives, where each row draws its own; the head of SANE.

    Reference: Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", CVPR 2018.

    >>> InstDisc(1024)
    InstDisc(negatives=1024)
    """

    name = "inst-disc"
    views = 1
    constant: Tensor

    def __init__(
        self, negatives: int = 0, momentum: float = 0.5, temperature: float = 0.1, *, proximal: float = 0.0
    ) -> None:
        super().__init__()
        check_memory(max(1, negatives), momentum)
        if negatives < 0:
            raise HoldfastError(f"negatives are at least 0, which is all rows, not {negatives}")
        check_temperature(temperature)
        if proximal < 0:
            raise HoldfastError(f"the weight of the proximal term must be at least 0, not {proximal:g}")
        self.negatives = negatives
        self.momentum = momentum
        self.temperature = temperature
        self.proximal = proximal

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        return (recipe.weak(),)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width = embedding_width(nets[0], data)
        self.memory = MemoryBank(len(data), width, self.momentum, data.generator).to(data.device)
        self.register_buffer("constant", torch.zeros((), device=data.device))

    def loss(self, nets: Nets, batch: Batch) -> Step:
        found = unit(nets[0](batch.x))
        self._fresh = batch.index, found.detach()
        return Step(weighted_mean(self.discriminate(found, batch.index), batch.weight), batch.weight)

    def discriminate(self, found: Tensor, rows: Tensor) -> Tensor:
        """(B,) the loss of each embedding."""
        kept = self.memory.kept
        pull = self.proximal * (found - kept[rows]).square().sum(1)
        if not self.negatives:
            return pull + F.cross_entropy(found @ kept.T / self.temperature, rows, reduction="none")
        others = self.memory.draw(self.negatives)
        if self.constant == 0:
            mean = (found.detach() @ others.T / self.temperature).exp().mean()
            self.constant.copy_(len(kept) * get_ranks().total(mean) / get_ranks().count)
        return pull + nce_losses(found, kept[rows], others, self.constant, len(kept), self.temperature)

    def after_step(self, nets: Nets) -> None:
        super().after_step(nets)
        self.memory.update(*self._fresh)


def nce_losses(found: Tensor, own: Tensor, others: Tensor, constant: Tensor, rows: int, temperature: float) -> Tensor:
    """``-log h`` of each embedding's own row and ``-log(1 - h)`` of the others, summed.

    Shape: (B, h), (B, h), (m, h), () -> (B,).
    """
    # h = P / (P + m / n) is the logistic function of log P - log(m / n), which no large score overflows.
    shift = constant.log() + math.log(len(others) / rows)
    right = (found * own).sum(1) / temperature - shift
    wrong = found @ others.T / temperature - shift
    return -F.logsigmoid(right) - F.logsigmoid(-wrong).sum(1)
