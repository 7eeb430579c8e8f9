"""CPC v2: from the tiles of an image above, foretell those below, and the same from all four sides."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.augment import Augment
from holdfast.contrastive.base import Contrastive, Recipe, embedding_width
from holdfast.contrastive.jigsaw import tiles_of
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch, Nets, Step

SIDES = 4
"""Directions of prediction: a grid is turned so often."""


class CPC(Contrastive):
    """Contrastive predictive coding: ``L = -sum log(exp(p z_t) / sum_l exp(p z_l))`` over all places and steps.

    An image is cut into overlapping tiles, each embedded alone. A masked convolution sums up the rows above a place in
    a context ``c``; ``p = 0.1 W_k c`` must find ``z_t``, the tile k rows further down, among all tiles of the batch.
    From each of the four sides, with a context of its own.

    Parameters
    ----------
    grid: tiles a side; 7 in the paper, of 256 pixels.
    skipped: how many steps ahead are too near, since those tiles overlap, at least 0 and less than ``grid - 1``.
    blocks: of the masked convolution, at least 1.

    Shapes
    ------
    grid^2 views -> embeddings (B, grid, grid, h) -> losses (B,).

    Differs from the paper: tiles are one another's negatives inside a process; targets and contexts have the width of
    the embedding; tiles have the colours of weak views. The paper's network has layer norm, for BatchNorm ties tiles
    together: take one of GroupNorm, such as cnn4-group.

    Reference: Henaff et al., "Data-Efficient Image Recognition with Contrastive Predictive Coding", ICML 2020.

    >>> CPC(3, skipped=0)
    CPC(grid=3, skipped=0)
    """

    name = "cpc"
    overlap = 0.5

    def __init__(self, grid: int = 4, *, skipped: int = 1, blocks: int = 5) -> None:
        super().__init__()
        if not 0 <= skipped <= grid - 2:
            raise HoldfastError(f"of {grid} rows of tiles 0 to {max(0, grid - 2)} steps can be skipped, not {skipped}")
        if blocks < 1:
            raise HoldfastError(f"a context needs at least one block, not {blocks}")
        self.grid = grid
        self.skipped = skipped
        self.blocks = blocks
        self.views = grid * grid

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        return tiles_of(recipe, self.grid, self.overlap)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width = embedding_width(nets[0], data)
        self.aim = nn.Linear(width, width).to(data.device)
        self.contexts = nn.ModuleList(Context(width, self.blocks) for _ in range(SIDES)).to(data.device)
        layers = [nn.Linear(width, width) for _ in range(SIDES * (self.grid - self.skipped - 1))]
        self.foretell = nn.ModuleList(layers).to(data.device)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        count = len(batch.x[0])
        found = nets[0](torch.cat(list(batch.x))).view(self.grid, self.grid, count, -1).permute(2, 0, 1, 3)
        losses = torch.zeros(count, device=found.device)
        for side in range(SIDES):
            turned = torch.rot90(found, side, (1, 2))
            context, targets = self.contexts[side](turned), self.aim(turned)
            for k in range(self.grid - self.skipped - 1):
                ahead = self.foretell[side * (self.grid - self.skipped - 1) + k](context)
                losses = losses + cpc_losses(0.1 * ahead, targets, self.skipped + 1 + k)
        return Step(weighted_mean(losses / SIDES, batch.weight), batch.weight)


class Context(nn.Module):
    """Residual blocks of convolutions that see a place's own row and the rows above it.

    Shape: (B, rows, columns, h) -> the same.
    """

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 1), nn.ReLU(), nn.Conv2d(width, width, (1, 3), padding=(0, 1)),
                nn.ZeroPad2d((0, 0, 1, 0)), nn.Conv2d(width, width, (2, 1)), nn.ReLU(), nn.Conv2d(width, width, 1),
            )
            for _ in range(blocks)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        seen = x.permute(0, 3, 1, 2)
        for block in self.blocks:
            seen = seen + block(seen)
        return F.relu(seen).permute(0, 2, 3, 1)


def cpc_losses(foretold: Tensor, targets: Tensor, step: int) -> Tensor:
    """The mean over places of the cross entropy of the tile so many rows below, among all tiles of the batch.

    Shape: (B, rows, columns, h), (B, rows, columns, h) -> (B,).
    """
    count, rows, columns, _ = targets.shape
    place = torch.arange(count * rows * columns, device=targets.device).view(count, rows, columns)
    logits = foretold[:, : rows - step].flatten(0, 2) @ targets.flatten(0, 2).T
    losses = F.cross_entropy(logits, place[:, step:].flatten(), reduction="none")
    return losses.view(count, -1).mean(1)
