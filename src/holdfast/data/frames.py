"""Tables in memory, whoever made them, as one kind of frame; sparse matrices as arrays."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.data.load import plain_columns
from holdfast.errors import HoldfastError

MOST_NUMBERS = 1_000_000_000
"""Numbers that a sparse matrix may come to when it is written out: 4 GB."""


def as_frame(data: Any) -> pd.DataFrame | None:
    """The table that some data is; None where it is none.

    Tables are frames of pandas, datasets of Hugging Face, all that speaks Arrow (polars, pyarrow, DuckDB), and dicts of
    columns.

    >>> as_frame({"age": [31, 45], "town": ["A", "B"]}).shape
    (2, 2)
    """
    if isinstance(data, pd.DataFrame):
        return data
    if _is_hugging_face(data):
        return _of_hugging_face(data)
    if isinstance(data, Mapping):
        return pd.DataFrame(dict(data)) if data and all(map(_is_column, data.values())) else None
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        data = data.collect()  # a lazy frame of polars
    if hasattr(data, "__arrow_c_stream__"):
        found = pa.table(data).to_pandas()
        return found if isinstance(found, pd.DataFrame) else None
    return None


def labelled_frame(frame: pd.DataFrame, labels: Any) -> tuple[pd.DataFrame, str]:
    """A table of inputs with labels beside it, and the name of their column: their own, or one that is free."""
    values = labels.to_pandas() if hasattr(labels, "to_pandas") else labels
    values = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise HoldfastError(f"the labels of a table need one dimension, not the shape {values.shape}")
    if len(values) != len(frame):
        raise HoldfastError(f"{len(frame)} inputs but {len(values)} labels; each row needs one of both")
    name = str(getattr(labels, "name", None) or "label")
    while name in frame.columns:
        name += "_given"
    return frame.assign(**{name: values}), name


def titled(frame: pd.DataFrame, recipe: Mapping[str, Any]) -> pd.DataFrame:
    """Further rows of a table, numbered from 0, with the columns under the names that its recipe has."""
    frame = frame.reset_index(drop=frame.index.name is None)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    known = [spec["name"] for spec in recipe.get("columns", ())]
    if len(known) == len(frame.columns) == 1 and frame.columns[0] == "text":
        return frame.set_axis(known, axis=1)
    return frame


def is_sparse(x: Any) -> bool:
    """Whether something is a sparse matrix of SciPy, which need not be imported to tell."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(x))


def dense(x: Any) -> NDArray[np.float32]:
    """A sparse matrix written out, where that can be held."""
    rows, width = x.shape
    if rows * width > MOST_NUMBERS:
        raise HoldfastError(
            f"a sparse matrix of {rows:,} x {width:,} takes {4 * rows * width / 1e9:.0f} GB as a network reads it; "
            "make it narrower first, such as with TruncatedSVD or fewer words"
        )
    found: NDArray[np.float32] = x.astype(np.float32).toarray()
    return found


def _is_column(values: Any) -> bool:
    return not isinstance(values, (str, bytes, Mapping)) and np.ndim(values) == 1


def _is_hugging_face(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "datasets" and hasattr(data, "column_names")


def _of_hugging_face(data: Any) -> pd.DataFrame:
    """The table of a Hugging Face dataset, as one that was saved would be read."""
    if isinstance(data, Mapping):
        parts = ", ".join(map(repr, data))
        raise HoldfastError(f"a DatasetDict has parts ({parts}); pass one to train on, and one as test=...")
    if not hasattr(data, "to_pandas") or not hasattr(data, "__len__"):
        raise HoldfastError(
            f"a {type(data).__name__} of Hugging Face has no table to read; pass one split that is loaded whole"
        )
    return plain_columns(data.with_format(None))
