"""Huber: a loss whose slope stops growing where the error is large."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.method import Method
from holdfast.task import Classification
from holdfast.types import Batch


class Huber(Method):
    """A loss that large errors pull at no harder than moderate ones.

    Regression: ``r^2 / 2`` where ``|r| <= d``, else ``d (|r| - d / 2)``, averaged over the targets. Classification:
    partially Huberised cross entropy, ``-log p_y`` where ``p_y > 1 / t``, else ``-t p_y + log t + 1``.

    Parameters
    ----------
    limit: d or t; None takes d = 1 for regression and t = 10 for classification. Infinity gives half the squared
        error, or cross entropy. For classification it must be above 1.

    Shapes
    ------
    Outputs (B, q) -> losses (B,).

    Differs from the paper: the PRL paper uses it for regression alone and does not tell d.

    Reference: Huber, "Robust Estimation of a Location Parameter", 1964; Menon et al., "Can Gradient Clipping Mitigate
    Label Noise?", ICLR 2020, equation 7.

    >>> Huber(limit=0.5)
    Huber(limit=0.5)
    """

    name = "huber"

    def __init__(self, limit: float | None = None) -> None:
        super().__init__()
        if limit is not None and not limit > 0:
            raise HoldfastError(f"the limit of a Huber loss must be positive, not {limit:g}")
        self.limit = limit

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        if isinstance(self.task, Classification):
            return huberised_cross_entropy(output, batch.y, 10.0 if self.limit is None else self.limit)
        return huber_losses(output, batch.y, 1.0 if self.limit is None else self.limit)


def huberised_cross_entropy(output: Tensor, y: Tensor, limit: float) -> Tensor:
    """(B,) cross entropy, linear in ``p_y`` where that is at most 1 / limit: equation 7 of Menon et al."""
    if limit <= 1:
        raise HoldfastError(f"the limit of a Huberised cross entropy must be above 1, not {limit:g}")
    losses = F.cross_entropy(output, y, reduction="none")
    if math.isinf(limit):
        return losses
    linear = math.log(limit) + 1 - limit * (-losses).exp()
    return torch.where(losses < math.log(limit), losses, linear)


def huber_losses(output: Tensor, y: Tensor, limit: float) -> Tensor:
    """(B,) half the square up to ``limit``, then linear, averaged over the targets."""
    if math.isinf(limit):
        return (output - y).square().mean(1) / 2
    return F.huber_loss(output, y, reduction="none", delta=limit).mean(1)
