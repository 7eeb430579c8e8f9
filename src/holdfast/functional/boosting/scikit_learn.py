"""Boosted trees of scikit-learn, the usual ones."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.files import temporary_folder
from holdfast.functional.boosting.base import ITERATIONS, LEAVES, NODE, RATE, Array, Boosting, Grown

LARGE = 1 << 26
"""Bytes of a table as doubles from which on these lie in a file: scikit-learn would hold two copies of them."""
PIECE = 10_000


class ScikitLearn(Boosting):
    """``HistGradientBoosting``; its threads are set from outside."""

    name = "scikit-learn"
    module = "sklearn.ensemble"

    def classes(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        model = self.load().HistGradientBoostingClassifier(**_settings(stops, categorical))
        return _fitted(model, x, rows, y, stops, stratify=y)

    def numbers(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        made = self.load().HistGradientBoostingRegressor(loss="absolute_error", **_settings(stops, categorical))
        return _fitted(made, x, rows, y, stops, stratify=None)

    def grown(self, model: Any) -> Grown:
        # Neither is part of its public interface: all that Holdfast knows of it is here.
        try:
            rounds = [[tree.nodes for tree in each] for each in model._predictors]
            start = np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1)
            known = all(set(NODE.names or ()) <= set(nodes.dtype.names) for each in rounds for nodes in each)
        except (AttributeError, TypeError, ValueError):
            known = False
        if not known:
            import sklearn

            raise HoldfastError(
                f"scikit-learn {sklearn.__version__} keeps boosted trees in a way that Holdfast does not know; install "
                "a version that it does (1.6 to 1.9), or train by another method (--method)"
            )
        if any(nodes["is_categorical"].any() for each in rounds for nodes in each):
            raise HoldfastError(
                "trees that split by categories cannot become tensors; encode the categories as numbers"
            )
        return Grown(rounds, start)


def _fitted(model: Any, x: Array, rows: Array, y: Array, stops: bool, stratify: Array | None) -> Any:
    """The model that ``model.fit(x[rows], y)`` makes, of a large table with little more memory than the table has.

    The rows to stop by are drawn here as scikit-learn draws them, and doubles mapped from a file: neither is copied.
    """
    size = 8 * len(rows) * x.shape[1]
    if size < LARGE or "X_val" not in inspect.signature(model.fit).parameters:  # scikit-learn before 1.7
        return model.fit(x[rows], y)
    from sklearn.model_selection import train_test_split

    own, out = np.arange(len(y)), np.arange(0)
    if stops:
        seed = np.random.RandomState(model.random_state).randint(np.iinfo(np.uint32).max, dtype="u8")
        share = model.validation_fraction
        own, out = train_test_split(own, test_size=share, stratify=stratify, random_state=seed)
    with temporary_folder() as folder:
        if shutil.disk_usage(folder).free < 2 * size:
            return model.fit(x[rows], y)
        further = {"X_val": _doubles(folder / "out", x, rows[out]), "y_val": y[out]} if stops else {}
        return model.fit(_doubles(folder / "own", x, rows[own]), y[own], **further)


def _doubles(path: Path, x: Array, rows: Array) -> Array:
    mapped = np.memmap(path, np.float64, "w+", shape=(len(rows), x.shape[1]))
    for start in range(0, len(rows), PIECE):
        mapped[start : start + PIECE] = x[rows[start : start + PIECE]]
    return mapped


def _settings(stops: bool, categorical: Array | None) -> dict[str, Any]:
    return {
        "learning_rate": RATE,
        "max_iter": ITERATIONS,
        "max_leaf_nodes": LEAVES,
        "early_stopping": stops,
        "categorical_features": categorical,
        "random_state": 0,
    }
