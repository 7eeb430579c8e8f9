"""SCE: cross entropy in both directions."""

from __future__ import annotations

from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.method import Method
from holdfast.task import Classification
from holdfast.types import Batch


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

    name = "sce"
    requires = Classification

    def __init__(self, ce: float = 0.1, rce: float = 1.0, *, floor: float = 1e-4) -> None:
        super().__init__()
        if ce < 0 or rce < 0 or ce + rce == 0:
            raise HoldfastError(f"ce and rce must be at least 0 and not both 0, not {ce:g} and {rce:g}")
        if not 0 < floor < 1:
            raise HoldfastError(f"floor must lie in (0, 1), not {floor:g}")
        self.ce = ce
        self.rce = rce
        self.floor = floor

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        reverse = reverse_cross_entropy(output, self.task.encode(batch.y), self.floor)
        return self.ce * self.task.losses(output, batch.y) + self.rce * reverse


def reverse_cross_entropy(output: Tensor, given: Tensor, floor: float) -> Tensor:
    """(B,) ``- sum_c p_ic log max(y_ic, f)``.

    Shape: output (B, C), given (B, C) shares of classes -> (B,).
    """
    return -(output.softmax(1) * given.clamp_min(floor).log()).sum(1)
