"""InfoMin Aug: momentum contrast between strong views, and of jigsaw puzzles against the same keys."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from holdfast.augment import Augment
from holdfast.contrastive.base import Recipe, unit
from holdfast.contrastive.jigsaw import JigsawHead, check_grid, tiles_of
from holdfast.contrastive.moco import MoCo, MoCoSettings, moco_losses
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch, Nets


class InfoMin(MoCo):
    """``L = (1 - w) L_moco(f(x)) + w L_moco(g(tiles of x))``, all views strongly augmented: views should share no more
    than what the task needs.

    Parameters
    ----------
    weight: w, in [0, 1].
    grid: tiles a side; 1: no puzzle but another view, for data that is no images.
    queue, momentum, temperature, groups: see ``MoCo``; the authors' code has a temperature of 0.15.

    Shapes
    ------
    2 + grid^2 views -> queries (B, h) of image and of puzzle, keys (B, h), queue (b, h) -> losses (B,).

    Differs from the authors' code: strong views are those of CLSA in place of RandAugment's; tiles have weak colours;
    the head is that of SANE.

    Reference: Tian et al., "What Makes for Good Views for Contrastive Learning?", NeurIPS 2020.

    >>> InfoMin(grid=2)
    InfoMin(grid=2)
    """

    name = "info-min"

    def __init__(self, weight: float = 0.5, grid: int = 3, **moco: Unpack[MoCoSettings]) -> None:
        super().__init__(**moco)
        if not 0 <= weight <= 1:
            raise HoldfastError(f"the weight of puzzles must lie in [0, 1], not {weight:g}")
        check_grid(grid)
        self.weight = weight
        self.grid = grid
        self.views = 2 + grid * grid

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        return recipe.strong(), recipe.strong(), *tiles_of(recipe, self.grid)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.jigsaw = JigsawHead(self.bank.keys.shape[1], self.grid**2).to(data.device)

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        query, puzzle = unit(net(batch.x[0])), unit(self.jigsaw(net, batch.x[2:]))
        plain, turned = (moco_losses(each, key, self.bank.keys, self.temperature) for each in (query, puzzle))
        return weighted_mean((1 - self.weight) * plain + self.weight * turned, batch.weight)
