"""SimSiam: predict the embedding of the other view, with a stop-gradient there; no negatives, no second network."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.contrastive.base import Contrastive, embedding_width
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.nets.heads import Predictor
from holdfast.types import Batch, Nets, Step


class SimSiam(Contrastive):
    """``L_i = -(cos(h(z_i), z~_i) + cos(h(z~_i), z_i)) / 2``, where ``z`` is the embedding and no gradient flows
    through the second argument.

    Parameters
    ----------
    hidden: width of the predictor, at least 1; None is a quarter of the embedding, as in the paper.

    Shapes
    ------
    Two views (B, ...) -> embeddings (B, h), predictions (B, h) -> losses (B,).

    Differs from the authors' code: the head of SANE, without a norm on its output; the predictor's learning rate falls
    with all others.

    Reference: Chen and He, "Exploring Simple Siamese Representation Learning", CVPR 2021.

    >>> SimSiam(64)
    SimSiam(hidden=64)
    """

    name = "simsiam"

    def __init__(self, hidden: int | None = None) -> None:
        super().__init__()
        if hidden is not None and hidden < 1:
            raise HoldfastError(f"a predictor needs at least one hidden unit, not {hidden}")
        self.hidden = hidden

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width = embedding_width(nets[0], data)
        self.predict = Predictor(width, self.hidden or max(1, width // 4)).to(data.device)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        first, second = (nets[0](x) for x in batch.x)
        losses = (simsiam_losses(self.predict(first), second) + simsiam_losses(self.predict(second), first)) / 2
        return Step(weighted_mean(losses, batch.weight), batch.weight)


def simsiam_losses(predicted: Tensor, z: Tensor) -> Tensor:
    """One direction: ``-cos(p, z)``, z detached.

    Shape: (B, h), (B, h) -> (B,).
    """
    return -torch.cosine_similarity(predicted, z.detach())
