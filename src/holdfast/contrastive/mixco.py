"""MixCo: momentum contrast, and beside it mixed queries that are partly positive to two keys."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.contrastive.i_mix import i_mix_losses
from holdfast.contrastive.mixup import blend
from holdfast.contrastive.moco import MoCo, MoCoSettings, check_temperature
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch


class MixCo(MoCo):
    """``L = L_moco + L_mix``: the two halves of a batch are mixed, ``x'_j = l_j x_j + (1 - l_j) x_{j + B/2}`` with
    ``l_j ~ U(0, 1)``, and each mixed query must find both keys among all of batch and queue.

    Parameters
    ----------
    mixed_temperature: of the mixed queries, positive; the released code has 0.05 and its script for ImageNet 1.
    queue, momentum, temperature, groups: see ``MoCo``.

    Shapes
    ------
    Two views (B, ...) -> plain losses (B,), mixed losses (B // 2,).

    Differs from the authors' code: a batch of odd size leaves its last example out of the mix.

    Reference: Kim et al., "MixCo: Mix-up Contrastive Learning for Visual Representation", 2020.

    >>> MixCo(mixed_temperature=0.05)
    MixCo(mixed_temperature=0.05)
    """

    name = "mixco"

    def __init__(self, *, mixed_temperature: float = 1.0, **moco: Unpack[MoCoSettings]) -> None:
        super().__init__(**moco)
        check_temperature(mixed_temperature)
        self.mixed_temperature = mixed_temperature

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        plain = super().contrast(net, batch, key)
        half = len(key) // 2
        if half == 0:
            return plain
        share = torch.rand(half).to(key.device)
        pair = slice(half, 2 * half)
        query = unit(net(blend(batch.x[0][:half], batch.x[0][pair], share)))
        keys = torch.cat([key, self.bank.keys])
        partner = torch.arange(half, 2 * half, device=key.device)
        losses = i_mix_losses(query, keys, share, partner, self.mixed_temperature)
        return plain + weighted_mean(losses, blend(batch.weight[:half], batch.weight[pair], share))
