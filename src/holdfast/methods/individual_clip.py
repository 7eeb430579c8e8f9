"""Individual clip: a bound on the gradient of each example."""

from __future__ import annotations

from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.persample import gradient_norms
from holdfast.functional.reduce import weighted_mean
from holdfast.method import Method
from holdfast.types import Batch, Nets, Step


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

    >>> IndividualClip(0.5)
    IndividualClip(limit=0.5)
    """

    name = "individual-clip"
    looks_inside = True

    def __init__(self, limit: float = 1.0) -> None:
        super().__init__()
        if not limit > 0:
            raise HoldfastError(f"the largest norm must be positive, not {limit:g}")
        self.limit = limit

    def loss(self, nets: Nets, batch: Batch) -> Step:
        norms, output, losses = gradient_norms(nets[0], self.task.losses, batch.x, batch.y)
        scale = clip_weights(norms, self.limit)
        # Divided by the size of the batch, not by the sum of the scales: clipped gradients do not grow again.
        return Step(weighted_mean(losses * scale, batch.weight), scale * batch.weight, output.detach())


def clip_weights(norms: Tensor, limit: float) -> Tensor:
    """(B,) ``min(1, c / ||g_i||)``."""
    return (limit / norms.clamp_min(1e-12)).clamp_max(1.0)
