"""Norm clip: a bound on the gradient of the batch."""

from __future__ import annotations

from torch import nn

from holdfast.errors import HoldfastError
from holdfast.method import Method
from holdfast.types import Nets


class NormClip(Method):
    """Ordinary training whose gradient is scaled down to a largest norm.

    ``g <- g min(1, c / ||g||_2)`` over all parameters of a network together.

    Parameters
    ----------
    limit: c, above 0; infinity is ordinary training. The PRL paper does not tell its value.

    Shapes
    ------
    Gradients keep theirs.

    Differs from the paper: nothing known. Adam divides by the size of past gradients, so that the clip hardly shows.

    Reference: Normclip of "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision";
    Menon et al., "Can Gradient Clipping Mitigate Label Noise?", ICLR 2020.

    >>> NormClip(0.5)
    NormClip(limit=0.5)
    """

    name = "norm-clip"

    def __init__(self, limit: float = 1.0) -> None:
        super().__init__()
        if not limit > 0:
            raise HoldfastError(f"the largest norm must be positive, not {limit:g}")
        self.limit = limit

    def after_backward(self, nets: Nets) -> None:
        for net in nets:
            nn.utils.clip_grad_norm_(net.parameters(), self.limit)
