"""Tables: CSV, TSV and Parquet files with one row per example."""

from __future__ import annotations

import difflib
import gzip
import warnings
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from holdfast.data import columns
from holdfast.data.labels import Missing, Task, class_numbers, is_regression, present, targets
from holdfast.data.rows import Rows
from holdfast.data.tune import table_tokens, to_tune, tuned_in
from holdfast.encoders.named import usual_for_texts
from holdfast.errors import HoldfastError
from holdfast.progress import MakeProgress, silent
from holdfast.registry import columns_near

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")


def read(
    path: Path,
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
) -> Rows:
    """The rows of a table.

    Numbers are standardised, gaps in them filled with the median and marked in a column of their own; words
    with few distinct values are one-hot; free text is TF-IDF, and the features of an encoder beside it; lists of
    numbers are features; columns of identifiers are dropped, and the first whose values all differ names the rows.

    Parameters
    ----------
    label: the column that holds the labels; that of the recipe by default.
    truth: a column that holds true labels; never a feature.
    task: by default whole numbers, words and booleans are classes; other numbers, and whole numbers with more
        than 50 distinct values, are targets.
    recipe: the encoding of an earlier reading, used instead of fitting one.
    encoder: of a pre-trained network that reads free text as well, or "auto": the usual one, if it is installed.
    alone: its columns are all that there is to learn from.
    tune: the encoder is to be tuned: inputs are the tokens of the text.
    """
    return build(
        load(path), str(path), label=label, truth=truth, task=task, recipe=recipe, missing=missing, encoder=encoder,
        progress=progress, alone=alone, tune=tune,
    )  # fmt: skip


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
) -> Rows:
    """The rows of a table in memory; ``source`` is what errors call it."""
    label = label or (recipe["label"] if recipe else None)
    if label is None:
        raise HoldfastError(f"{source}: pass --label with the column of the labels; {columns_near('label', frame)}")
    _require(frame, label, source)
    if truth is not None:
        _require(frame, truth, source)
    elif recipe and recipe["truth"] in frame.columns:
        truth = recipe["truth"]
    kept = present(frame[label], f"column {label!r}", missing)
    dropped = not kept.all()
    frame = frame[kept]
    y, classes, true = _labels(frame, label, truth, task, recipe)
    if recipe is None:
        recipe = _fit(frame, label, truth, classes, encoder, progress, alone)
    if tuned_in(recipe) is not None:
        x, tune = table_tokens(frame, recipe), False  # features of further rows would help nobody
    elif alone:
        x = torch.from_numpy(columns.encode(frame, recipe["columns"], progress))
    else:
        x = torch.zeros(len(frame), 1)
    names = _names(frame, recipe["names"])
    if names is None and dropped:
        # Without these the rows of a report could not be found again in the file.
        names = tuple(map(str, frame.index))
    place = torch.from_numpy(kept.nonzero()[0]) if dropped else None
    rows = Rows(x, y, classes, names, true, recipe, content=columns.content(frame, recipe["columns"]), place=place)
    return to_tune(rows, table_tokens(frame, recipe)) if tune else rows


def read_inputs(
    path: Path, recipe: Mapping[str, Any], progress: MakeProgress = silent
) -> tuple[Tensor, tuple[str, ...] | None]:
    """The features of a table, which need not have a label column, and the names of its rows."""
    frame = load(path)
    names = _names(frame, recipe["names"])
    if tuned_in(recipe) is not None:
        return table_tokens(frame, recipe), names
    return torch.from_numpy(columns.encode(frame, recipe["columns"], progress)), names


def count_and_names(path: Path, recipe: Mapping[str, Any]) -> tuple[int, tuple[str, ...] | None]:
    """How many rows a table has, and their names."""
    frame = load(path)
    return len(frame), _names(frame, recipe["names"])


def load(path: Path) -> pd.DataFrame:
    """The table as the file holds it; '?' counts as missing besides what pandas takes for missing."""
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would otherwise lose their last fields.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = _load(path)
    except pd.errors.EmptyDataError:
        raise HoldfastError(f"{path} is empty") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise HoldfastError(f"{path} is not a well-formed table: {str(error).strip()}") from None
    except UnicodeDecodeError as error:
        raise HoldfastError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise HoldfastError(f"{path} is cut short or damaged: {error}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise HoldfastError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    return checked(frame, str(path))


def checked(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """A table with rows, and columns that differ by name."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise HoldfastError(f"{source} has two columns named {twice!r}")
    if frame.empty:
        raise HoldfastError(f"{source} holds no rows")
    return frame


def _load(path: Path) -> pd.DataFrame:
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        frame = pd.read_parquet(path)
        return frame.reset_index(drop=frame.index.name is None)
    return pd.read_csv(
        path,
        sep="\t" if ".tsv" in name[-7:] else ",",
        compression="gzip" if name.endswith(".gz") else None,
        index_col=False,
        low_memory=False,
        na_values=["?"],
    )


def _labels(
    frame: pd.DataFrame,
    label: str,
    truth: str | None,
    task: Task | None,
    recipe: Mapping[str, Any] | None,
) -> tuple[Tensor, tuple[str, ...] | None, Tensor | None]:
    given = {f"column {name!r}": frame[name] for name in (label, truth) if name is not None}
    where, true_where = f"column {label!r}", f"column {truth!r}"
    if truth is not None:
        present(frame[truth], true_where, "error")
    if recipe is not None:
        task = "regression" if recipe["classes"] is None else "classification"
    if is_regression(frame[label], task, count_integers=True):
        numbers = {name: targets(values, name) for name, values in given.items()}
        return numbers[where], None, numbers.get(true_where)
    classes, numbers = class_numbers(given, classes=recipe["classes"] if recipe else None)
    return numbers[where], classes, numbers.get(true_where)


def _fit(
    frame: pd.DataFrame,
    label: str,
    truth: str | None,
    classes: Sequence[str] | None,
    encoder: str | None,
    progress: MakeProgress,
    alone: bool,
) -> dict[str, Any]:
    features = frame.drop(columns=[name for name in (label, truth) if name is not None])
    fitted, dropped = columns.fit(features, usual_for_texts() if encoder == "auto" else encoder, progress)
    if encoder not in (None, "auto") and not any("encoder" in spec for spec in fitted):
        raise HoldfastError(f"no column holds text that {encoder} could read; leave it out (--net mlp, no --tune)")
    if not fitted and alone:
        why = "; ".join(f"{name!r} dropped: {reason}" for name, reason in dropped.items())
        aside = f" ({why})" if why else ""
        raise HoldfastError(f"no column besides {label!r} can be learned from{aside}")
    keys = [name for name in dropped if frame[name].notna().all() and frame[name].is_unique]
    return {
        "kind": "table",
        "label": label,
        "truth": truth,
        "classes": None if classes is None else list(classes),
        "names": keys[0] if keys else None,
        "columns": fitted,
        "dropped": dropped,
    }


def _names(frame: pd.DataFrame, column: str | None) -> tuple[str, ...] | None:
    if column is None or column not in frame.columns:
        return None
    known = frame[column].notna().to_numpy(dtype=bool)
    named = zip(frame[column], known, frame.index, strict=True)
    return tuple(str(value) if there else f"row {row}" for value, there, row in named)


def _require(frame: pd.DataFrame, column: str, source: str) -> None:
    if column in frame.columns:
        return
    lowered = {name.lower(): name for name in map(str, frame.columns)}
    close = difflib.get_close_matches(column.lower(), lowered, n=1)
    meant = f" (did you mean {lowered[close[0]]!r}?)" if close else ""
    raise HoldfastError(f"{source} has no column {column!r}{meant}; {columns_near(column, frame)}")
