"""JoCoR: two networks trained as one on the examples about which they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.divergence import divergence
from holdfast.functional.forget import Forget
from holdfast.functional.reduce import keep_smallest, weighted_mean
from holdfast.method import Batch, Nets, Step
from holdfast.methods.rated import Forwards, Rate, Rated
from holdfast.ranks import here
from holdfast.task import require_classes

if TYPE_CHECKING:
    from holdfast.feed import Feed


class JoCoR(Rated):
    """One loss of two networks, small where both give the label and agree; the examples of smallest loss are kept.

    ``j_i = (1 - a) (l_i + l'_i) + a (KL(p_i || p'_i) + KL(p'_i || p_i))``, the gradient flowing through both networks
    in both divergences; the loss is the mean of the ``R(T) B`` smallest ``j_i`` of a batch.

    Parameters
    ----------
    rate, ramp, forwards: see ``Rated``.
    agreement: a, in [0, 1]. With 0.1 the method did what Co-teaching does on MNIST; with 0.9 it lost whole classes of
        small data.

    Shapes
    ------
    Two outputs (B, C), labels (B,) -> joint losses (B,).

    Differs from the authors' code: ``agreement`` is 0.65, inside the 0.5 to 0.9 that they recommend, where their code
    begins with 0.1; at least one example of a batch is kept; the first network predicts, where they report the mean
    accuracy of both.

    Reference: Wei et al., "Combating Noisy Labels by Agreement: A Joint Training Method with Co-Regularization", CVPR
    2020.

    >>> JoCoR(0.2, agreement=0.5)
    JoCoR(rate=0.2, agreement=0.5)
    """

    networks = 2

    def __init__(
        self,
        rate: Rate = "auto",
        *,
        agreement: float = 0.65,
        ramp: int | Forget = 10,
        forwards: Forwards = "auto",
    ) -> None:
        super().__init__(rate, ramp=ramp, forwards=forwards)
        if not 0 <= agreement <= 1:
            raise HoldfastError(f"the share of agreement in the loss must lie in [0, 1], not {agreement:g}")
        self.agreement = agreement

    def begin(self, nets: Nets, data: Feed) -> None:
        require_classes(data.task, "JoCoR compares predicted classes")
        super().begin(nets, data)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        ranks, twice = here(), self.in_two()
        with torch.set_grad_enabled(not twice):
            outputs = [net(batch.x) for net in nets]
            joint = self.joint_losses(outputs, batch.y)
        with torch.no_grad():
            detached = [output.detach() for output in outputs]
            kept = keep_smallest(ranks.gather(joint.detach()), self.forget)
            weight = kept[ranks.share(len(kept))] * batch.weight
            self.observe(batch.index, detached[0])
        counted = weight
        if twice:
            # At least one row, so that a batch of which nothing counts still has a graph.
            rows = weight.nonzero()[:, 0] if bool((weight > 0).any()) else torch.zeros(1, dtype=torch.int64)
            counted = weight[rows]
            joint = self.joint_losses([net(batch.x[rows]) for net in nets], batch.y[rows])
        return Step(weighted_mean(joint, counted), weight, torch.stack(detached).mean(0))

    def joint_losses(self, outputs: list[Tensor], y: Tensor) -> Tensor:
        """(B,) ``j_i`` of each example."""
        first, second = (self.task.losses(output, y) for output in outputs)
        return (1 - self.agreement) * (first + second) + self.agreement * divergence(*outputs)
