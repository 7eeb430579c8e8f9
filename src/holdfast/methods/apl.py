"""APL: a robust loss that makes the given label likely, plus another that makes the other classes unlikely."""

from __future__ import annotations

from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.method import Method
from holdfast.methods.sce import reverse_cross_entropy
from holdfast.task import Classification
from holdfast.types import Batch


class APL(Method):
    """Active-passive loss: normalised cross entropy and reverse cross entropy, NCE + RCE.

    ``L_i = a NCE_i + b RCE_i`` with ``NCE_i = (- sum_c y_ic log p_ic) / (- sum_c log p_ic)`` and
    ``RCE_i = - sum_c p_ic log max(y_ic, f)``. Each is bounded, and its sum over all labels is a constant, so that
    symmetric noise does not move the minimum; together they fit better than either.

    Parameters
    ----------
    active: a, at least 0: 1 for CIFAR-10 in the authors' code, 10 for CIFAR-100.
    passive: b, at least 0: 1 for CIFAR-10 in the authors' code, 0.1 for CIFAR-100.
    floor: f, in (0, 1), stands for a label's probability of zero.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> losses (B,).

    Differs from the authors' code: logarithms are taken of logits, without clipping probabilities.

    Reference: Ma et al., "Normalized Loss Functions for Deep Learning with Noisy Labels", ICML 2020.

    >>> APL(10, 0.1)
    APL(active=10, passive=0.1)
    """

    name = "apl"
    requires = Classification

    def __init__(self, active: float = 1.0, passive: float = 1.0, *, floor: float = 1e-4) -> None:
        super().__init__()
        if active < 0 or passive < 0 or active + passive == 0:
            raise HoldfastError(f"active and passive must be at least 0 and not both 0, not {active:g} and {passive:g}")
        if not 0 < floor < 1:
            raise HoldfastError(f"floor must lie in (0, 1), not {floor:g}")
        self.active = active
        self.passive = passive
        self.floor = floor

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        given = self.task.encode(batch.y)
        passive = reverse_cross_entropy(output, given, self.floor)
        return self.active * normalised_cross_entropy(output, given) + self.passive * passive


def normalised_cross_entropy(output: Tensor, given: Tensor) -> Tensor:
    """Cross entropy towards the label, divided by that towards all labels together.

    Shape: output (B, C), given (B, C) shares of classes -> (B,) in [0, 1].
    """
    unlikely = -output.log_softmax(1)
    return (given * unlikely).sum(1) / unlikely.sum(1)
