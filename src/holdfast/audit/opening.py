"""Data of any kind as the subject of a check: a path, a table in memory, or inputs and labels."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from holdfast.audit.reading import read_by_encoder
from holdfast.audit.subject import Subject
from holdfast.data import tables
from holdfast.data.labels import Missing, present
from holdfast.data.rows import Rows, as_rows
from holdfast.data.scale import scaled_targets
from holdfast.data.source import Source
from holdfast.progress import MakeProgress, silent

Data = str | os.PathLike[str] | pd.DataFrame | Rows | tuple[Any, Any]


def open_subject(
    data: Data,
    test: Data | None,
    label: str | None,
    *,
    encoder: str | None = "auto",
    features: str | os.PathLike[str] | None = None,
    encoding: MakeProgress = silent,
    **reading: Any,
) -> Subject:
    """Read data as ``fit`` does: as words and pixels, and by a pre-trained network.

    Parameters
    ----------
    encoder, features: see ``check``.
    encoding: makes the bar of an encoding.
    reading: further options of ``holdfast.read``.
    """
    options = {name: value for name, value in reading.items() if value is not None}
    plain = _plain(data, test, label, **options)
    made = read_by_encoder(plain.rows, plain.frame, data, encoder, features, options, encoding)
    return replace(plain, reading=made)


def _plain(data: Data, test: Data | None, label: str | None, **options: Any) -> Subject:
    if isinstance(data, str | os.PathLike) and not _is_table(data):
        held_out = str(test) if isinstance(test, str | os.PathLike) else "0"
        rows, own = Source.at(Path(data), held_out, 0, label=label, **options).load()
        return Subject(rows, own if test is None or isinstance(test, str | os.PathLike) else as_rows(test, rows))  # type: ignore[arg-type]
    if isinstance(data, str | os.PathLike | pd.DataFrame):
        return _of_table(data, test, label, **options)
    rows = scaled_targets(as_rows(data))
    return Subject(rows, None if test is None else scaled_targets(as_rows(test, rows), rows))  # type: ignore[arg-type]


def _of_table(data: Any, test: Any, label: str | None, **options: Any) -> Subject:
    missing: Missing = options.get("missing_labels", "error")
    kept = {name: options[name] for name in ("truth", "task") if name in options}
    frame, source = _frame(data)
    rows = tables.build(frame, source, label=label, missing=missing, **kept)
    rows = replace(rows, source_index=torch.arange(len(rows)))
    if not isinstance(data, pd.DataFrame):
        rows = replace(rows, source=asdict(Source.at(Path(data), "0", 0, label=label, **options)))
    rows = scaled_targets(rows)
    frame = frame[present(frame[rows.recipe["label"]], source, "drop")]
    if test is None:
        return Subject(rows, None, frame)
    further, where = _frame(test)
    held_out = scaled_targets(tables.build(further, where, recipe=rows.recipe, missing=missing), rows)
    return Subject(rows, held_out, frame, further[present(further[rows.recipe["label"]], where, "drop")])


def _frame(data: Any) -> tuple[pd.DataFrame, str]:
    """A table, and what errors call it."""
    if isinstance(data, pd.DataFrame):
        return tables.checked(data.reset_index(drop=True), "the table"), "the table"
    return tables.load(Path(data)), str(data)


def _is_table(path: str | os.PathLike[str]) -> bool:
    return Path(path).is_file() and Path(path).name.lower().endswith(tables.SUFFIXES)
