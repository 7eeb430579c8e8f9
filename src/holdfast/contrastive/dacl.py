"""DACL: views made by mixing in a little of another example, so that no kind of data needs augmentation of its own."""

from __future__ import annotations

from holdfast.augment import Augment
from holdfast.contrastive.base import Recipe
from holdfast.contrastive.simclr import SimCLR
from holdfast.errors import HoldfastError


class DACL(SimCLR):
    """SimCLR between two noisy versions of each example: ``x^(a) = l_a x + (1 - l_a) x~_a``, ``l_a ~ U(least, 1)``.

    Parameters
    ----------
    least: the least share of the example itself, in [0, 1].
    temperature: see ``SimCLR``.

    Differs from the paper: mixes inputs, not hidden layers, and one way of mixing at a time
    (``holdfast.contrastive.MixupNoise``); ``least`` is tuned for each data set there.

    Reference: Verma et al., "Towards Domain-Agnostic Contrastive Learning", ICML 2021.

    >>> DACL(0.8)
    DACL(least=0.8)
    """

    name = "dacl"

    def __init__(self, least: float = 0.9, temperature: float = 0.5) -> None:
        super().__init__(temperature)
        if not 0 <= least <= 1:
            raise HoldfastError(f"the least share of an example in its view must lie in [0, 1], not {least:g}")
        self.least = least

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        return recipe.noisy(self.least), recipe.noisy(self.least)
