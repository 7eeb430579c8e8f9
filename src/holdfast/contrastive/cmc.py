"""CMC: brightness and colours of an image must find one another."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.augment import Augment
from holdfast.contrastive.base import Contrastive, Recipe, embedding_width, unit
from holdfast.contrastive.images import GREY
from holdfast.contrastive.memory import MemoryBank, check_memory
from holdfast.contrastive.moco import check_temperature, moco_losses
from holdfast.errors import HoldfastError
from holdfast.feed import Feed, as_float
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch, Nets, Step


class CMC(Contrastive):
    """Two parts of what there is to see of an example, each told by what a memory bank holds of the other.

    ``L_i = -log(exp(z1_i v2_i / tau) / (exp(z1_i v2_i / tau) + sum_j exp(z1_i v2_j / tau)))`` plus the same with the
    parts changed over: ``z1`` the embedding of the brightness, ``z2`` of the colours, ``v1`` and ``v2`` the memory
    bank of each, ``v_j`` of rows drawn at random. Of a table the parts are every other column.

    Parameters
    ----------
    negatives: rows drawn in each step, at least 1; 16,384 in the paper.
    momentum: of the memory banks, in [0, 1).
    temperature: tau, positive.

    Shapes
    ------
    One view (B, 3, H, W) or (B, d) -> two parts of its shape -> embeddings (B, h) each -> losses (B,).

    Differs from the paper: one network sees both parts, as images of three channels, in place of one of half the width
    for each; brightness and colours are Y and the rest, as in the paper's YDbDr, not L and ab; a batch shares its
    negatives.

    Reference: Tian et al., "Contrastive Multiview Coding", ECCV 2020.

    >>> CMC(1024)
    CMC(negatives=1024)
    """

    name = "cmc"
    views = 1

    def __init__(self, negatives: int = 4096, momentum: float = 0.5, temperature: float = 0.07) -> None:
        super().__init__()
        check_memory(negatives, momentum)
        check_temperature(temperature)
        self.negatives = negatives
        self.momentum = momentum
        self.temperature = temperature

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        # Other colours, or none, would be another row's second part.
        return (recipe.plain(),)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width = embedding_width(nets[0], data)
        self.first, self.second = (
            MemoryBank(len(data), width, self.momentum, data.generator).to(data.device) for _ in range(2)
        )

    def loss(self, nets: Nets, batch: Batch) -> Step:
        one, two = (unit(nets[0](part)) for part in parts_of(batch.x))
        losses = torch.zeros(len(one), device=one.device)
        for found, bank in ((one, self.second), (two, self.first)):
            losses = losses + moco_losses(found, bank.kept[batch.index], bank.draw(self.negatives), self.temperature)
        self._fresh = batch.index, one.detach(), two.detach()
        return Step(weighted_mean(losses, batch.weight), batch.weight)

    def after_step(self, nets: Nets) -> None:
        super().after_step(nets)
        rows, one, two = self._fresh
        self.first.update(rows, one)
        self.second.update(rows, two)


def parts_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """Brightness and colours of images, a grey image and one of even brightness; every other column of a table.

    Shape: (B, 3, H, W) or (B, d) -> two of the same.
    """
    if x.shape[1] < 2:
        raise HoldfastError("CMC tells brightness from colours, or columns apart, and these inputs have one alone")
    x = as_float(x)
    if x.dim() == 2:
        even = torch.arange(x.shape[1], device=x.device) % 2 == 0
        return x * even, x * ~even
    grey = (x * torch.tensor(GREY).to(x)[:, None, None]).sum(1, keepdim=True).expand_as(x)
    return grey, x - grey + 0.5
