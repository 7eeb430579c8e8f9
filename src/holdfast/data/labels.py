"""Labels as files hold them, and the class numbers or targets that become of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.digits import LONGEST
from holdfast.errors import HoldfastError

Task = Literal["classification", "regression"]
Missing = Literal["error", "drop"]

MOST_NUMERIC_CLASSES = 50
"""Different whole numbers that still name classes where nothing else says so."""


def rows_text(rows: Iterable[int], shown: int = 3) -> str:
    """'rows 4, 9, 30, ...' of row numbers, counted from 0."""
    listed = [int(row) for row in rows]
    dots = ", ..." if len(listed) > shown else ""
    return f"row{'s' if len(listed) != 1 else ''} {', '.join(map(str, listed[:shown]))}{dots}"


def name_of(value: object) -> str:
    """A label or category as text; 3.0 and 3 are the same name."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct names in order: as numbers where all are numbers, else by their letters."""
    distinct = sorted(set(names))
    try:
        values = {name: float(name) for name in distinct}
    except ValueError:
        return tuple(distinct)
    if not all(map(math.isfinite, values.values())):
        return tuple(distinct)
    return tuple(sorted(distinct, key=values.__getitem__))


def to_names(values: pd.Series[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Distinct names of a column and the number of each row's name; -1 where it is missing."""
    raw, found = pd.factorize(values.astype(object))
    names = [name_of(value) for value in found]
    distinct = list(dict.fromkeys(names))
    place = {name: i for i, name in enumerate(distinct)}
    # The last entry answers for -1, the code of a missing value.
    merged = np.array([*(place[name] for name in names), -1], dtype=np.int64)
    return merged[raw], distinct


def present(values: pd.Series[Any], where: str, missing: Missing) -> NDArray[np.bool_]:
    """Which rows have a label; missing ones are an error unless they are to be dropped."""
    gaps = values.isna().to_numpy(dtype=bool) | _is_blank(values)
    count = int(gaps.sum())
    if count and missing == "error":
        raise HoldfastError(
            f"{where} has {count} missing value{'s' if count > 1 else ''} "
            f"({rows_text(values.index[gaps])}); drop them or pass --missing drop"
        )
    if count == len(values):
        raise HoldfastError(f"{where} has no value in any row")
    return ~gaps


def _is_blank(values: pd.Series[Any]) -> NDArray[np.bool_]:
    """Which values are words without a letter."""
    if pd.api.types.is_numeric_dtype(values):
        return np.zeros(len(values), dtype=bool)
    return values.map(lambda value: isinstance(value, str) and not value.strip()).to_numpy(dtype=bool)


def is_regression(values: pd.Series[Any], task: Task | None, *, count_integers: bool) -> bool:
    """Whether a label column is a target to regress on.

    Parameters
    ----------
    task: decides when given.
    count_integers: whether more than 50 distinct whole numbers speak for regression too, as in a table.
    """
    if task is not None:
        return task == "regression"
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return False
    numbers = values.dropna().to_numpy(dtype=np.float64)
    if pd.api.types.is_float_dtype(values):
        return floats_are_targets(numbers)
    return count_integers and _are_many(numbers)


def floats_are_targets(numbers: NDArray[np.floating[Any]]) -> bool:
    """Whether floats are targets to regress on and not classes: fractions are among them, or many different values.

    >>> floats_are_targets(np.array([0.0, 1.0, 2.0])), floats_are_targets(np.array([0.0, 1.0, 2.5]))
    (False, True)
    """
    return bool((numbers != np.round(numbers)).any()) or _are_many(numbers)


def _are_many(numbers: NDArray[Any]) -> bool:
    return len(np.unique(numbers)) > MOST_NUMERIC_CLASSES


def targets(values: pd.Series[Any], where: str) -> Tensor:
    """A numeric column as (N, 1) float32 targets."""
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(np.isnan(numbers))
    if len(bad):
        raise HoldfastError(
            f"{where} must hold numbers for a regression, but {rows_text(values.index[bad])} "
            f"{'do' if len(bad) > 1 else 'does'} not (row {values.index[bad[0]]}: {values.iloc[bad[0]]!r})"
        )
    with np.errstate(over="ignore"):
        return torch.from_numpy(numbers.astype(np.float32)).reshape(-1, 1)


def class_numbers(
    parts: Mapping[str, pd.Series[Any]],
    class_names: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """The classes of label columns that belong together, and their rows as class numbers.

    Parameters
    ----------
    parts: columns without gaps, by the words that errors call them.
    class_names: names that the source gives to the labels 0, 1, 2, ...
    classes: the classes of an earlier reading, to be kept; labels outside of them are an error.
    """
    if class_names is None and classes is not None and not all(map(_is_whole, classes)):
        class_names = classes
    coded = {where: to_names(values) for where, values in parts.items()}
    if class_names is not None:
        _check_distinct(class_names)
        for where, (codes, names) in coded.items():
            renamed = [_renamed(name, class_names) for name in names]
            _check_known(where, parts[where], codes, names, renamed, class_names)
            coded[where] = codes, [str(name) for name in renamed]
    if classes is None:
        classes = class_names or ordered(name for _, names in coded.values() for name in names)
    place = {name: i for i, name in enumerate(classes)}
    numbers = {}
    for where, (codes, names) in coded.items():
        found = [place.get(name) for name in names]
        _check_known(where, parts[where], codes, names, found, classes)
        numbers[where] = torch.from_numpy(np.array(found, dtype=np.int64)[codes])
    return tuple(classes), numbers


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def _check_distinct(names: Sequence[str]) -> None:
    twice = [name for name in dict.fromkeys(names) if list(names).count(name) > 1]
    if twice:
        raise HoldfastError(f"two classes share the name {twice[0]!r}; class names must differ")


def _renamed(name: str, class_names: Sequence[str]) -> str | None:
    """A label that is a class's name or number, as the name; None if it is neither."""
    if name in class_names:
        return name
    if len(name) <= LONGEST and _is_whole(name) and 0 <= int(name) < len(class_names):
        return class_names[int(name)]
    return None


def _check_known(
    where: str,
    values: pd.Series[Any],
    codes: NDArray[np.int64],
    names: Sequence[str],
    found: Sequence[object],
    classes: Sequence[str],
) -> None:
    """A label for which no class was found is an error."""
    if None not in found:
        return
    i = found.index(None)
    listed = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    raise HoldfastError(
        f"{where} holds the label {names[i]!r} ({rows_text(values.index[codes == i])}), "
        f"which is none of the {len(classes)} classes ({listed})"
    )
