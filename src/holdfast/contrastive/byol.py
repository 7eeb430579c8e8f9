"""BYOL: predict the momentum encoder's embedding of the other view; no negatives."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from holdfast.contrastive.base import Contrastive, embedding_width
from holdfast.contrastive.momentum import check_momentum, follow
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.nets.heads import Predictor
from holdfast.types import Batch, Nets, Step


class BYOL(Contrastive):
    """``L_i = 2 - 2 cos(h(f(x_i)), g(x~_i))`` plus the same with the views changed over.

    ``h`` is a predictor and ``g`` the momentum encoder, whose momentum rises to 1 along half a cosine.

    Parameters
    ----------
    momentum: its first value, in [0, 1); 0.996 for ImageNet.
    hidden: width of the predictor, at least 1; 4,096 in the paper.

    Shapes
    ------
    Two views (B, ...) -> predictions (B, h), targets (B, h) -> losses (B,).

    Differs from the authors' code: SGD of the loop in place of LARS; the three-layer head of SANE; 512 hidden
    units in the predictor, where theirs has 4,096.

    Reference: Grill et al., "Bootstrap Your Own Latent", NeurIPS 2020.

    >>> BYOL(0.99)
    BYOL(momentum=0.99)
    """

    name = "byol"

    def __init__(self, momentum: float = 0.996, *, hidden: int = 512) -> None:
        super().__init__()
        check_momentum(momentum)
        if hidden < 1:
            raise HoldfastError(f"a predictor needs at least one hidden unit, not {hidden}")
        self.momentum = momentum
        self.hidden = hidden

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.target = copy.deepcopy(nets[0]).requires_grad_(False)
        self.predict = Predictor(embedding_width(nets[0], data), self.hidden).to(data.device)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        with torch.no_grad():
            targets = [self.target(x) for x in batch.x]
        predicted = [self.predict(nets[0](x)) for x in batch.x]
        losses = byol_losses(predicted[0], targets[1]) + byol_losses(predicted[1], targets[0])
        return Step(weighted_mean(losses, batch.weight), batch.weight)

    def after_step(self, nets: Nets) -> None:
        follow(self.target, nets[0], momentum_at(self.share, self.momentum))
        super().after_step(nets)


def byol_losses(predicted: Tensor, target: Tensor) -> Tensor:
    """``2 - 2 cos`` of each row.

    Shape: (B, h), (B, h) -> (B,).
    """
    return 2 - 2 * torch.cosine_similarity(predicted, target)


def momentum_at(share: float, first: float) -> float:
    """``m = 1 - (1 - m_0) (cos(pi share) + 1) / 2``.

    >>> round(momentum_at(0.5, 0.996), 6)
    0.998
    """
    return 1 - (1 - first) * (math.cos(math.pi * share) + 1) / 2
