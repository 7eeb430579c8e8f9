"""CLSA: strongly augmented queries follow the whole distribution that weakly augmented ones have over the keys."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from holdfast.augment import Augment
from holdfast.contrastive.base import Recipe, unit
from holdfast.contrastive.moco import MoCo, MoCoSettings
from holdfast.contrastive.sane import label_losses, own_losses
from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch


class CLSA(MoCo):
    """``L = L_c + L_ddm``: contrast of weak queries over all keys of batch and queue, plus
    ``L_ddm = -sum_j W_ij log softmax(s_i B / tau)_j`` with ``W_i = softmax(q_i B / tau)`` of the weak query,
    detached, and ``s`` the strong query. Every weak query supervises every strong one; terms are summed.

    Parameters
    ----------
    weak, strong: shares of the full side at which queries of either kind are drawn. ``strong=(96 / 224,)`` is
        CLSA-Single, ``weak=MULTI, strong=MULTI`` (of ``holdfast.contrastive.sane``) is CLSA-Multi.
    queue, momentum, temperature, groups: see ``MoCo``.

    Shapes
    ------
    Views: a weak query, the key, further weak queries, strong queries.

    Differs from the authors' code: strong views have the full size by default, as small images lose too much otherwise.

    Reference: Wang and Qi, "Contrastive Learning with Stronger Augmentations", 2021.

    >>> CLSA(strong=(0.5,))
    CLSA(strong=(0.5,))
    """

    name = "clsa"

    def __init__(
        self,
        weak: tuple[float, ...] = (1.0,),
        strong: tuple[float, ...] = (1.0,),
        **moco: Unpack[MoCoSettings],
    ) -> None:
        super().__init__(**moco)
        if not weak or not all(0 < size <= 1 for size in (*weak, *strong)):
            raise HoldfastError(f"sizes are shares of the side in (0, 1], one at least, not {weak} and {strong}")
        self.weak = weak
        self.strong = strong
        self.views = 1 + len(weak) + len(strong)

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        first, *more = (recipe.weak(size) for size in self.weak)
        return (first, recipe.weak(), *more, *(recipe.strong(size) for size in self.strong))

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        first, _, *more = batch.x
        keys = torch.cat([key, self.bank.keys])
        split = len(self.weak) - 1
        weak = [unit(net(x)) for x in (first, *more[:split])]
        strong = [unit(net(x)) for x in more[split:]]
        losses = [own_losses(query, keys, self.temperature) for query in weak]
        for query in weak:
            soft = (query.detach() @ keys.T / self.temperature).softmax(1)
            losses += [label_losses(other, keys, soft, self.temperature) for other in strong]
        return weighted_mean(torch.stack(losses).sum(0), batch.weight)
