"""Augmentations: what a network sees of a batch of images instead of the images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.errors import HoldfastError

Augment = Callable[[Tensor, torch.Generator], Tensor]
Augments = Augment | Sequence[Augment]
"""One augmentation for every view of an example, or one for each view."""


class PadCropFlip:
    """Pad by four pixels, crop back at random, mirror half of the images: a batch at a time.

    Shape: (B, C, H, W) -> (B, C, H, W). He et al. 2016; the CRUST recipe.
    """

    def __init__(self, pad: int = 4, flip: bool = True) -> None:
        self.pad = pad
        self.flip = flip

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        count, _, height, width = x.shape
        offset = torch.randint(0, 2 * self.pad + 1, (2, count, 1), generator=generator)
        rows = offset[0] + torch.arange(height)
        columns = offset[1] + torch.arange(width)
        if self.flip:
            mirrored = torch.rand(count, 1, generator=generator) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        return _cut(F.pad(x, (self.pad,) * 4), rows, columns)


class CropFlip:
    """Crop a square at random and mirror half of the images: a batch at a time.

    Shape: (B, C, H, W) -> (B, C, side, side), H and W at least the side.
    """

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        count, _, height, width = x.shape
        if min(height, width) < self.side:
            raise HoldfastError(f"images of {height}x{width} pixels are too small for crops of {self.side}")
        rows = torch.randint(height - self.side + 1, (count, 1), generator=generator) + torch.arange(self.side)
        columns = torch.randint(width - self.side + 1, (count, 1), generator=generator) + torch.arange(self.side)
        mirrored = torch.rand(count, 1, generator=generator) < 0.5
        return _cut(x, rows, torch.where(mirrored, columns.flip(1), columns))


def _cut(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(B, C, h, w) of the rows (B, h) and columns (B, w) of each image."""
    picked = x.permute(0, 2, 3, 1)[torch.arange(len(x))[:, None, None], rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)
