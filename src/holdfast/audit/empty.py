"""Rows that say nothing: without a value in any column, without a word, or the same number throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from holdfast.audit.finding import Finding, nothing
from holdfast.audit.subject import Subject
from holdfast.feed import inputs_of

KIND = "empty row"


def find_empty_rows(subject: Subject) -> list[Finding]:
    """Rows of a table whose columns are all empty, and pictures or vectors that are the same everywhere."""
    if subject.frame is not None:
        columns = subject.frame[[spec["name"] for spec in subject.rows.recipe["columns"]]]
        blank = columns.isna() | columns.apply(_blank)
        bad, why = blank.all(axis=1).to_numpy(dtype=bool), "no column has a value"
    else:
        chunks = [x.flatten(1) for x in inputs_of(subject.rows.x, "cpu")]
        same = torch.cat([x.amax(1) == x.amin(1) for x in chunks])
        # A vector of one number is the same everywhere by nature.
        bad = same.numpy() if chunks[0].shape[1] > 1 else np.zeros(len(subject), dtype=bool)
        why = "the same value everywhere"
    rows = np.flatnonzero(bad)
    if not len(rows):
        return [nothing(KIND, "none")]
    sentence = f"{len(rows):,} rows are empty or the same everywhere"
    ones = np.ones(len(rows))
    return [Finding(KIND, rows, ones, ones.astype(bool), [why] * len(rows), sentence)]


def _blank(values: pd.Series[Any]) -> pd.Series[Any]:
    """Which values are text without a letter."""
    if pd.api.types.is_numeric_dtype(values):
        return pd.Series(False, index=values.index)
    return values.astype(str).str.strip() == ""
