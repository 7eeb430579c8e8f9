"""Co-PRL(L): two networks pick examples of small loss-layer gradient for each other."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from holdfast.functional.reduce import keep_smallest
from holdfast.methods.sample_selection import Dropping, SampleSelection
from holdfast.noise_model import Rate
from holdfast.types import Batch


class CoPRLL(SampleSelection):
    """Co-teaching that ranks by the loss-layer gradient: Co-PRL(L), Algorithm 4.

    Each network keeps the share ``R(T) = 1 - min(T / T_k rate, rate)`` of the batch whose ``||d l_i / d f_i||_2`` is
    smallest to it; the other one trains on what it kept.

    Parameters
    ----------
    rate, ramp, forwards: see ``WithNoiseRate``; ``ramp`` is T_k.
    exchange: train each network on the other's picks (the paper's text and code); otherwise on its own, as the
        pseudo code writes it, which is two PRL(L) side by side.

    Shapes
    ------
    Two outputs (B, q) -> two weights (B,) of zeros and ones.

    Differs from the authors' code: the mean over what is kept is not divided by its number again.

    Reference: "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", Algorithm 4.

    >>> CoPRLL(0.45, exchange=False)
    CoPRLL(rate=0.45, exchange=False)
    """

    name = "co-prl-l"
    networks = 2

    def __init__(
        self,
        rate: Rate = "auto",
        *,
        exchange: bool = True,
        **dropping: Unpack[Dropping],
    ) -> None:
        super().__init__(rate, **dropping)
        self.exchange = exchange

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        own = [keep_smallest(self.task.gradients(output, batch.y).norm(dim=1), self.drop_rate) for output in outputs]
        return own[::-1] if self.exchange else own
