"""The columns of a table in a form in which two files can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.data.labels import name_of


def text_columns(frame: pd.DataFrame, recipe: Mapping[str, Any]) -> list[str] | None:
    """The text of each row, all columns of text after each other; None where there is none."""
    named = [spec["name"] for spec in recipe.get("columns", ()) if spec["as"] == "text"]
    if not named:
        return None
    parts = [frame[name].fillna("").astype(str) for name in named]
    return [" ".join(line) for line in zip(*parts, strict=True)]


def row_hashes(frame: pd.DataFrame, recipe: Mapping[str, Any]) -> NDArray[Any]:
    """(N,) a number for each row, the same for rows with the same values in all columns that are learned from."""
    plain = {}
    for spec in recipe["columns"]:
        values = frame[spec["name"]]
        number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        if number:
            plain[spec["name"]] = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            plain[spec["name"]] = values.map(name_of, na_action="ignore").astype(object).fillna("").to_numpy()
    hashed: NDArray[Any] = pd.util.hash_pandas_object(pd.DataFrame(plain), index=False).to_numpy()
    return hashed
