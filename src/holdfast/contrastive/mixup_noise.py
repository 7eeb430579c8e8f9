"""Views of any data: the example with a little of another one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.contrastive.mixup import blend
from holdfast.errors import HoldfastError
from holdfast.feed import as_float


@dataclass(frozen=True)
class MixupNoise:
    """``l x + (1 - l) x~`` with ``l ~ U(least, 1)`` and ``x~`` another example of the batch: mixup noise of DACL.

    Parameters
    ----------
    least: the least share of the example itself, in [0, 1].

    Shape: (B, ...) -> (B, ...).

    Reference: Verma et al., "Towards Domain-Agnostic Contrastive Learning", ICML 2021, section 3.
    """

    least: float = 0.9

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        other, share = self._drawn(x, generator)
        return blend(as_float(x), as_float(other), share)

    def _drawn(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        # A turn of the batch in random order has nobody meet himself.
        order = torch.randperm(len(x), generator=generator)
        other = torch.empty_like(order)
        other[order] = order.roll(1)
        return x[other.to(x.device)], self.least + (1 - self.least) * torch.rand(len(x), generator=generator)


@dataclass(frozen=True)
class GeometricNoise(MixupNoise):
    """``x^l x~^(1 - l)``, for inputs that are not negative."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        other, share = self._drawn(x, generator)
        return geometric(as_float(x), as_float(other), share)


@dataclass(frozen=True)
class BinaryNoise(MixupNoise):
    """Each number is the example's own with probability l, else the other's."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        other, share = self._drawn(x, generator)
        uniforms = torch.rand(x.shape, generator=generator)
        own = (uniforms < share.reshape(-1, *[1] * (x.dim() - 1))).to(x.device)
        return torch.where(own, as_float(x), as_float(other))


def geometric(x: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """The weighted geometric mean, row by row."""
    if bool((x < 0).any()):
        raise HoldfastError("a geometric mean needs inputs of at least 0; mix linearly")
    power = share.to(x).reshape(-1, *[1] * (x.dim() - 1))
    return x.pow(power) * other.pow(1 - power)
