"""Gradient boosted trees, trained on other rows, about each row: for tables, where they often beat networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

Array = NDArray[Any]

ITERATIONS, RATE, LEAVES = 50, 0.2, 15
"""Half the usual trees, each half as large and learning twice as fast: as good an opinion in half the time."""
FEW = 200_000
"""Numbers in a table up to which one thread is as fast: several wait for each other at every node of every tree, which
on a machine that others use too takes ten times as long."""
SCARCE = 10
"""Rows of the rarest class, or in all, from which on a tenth of the rows can be withheld to stop by."""


class TrainedTrees(NamedTuple):
    """Boosted trees of scikit-learn, as they were trained on some rows."""

    models: tuple[Any, ...]
    """One for all classes (none where a single class occurs), or one for each target."""
    known: Tensor
    """(K,) the classes, or targets, that they speak of."""
    outputs: int
    """Classes or targets in all."""

    def expected(self, x: Array) -> Tensor:
        """(B, outputs) probabilities, those of unknown classes zero, or values."""
        found = torch.zeros(len(x), self.outputs)
        if not self.models:
            found[:, self.known] = 1.0
        elif hasattr(self.models[0], "predict_proba"):
            found[:, self.known] = torch.from_numpy(self.models[0].predict_proba(x)).float()
        else:
            found = torch.from_numpy(np.stack([model.predict(x) for model in self.models], axis=1)).float()
        return found


def threads_for(inputs: Array) -> threadpool_limits:
    """As many threads of scikit-learn's trees as PyTorch has, or one where there is little to share."""
    return threadpool_limits(1 if inputs.size <= FEW else torch.get_num_threads())


def trees_of_folds(
    x: Tensor, y: Tensor, fold: Tensor, outputs: int, categorical: Array | None = None
) -> list[TrainedTrees]:
    """Boosted trees for each fold, trained on the rows of all others.

    They stop early, by the *given* labels of a tenth of their rows. Trees for numbers reduce the absolute error, so
    that wrong targets hardly pull them.

    Shape: x (N, d), y (N,) classes or (N, q) targets, fold (N,) numbers from 0, categorical (d,).
    """
    inputs, given, part = x.cpu().float().numpy(), y.cpu().numpy(), fold.cpu().numpy()
    train = _trained_on_targets if y.is_floating_point() else _trained_on_classes
    with threads_for(inputs):
        return [
            train(inputs[part != number], given[part != number], outputs, categorical)
            for number in range(int(part.max()) + 1)
        ]


def opinions_of(trees: Sequence[TrainedTrees], x: Tensor, fold: Tensor, further: Tensor | None = None) -> Tensor:
    """(N + M, q) what the trees of each fold expect of its rows, and all of them on average of further rows.

    Shape: x (N, d), fold (N,), further (M, d) -> (N + M, q).
    """
    inputs, part = x.cpu().float().numpy(), fold.cpu()
    others = inputs[:0] if further is None else further.cpu().float().numpy()
    opinions = torch.zeros(len(inputs) + len(others), trees[0].outputs)
    with threads_for(inputs):
        for number, each in enumerate(trees):
            own = (part == number).nonzero()[:, 0]
            if len(own):
                opinions[own] = each.expected(inputs[own.numpy()])
            if len(others):
                opinions[len(inputs) :] += each.expected(others) / len(trees)
    return opinions.to(x.device)


def tree_opinions(
    x: Tensor, y: Tensor, fold: Tensor, classes: int, further: Tensor | None = None, categorical: Array | None = None
) -> Tensor:
    """(N + M, C) probabilities by boosted trees, those of each fold trained on all others.

    Of further rows all trees are asked, and averaged. Gaps may be NaN, and columns that ``categorical`` marks hold
    numbers of categories.

    Shape: x (N, d), y (N,), fold (N,) numbers from 0, further (M, d), categorical (d,) -> (N + M, C).

    >>> x, y = torch.arange(80).float()[:, None], (torch.arange(80) >= 40).long()
    >>> bool((tree_opinions(x, y, torch.arange(80) % 4, 2).argmax(1) == y).float().mean() > 0.9)
    True
    """
    return opinions_of(trees_of_folds(x, y, fold, classes, categorical), x, fold, further)


def _trained_on_classes(x: Array, y: Array, classes: int, categorical: Array | None) -> TrainedTrees:
    known, counts = torch.from_numpy(y).unique(return_counts=True)
    if len(known) == 1:
        return TrainedTrees((), known, classes)
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import, and only tables need it

    stops = int(counts.min()) >= SCARCE
    made = HistGradientBoostingClassifier(**_settings(stops, categorical)).fit(x, y)
    return TrainedTrees((made,), known, classes)


def _trained_on_targets(x: Array, y: Array, targets: int, categorical: Array | None) -> TrainedTrees:
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import, and only tables need it

    settings = _settings(len(y) >= SCARCE, categorical)
    made = [HistGradientBoostingRegressor(loss="absolute_error", **settings).fit(x, values) for values in y.T]
    return TrainedTrees(tuple(made), torch.arange(targets), targets)


def _settings(stops: bool, categorical: Array | None) -> dict[str, Any]:
    return {
        "learning_rate": RATE,
        "max_iter": ITERATIONS,
        "max_leaf_nodes": LEAVES,
        "early_stopping": stops,
        "categorical_features": categorical,
        "random_state": 0,
    }
