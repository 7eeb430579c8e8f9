"""Transfer to PASCAL VOC: linear support vector machines (SVM) on frozen features, one a class, and their precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.contrastive.evaluation import features_of
from holdfast.data import voc
from holdfast.errors import HoldfastError

COSTS = (*(2.0**k for k in range(-19, -3)), *(10.0**k for k in range(-7, -1)))
"""Among which three parts of the training images choose, as Goyal et al. do."""
FOLDS = 3


def voc_precision(
    net: nn.Module, folder: Path, *, image_size: int = 224, costs: tuple[float, ...] = COSTS
) -> dict[str, float]:
    """Average precision of each class of ``VOCdevkit/VOC2007``, and of "mean": trained on trainval, judged on test.

    Reference: Goyal et al., "Scaling and Benchmarking Self-Supervised Visual Representation Learning", ICCV 2019.
    """
    train, test = (voc.read(folder, part, image_size=image_size) for part in ("trainval", "test"))
    known, queries = (features_of(net, part.rows) for part in (train, test))
    found = svm_precision(known, train.marks, queries, test.marks, costs=costs)
    return dict(zip((*voc.CLASSES, "mean"), [*found, sum(found) / len(found)], strict=True))


def svm_precision(
    known: Tensor, marks: Tensor, queries: Tensor, wanted: Tensor, *, costs: tuple[float, ...] = COSTS, seed: int = 0
) -> list[float]:
    """Average precision of each class by a linear SVM on features of length one; images hard to tell are left out.

    Shape: known (N, d), marks (N, C), queries (M, d), wanted (M, C) -> C numbers.
    """
    x, asked = unit(known).numpy(), unit(queries).numpy()
    found = []
    for own, right in zip(marks.T.numpy(), wanted.T.numpy(), strict=True):
        sure, told = own != 0, right != 0
        if min((own[sure] > 0).sum(), (own[sure] < 0).sum()) < FOLDS or not (right > 0).any():
            raise HoldfastError(f"a class needs {FOLDS} images that show it, {FOLDS} that do not, and one to judge by")
        machine = _machine(_cost(x[sure], own[sure] > 0, costs, seed), seed).fit(x[sure], own[sure] > 0)
        found.append(average_precision(machine.decision_function(asked[told]), right[told] > 0))
    return found


def average_precision(score: NDArray[Any], right: NDArray[np.bool_]) -> float:
    """The mean over eleven recalls, 0 to 1, of the best precision at that recall or a higher one, as VOC 2007 has it.

    >>> round(average_precision(np.array([3.0, 2.0, 1.0]), np.array([True, False, True])), 4)
    0.8485
    """
    ranked = right[np.argsort(-score, kind="stable")]
    hits = ranked.cumsum()
    precision, recall = hits / np.arange(1, len(ranked) + 1), hits / max(1, hits[-1])
    return float(np.mean([precision[recall >= step / 10 - 1e-12].max(initial=0.0) for step in range(11)]))


def _cost(x: NDArray[Any], right: NDArray[np.bool_], costs: tuple[float, ...], seed: int) -> float:
    """The cost of the best mean precision over parts that it was not trained on."""
    from sklearn.model_selection import StratifiedKFold

    if len(costs) == 1:
        return costs[0]
    parts = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, right))
    means = [
        np.mean([
            average_precision(_machine(cost, seed).fit(x[a], right[a]).decision_function(x[b]), right[b])
            for a, b in parts
        ])
        for cost in costs
    ]  # fmt: skip
    return costs[int(np.argmax(means))]


def _machine(cost: float, seed: int) -> Any:
    from sklearn.svm import LinearSVC

    # What is there counts twice, as there: few images show a class.
    return LinearSVC(C=cost, class_weight={True: 2, False: 1}, max_iter=2000, random_state=seed)
