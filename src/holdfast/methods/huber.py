"""Huber: losses whose slope stops growing."""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.method import Batch, Method, Nets, Step


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

    def __init__(self, limit: float | None = None) -> None:
        super().__init__()
        if limit is not None and not limit > 0:
            raise HoldfastError(f"the limit of a Huber loss must be positive, not {limit:g}")
        self.limit = limit

    def loss(self, nets: Nets, batch: Batch) -> Step:
        output = nets[0](batch.x)
        losses = self.task.bounded_losses(output, batch.y, self.limit)
        return Step(weighted_mean(losses, batch.weight), batch.weight, output.detach())
