"""Views of images: crop, flip and blur as two matrix products, colours as a third.

Cropping a box, scaling it, mirroring and blurring all act on rows and columns separately, so that one matrix from the
left and one from the right do all of it; brightness, saturation, hue and grey act on the colours of a pixel as one 3x3
matrix. On a CPU this is far cheaper than one pass over the pixels for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.augment import Augment
from holdfast.contrastive.mixup_noise import MixupNoise
from holdfast.contrastive.strong import Strong
from holdfast.errors import HoldfastError
from holdfast.feed import as_float

GREY = (0.299, 0.587, 0.114)
"""How bright the eye finds red, green and blue."""
SMALLEST = 8
"""Pixels a side that the smallest network needs."""
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


@dataclass(frozen=True)
class Weak:
    """The view of momentum contrast: a random part of the image at full size, mirrored, in other colours, blurred.

    Parameters
    ----------
    side: of the view in pixels.
    scale: the least and the largest share of the image's area that is shown.
    jitter: how far brightness, contrast, saturation and hue may change, and how often they do.
    grey: the share of views without colours.
    blur: the share of views that are blurred, by a standard deviation in ``sigma``.
    sigma: in pixels of an image of 224, and in proportion for others.
    flip: mirror half of the views.

    Shapes
    ------
    (B, C, H, W), bytes or floats in [0, 1] -> (B, C, side, side) in [0, 1]; C is 1 or 3.

    Differs from the usual pipeline: hue turns in the YIQ plane and not in HSV, which is a matrix; brightness, contrast,
    saturation and hue come in this order; values are cut to [0, 1] once, at the end.

    Reference: Chen et al., "Improved Baselines with Momentum Contrastive Learning", 2020.
    """

    side: int
    scale: tuple[float, float] = (0.2, 1.0)
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jittered: float = 0.8
    grey: float = 0.2
    blur: float = 0.5
    sigma: tuple[float, float] = (0.1, 2.0)
    flip: bool = True

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        if x.shape[1] not in (1, 3):
            raise HoldfastError(f"views of images need one channel or three, not {x.shape[1]}")
        x = as_float(x)
        count, height, width = len(x), x.shape[2], x.shape[3]
        top, left, tall, wide = self.boxes(count, height, width, generator)
        rows = resampling(top, tall, height, self.side)
        columns = resampling(left, wide, width, self.side)
        if self.flip:
            mirrored = torch.rand(count, 1, 1, generator=generator) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        blurred = (torch.rand(count, generator=generator) < self.blur).nonzero()[:, 0]
        if len(blurred):
            low, high = self.sigma
            sigma = (low + (high - low) * torch.rand(len(blurred), generator=generator)) * self.side / 224
            soft = gaussian(sigma, self.side)
            rows[blurred] = soft @ rows[blurred]
            columns[blurred] = soft @ columns[blurred]
        seen = rows.to(x)[:, None] @ x @ columns.to(x).mT[:, None]
        return recolour(seen, *self._colours(count, x.shape[1], generator)).clamp_(0, 1)

    def boxes(self, count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Which part of each image is shown: top, left, height, width, each (count,)."""
        return boxes(count, height, width, self.scale, generator)

    def _colours(self, count: int, channels: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """(B, C, C) colour matrices and (B,) contrasts."""
        draws = 2 * torch.rand(4, count, generator=generator) - 1
        chances = torch.rand(2, count, generator=generator)
        on = (chances[0] < self.jittered).float()
        brightness, contrast, saturation, hue = on * draws * torch.tensor(self.jitter)[:, None]
        if channels == 1:
            return (1 + brightness)[:, None, None], 1 + contrast
        saturation = torch.where(chances[1] < self.grey, -1.0, saturation)
        return colour_matrices(1 + brightness, 1 + saturation, hue), 1 + contrast


@dataclass(frozen=True)
class Tile(Weak):
    """A random part of one cell of a grid, in other colours.

    Parameters
    ----------
    side, scale, jitter, ...: see ``Weak``; ``scale`` is the area of the part as a share of the cell's.
    number: of the cell, counted row by row.
    across: cells a side.
    overlap: the part of a cell that the next one shares.

    Shape: (B, C, H, W) -> (B, C, side, side) in [0, 1].
    """

    number: int = 0
    across: int = 3
    overlap: float = 0.0

    def boxes(self, count: int, height: int, width: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        row, column = divmod(self.number, self.across)
        tall, wide = (round(cell(size, self.across, self.overlap)) for size in (height, width))
        top, left, high, broad = boxes(count, tall, wide, self.scale, generator)
        down, right = (
            min(round(place * cell(size, self.across, self.overlap) * (1 - self.overlap)), size - length)
            for place, size, length in ((row, height, tall), (column, width, wide))
        )
        return top + down, left + right, high, broad


def cell(size: int, across: int, overlap: float) -> float:
    """The length of a cell where so many, each sharing a part with the next, lie along a side."""
    return size / (1 + (across - 1) * (1 - overlap))


@dataclass(frozen=True)
class ImageViews:
    """The recipe of views for square images.

    Parameters
    ----------
    side: of the images in pixels.
    least: the least share of the image's area in a view; 0.2 in momentum contrast.
    blur: the share of weak views that are blurred.
    flip: whether views may be mirrored.
    """

    side: int
    least: float = 0.2
    blur: float = 0.5
    flip: bool = True

    def weak(self, size: float = 1.0, scale: tuple[float, float] | None = None) -> Weak:
        # A smaller view shows a smaller part of the image, as in CLSA.
        return Weak(round(size * self.side), scale or (self.least * size, size), blur=self.blur, flip=self.flip)

    def strong(self, size: float = 1.0) -> Augment:
        return Strong(self.weak(size))

    def noisy(self, least: float) -> Augment:
        return MixupNoise(least)

    def plain(self) -> Weak:
        return Weak(self.side, (self.least, 1.0), jittered=0.0, grey=0.0, blur=0.0, flip=self.flip)

    def tile(self, number: int, across: int, overlap: float = 0.0) -> Tile:
        side = round(cell(self.side, across, overlap))
        if side < SMALLEST:
            raise HoldfastError(
                f"images of {self.side} pixels make tiles of {side} in a grid of {across}; networks need {SMALLEST}: "
                "take a coarser grid"
            )
        return Tile(side, (0.55, 1.0), blur=0.0, flip=self.flip, number=number, across=across, overlap=overlap)


def boxes(
    count: int, height: int, width: int, scale: tuple[float, float], generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random boxes of whole pixels: an area in ``scale`` and sides in a ratio of 3:4 to 4:3, within the image.

    Shape: top, left, height, width, each (count,).
    """
    draws = torch.rand(4, count, generator=generator)
    area = (scale[0] + (scale[1] - scale[0]) * draws[0]) * height * width
    ratio = ((2 * draws[1] - 1) * math.log(4 / 3)).exp()
    wide = (area * ratio).sqrt().round().clamp(1, width)
    tall = (area / ratio).sqrt().round().clamp(1, height)
    top = ((height - tall + 1) * draws[2]).floor()
    left = ((width - wide + 1) * draws[3]).floor()
    return top, left, tall, wide


def resampling(start: Tensor, length: Tensor, size: int, side: int) -> Tensor:
    """Matrices that take pixels ``start`` to ``start + length`` of a line of ``size`` pixels to ``side`` pixels.

    Weights fall linearly with the distance from the middle of the new pixel; where the line is made shorter they reach
    as much farther, so that no pixel is skipped.

    Shape: (B,), (B,) -> (B, side, size).
    """
    ratio = (length / side)[:, None, None]
    middle = start[:, None, None] + (torch.arange(side)[:, None] + 0.5) * ratio
    pixel = torch.arange(size) + 0.5
    weight = (1 - (pixel - middle).abs() / ratio.clamp_min(1)).clamp_min_(0)
    inside = (pixel > start[:, None, None]) & (pixel < (start + length)[:, None, None])
    weight = weight * inside
    return weight / weight.sum(2, keepdim=True)


def gaussian(sigma: Tensor, side: int) -> Tensor:
    """Matrices that blur a line by a normal distribution, cut off at the borders.

    Shape: (B,) -> (B, side, side).
    """
    away = torch.arange(side)[:, None] - torch.arange(side)
    weight = (-0.5 * (away / sigma.clamp_min(1e-2)[:, None, None]).square()).exp()
    return weight / weight.sum(2, keepdim=True)


def colour_matrices(brightness: Tensor, saturation: Tensor, hue: Tensor) -> Tensor:
    """Factors of brightness and saturation, and hue in turns of the colour circle, as matrices.

    Shape: three times (B,) -> (B, 3, 3).
    """
    grey = torch.tensor(GREY).expand(3, 3)
    colour = saturation[:, None, None] * torch.eye(3) + (1 - saturation)[:, None, None] * grey
    yiq = torch.tensor(YIQ)
    angle = 2 * math.pi * hue
    turn = torch.zeros(len(hue), 3, 3)
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = angle.cos()
    turn[:, 1, 2], turn[:, 2, 1] = -angle.sin(), angle.sin()
    matrix: Tensor = torch.linalg.inv(yiq) @ turn @ yiq @ colour
    return matrix * brightness[:, None, None]


def recolour(x: Tensor, matrix: Tensor, contrast: Tensor) -> Tensor:
    """Colours by a matrix, then contrast about the mean brightness of each image.

    Shape: (B, C, H, W), (B, C, C), (B,) -> (B, C, H, W).
    """
    factor = contrast.to(x)[:, None, None, None]
    seen = (matrix.to(x) @ x.flatten(2)).view_as(x)
    grey = torch.tensor(GREY if x.shape[1] == 3 else (1.0,)).to(x)
    mean = (seen.mean((2, 3)) @ grey)[:, None, None, None]
    return torch.lerp(mean, seen, factor)
