"""Gradient boosted trees, trained on other rows, about each row: for tables, where they often beat networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from holdfast.functional.boosting import BOOSTING, USUAL, Boosting
from holdfast.functional.ordered import Ordered, one_hot_columns, ordered

Array = NDArray[Any]

FEW = 200_000
"""Numbers in a table up to which one thread is as fast: several wait for each other at every node of every tree, which
on a machine that others use too takes ten times as long."""
SCARCE = 10
"""Rows of the rarest class, or in all, from which on a tenth of the rows can be withheld to stop by."""


class TrainedTrees(NamedTuple):
    """Boosted trees of a library, as they were trained on some rows."""

    models: tuple[Any, ...]
    """One for all classes (none where a single class occurs), or one for each target."""
    known: Tensor
    """(K,) the classes, or targets, that they speak of."""
    outputs: int
    """Classes or targets in all."""
    library: Boosting = BOOSTING[USUAL]
    """What has trained them."""
    columns: Ordered | None = None
    """What they see of the inputs; None: all columns as they are."""

    def expected(self, x: Array) -> Tensor:
        """(B, outputs) probabilities, those of unknown classes zero, or values."""
        found = torch.zeros(len(x), self.outputs)
        if self.columns is not None:
            x = self.columns.of(torch.from_numpy(x)).numpy()
        if not self.models:
            found[:, self.known] = 1.0
        elif hasattr(self.models[0], "predict_proba"):
            found[:, self.known] = torch.from_numpy(self.models[0].predict_proba(x)).float()
        else:
            found = torch.from_numpy(np.stack([model.predict(x) for model in self.models], axis=1)).float()
        return found


def threads_for(inputs: Array) -> threadpool_limits:
    """As many threads of scikit-learn's trees as PyTorch has, or one where there is little to share."""
    return threadpool_limits(_threads(inputs.size))


def _threads(numbers: int) -> int:
    return 1 if numbers <= FEW else torch.get_num_threads()


def trees_of_folds(
    x: Tensor,
    y: Tensor,
    fold: Tensor,
    outputs: int,
    categorical: Array | None = None,
    library: Boosting = BOOSTING[USUAL],
) -> list[TrainedTrees]:
    """Boosted trees for each fold, trained on the rows of all others.

    They stop early, by the *given* labels of a tenth of their rows. Trees for numbers reduce the absolute error, so
    that wrong targets hardly pull them. One-hot columns are put in order (``functional/ordered.py``), anew for each
    fold, unless ``categorical`` marks columns that hold numbers of categories.

    Shape: x (N, d), y (N,) classes or (N, q) targets, fold (N,) numbers from 0, categorical (d,).
    """
    inputs, given, part = x.cpu().float(), y.cpu(), fold.cpu()
    train = _trained_on_targets if y.is_floating_point() else _trained_on_classes
    runs = one_hot_columns(inputs) if categorical is None else []
    found = []
    for number in range(int(part.max()) + 1):
        others = part != number
        columns = ordered(inputs, given, runs, others) if runs else None
        seen = (inputs if columns is None else columns.of(inputs)).numpy()
        with threads_for(seen):
            trained = train(library, seen, others.nonzero()[:, 0].numpy(), given.numpy(), outputs, categorical)
        found.append(trained._replace(columns=columns))
    return found


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


def _trained_on_classes(
    library: Boosting, x: Array, rows: Array, y: Array, classes: int, categorical: Array | None
) -> TrainedTrees:
    found, own, counts = np.unique(y[rows], return_inverse=True, return_counts=True)
    known = torch.from_numpy(found)
    if len(known) == 1:
        return TrainedTrees((), known, classes, library)
    threads = _threads(len(rows) * x.shape[1])
    made = library.classes(x, rows, own, bool(counts.min() >= SCARCE), categorical, threads)
    return TrainedTrees((made,), known, classes, library)


def _trained_on_targets(
    library: Boosting, x: Array, rows: Array, y: Array, targets: int, categorical: Array | None
) -> TrainedTrees:
    threads, stops = _threads(len(rows) * x.shape[1]), len(rows) >= SCARCE
    made = [library.numbers(x, rows, values, stops, categorical, threads) for values in y[rows].T]
    return TrainedTrees(tuple(made), torch.arange(targets), targets, library)
