"""Boosted trees of CatBoost, where they are asked for."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.functional.boosting.base import ITERATIONS, LEAVES, NODE, PATIENCE, RATE, Array, Boosting, Grown, withheld

DEPTH = int(np.log2(LEAVES + 1))
"""Its trees ask the same of all rows on a level, so their leaves are a power of two."""


class CatBoost(Boosting):
    """``CatBoostClassifier`` and ``CatBoostRegressor``.

    Prokhorenkova et al., NeurIPS 2018, "CatBoost: unbiased boosting with categorical features".
    """

    name = "catboost"
    module = "catboost"

    def classes(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        self.no_categories(categorical)
        return _fitted(self.load().CatBoostClassifier(**_settings(threads)), x[rows], y, stops)

    def numbers(self, x: Array, rows: Array, y: Array, stops: bool, categorical: Array | None, threads: int) -> Any:
        self.no_categories(categorical)
        return _fitted(self.load().CatBoostRegressor(loss_function="MAE", **_settings(threads)), x[rows], y, stops)

    def grown(self, model: Any) -> Grown:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            model.save_model(str(path), format="json")
            saved = json.loads(path.read_text(encoding="utf-8"))
        scale, start = saved["scale_and_bias"]
        start = np.atleast_1d(np.asarray(start, dtype=np.float64))
        features = [each["flat_feature_index"] for each in saved["features_info"]["float_features"]]
        return Grown([_nodes(tree, features, len(start), scale) for tree in saved["oblivious_trees"]], start)


def _fitted(model: Any, x: Array, y: Array, stops: bool) -> Any:
    out = withheld(y, stops)
    stopping = {"eval_set": (x[out], y[out]), "early_stopping_rounds": PATIENCE} if stops else {}
    return model.fit(x[~out], y[~out], **stopping)


def _settings(threads: int) -> dict[str, Any]:
    return {
        "learning_rate": RATE, "iterations": ITERATIONS, "depth": DEPTH, "random_seed": 0, "thread_count": threads,
        "verbose": False, "allow_writing_files": False,
    }  # fmt: skip


def _nodes(tree: Mapping[str, Any], features: list[int], outputs: int, scale: float) -> list[Array]:
    """A tree for each output: the levels of one, the first split being the lowest bit of the number of the leaf."""
    splits = tree["splits"] or []
    levels, inner = splits[::-1], 2 ** len(splits) - 1
    nodes = np.zeros(2 * inner + 1, dtype=NODE)
    number = np.arange(len(nodes))
    nodes["is_leaf"] = number >= inner
    nodes["left"] = np.where(number < inner, 2 * number + 1, number)
    nodes["right"] = np.where(number < inner, 2 * number + 2, number)
    for level, split in enumerate(levels):
        on = slice(2**level - 1, 2 ** (level + 1) - 1)
        nodes["feature_idx"][on] = features[split["float_feature_index"]]
        nodes["num_threshold"][on] = np.float32(split["border"])
        nodes["missing_go_to_left"][on] = True
    values = np.asarray(tree["leaf_values"], dtype=np.float64).reshape(-1, outputs) * scale
    found = []
    for output in range(outputs):
        own = nodes.copy()
        own["value"][inner:] = values[:, output]
        found.append(own)
    return found
