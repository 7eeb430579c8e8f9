"""Pictures as a few hundred numbers, without a network: colours, edges, and a grey sketch that copies share."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.data.rows import Rows
from holdfast.feed import inputs_of

SIDE = 16
"""Pixels on the side of a thumbnail."""
CELLS, DIRECTIONS = 6, 8
"""Cells on the side of a picture in which edges are counted, and the directions they may have."""
SKETCH = 12
"""Pixels on the side of a sketch."""


def described(rows: Rows) -> Tensor:
    """(N, d) thumbnails and edges.

    Shape: pictures (N, C, H, W) -> (N, C h w + 8 cells), h and w at most 16.
    """
    thumbs, found = [], []
    for x in inputs_of(rows.x, "cpu"):
        thumbs.append(F.adaptive_avg_pool2d(x, _at_most(SIDE, x)).flatten(1))
        found.append(edges(x))
    return torch.cat([torch.cat(thumbs), torch.cat(found)], 1)


def usual_spread(x: Tensor, rows: Rows) -> Tensor:
    """(d,) standard deviations of such numbers, times the root of how many there are of a kind: colours and edges count
    alike."""
    _, height, width = rows.shape
    count = DIRECTIONS * min(CELLS, height) * min(CELLS, width)
    spread = x.std(0)
    parts = [part.clamp_min(max(1e-9, 1e-3 * float(part.max()))) for part in spread.tensor_split([x.shape[1] - count])]
    return torch.cat([part * len(part) ** 0.5 for part in parts])


def edges(x: Tensor) -> Tensor:
    """Histograms of oriented gradients: how strong edges of each direction are in each cell.

    Reference: Dalal and Triggs, "Histograms of Oriented Gradients for Human Detection", CVPR 2005; without the
    normalisation by blocks.

    Shape: (B, C, H, W) -> (B, 8 cells).
    """
    grey = x.mean(1, keepdim=True)
    across = F.pad(grey[..., 2:] - grey[..., :-2], (1, 1))
    down = F.pad(grey[..., 2:, :] - grey[..., :-2, :], (0, 0, 1, 1))
    direction = torch.atan2(down, across) / math.pi * DIRECTIONS % DIRECTIONS
    apart = (direction - torch.arange(DIRECTIONS).reshape(1, -1, 1, 1)).abs()
    share = (1 - torch.minimum(apart, DIRECTIONS - apart)).clamp_min(0)
    strength = share * (across.square() + down.square()).sqrt()
    return F.adaptive_avg_pool2d(strength, _at_most(CELLS, x)).flatten(1).sqrt()


def sketches(rows: Rows) -> Tensor:
    """(N, d) grey thumbnails freed of brightness and contrast: alike for resized and recoloured copies."""
    chunks = inputs_of(rows.x, "cpu")
    grey = torch.cat([F.adaptive_avg_pool2d(x.mean(1, keepdim=True), _at_most(SKETCH, x)).flatten(1) for x in chunks])
    return F.normalize(grey - grey.mean(1, keepdim=True), dim=1)


def _at_most(side: int, x: Tensor) -> tuple[int, int]:
    return min(side, x.shape[2]), min(side, x.shape[3])
