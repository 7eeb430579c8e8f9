"""JoCoR: two networks trained as one on the examples about which they agree."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.divergence import divergence
from holdfast.functional.reduce import keep_smallest
from holdfast.methods.sample_selection import Dropping, SampleSelection
from holdfast.noise_model import Rate
from holdfast.task import Classification
from holdfast.types import Batch


class JoCoR(SampleSelection):
    """One loss of two networks, small where both give the label and agree; the examples of smallest loss are kept.

    ``j_i = (1 - a) (l_i + l'_i) + a (KL(p_i || p'_i) + KL(p'_i || p_i))``, the gradient flowing through both networks
    in both divergences; the loss is the mean of the ``R(T) B`` smallest ``j_i`` of a batch.

    Parameters
    ----------
    rate, ramp, forwards: see ``WithNoiseRate``.
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

    name = "jocor"
    requires = Classification
    networks = 2

    def __init__(
        self,
        rate: Rate = "auto",
        *,
        agreement: float = 0.65,
        **dropping: Unpack[Dropping],
    ) -> None:
        super().__init__(rate, **dropping)
        if not 0 <= agreement <= 1:
            raise HoldfastError(f"the share of agreement in the loss must lie in [0, 1], not {agreement:g}")
        self.agreement = agreement

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        return [keep_smallest(self.joint_losses(outputs, batch.y), self.drop_rate)] * 2

    def selected_losses(self, outputs: list[Tensor], labels: list[Tensor]) -> list[Tensor]:
        # Both networks train on the same examples, and their one loss is the sum of two halves.
        return [self.joint_losses(outputs, labels[0]) / 2] * 2

    def joint_losses(self, outputs: list[Tensor], y: Tensor) -> Tensor:
        """(B,) ``j_i`` of each example."""
        first, second = (self.task.losses(output, y) for output in outputs)
        return (1 - self.agreement) * (first + second) + self.agreement * divergence(*outputs)
