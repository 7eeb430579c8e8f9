"""SCE: cross entropy in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.method import Batch, Method, Nets, Step
from holdfast.task import require_classes

if TYPE_CHECKING:
    from holdfast.feed import Feed


class SCE(Method):
    """Symmetric cross entropy: beside the usual one that of the label as the prediction has it, which is bounded.

    ``L_i = a CE_i + b RCE_i`` with ``RCE_i = - sum_c p_ic log max(y_ic, f)``, that is ``-log(f) (1 - p_i,y)``.

    Parameters
    ----------
    ce: a, at least 0: 0.1 for CIFAR-10 in the paper, 6 for CIFAR-100.
    rce: b, at least 0: 1 for CIFAR-10 in the paper, 0.1 for CIFAR-100.
    floor: f, in (0, 1), stands for a label's probability of zero.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> losses (B,).

    Differs from the authors' code: the usual cross entropy is taken of logits, without clipping probabilities.

    Reference: Wang et al., "Symmetric Cross Entropy for Robust Learning with Noisy Labels", ICCV 2019.

    >>> SCE(6, 0.1)
    SCE(ce=6, rce=0.1)
    """

    def __init__(self, ce: float = 0.1, rce: float = 1.0, *, floor: float = 1e-4) -> None:
        super().__init__()
        if ce < 0 or rce < 0 or ce + rce == 0:
            raise HoldfastError(f"ce and rce must be at least 0 and not both 0, not {ce:g} and {rce:g}")
        if not 0 < floor < 1:
            raise HoldfastError(f"floor must lie in (0, 1), not {floor:g}")
        self.ce = ce
        self.rce = rce
        self.floor = floor

    def begin(self, nets: Nets, data: Feed) -> None:
        require_classes(data.task, "SCE needs probabilities of classes")
        super().begin(nets, data)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        output = nets[0](batch.x)
        losses = self.ce * self.task.losses(output, batch.y) + self.rce * self._reverse(output, batch.y)
        return Step(weighted_mean(losses, batch.weight), batch.weight, output.detach())

    def _reverse(self, output: Tensor, y: Tensor) -> Tensor:
        """(B,) cross entropy of the label under the prediction."""
        return -(output.softmax(1) * self.task.encode(y).clamp_min(self.floor).log()).sum(1)
