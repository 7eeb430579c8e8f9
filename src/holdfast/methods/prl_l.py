"""PRL(L): train on the examples whose gradient at the loss layer is small."""

from __future__ import annotations

from torch import Tensor

from holdfast.functional.reduce import keep_smallest
from holdfast.methods.sample_selection import SampleSelection
from holdfast.types import Batch


class PRLL(SampleSelection):
    """In each batch keep the examples whose loss-layer gradient is smallest: PRL(L), Algorithm 3.

    The score is ``||d l_i / d f_i||_2``: ``||p_i - y_i||`` for cross entropy, the norm of the residual for squared
    error. The gradient of the kept mean differs from that of clean data by O(rate sqrt(q)) (Theorem 3). For squared
    error this is SPL; for cross entropy the two rank differently.

    Parameters
    ----------
    rate, ramp, forwards: see ``WithNoiseRate``; the safe side of a rate is too high.

    Shapes
    ------
    Outputs (B, q) -> weights (B,) of zeros and ones.

    Differs from the paper: Algorithm 3 drops the full share from the start (``ramp=0``); its released code lets it
    grow over ten epochs, which is the default here. That code always trains on the kept rows by a second forward
    pass (``forwards="two"``).

    Reference: "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", Algorithm 3.

    >>> PRLL(0.45, ramp=0)
    PRLL(rate=0.45, ramp=0)
    """

    name = "prl-l"

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        return [keep_smallest(self.task.gradients(output, batch.y).norm(dim=1), self.drop_rate) for output in outputs]
