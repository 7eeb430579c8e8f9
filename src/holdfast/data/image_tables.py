"""Tables with a picture in each row: a column that names image files, or that holds their bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from holdfast.data import images, tables
from holdfast.data.folders import SUFFIXES
from holdfast.data.labels import Missing, Task, present, rows_text
from holdfast.data.rows import Rows
from holdfast.data.summary import ColumnRead, ReadAs
from holdfast.errors import HoldfastError

_LOOK = 20
_BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*", b"P5", b"P6")
"""How the bytes of images begin."""


def image_column(frame: pd.DataFrame, folder: Path, aside: Sequence[str | None] = ()) -> str | None:
    """The column that names image files, of which some lie where it says, or that holds images; None: no such column.

    Parameters
    ----------
    folder: of the table; names are relative to it.
    aside: columns that hold something else.
    """
    for name in frame.columns:
        if name in aside:
            continue
        first = [_source(value, folder) for value in frame[name].dropna().head(_LOOK)]
        if not first or None in first:
            continue
        # What a foreign file names may be no name at all, such as one that is too long: os.path answers, Path raises.
        if any(os.path.isfile(source) if isinstance(source, Path) else True for source in first if source is not None):
            return str(name)
    return None


def unfound_warnings(frame: pd.DataFrame, folder: Path) -> list[str]:
    """A sentence for each column that names images of which none is there."""
    found = []
    for name in frame.columns:
        first = [_source(value, folder) for value in frame[name].dropna().head(_LOOK)]
        if first and all(isinstance(source, Path) for source in first):
            found.append(
                f"column {name!r} names images, of which none is found in {folder}; put them there to learn from them"
            )
    return found


def build(
    frame: pd.DataFrame,
    source: str,
    folder: Path,
    column: str,
    *,
    label: str | None = None,
    truth: str | None = None,
    task: Task | None = None,
    recipe: Mapping[str, Any] | None = None,
    missing: Missing = "error",
    skip_broken: bool = False,
    image_size: images.Size | None = None,
    encoder: str | None = None,
    merge: Mapping[str, str] | None = None,
    keep_spelling: bool = False,
    found: str = tables.IN_MEMORY,
) -> Rows:
    """The pictures of a table with their labels; other columns are not learned from.

    Parameters
    ----------
    column: that of the pictures; see ``tables.build`` and ``image_folders.read`` for the others.
    """
    label, truth = tables.label_columns(frame, source, label, truth, recipe)
    kept = present(frame[label], f"column {label!r}", missing)
    skipped = tables.without_label(kept)
    frame = frame[kept]
    how = (
        recipe.get("labels", {})
        if recipe
        else tables.labels_read(frame, label, truth, task, merge or {}, keep_spelling)
    )
    y, classes, true = tables.labels_of(frame, label, truth, task, recipe, how)
    sources, names = _pictures(frame, column, folder)
    fitted = recipe is None
    if recipe is None:
        encoder = None if encoder == "auto" and classes is None else encoder
        recipe = {
            **images.measure(sources, names, image_size, skip_broken, encoder),
            "classes": None if classes is None else list(classes),
            "label": label,
            "truth": truth,
            "labels": how,
            "column": column,
        }
    x, good = images.pictures(sources, names, recipe, skip_broken)
    index = torch.tensor(good, dtype=torch.int64)
    true = None if true is None else true[index]
    place = torch.from_numpy(kept.nonzero()[0])[index] if len(good) < len(kept) else None
    rows = Rows(x, y[index], classes, tuple(names[i] for i in good), true, recipe, place=place)
    if not fitted:
        return rows
    skipped += images.skipped_text(names, good)
    summary = tables.summary_of(frame.iloc[good][[label]], rows, label, truth, how, found, skipped)
    others = [name for name in frame.columns if name not in (column, label, truth)]
    read = ColumnRead(column, ReadAs.IMAGE, int(frame[column].isna().sum()))
    left = [ColumnRead(name, ReadAs.DROPPED, 0, "pictures are learned from") for name in others]
    return replace(rows, summary=replace(summary, columns=(read, *left)))


def inputs(
    frame: pd.DataFrame, folder: Path, recipe: Mapping[str, Any], skip_broken: bool = False
) -> tuple[Tensor | images.Pictures, tuple[str, ...]]:
    """The pictures of a table, which need not have a label column, and their names."""
    column = recipe.get("column")
    column = column if column in frame.columns else image_column(frame, folder)
    if column is None:
        raise HoldfastError(f"the table has no column of images, but the model was fitted on rows of kind {'image'!r}")
    sources, names = _pictures(frame, column, folder)
    x, kept = images.pictures(sources, names, recipe, skip_broken)
    return x, tuple(names[i] for i in kept)


def _pictures(frame: pd.DataFrame, column: str, folder: Path) -> tuple[list[Path | bytes], list[str]]:
    """The picture of each row, and what it is called; a gap is a picture that cannot be decoded."""
    values = frame[column]
    found = [b"" if _is_gap(value) else _source(value, folder) for value in values]
    other = [row for row, source in zip(frame.index, found, strict=True) if source is None]
    if other:
        raise HoldfastError(f"column {column!r} holds images, but something else in {rows_text(other)}")
    named = zip(values, frame.index, strict=True)
    names = [value if isinstance(value, str) else f"row {row}" for value, row in named]
    return [source for source in found if source is not None], names


def _is_gap(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _source(value: object, folder: Path) -> Path | bytes | None:
    """A file, or the bytes of one; None where a value is no picture."""
    if isinstance(value, dict):  # as Hugging Face keeps images
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value if value.startswith(_BEGINNINGS) else None
    if isinstance(value, str) and value.strip().lower().endswith(SUFFIXES):
        return folder / value.strip().replace("\\", "/")
    return None
