"""CO2: a query and its key should be alike to every other example."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.contrastive.moco import MoCo, MoCoSettings, check_temperature, moco_losses
from holdfast.errors import HoldfastError
from holdfast.functional.divergence import divergence
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch


class CO2(MoCo):
    """``L = L_moco + a (KL(P || Q) + KL(Q || P)) / 2`` with ``P_i = softmax(q_i b / tau_c)`` and
    ``Q_i = softmax(k_i b / tau_c)`` over the queue alone.

    Parameters
    ----------
    weight: a, at least 0; 10 with MoCo v1.
    consistency: tau_c, positive; 0.04 with MoCo v1.
    queue, momentum, temperature, groups: see ``MoCo``.

    Differs from the authors' code, which is not public: weight and temperature are those reported for MoCo v2.

    Reference: Wei et al., "CO2: Consistent Contrast for Unsupervised Visual Representation Learning", ICLR 2021.

    >>> CO2(1.0)
    CO2(weight=1.0)
    """

    name = "co2"

    def __init__(self, weight: float = 0.3, consistency: float = 0.05, **moco: Unpack[MoCoSettings]) -> None:
        super().__init__(**moco)
        if weight < 0:
            raise HoldfastError(f"the weight of consistency must be at least 0, not {weight:g}")
        check_temperature(consistency)
        self.weight = weight
        self.consistency = consistency

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        query, bank = unit(net(batch.x[0])), self.bank.keys
        plain = moco_losses(query, key, bank, self.temperature)
        return weighted_mean(plain + self.weight * co2_losses(query, key, bank, self.consistency), batch.weight)


def co2_losses(query: Tensor, key: Tensor, bank: Tensor, temperature: float) -> Tensor:
    """The symmetric divergence of what query and key are similar to in the queue.

    Shape: (B, h), (B, h), (b, h) -> (B,).
    """
    return divergence(query @ bank.T / temperature, key @ bank.T / temperature) / 2
