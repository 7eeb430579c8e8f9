"""The momentum encoder: an exponential moving average (EMA) of a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.errors import HoldfastError


@torch.no_grad()
def follow(target: nn.Module, net: nn.Module, momentum: float) -> None:
    """One step of the EMA, ``xi <- m xi + (1 - m) w`` for all weights; statistics of BatchNorm stay the target's own.

    >>> target, net = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    >>> _ = target.weight.data.fill_(1.0), net.weight.data.fill_(3.0)
    >>> follow(target, net, 0.75)
    >>> target.weight.item()
    1.5
    """
    torch._foreach_lerp_(list(target.parameters()), list(net.parameters()), 1 - momentum)


@torch.no_grad()
def keys_of(target: nn.Module, x: Tensor, groups: int) -> Tensor:
    """Keys of a batch, of length one; normalised by the statistics of random parts of the batch.

    With the statistics that the queries share, a query could tell its key by them and learn nothing else.

    Shape: (B, ...) -> (B, h).
    """
    count = max(1, min(groups, len(x) // 2))
    if count == 1:
        return unit(target(x))
    order = torch.randperm(len(x)).to(x.device)
    parts = [target(part) for part in x[order].tensor_split(count)]
    return unit(torch.cat(parts)[order.argsort()])


def check_momentum(momentum: float) -> None:
    if not 0 <= momentum < 1:
        raise HoldfastError(f"momentum must lie in [0, 1), not {momentum:g}")
