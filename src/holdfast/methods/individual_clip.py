"""Individual clip: a bound on the gradient of each example."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.persample import gradient_norms
from holdfast.method import Batch, Method, Nets, Step


class IndividualClip(Method):
    """The mean of per-sample gradients, each scaled down to a largest norm.

    ``g = (1/B) sum_i g_i min(1, c / ||g_i||_2)``: norms first, then one backward pass of a weighted loss.

    Parameters
    ----------
    limit: c, above 0; infinity is ordinary training. The PRL paper does not tell its value.

    Shapes
    ------
    Norms (B,) -> weights (B,) in (0, 1].

    Differs from the paper: the gradients themselves are never stored. A network with BatchNorm is refused.

    Reference: Ignormclip of "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision".

    >>> clip_weights(torch.tensor([5.0, 1.0, 0.5]), 1.0)
    tensor([0.2000, 1.0000, 1.0000])
    """

    def __init__(self, limit: float = 1.0) -> None:
        super().__init__()
        if not limit > 0:
            raise HoldfastError(f"the largest norm must be positive, not {limit:g}")
        self.limit = limit

    def loss(self, nets: Nets, batch: Batch) -> Step:
        norms, output, losses = gradient_norms(nets[0], self.task.losses, batch.x, batch.y)
        weight = clip_weights(norms, self.limit) * batch.weight
        total = batch.weight.sum()
        # Divided by the size of the batch, not by the sum of the weights: clipped gradients do not grow again.
        loss = (losses * weight).sum() / torch.where(total > 0, total, torch.ones_like(total))
        return Step(loss, weight, output.detach())


def clip_weights(norms: Tensor, limit: float) -> Tensor:
    """(B,) ``min(1, c / ||g_i||)``."""
    return (limit / norms.clamp_min(1e-12)).clamp_max(1.0)
