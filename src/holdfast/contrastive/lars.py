"""LARS: each layer steps in proportion to its weights, for batches of thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class LARS(Optimizer):
    """Layer-wise adaptive rate scaling: ``g <- t |w| / |g + d w| (g + d w)``, then momentum, ``v <- m v + lr g``.

    Biases and norm layers, of one dimension, are trained by plain SGD without decay, as SimCLR, BYOL and SwAV do.

    Parameters
    ----------
    params: those to train.
    lr: 0.3 times the batch over 256 in SimCLR, 0.2 in BYOL.
    momentum: m.
    weight_decay: d; 1e-6 in SimCLR, 1.5e-6 in BYOL.
    trust: t.

    Reference: You et al., "Large Batch Training of Convolutional Networks", 2017.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 0.3,
        momentum: float = 0.9,
        weight_decay: float = 1e-6,
        trust: float = 1e-3,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        )  # fmt: skip

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                change = weight.grad
                if weight.dim() > 1:
                    change = scaled(weight, weight.grad, group["weight_decay"], group["trust"])
                kept = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                kept.mul_(group["momentum"]).add_(change, alpha=group["lr"])
                weight.sub_(kept)
        return loss


def scaled(weight: Tensor, gradient: Tensor, decay: float, trust: float) -> Tensor:
    """A layer's gradient with decay, of the length of its weights times the trust; as it is where either is zero."""
    change = gradient + decay * weight
    length, of_weights = change.norm(), weight.norm()
    ratio = torch.where((length > 0) & (of_weights > 0), trust * of_weights / length, 1.0)
    return ratio * change
