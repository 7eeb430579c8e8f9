"""What all contrastive methods share: no labels, several views of each example, and the share of training done."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from holdfast.augment import Augment
from holdfast.feed import Feed, evaluate
from holdfast.methods.training_progress import WithProgress
from holdfast.ranks import get_ranks
from holdfast.task import Representation


class Recipe(Protocol):
    """Where the views of one kind of data come from: images or tables."""

    def weak(self, size: float = 1.0, scale: tuple[float, float] | None = None) -> Augment:
        """The usual view: of a share ``size`` of the full side, of a random share ``scale`` of the image."""

    def strong(self, size: float = 1.0) -> Augment:
        """A view that changes the example further."""

    def noisy(self, least: float) -> Augment:
        """The example with at most ``1 - least`` of another one mixed in."""

    def plain(self) -> Augment:
        """A view in the example's own colours."""

    def tile(self, number: int, across: int, overlap: float = 0.0) -> Augment:
        """One tile of a grid of so many a side, counted row by row; neighbours share a part ``overlap`` of theirs."""


class Contrastive(WithProgress):
    """Base of the methods that learn embeddings from views of examples; the network's output is the embedding.

    They train on rows without labels (``Rows.without_labels``), so that none can be read. ``batch.x`` is a tuple of
    views, of which ``augments`` says how each is drawn.
    """

    requires = Representation
    views = 2

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        """One augmentation for each view."""
        return tuple(recipe.weak() for _ in range(self.views))


def embedding_width(net: nn.Module, data: Feed) -> int:
    """How many numbers the network makes of one row."""
    (_, x), *_ = data.chunks(torch.arange(1))
    return evaluate(net, iter([x])).shape[1]


def with_others(own: Tensor) -> Tensor:
    """The rows of all processes in the order of the whole batch; a gradient flows to those of this process alone.

    Shape: (b, ...) -> (B, ...).
    """
    ranks = get_ranks()
    if ranks.count == 1:
        return own
    whole = ranks.gather(own.detach()).clone()
    whole[ranks.share(len(whole))] = own
    return whole


def mean_of_all(losses: Tensor, weight: Tensor) -> Tensor:
    """The weighted mean of losses that every process has of the whole batch.

    Each process has the gradient of its own rows, and gradients are averaged: so it counts as often as there are
    processes, while the number itself stays the mean.

    Shape: losses (n,), weight (n,) -> ().
    """
    total, count = weight.sum(), get_ranks().count
    mean = (losses * weight).sum() / torch.where(total > 0, total, 1)
    return mean if count == 1 else count * mean - (count - 1) * mean.detach()


def unit(x: Tensor) -> Tensor:
    """Rows of length one."""
    return nn.functional.normalize(x, dim=1)
