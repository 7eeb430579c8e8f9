"""Boosted trees of scikit-learn, the usual ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.functional.boosting.base import ITERATIONS, LEAVES, NODE, RATE, Array, Boosting, Grown


class ScikitLearn(Boosting):
    """``HistGradientBoosting``; its threads are set from outside."""

    name = "scikit-learn"
    module = "sklearn.ensemble"

    def classes(self, x: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        return self.load().HistGradientBoostingClassifier(**_settings(stops, categorical)).fit(x, y)

    def numbers(self, x: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        made = self.load().HistGradientBoostingRegressor(loss="absolute_error", **_settings(stops, categorical))
        return made.fit(x, y)

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


def _settings(stops: bool, categorical: Array | None) -> dict[str, Any]:
    return {
        "learning_rate": RATE,
        "max_iter": ITERATIONS,
        "max_leaf_nodes": LEAVES,
        "early_stopping": stops,
        "categorical_features": categorical,
        "random_state": 0,
    }
