"""Jigsaw puzzles: an image in tiles, shuffled, as one embedding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holdfast.augment import Augment
from holdfast.contrastive.base import Recipe
from holdfast.errors import HoldfastError


class JigsawHead(nn.Module):
    """The embeddings of an example's tiles, in random order, side by side through one linear layer.

    Parameters
    ----------
    width: of an embedding.
    tiles: how many.

    Shape: tiles times (B, ...) -> (B, width).
    """

    def __init__(self, width: int, tiles: int) -> None:
        super().__init__()
        self.join = nn.Linear(width * tiles, width)

    def forward(self, net: nn.Module, tiles: Sequence[Tensor]) -> Tensor:
        count = len(tiles[0])
        # All tiles in one pass: BatchNorm is to see whole images.
        found = net(torch.cat(list(tiles))).view(len(tiles), count, -1).transpose(0, 1)
        order = torch.rand(count, len(tiles)).argsort(1).to(found.device)
        shuffled = found.gather(1, order[:, :, None].expand_as(found))
        joined: Tensor = self.join(shuffled.flatten(1))
        return joined


def tiles_of(recipe: Recipe, grid: int, overlap: float = 0.0) -> tuple[Augment, ...]:
    """The tiles of a grid, row by row."""
    return tuple(recipe.tile(number, grid, overlap) for number in range(grid * grid))


def check_grid(grid: int) -> None:
    if grid < 1:
        raise HoldfastError(f"a grid has at least one tile a side, not {grid}")
