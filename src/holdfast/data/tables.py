"""Tables: one row per example, from a file of any format or in memory."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from holdfast.data import columns
from holdfast.data.hygiene import Fold, fold_for, label_warnings, leaks, merged_text, respelt, spellings
from holdfast.data.labels import (
    Missing,
    Task,
    class_numbers,
    floats_are_targets,
    is_regression,
    present,
    rows_text,
    targets,
    to_names,
)
from holdfast.data.load import checked as checked
from holdfast.data.load import load as load
from holdfast.data.notation import notation_of, parsed
from holdfast.data.rows import Rows
from holdfast.data.summary import Summary, class_counts, columns_read, target_range
from holdfast.data.tune import table_tokens, to_tune, tuned_in
from holdfast.encoders.named import usual_for_texts
from holdfast.errors import HoldfastError
from holdfast.progress import MakeProgress, silent
from holdfast.registry import columns_near

IN_MEMORY = "table in memory"


def build(
    frame: pd.DataFrame,
    source: str,
    *,
    label: str | None = None,
    truth: str | None = None,
    task: Task | None = None,
    recipe: Mapping[str, Any] | None = None,
    missing: Missing = "error",
    encoder: str | None = None,
    progress: MakeProgress = silent,
    alone: bool = True,
    tune: bool = False,
    ignore: Sequence[str] = (),
    merge: Mapping[str, str] | None = None,
    keep_spelling: bool = False,
    found: str = IN_MEMORY,
) -> Rows:
    """The rows of a table.

    Numbers, also as people write them (``3,14``, ``12,345.67``, ``12.3%``), and dates are standardised, gaps in them
    filled with the median and marked in a column of their own; words with few distinct values are one-hot; free text is
    TF-IDF, and the features of an encoder beside it; lists of numbers are features. Columns of identifiers, without a
    value and with the same value throughout are dropped, and the first whose values all differ names the rows.

    Parameters
    ----------
    source: what errors call it.
    label: the column that holds the labels; that of the recipe by default.
    truth: a column that holds true labels; never a feature.
    task: by default whole numbers, words and booleans are classes; other numbers, and whole numbers with more
        than 50 distinct values, are targets.
    recipe: the encoding of an earlier reading, used instead of fitting one.
    encoder: of a pre-trained network that reads free text as well, or "auto": the usual one, if it is installed.
    alone: its columns are all that there is to learn from.
    tune: the encoder is to be tuned: inputs are the tokens of the text.
    ignore: columns that are not learned from.
    merge: labels by the classes that they belong to.
    keep_spelling: labels that differ by case or white space alone stay classes of their own.
    found: what the summary calls it.
    """
    label, truth = label_columns(frame, source, label, truth, recipe)
    for name in ignore:
        require(frame, name, source)
    kept = present(frame[label], f"column {label!r}", missing)
    skipped = without_label(kept)
    frame = frame[kept]
    how = recipe.get("labels", {}) if recipe else labels_read(frame, label, truth, task, merge or {}, keep_spelling)
    y, classes, true = labels_of(frame, label, truth, task, recipe, how)
    fitted = recipe is None
    if recipe is None:
        aside = [name for name in (label, truth) if name is not None]
        features = frame.drop(columns=[*aside, *(name for name in ignore if name not in aside)])
        recipe = {
            "kind": "table",
            "label": label,
            "truth": truth,
            "classes": None if classes is None else list(classes),
            "labels": how,
            **_fit(features, label, encoder, progress, alone, ignore),
        }
    if tuned_in(recipe) is not None:
        x, tune = table_tokens(frame, recipe), False  # features of further rows would help nobody
    elif alone:
        x = torch.from_numpy(columns.encode(frame, recipe["columns"], progress))
    else:
        x = torch.zeros(len(frame), 1)
    names = row_names(frame, recipe["names"])
    if names is None and skipped:
        # Without these the rows of a report could not be found again in the file.
        names = tuple(map(str, frame.index))
    place = torch.from_numpy(kept.nonzero()[0]) if skipped else None
    content = columns.content(frame, recipe["columns"])
    rows = Rows(x, y, classes, names, true, recipe, content=content, place=place)
    if fitted:
        summary = summary_of(frame, rows, label, truth, how, found, skipped)
        rows = replace(rows, summary=replace(summary, columns=columns_read(frame, recipe)))
    return to_tune(rows, table_tokens(frame, recipe)) if tune else rows


def inputs(
    frame: pd.DataFrame, recipe: Mapping[str, Any], progress: MakeProgress = silent
) -> tuple[Tensor, tuple[str, ...] | None]:
    """The features of a table, which need not have a label column, and the names of its rows."""
    names = row_names(frame, recipe["names"])
    if tuned_in(recipe) is not None:
        return table_tokens(frame, recipe), names
    return torch.from_numpy(columns.encode(frame, recipe["columns"], progress)), names


def label_columns(
    frame: pd.DataFrame, source: str, label: str | None, truth: str | None, recipe: Mapping[str, Any] | None
) -> tuple[str, str | None]:
    """The columns of the labels and of the true labels, those of the recipe where none is named."""
    label = label or (recipe.get("label") if recipe else None)
    if label is None:
        raise HoldfastError(f"{source}: pass --label with the column of the labels; {columns_near('label', frame)}")
    require(frame, label, source)
    nested = frame[label].map(lambda value: isinstance(value, columns.NESTED) and not isinstance(value, bytes))
    if nested.any():
        raise HoldfastError(f"{source}: column {label!r} holds lists or objects; labels are words or numbers")
    if truth is not None:
        require(frame, truth, source)
    elif recipe and recipe.get("truth") in frame.columns:
        truth = recipe["truth"]
    return label, truth


def labels_read(
    frame: pd.DataFrame, label: str, truth: str | None, task: Task | None, merge: Mapping[str, str], keep_spelling: bool
) -> dict[str, Any]:
    """How labels become classes or targets, as the part of a recipe: by which spellings, or by which notation."""
    values = frame[label]
    if is_regression(values, task, count_integers=True):
        written = notation_of(values)
        return {} if written is None or "date" in written else {"written": written}
    if task is None and (written := notation_of(values)) is not None and "date" not in written:
        numbers = parsed(values, written)
        if np.isfinite(numbers).all() and floats_are_targets(numbers):
            return {"written": written}
    given = values if truth is None else pd.concat([values, frame[truth].dropna()])
    counts = _counts(given)
    fold = Fold.EXACT if keep_spelling else fold_for(list(counts))
    return {"fold": fold.value, "spellings": spellings(counts, fold, merge)}


def labels_of(
    frame: pd.DataFrame,
    label: str,
    truth: str | None,
    task: Task | None,
    recipe: Mapping[str, Any] | None,
    how: Mapping[str, Any],
) -> tuple[Tensor, tuple[str, ...] | None, Tensor | None]:
    """Class numbers or targets of each row, the classes, and the true ones where there are such."""
    where, true_where = f"column {label!r}", f"column {truth!r}"
    if truth is not None:
        present(frame[truth], true_where, "error")
    known = recipe["classes"] if recipe is not None else None
    given = {f"column {name!r}": _read(frame[name], how, known) for name in (label, truth) if name is not None}
    if recipe is not None:
        task = "regression" if known is None else "classification"
    if is_regression(given[where], task, count_integers=True):
        numbers = {name: targets(values, name) for name, values in given.items()}
        return numbers[where], None, numbers.get(true_where)
    classes, numbers = class_numbers(given, classes=known)
    return numbers[where], classes, numbers.get(true_where)


def summary_of(
    frame: pd.DataFrame,
    rows: Rows,
    label: str,
    truth: str | None,
    how: Mapping[str, Any],
    found: str,
    skipped: Sequence[str],
) -> Summary:
    """What was read of a table besides its columns."""
    given = _read(frame[label], how, None)
    learned = frame.drop(columns=[name for name in rows.recipe.get("dropped", ()) if name in frame.columns])
    if rows.classes is None:
        warnings, merged = leaks(learned, label, given, truth), []
    else:
        warnings = label_warnings(learned, label, given, truth)
        merged = merged_text(_counts(frame[label]), how["spellings"])
    return Summary(
        found,
        len(rows),
        class_counts(rows.y, rows.classes),
        target_range(rows.y, rows.classes),
        skipped=tuple(skipped),
        merged=tuple(merged),
        warnings=tuple(warnings),
    )


def without_label(kept: np.ndarray[Any, Any]) -> list[str]:
    """What is said of rows that have no label; nothing where all have one."""
    gone = np.flatnonzero(~kept)
    return [f"{len(gone):,} without a label ({rows_text(gone)})"] if len(gone) else []


def row_names(frame: pd.DataFrame, column: str | None) -> tuple[str, ...] | None:
    """The names that a column gives to rows."""
    if column is None or column not in frame.columns:
        return None
    known = frame[column].notna().to_numpy(dtype=bool)
    named = zip(frame[column], known, frame.index, strict=True)
    return tuple(str(value) if there else f"row {row}" for value, there, row in named)


def require(frame: pd.DataFrame, column: str, source: str) -> None:
    """A column that is not there is an error which names those that may be meant."""
    if column in frame.columns:
        return
    lowered = {name.strip().lower(): name for name in map(str, frame.columns)}
    close = difflib.get_close_matches(column.strip().lower(), lowered, n=1)
    meant = f" (did you mean {lowered[close[0]]!r}?)" if close else ""
    meant = " (if its fields are parted by something else, pass --delimiter)" if frame.shape[1] == 1 else meant
    raise HoldfastError(f"{source} has no column {column!r}{meant}; {columns_near(column, frame)}")


def _read(values: pd.Series[Any], how: Mapping[str, Any], classes: Sequence[str] | None) -> pd.Series[Any]:
    """A column of labels by the spelling or the notation of a recipe."""
    if "fold" in how:
        return respelt(values, how, classes)
    if "written" not in how or pd.api.types.is_numeric_dtype(values):
        return values
    numbers = pd.Series(parsed(values, how["written"]), index=values.index, name=values.name)
    return numbers if numbers.notna().all() else values  # the error about it shows the words


def _counts(values: pd.Series[Any]) -> dict[str, int]:
    codes, names = to_names(values)
    return dict(zip(names, np.bincount(codes[codes >= 0], minlength=len(names)).tolist(), strict=True))


def _fit(
    features: pd.DataFrame,
    label: str,
    encoder: str | None,
    progress: MakeProgress,
    alone: bool,
    ignore: Sequence[str],
) -> dict[str, Any]:
    """The part of a recipe that says how columns are encoded."""
    fitted, dropped = columns.fit(features, usual_for_texts() if encoder == "auto" else encoder, progress)
    if encoder not in (None, "auto") and not any("encoder" in spec for spec in fitted):
        raise HoldfastError(f"no column holds text that {encoder} could read; leave it out (--net mlp, no --tune)")
    if not fitted and alone:
        fitted, dropped = columns.fit(features, None, progress, fewest=1)  # rare words are better than none
    if not fitted and alone:
        why = "; ".join(f"{name!r} dropped: {reason}" for name, reason in dropped.items())
        aside = f" ({why})" if why else ""
        raise HoldfastError(f"no column besides {label!r} can be learned from{aside}")
    keys = [name for name in dropped if features[name].notna().all() and _is_unique(features[name])]
    dropped |= dict.fromkeys(ignore, columns.IGNORED)
    return {"names": keys[0] if keys else None, "columns": fitted, "dropped": dropped}


def _is_unique(values: pd.Series[Any]) -> bool:
    try:
        return bool(values.is_unique)
    except TypeError:  # dicts and the like
        return False
