"""The contract of a library of boosted trees: models that it trains, and the nodes of their trees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.errors import HoldfastError
from holdfast.functional.held_out import stratified_folds

Array = NDArray[Any]

ITERATIONS, RATE, LEAVES = 50, 0.2, 15
"""Half the usual trees, each half as large and learning twice as fast: as good an opinion in half the time."""
PATIENCE = 10
"""Rounds without a better loss of the withheld rows after which a boosting that stops early does so."""
NODE = np.dtype(
    [("feature_idx", np.int64), ("num_threshold", np.float64), ("missing_go_to_left", bool), ("left", np.int64),
     ("right", np.int64), ("value", np.float64), ("is_leaf", bool)]
)  # fmt: skip
"""A node of a tree, by scikit-learn's names: a row goes left where its feature is at most the threshold."""


class Grown(NamedTuple):
    """What is inside of a trained model."""

    rounds: list[list[Array]]
    """The nodes of each tree (at least the fields of NODE) of each round; with several classes a tree for each."""
    start: Array
    """What outputs are before the first tree: of the second of two classes, of each class, or of the one target."""


class Boosting(ABC):
    """A library of boosted trees.

    Models are trained for ITERATIONS rounds with the rate RATE and about LEAVES leaves a tree. Where ``stops``, they
    stop early by the *given* labels of a tenth of their rows.

    Attributes
    ----------
    name: by which it is asked for; also that of its package.
    module: what is imported of it.
    """

    name: ClassVar[str]
    module: ClassVar[str]

    @abstractmethod
    def classes(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        """A trained model with ``predict_proba``, of classes numbered from 0 without gaps: x (N, d), of which the rows
        (K,) are trained on, with the labels y (K,)."""

    @abstractmethod
    def numbers(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        """A trained model with ``predict`` of one target, which wrong ones hardly pull: of the absolute error."""

    @abstractmethod
    def grown(self, model: Any) -> Grown:
        """The trees of a model that this library has trained."""

    def load(self) -> Any:
        """Its module, or a sentence that says how to get it."""
        try:
            return import_module(self.module)
        except ImportError as error:
            raise HoldfastError(
                f"the trees of {self.name} are asked for, which cannot be imported ({error}); pip install {self.name}"
            ) from None

    def no_categories(self, categorical: Array | None) -> None:
        """Refuse columns of categories, whose splits are sets and no thresholds."""
        if categorical is not None and bool(np.any(categorical)):
            raise HoldfastError(f"{self.name} gets categories as numbers here; encode them first")


def withheld(y: Array, stops: bool) -> Array:
    """(N,) marks of the tenth of the rows, each class evenly, by whose labels to stop; none where not ``stops``."""
    if not stops:
        return np.zeros(len(y), dtype=bool)
    marks: Array = (stratified_folds(torch.from_numpy(y), 10) == 0).numpy()
    return marks
