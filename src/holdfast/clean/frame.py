"""A table in memory: a new one, with the index, the columns and the types of the old."""

from __future__ import annotations

from typing import Any

import pandas as pd

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names


def edited(frame: pd.DataFrame, edit: Edit) -> pd.DataFrame:
    """A table after an edit; the one given stays as it is."""
    check_free_names(edit, [str(name) for name in frame.columns])
    at = next(at for at, name in enumerate(frame.columns) if str(name) == edit.label)
    labels = frame.iloc[:, at]
    cells = [None if gone else cell for cell, gone in zip(labels.tolist(), labels.isna().tolist(), strict=True)]
    whole = pd.api.types.is_integer_dtype(labels.dtype)
    spelling: Spelling[Any] = Spelling(edit, cells, lambda name: name, (lambda value: round(value)) if whole else float)
    new = spelling.new()
    made = frame.copy()
    if new:
        changed = labels.astype(object)
        changed.iloc[list(new)] = list(new.values())
        made.isetitem(at, _typed(changed, labels))
    if edit.marks:
        beside = pd.Series(spelling.suggested(), index=frame.index, dtype=object)
        made[TRUST] = pd.Series(edit.trusts(len(frame)), index=frame.index, dtype="float64")
        made[SUGGESTED] = _typed(beside, labels) if not (whole or labels.dtype == bool) else beside
    return made[edit.kept(len(frame))]


def _typed(values: pd.Series[Any], like: pd.Series[Any]) -> Any:
    """Values in the type of a column; a class that is no category yet becomes one."""
    if isinstance(like.dtype, pd.CategoricalDtype):
        known = like.dtype.categories
        more = [value for value in values.dropna().unique() if value not in known]
        return values.astype(pd.CategoricalDtype([*known, *more], like.dtype.ordered)).array
    return values.astype(like.dtype).array
