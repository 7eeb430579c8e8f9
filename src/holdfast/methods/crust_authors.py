"""CRUST as its authors' released code has it, which differs from the paper in every step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.partners import beta_shares, label_partners
from holdfast.methods.crust import Crust, most_central
from holdfast.select import radius_weights
from holdfast.task import Classification
from holdfast.types import Nets, Plan


class CrustAuthors(Crust):
    """In each observed class the most central gradients at the features, mixed with other images of the same label.

    The gradients are those of the *mean* loss of a batch, so that they, and all distances, are divided by its size B:
    ``g_i = W^T (p_i - y_i) / B``. Of each class the ``int(fraction n)`` examples of smallest summed distance to all
    others are kept, where the code's search for medoids comes out; an example weighs as many of its class as lie closer
    than ``radius``, which after the division are nearly always all of them. From the second epoch of selection on,
    another example of the same label, out of all rows, is mixed in by ``1 - Beta(1, 0.1)``, a tenth on average.

    Parameters
    ----------
    fraction: share of each class that is kept, in (0, 1].
    radius: positive; 2 in the code.
    warmup: epochs of ordinary training before the first selection; 5 in the code.

    Shapes
    ------
    Gradients (n, d) of a class -> kept (k,), weights (k,).

    Differs from the authors' code: gradients are computed in evaluation mode on the images as they are, where the code
    computes them in training mode on augmented ones, and for all of a class at once, where it divides the last batch
    by its own size; centrality in classes of more than 1,024 is measured to as many random members; the share of the
    mix is drawn for each example, where the code draws one a batch.

    Reference: the code released with Mirzasoleiman, Cao and Leskovec, NeurIPS 2020.

    >>> CrustAuthors(0.3)
    CrustAuthors(fraction=0.3)
    """

    name = "crust-authors"
    requires = Classification

    def __init__(self, fraction: float = 0.5, *, radius: float = 2.0, warmup: int = 5) -> None:
        super().__init__(fraction, select="central", proxy="features", group="observed", warmup=warmup)
        if not radius > 0:
            raise HoldfastError(f"a radius must be positive, not {radius:g}")
        self.radius = radius
        self._batch_size = 1

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self._batch_size = data.batch_size

    def _proxies(self, net: nn.Module, output: Tensor, y: Tensor) -> Tensor:
        return super()._proxies(net, output, y) / self._batch_size

    def _size(self, group: int, count: int) -> int:
        assert isinstance(self.fraction, (int, float))
        return max(1, int(self.fraction * count))

    def _choose_in(self, rows: Tensor, points: Tensor, size: int, generator: torch.Generator) -> None:
        chosen = most_central(points, size, generator)
        kept = rows[chosen.to(rows.device)]
        self.kept[kept] = True
        self.weight[kept] = radius_weights(points, chosen, self.radius).to(self.weight)

    def _compose(self, data: Feed) -> Plan:
        index = self.kept.nonzero()[:, 0]
        plan = Plan(index, self.weight[index])
        if self._epoch == self.warmup:
            return plan
        partner = label_partners(data.y, data.generator).to(index.device)[index]
        return plan._replace(partner=partner, share=beta_shares((0.1, 1.0), len(index), data.generator))
