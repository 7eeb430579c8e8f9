"""Encoded rows of a table as trees read them: a column for each column of the file, gaps and categories as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.rows import Rows


def native_columns(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.bool_]] | None:
    """(N, d) numbers with NaN for gaps and numbered categories, and which columns are categories.

    Columns of texts and vectors are left out; None where rows are of no table, or where it has no other columns, or
    does not fit into memory.
    """
    if rows.recipe.get("kind") != "table" or "features" in rows.recipe:
        return None
    if not isinstance(rows.x, Tensor):
        return None
    encoded = np.asarray(rows.x)
    fitted: Sequence[Mapping[str, Any]] = rows.recipe["columns"]
    columns, categorical, at = [], [], 0
    for spec in fitted:
        block = encoded[:, at : at + encoded_width(spec)]
        at += encoded_width(spec)
        if spec["as"] == "number":
            columns.append(np.where(block[:, 1] > 0, np.nan, block[:, 0]) if spec["gaps"] else block[:, 0])
        elif spec["as"] == "category":
            known = block[:, :-1] if spec["missing"] else block
            columns.append(np.where(known.any(1), known.argmax(1), np.nan))
        if spec["as"] in ("number", "category"):
            categorical.append(spec["as"] == "category")
    if not columns:
        return None
    return np.stack(columns, axis=1).astype(np.float32), np.array(categorical)


def encoded_width(spec: Mapping[str, Any]) -> int:
    """How many features a column of a recipe becomes."""
    if spec["as"] == "number":
        return 1 + int(spec["gaps"])
    if spec["as"] == "category":
        return len(spec["values"]) + int(spec["other"]) + int(spec["missing"])
    if spec["as"] == "vector":
        return int(spec["size"])
    return len(spec["words"]) + (int(spec["encoder"]["size"]) if "encoder" in spec else 0)
