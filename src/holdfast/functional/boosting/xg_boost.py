"""Boosted trees of XGBoost, where they are asked for."""

from __future__ import annotations

import json
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


class XGBoost(Boosting):
    """``XGBClassifier`` and ``XGBRegressor``.

    Chen and Guestrin, KDD 2016, "XGBoost: A Scalable Tree Boosting System".
    """

    name = "xgboost"
    module = "xgboost"

    def classes(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        self.no_categories(categorical)
        return _fitted(self.load().XGBClassifier(**_settings(stops, threads)), x[rows], y, stops)

    def numbers(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        self.no_categories(categorical)
        made = self.load().XGBRegressor(objective="reg:absoluteerror", **_settings(stops, threads))
        return _fitted(made, x[rows], y, stops)

    def grown(self, model: Any) -> Grown:
        booster = model.get_booster()
        if model.early_stopping_rounds is not None:
            booster = booster[: model.best_iteration + 1]
        saved = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]
        trees = [_nodes(tree) for tree in saved["trees"]]
        outputs = max(saved["tree_info"], default=0) + 1
        # What it starts from is written in other ways by other versions: it is what the trees do not explain of a row.
        zeros = np.zeros((1, booster.num_features()), dtype=np.float32)
        start = np.asarray(booster.inplace_predict(zeros, predict_type="margin"), dtype=np.float64).reshape(-1)
        for tree, output in zip(trees, saved["tree_info"], strict=True):
            start[output] -= _value_at_zero(tree)
        return Grown([trees[i : i + outputs] for i in range(0, len(trees), outputs)], start)


def _fitted(model: Any, x: Array, y: Array, stops: bool) -> Any:
    out = withheld(y, stops)
    return model.fit(x[~out], y[~out], eval_set=[(x[out], y[out])] if stops else None, verbose=False)


def _settings(stops: bool, threads: int) -> dict[str, Any]:
    return {
        "learning_rate": RATE, "n_estimators": ITERATIONS, "max_leaves": LEAVES, "max_depth": 0,
        "grow_policy": "lossguide", "tree_method": "hist", "random_state": 0, "n_jobs": threads,
        "early_stopping_rounds": PATIENCE if stops else None,
    }  # fmt: skip


def _nodes(tree: Mapping[str, Any]) -> Array:
    left, right = (np.asarray(tree[f"{side}_children"], dtype=np.int64) for side in ("left", "right"))
    number, leaf = np.arange(len(left)), left < 0
    condition = np.asarray(tree["split_conditions"], dtype=np.float32)
    nodes = np.zeros(len(left), dtype=NODE)
    nodes["is_leaf"], nodes["value"] = leaf, np.where(leaf, condition, 0)
    nodes["left"], nodes["right"] = np.where(leaf, number, left), np.where(leaf, number, right)
    nodes["feature_idx"] = np.where(leaf, 0, tree["split_indices"])
    # A row goes left where its feature is less: at most the next smaller number.
    nodes["num_threshold"] = np.where(leaf, 0, np.nextafter(condition, np.float32(-np.inf)))
    nodes["missing_go_to_left"] = np.asarray(tree["default_left"], dtype=bool) & ~leaf
    return nodes


def _value_at_zero(nodes: Array) -> float:
    at = 0
    while not nodes["is_leaf"][at]:
        at = int(nodes["left" if nodes["num_threshold"][at] >= 0 else "right"][at])
    return float(nodes["value"][at])
