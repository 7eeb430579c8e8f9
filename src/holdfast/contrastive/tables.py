"""Views of rows of a table, or of embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.augment import Augment
from holdfast.contrastive.mixup_noise import MixupNoise
from holdfast.errors import HoldfastError
from holdfast.feed import as_float


@dataclass(frozen=True)
class TableView:
    """A little of another row mixed in, then features dropped at random.

    Parameters
    ----------
    least: the least share of the row itself in the mix, in [0, 1].
    dropped: the share of features that are set to zero, in [0, 1). Zero is the mean where columns are scaled.

    Shape: (B, d) -> (B, d).
    """

    least: float = 0.9
    dropped: float = 0.2

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        x = MixupNoise(self.least)(as_float(x), generator)
        kept = torch.rand(x.shape, generator=generator) >= self.dropped
        return x * kept.to(x)


@dataclass(frozen=True)
class TableViews:
    """The recipe of views for tables and embeddings: weak ones drop a fifth of the features, strong ones two fifths.

    There is nothing to crop: a view of another size is a mistake, and how much of an image would be shown says nothing.
    """

    def weak(self, size: float = 1.0, scale: tuple[float, float] | None = None) -> Augment:
        if size != 1:
            raise HoldfastError("rows of a table have no crops; choose a method or setting without them")
        return TableView()

    def strong(self, size: float = 1.0) -> Augment:
        if size != 1:
            raise HoldfastError("rows of a table have no crops; choose a method or setting without them")
        return TableView(0.8, 0.4)

    def noisy(self, least: float) -> Augment:
        return MixupNoise(least)

    def plain(self) -> Augment:
        return self.weak()

    def tile(self, number: int, across: int, overlap: float = 0.0) -> Augment:
        if across != 1:
            raise HoldfastError("rows of a table have no tiles; choose a method or setting without them")
        return self.weak()
