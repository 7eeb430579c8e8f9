"""Mixing of views: shares, partners, and what a query is mixed with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Beta

from holdfast.errors import HoldfastError


@dataclass(frozen=True)
class Mixup:
    """Virtual queries ``x'_i = theta x_i + (1 - theta) z_j`` with ``theta ~ Beta(kappa, kappa)`` for each example.

    Parameters
    ----------
    kappa: positive; 2 for CIFAR-10 in SANE, 0.1 for ImageNet.
    """

    kappa: float = 2.0

    def __post_init__(self) -> None:
        if not self.kappa > 0:
            raise HoldfastError(f"kappa of a mixup must be positive, not {self.kappa:g}")

    def ingredients(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """What is mixed: x, and z of another example."""
        raise NotImplementedError(f"{type(self).__name__} must define ingredients(query, key)")


@dataclass(frozen=True)
class MomentumMixup(Mixup):
    """A query is mixed with the key view of another example, whose key is among those it is compared with: equation 8
    of SANE."""

    def ingredients(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query, key


@dataclass(frozen=True)
class VanillaMixup(Mixup):
    """A query is mixed with another query."""

    def ingredients(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return query, query


def draw_mix(count: int, kappa: float) -> tuple[Tensor, Tensor]:
    """(count,) shares of the first ingredient and (count,) partners, a random permutation."""
    return Beta(kappa, kappa).sample((count,)), torch.randperm(count)


def blend(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """``share first + (1 - share) second``, row by row."""
    return torch.lerp(second, first, share.to(first).reshape(-1, *[1] * (first.dim() - 1)))
