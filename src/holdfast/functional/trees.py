"""Gradient boosted trees, trained on other rows, about each row: for tables, where they often beat networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

Array = NDArray[Any]

ITERATIONS, RATE, LEAVES = 50, 0.2, 15
"""Half the usual trees, each half as large and learning twice as fast: as good an opinion in half the time."""
SCARCE = 10
"""Rows of the rarest class from which on a tenth of the rows can be withheld to stop by."""


def tree_opinions(
    x: Tensor, y: Tensor, fold: Tensor, classes: int, further: Tensor | None = None, categorical: Array | None = None
) -> Tensor:
    """(N + M, C) probabilities by boosted trees, those of each fold trained on all others.

    They stop early, by the *given* labels of a tenth of their rows. Of further rows all trees are asked, and averaged.

    Gaps may be NaN, and columns that ``categorical`` marks hold numbers of categories.

    Shape: x (N, d), y (N,), fold (N,) numbers from 0, further (M, d), categorical (d,) -> (N + M, C).

    >>> x, y = torch.arange(80).float()[:, None], (torch.arange(80) >= 40).long()
    >>> bool((tree_opinions(x, y, torch.arange(80) % 4, 2).argmax(1) == y).float().mean() > 0.9)
    True
    """
    inputs, given, part = x.cpu().float().numpy(), y.cpu().numpy(), fold.cpu()
    others = inputs[:0] if further is None else further.cpu().float().numpy()
    opinions = torch.zeros(len(inputs) + len(others), classes)
    folds = int(part.max()) + 1
    with threadpool_limits(torch.get_num_threads()):
        for number in range(folds):
            own, rest = (part == number).nonzero()[:, 0], (part != number).numpy()
            known, expect = _trained(inputs[rest], given[rest], categorical)
            opinions[own[:, None], known] = expect(inputs[own.numpy()])
            if len(others):
                opinions[len(inputs) :, known] += expect(others) / folds
    return opinions.to(x.device)


def _trained(x: Array, y: Array, categorical: Array | None) -> tuple[Tensor, Callable[[Array], Tensor]]:
    """The classes that occur, and what trees trained on these rows expect of others: probabilities of those classes."""
    known, counts = torch.from_numpy(y).unique(return_counts=True)
    if len(known) == 1:
        return known, lambda asked: torch.ones(len(asked), 1)
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import, and only tables need it

    stops = int(counts.min()) >= SCARCE
    trees = HistGradientBoostingClassifier(
        learning_rate=RATE,
        max_iter=ITERATIONS,
        max_leaf_nodes=LEAVES,
        early_stopping=stops,
        categorical_features=categorical,
        random_state=0,
    ).fit(x, y)
    return known, lambda asked: torch.from_numpy(trees.predict_proba(asked)).float()
