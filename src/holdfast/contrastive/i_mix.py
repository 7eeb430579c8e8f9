"""i-Mix: queries mixed, and the examples they must find mixed alike."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.contrastive.mixup import blend, draw_mix
from holdfast.contrastive.moco import MoCo, MoCoSettings
from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch


class IMix(MoCo):
    """Momentum contrast of mixed queries: ``L_i = l_i CE(i) + (1 - l_i) CE(j)`` for ``x'_i = l_i x_i + (1 - l_i) x_j``.

    Cross entropies are over all keys of batch and queue; ``l_i ~ Beta(a, a)``, the larger share always the example's
    own. The plain loss is replaced, not added to.

    Parameters
    ----------
    alpha: a, positive.
    queue, momentum, temperature, groups: see ``MoCo``.

    Differs from the authors' code: no CutMix; the head of SANE.

    Reference: Lee et al., "i-Mix: A Domain-Agnostic Strategy for Contrastive Representation Learning", ICLR 2021.

    >>> IMix(2.0)
    IMix(alpha=2.0)
    """

    name = "i-mix"

    def __init__(self, alpha: float = 1.0, **moco: Unpack[MoCoSettings]) -> None:
        super().__init__(**moco)
        if not alpha > 0:
            raise HoldfastError(f"alpha must be positive, not {alpha:g}")
        self.alpha = alpha

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        x = batch.x[0]
        share, partner = (drawn.to(key.device) for drawn in draw_mix(len(x), self.alpha))
        share = torch.maximum(share, 1 - share)
        query = unit(net(blend(x, x[partner], share)))
        losses = i_mix_losses(query, torch.cat([key, self.bank.keys]), share, partner, self.temperature)
        return weighted_mean(losses, batch.weight)


def i_mix_losses(query: Tensor, keys: Tensor, share: Tensor, partner: Tensor, temperature: float) -> Tensor:
    """Cross entropy towards the two keys that a query was mixed of.

    Shape: (B, h), (n, h), (B,), (B,) -> (B,).
    """
    log = (query @ keys.T / temperature).log_softmax(1)
    return -(share * log.diagonal() + (1 - share) * log.gather(1, partner[:, None])[:, 0])
