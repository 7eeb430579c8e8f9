"""PIRL: an image and a jigsaw puzzle of it must both be found by what the memory bank holds of the image."""

from __future__ import annotations

from holdfast.augment import Augment
from holdfast.contrastive.base import Contrastive, Recipe, embedding_width, unit
from holdfast.contrastive.jigsaw import JigsawHead, check_grid, tiles_of
from holdfast.contrastive.memory import MemoryBank, check_memory
from holdfast.contrastive.moco import check_temperature, moco_losses
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch, Nets, Step


class PIRL(Contrastive):
    """``L = w L_nce(v_i, g(tiles of x_i)) + (1 - w) L_nce(v_i, f(x_i))``: ``v_i`` the memory bank's embedding of the
    image, an average of earlier ``f(x_i)``, told from those of rows drawn at random.

    Parameters
    ----------
    weight: w, in [0, 1].
    grid: tiles a side; 1: no puzzle but another view, for data that is no images.
    negatives: rows drawn in each step, at least 1; 32,000 in the paper.
    momentum: of the memory bank, in [0, 1).
    temperature: tau, positive.

    Shapes
    ------
    1 + grid^2 views -> embeddings (B, h) of image and of puzzle, of the bank (B, h) and (m, h) -> losses (B,).

    Differs from the paper, like the authors' code (VISSL): ``L_nce`` is the cross entropy over the own row and the
    negatives. Differs from both: tiles pass the network's own head before they are joined; a batch shares its
    negatives; tiles are cut from the whole image, each a random part of its cell.

    Reference: Misra and van der Maaten, "Self-Supervised Learning of Pretext-Invariant Representations", CVPR 2020.

    >>> PIRL(grid=2)
    PIRL(grid=2)
    """

    name = "pirl"

    def __init__(
        self,
        weight: float = 0.5,
        grid: int = 3,
        *,
        negatives: int = 4096,
        momentum: float = 0.5,
        temperature: float = 0.07,
    ) -> None:
        super().__init__()
        if not 0 <= weight <= 1:
            raise HoldfastError(f"the weight of puzzles must lie in [0, 1], not {weight:g}")
        check_grid(grid)
        check_memory(negatives, momentum)
        check_temperature(temperature)
        self.weight = weight
        self.grid = grid
        self.negatives = negatives
        self.momentum = momentum
        self.temperature = temperature
        self.views = 1 + grid * grid

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        return recipe.weak(), *tiles_of(recipe, self.grid)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width = embedding_width(nets[0], data)
        self.memory = MemoryBank(len(data), width, self.momentum, data.generator).to(data.device)
        self.jigsaw = JigsawHead(width, self.grid**2).to(data.device)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        image, *tiles = batch.x
        found, puzzle = unit(nets[0](image)), unit(self.jigsaw(nets[0], tiles))
        own, others = self.memory.kept[batch.index], self.memory.draw(self.negatives)
        plain, turned = (moco_losses(each, own, others, self.temperature) for each in (found, puzzle))
        self._fresh = batch.index, found.detach()
        return Step(weighted_mean(self.weight * turned + (1 - self.weight) * plain, batch.weight), batch.weight)

    def after_step(self, nets: Nets) -> None:
        super().after_step(nets)
        self.memory.update(*self._fresh)
