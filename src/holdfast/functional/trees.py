"""Gradient boosted trees, trained on other rows, about each row: for tables, where they often beat networks."""

from __future__ import annotations

import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits
from torch import Tensor

ITERATIONS = 100
SCARCE = 10
"""Rows of the rarest class from which on a tenth of the rows can be withheld to stop by."""


def tree_opinions(x: Tensor, y: Tensor, fold: Tensor, classes: int) -> Tensor:
    """(N, C) probabilities by boosted trees, those of each fold trained on all others.

    They stop early, by the *given* labels of a tenth of their rows.

    Shape: x (N, d), y (N,), fold (N,) numbers from 0 -> (N, C).

    >>> x, y = torch.arange(80).float()[:, None], (torch.arange(80) >= 40).long()
    >>> bool((tree_opinions(x, y, torch.arange(80) % 4, 2).argmax(1) == y).float().mean() > 0.9)
    True
    """
    inputs, given, part = x.cpu().float().numpy(), y.cpu().numpy(), fold.cpu().numpy()
    opinions = torch.zeros(len(y), classes)
    with threadpool_limits(torch.get_num_threads()):
        for number in range(int(part.max()) + 1):
            others, own = part != number, part == number
            known, counts = torch.from_numpy(given[others]).unique(return_counts=True)
            if len(known) == 1:
                opinions[torch.from_numpy(own), int(known)] = 1.0
                continue
            trees = HistGradientBoostingClassifier(
                max_iter=ITERATIONS, early_stopping=int(counts.min()) >= SCARCE, random_state=0
            ).fit(inputs[others], given[others])
            rows = torch.from_numpy(own).nonzero()
            opinions[rows, known] = torch.from_numpy(trees.predict_proba(inputs[own])).float()
    return opinions.to(x.device)
