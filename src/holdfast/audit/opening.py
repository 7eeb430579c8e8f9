"""Data of any kind as the subject of a check: a path, a table in memory, or inputs and labels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from holdfast.audit.reading import read_by_encoder
from holdfast.audit.subject import Subject
from holdfast.data import tables
from holdfast.data.formats import file_options
from holdfast.data.image_tables import image_column
from holdfast.data.kinds import kind_of
from holdfast.data.labels import Missing, present
from holdfast.data.load import Table, load_table
from holdfast.data.read import check_holds_several
from holdfast.data.rows import Rows, as_rows
from holdfast.data.scale import scaled_targets
from holdfast.data.source import Source
from holdfast.progress import MakeProgress, silent

BUILDING = ("truth", "task", "ignore", "merge", "keep_spelling")
"""Options of ``holdfast.read`` that say how a table becomes rows."""
Data = str | os.PathLike[str] | pd.DataFrame | Rows | tuple[Any, Any]


def open_subject(
    data: Data,
    test: Data | None,
    label: str | None,
    *,
    encoder: str | None = "auto",
    features: str | os.PathLike[str] | None = None,
    encoding_bar: MakeProgress = silent,
    **reading: Any,
) -> Subject:
    """Read data as ``fit`` does: as words and pixels, and by a pre-trained network.

    Parameters
    ----------
    encoder, features: see ``check``.
    encoding_bar: makes the bar of an encoding.
    reading: further options of ``holdfast.read``.
    """
    options = {name: value for name, value in reading.items() if value is not None}
    plain = _plain(data, test, label, **options)
    made = read_by_encoder(plain.rows, plain.frame, data, encoder, features, options, encoding_bar)
    return replace(plain, reading=made)


def _plain(data: Data, test: Data | None, label: str | None, **options: Any) -> Subject:
    if isinstance(data, pd.DataFrame):
        frame = tables.checked(data.reset_index(drop=True), "the table")
        return _of_table(Table(frame, None, tables.IN_MEMORY), "the table", None, test, label, **options)
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        kind = kind_of(path)
        check_holds_several(path, kind, options.get("table"))
        table = load_table(path, **file_options(options)) if kind == "table" else None
        aside = (label, options.get("truth"))
        if table is not None and image_column(table.frame, path.parent, aside) is None:
            return _of_table(table, str(data), path, test, label, **options)
        held_out = str(test) if isinstance(test, str | os.PathLike) else "0"
        rows, own = Source.at(path, held_out, 0, label=label, **options).load()
        return Subject(rows, own if test is None or isinstance(test, str | os.PathLike) else as_rows(test, rows))  # type: ignore[arg-type]
    rows = scaled_targets(as_rows(data))
    return Subject(rows, None if test is None else scaled_targets(as_rows(test, rows), rows))  # type: ignore[arg-type]


def _of_table(table: Table, source: str, path: Path | None, test: Any, label: str | None, /, **options: Any) -> Subject:
    """Rows of a table, and of the test rows that were named or that came with it.

    Parameters
    ----------
    source: what errors call it.
    path: where it was read from; None where it is in memory.
    """
    missing: Missing = options.get("missing_labels", "error")
    kept = {name: options[name] for name in BUILDING if name in options}
    rows = tables.build(table.frame, source, label=label, missing=missing, found=table.found, **kept)
    rows = replace(rows, source_index=torch.arange(len(rows)))
    if path is not None:
        rows = replace(rows, source=asdict(Source.at(path, "0", 0, label=label, **options)))
    rows = scaled_targets(rows)
    frame = table.frame[present(table.frame[rows.recipe["label"]], source, "drop")]
    further, where = (table.test, f"{source}: test") if test is None else _further(test, options)
    if further is None:
        return Subject(rows, None, frame)
    held_out = scaled_targets(tables.build(further, where, recipe=rows.recipe, missing=missing), rows)
    return Subject(rows, held_out, frame, further[present(further[rows.recipe["label"]], where, "drop")])


def _further(test: Any, options: Mapping[str, Any]) -> tuple[pd.DataFrame, str]:
    """The table of the test rows, and what errors call it."""
    if isinstance(test, pd.DataFrame):
        return tables.checked(test.reset_index(drop=True), "the table"), "the table"
    return tables.load(Path(test), **file_options(options)), str(test)
