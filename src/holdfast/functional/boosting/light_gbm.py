"""Boosted trees of LightGBM, where they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.functional.boosting.base import (
    ITERATIONS,
    LEAVES,
    NODE,
    PATIENCE,
    RATE,
    Array,
    Boosting,
    Grown,
    withheld,
)


class LightGBM(Boosting):
    """``LGBMClassifier`` and ``LGBMRegressor``.

    Ke et al., NeurIPS 2017, "LightGBM: A Highly Efficient Gradient Boosting Decision Tree".
    """

    name = "lightgbm"
    module = "lightgbm"

    def classes(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        self.no_categories(categorical)
        return self._fitted(self.load().LGBMClassifier(**_settings(threads)), x[rows], y, stops)

    def numbers(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        self.no_categories(categorical)
        return self._fitted(
            self.load().LGBMRegressor(objective="regression_l1", **_settings(threads)), x[rows], y, stops
        )

    def _fitted(self, model: Any, x: Array, y: Array, stops: bool) -> Any:
        out = withheld(y, stops)
        stopping: dict[str, Any] = {}
        if stops:
            halt = self.load().early_stopping(PATIENCE, verbose=False)
            stopping = {"eval_set": [(x[out], y[out])], "callbacks": [halt]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that columns of an array do not have
            return model.fit(x[~out], y[~out], **stopping)

    def grown(self, model: Any) -> Grown:
        found = model.booster_.dump_model(num_iteration=model.best_iteration_ or -1)
        trees = [_nodes(tree["tree_structure"]) for tree in found["tree_info"]]
        each = found["num_tree_per_iteration"]
        return Grown([trees[i : i + each] for i in range(0, len(trees), each)], np.zeros(each))


def _settings(threads: int) -> dict[str, Any]:
    return {
        "learning_rate": RATE, "n_estimators": ITERATIONS, "num_leaves": LEAVES, "random_state": 0, "n_jobs": threads,
        "deterministic": True, "force_col_wise": True, "verbose": -1,
    }  # fmt: skip


def _nodes(root: Mapping[str, Any]) -> Array:
    found: list[tuple[Any, ...]] = []

    def add(node: Mapping[str, Any]) -> int:
        number = len(found)
        if "split_feature" not in node:
            found.append((0, 0.0, False, number, number, node["leaf_value"], True))
            return number
        found.append(())
        # Without gaps in training one counts as zero.
        gap = node["default_left"] if node["missing_type"] == "NaN" else node["threshold"] >= 0
        sides = add(node["left_child"]), add(node["right_child"])
        found[number] = (node["split_feature"], node["threshold"], gap, *sides, 0.0, False)
        return number

    add(root)
    return np.array(found, dtype=NODE)
