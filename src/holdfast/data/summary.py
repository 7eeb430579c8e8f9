"""What was read: rows, classes, each column as what it was taken for, what was left out, and what looks odd."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from holdfast.data.notation import in_words, is_gap

WIDTH = 80
SHOWN_COLUMNS, SHOWN_CLASSES, SHOWN_NAMES = 24, 12, 3


class ReadAs(StrEnum):
    """What a column is taken for."""

    NUMBER = "number"
    DATE = "date"
    CATEGORY = "category"
    TEXT = "text"
    LIST = "list of numbers"
    IMAGE = "image"
    DROPPED = "dropped"


@dataclass(frozen=True)
class ColumnRead:
    """One column: what it is taken for, rows in which it has no value, and a few words more; why it is dropped."""

    name: str
    read_as: ReadAs
    gaps: int
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """What was read, before anything is trained on it.

    Parameters
    ----------
    found: what the data is, in plain words.
    rows: how many were read.
    labels: classes with their counts, those with most rows first; for a regression empty.
    targets: smallest and largest target of a regression.
    columns: of a table.
    skipped: what was left out, one sentence each.
    merged: spellings that were taken for one class, one sentence each.
    warnings: what looks odd, one sentence each, with what to do.
    """

    found: str
    rows: int
    labels: tuple[tuple[str, int], ...] = ()
    targets: tuple[float, float] | None = None
    columns: tuple[ColumnRead, ...] = ()
    skipped: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """The summary as text, no line wider than asked for, without what a terminal would obey."""
        return map(_harmless, self._lines(width))

    def _lines(self, width: int) -> Iterator[str]:
        yield from _wrapped("data", f"{self.found}; {self.rows:,} rows", width)
        if self.labels:
            shown = [f"{name} {count:,}" for name, count in self.labels[:SHOWN_CLASSES]]
            more = len(self.labels) - len(shown)
            yield from _wrapped("classes", ", ".join(shown) + (f" and {more:,} more" if more else ""), width)
        if self.targets is not None:
            yield from _wrapped("targets", f"numbers from {self.targets[0]:.6g} to {self.targets[1]:.6g}", width)
        if self.columns:
            yield from _wrapped("columns", self.counted, width)
            yield from self._column_lines(width)
        for title, sentences in (("skipped", self.skipped), ("labels", self.merged), ("warning", self.warnings)):
            for sentence in sentences:
                yield from _wrapped(title, sentence, width)

    @property
    def counted(self) -> str:
        """How many columns were taken for what."""
        kinds = [column.read_as for column in self.columns]
        counts = {kind: kinds.count(kind) for kind in ReadAs if kind in kinds}
        return ", ".join(f"{count:,} {_plural(kind, count)}" for kind, count in counts.items())

    @property
    def shown(self) -> list[ColumnRead]:
        """Columns worth a line where there are many: those dropped, or with gaps or a note, first."""
        if len(self.columns) <= SHOWN_COLUMNS:
            return list(self.columns)
        odd = [column for column in self.columns if column.read_as is ReadAs.DROPPED or column.note or column.gaps]
        return odd[:SHOWN_COLUMNS]

    def _column_lines(self, width: int) -> Iterator[str]:
        wide = min(max((len(column.name) for column in self.shown), default=0), 28)
        for column in self.shown:
            name = column.name if len(column.name) <= wide else column.name[: wide - 1] + "…"
            text = f"  {name:<{wide}}  {_said(column)}"
            yield from textwrap.wrap(text, width, subsequent_indent=" " * (wide + 4))
        if 0 < len(self.shown) < len(self.columns):
            yield f"  and {len(self.columns) - len(self.shown):,} more"


def summary_of(
    found: str,
    y: Tensor,
    classes: Sequence[str] | None,
    skipped: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> Summary:
    """The summary of rows that are of no table."""
    low_high = target_range(y, classes)
    return Summary(found, len(y), class_counts(y, classes), low_high, skipped=tuple(skipped), warnings=tuple(warnings))


def columns_read(frame: pd.DataFrame, recipe: Mapping[str, Any]) -> tuple[ColumnRead, ...]:
    """What the columns of a table are taken for, in their order."""
    fitted = {spec["name"]: spec for spec in recipe["columns"]}
    dropped: Mapping[str, str] = recipe["dropped"]
    found = []
    for name in frame.columns:
        if name in fitted:
            found.append(_column(frame[name], name, fitted[name]))
        elif name in dropped:
            found.append(ColumnRead(name, ReadAs.DROPPED, int(frame[name].isna().sum()), dropped[name]))
    return tuple(found)


def class_counts(y: Tensor, classes: Sequence[str] | None) -> tuple[tuple[str, int], ...]:
    """Classes with their counts, those with most rows first; empty where there are none."""
    if classes is None:
        return ()
    counts = torch.bincount(y, minlength=len(classes)).tolist()
    return tuple(sorted(zip(classes, counts, strict=True), key=lambda item: -item[1]))


def target_range(y: Tensor, classes: Sequence[str] | None) -> tuple[float, float] | None:
    """Smallest and largest target; None of classes, and where there are no labels."""
    return None if classes is not None or not y.numel() else (float(y.min()), float(y.max()))


def listed(names: Sequence[str], most: int = SHOWN_NAMES) -> str:
    """'a, b, c, ...' of names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _column(values: pd.Series[Any], name: str, spec: Mapping[str, Any]) -> ColumnRead:
    written = spec.get("written")
    gaps = int(np.sum(is_gap(values) if written else values.isna()))
    if spec["as"] == "number":
        dated = (written or {}).get("date") is not None or _holds_dates(values)
        return ColumnRead(name, ReadAs.DATE if dated else ReadAs.NUMBER, gaps, in_words(written) if written else "")
    if spec["as"] == "category":
        more = "more than " if spec["other"] else ""
        return ColumnRead(name, ReadAs.CATEGORY, gaps, f"{more}{len(spec['values'])} values")
    return ColumnRead(name, ReadAs.TEXT if spec["as"] == "text" else ReadAs.LIST, gaps)


def _holds_dates(values: pd.Series[Any]) -> bool:
    return pd.api.types.infer_dtype(values, skipna=True) in ("date", "datetime", "datetime64")


def _said(column: ColumnRead) -> str:
    if column.read_as is ReadAs.DROPPED:
        return f"dropped: {column.note}"
    gaps = f"{column.gaps:,} gap{'s' if column.gaps > 1 else ''}" if column.gaps else ""
    return ", ".join(filter(None, (column.read_as, column.note, gaps)))


def _plural(kind: ReadAs, count: int) -> str:
    if count == 1 or kind is ReadAs.DROPPED:
        return kind
    return {ReadAs.CATEGORY: "categories", ReadAs.LIST: "lists of numbers"}.get(kind, f"{kind}s")


def _harmless(line: str) -> str:
    return "".join("\ufffd" if unicodedata.category(letter) == "Cc" else letter for letter in line)


def _wrapped(title: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(f"{title}: {text}", width, subsequent_indent="  ", break_on_hyphens=False)
