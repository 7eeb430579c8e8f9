"""Columns of a table that deserve a second look: leaks of the label, identifiers, constants, hardly any values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.audit.finding import Finding
from holdfast.audit.subject import Subject
from holdfast.data.columns import IGNORED
from holdfast.data.labels import name_of

LEAK = 0.95
"""A column leaks if it alone takes away so large a share of the mistakes that guessing would make."""
BINS = 64
FEWEST = 50
"""Rows below which a column may look like a leak by chance."""
UNIQUE = 0.99
"""Share of different values that makes words an identifier; whole numbers must all differ."""
EMPTY = 0.9
LONG_WORDS = 3.0
"""Values of more words on average are text, which may well differ in every row."""

Array = NDArray[Any]


def find_columns(subject: Subject) -> list[Finding]:
    """Leaks, identifiers, constant and mostly empty columns; nothing where the rows come from no table."""
    if subject.frame is None:
        return []
    ignored = (name for name, why in subject.rows.recipe["dropped"].items() if why == IGNORED)
    aside = {subject.rows.recipe["label"], subject.rows.recipe["truth"], *ignored}
    columns = {str(name): subject.frame[name] for name in subject.frame.columns if name not in aside}
    label = _label(subject)
    # Numbers and dates in words may well differ in every row.
    written = {spec["name"] for spec in subject.rows.recipe["columns"] if "written" in spec}
    found: dict[str, list[tuple[str, float, str]]] = {
        "leaking column": [], "identifier column": [], "constant column": [], "empty column": [],
    }  # fmt: skip
    for name, values in columns.items():
        gaps = float(values.isna().mean())
        different = int(values.nunique())
        if different <= 1 and gaps in (0.0, 1.0):
            found["constant column"].append(
                (name, 1.0, "the same in every row" if gaps == 0 else "no value in any row")
            )
            continue
        if gaps >= EMPTY:
            found["empty column"].append((name, gaps, f"{gaps:.1%} of the rows have no value"))
        if name not in written and _is_identifier(values, different):
            text = f"{different:,} different values in {len(values):,} rows"
            found["identifier column"].append((name, different / len(values), text))
        told = share_told(values, label, subject.rows.classes is not None) if len(values) >= FEWEST else 0.0
        if told >= LEAK:
            text = f"this column alone tells {told:.1%} of what there is to know about the label"
            found["leaking column"].append((name, told, text))
    return [_finding(kind, lines) for kind, lines in found.items()]


def share_told(values: pd.Series[Any], label: Array, classes: bool) -> float:
    """The share of mistakes, or of variance, that one column takes away, judged on rows that it was not fitted on.

    Values are put into at most 64 bins, gaps in one of their own; each half of the rows is predicted from the other.

    >>> y = np.arange(200) % 2
    >>> share_told(pd.Series(np.where(y, "paid", "open")), y, True)
    1.0
    """
    bins = _bins(values)
    half = np.random.default_rng(0).random(len(bins)) < 0.5
    left, all_left = 0.0, 0.0
    for fit, judge in ((half, ~half), (~half, half)):
        if not fit.any() or not judge.any():
            return 0.0
        count = np.bincount(bins[fit], minlength=bins.max() + 1)
        if classes:
            table = np.zeros((bins.max() + 1, int(label.max()) + 1))
            np.add.at(table, (bins[fit], label[fit]), 1)
            usual = table.sum(0).argmax()
            guess = np.where(count > 0, table.argmax(1), usual)
            left += float((guess[bins[judge]] != label[judge]).sum())
            all_left += float((label[judge] != usual).sum())
        else:
            usual = label[fit].mean()
            mean = np.bincount(bins[fit], weights=label[fit], minlength=bins.max() + 1) / np.maximum(count, 1)
            guess = np.where(count > 0, mean, usual)
            left += float(((guess[bins[judge]] - label[judge]) ** 2).sum())
            all_left += float(((label[judge] - usual) ** 2).sum())
    return max(0.0, 1 - left / all_left) if all_left > 0 else 0.0


def _bins(values: pd.Series[Any]) -> Array:
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values) and values.nunique() > BINS:
        edges = np.unique(
            np.nanquantile(values.to_numpy(dtype=float, na_value=np.nan), np.linspace(0, 1, BINS + 1)[1:-1])
        )
        numbers = values.to_numpy(dtype=float, na_value=np.nan)
        return np.where(np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, np.nan_to_num(numbers)))
    codes, _ = pd.factorize(values.map(name_of, na_action="ignore").astype(object), use_na_sentinel=False)
    return np.asarray(codes)


def _label(subject: Subject) -> Array:
    y: Array = subject.rows.y.numpy()
    return y if subject.rows.classes is not None else y[:, 0].astype(float)


def _is_identifier(values: pd.Series[Any], different: int) -> bool:
    if len(values) < FEWEST or different < UNIQUE * len(values):
        return False
    if pd.api.types.is_integer_dtype(values):
        return different == len(values)
    if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_datetime64_any_dtype(values):
        return False
    words = values.dropna().astype(str).head(1000).map(lambda text: len(text.split())).mean()
    return bool(words < LONG_WORDS)


def _finding(kind: str, lines: list[tuple[str, float, str]]) -> Finding:
    score = np.array([line[1] for line in lines])
    rows, flag = np.full(len(lines), -1), np.ones(len(lines), dtype=bool)
    names = [line[0] for line in lines]
    return Finding(kind, rows, score, flag, [line[2] for line in lines], ", ".join(names) or "none", columns=names)
