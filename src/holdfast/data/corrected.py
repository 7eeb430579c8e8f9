"""Corrected labels: what ``holdfast export`` has written, put in the place of the labels that the data has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from holdfast.data import tables
from holdfast.data.labels import name_of, rows_text
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.spreadsheet import read_back

YES, NO = ("true", "yes", "y", "t", "x", "1"), ("false", "no", "n", "f", "0", "", "nan", "none")
"""What people write for a row that is reviewed, and for one that is not, in any case."""
ROUNDINGS = 8
"""Roundings of float32 that a target may have gone through since it was read: scaled, scaled back and written."""


def with_corrected(rows: Rows, path: Path) -> Rows:
    """The rows with the labels of a file; what the data says stays beside them as their original label.

    Rows that a person has reviewed are marked, with the names of those who did. A file that was made for other data is
    refused: its column ``original`` (``given`` in files that have none) must be what the data says.
    """
    table = read_back(tables.load(path))
    before = "original" if any(_is_label(name, "original") for name in table.columns) else "given"
    stood, label = _named(rows, before), _named(rows, "label")
    gone = [name for name in ("row", "reviewed", *label, *stood) if name not in table.columns]
    if gone:
        raise HoldfastError(f"{path} lacks the column {gone[0]!r}; pass a file that holdfast export has written")
    place = pd.to_numeric(table["row"], errors="coerce").to_numpy(dtype=np.float64)
    if not (np.isin(place, np.arange(len(rows))).all() and len(np.unique(place)) == len(place)):
        raise HoldfastError(f"{path} names rows twice or rows that the data does not have; it has {len(rows)} rows")
    index = torch.from_numpy(place.astype(np.int64))
    other = _apart(_values(table[stood], rows, path), index, rows)
    if bool(other.any()):
        row = int(index[other][0])
        raise HoldfastError(f"{path} was exported for other data: row {row} has another label there")
    wanted, y, reviewed = _values(table[label], rows, path), rows.y.clone(), torch.zeros(len(rows), dtype=torch.bool)
    reviewed[index] = _reviewed(table["reviewed"], path)
    # A target that nobody has changed stays as the data has it, to the last bit, however many rounds it has been
    # through.
    changed = _apart(wanted, index, rows)
    y[index[changed]] = wanted[changed]
    reviewer, names = _reviewers(table, index, reviewed)
    rows = replace(rows, y=y, reviewed=reviewed, original=rows.y, reviewer=reviewer, reviewers=names)
    return rows if bool(reviewed.any()) else _warned(rows, path)


def _is_label(column: str, name: str) -> bool:
    return column == name or (column.startswith(f"{name}_") and column.removeprefix(f"{name}_").isdecimal())


def _named(rows: Rows, name: str) -> list[str]:
    """The columns that hold a label: one, or one for each of several targets."""
    single = rows.classes is not None or rows.y.shape[1] == 1
    return [name] if single else [f"{name}_{k}" for k in range(rows.y.shape[1])]


def _apart(values: Tensor, index: Tensor, rows: Rows) -> Tensor:
    """(M,) whether labels differ from those that the data has for some rows; targets by more than is lost when they are
    scaled and back.

    A run has its targets as float32 around their median, in units of the middle half: near zero a target is as coarse
    as one of the size of that median.
    """
    given = rows.y[index]
    if rows.classes is not None:
        return values != given
    middle = np.abs(np.percentile(rows.y.double().numpy(), (25, 50, 75), axis=0)).max(0)
    size = given.double().abs() + torch.from_numpy(middle)
    far = (values.double() - given.double()).abs() > ROUNDINGS * torch.finfo(torch.float32).eps * size
    return far.any(1)


def _values(table: pd.DataFrame, rows: Rows, path: Path) -> Tensor:
    if rows.classes is None:
        numbers = table.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float32)
        if not np.isfinite(numbers).all():
            raise HoldfastError(f"{path}: column {table.columns[0]!r} has values that are no numbers")
        return torch.tensor(numbers)
    number = {name: k for k, name in enumerate(rows.classes)}
    names = [name_of(value) for value in table.iloc[:, 0]]
    strange = next((name for name in names if name not in number), None)
    if strange is not None:
        raise HoldfastError(f"{path}: {strange!r} is none of the classes {', '.join(rows.classes[:10])}")
    return torch.tensor([number[name] for name in names])


def _reviewed(column: pd.Series[Any], path: Path) -> Tensor:
    """(M,) whether each row is reviewed, in any of the words that people and spreadsheets have for it."""
    words = [name_of(value).strip().lower() for value in column]
    strange = np.array([word not in YES and word not in NO for word in words], dtype=bool)
    if strange.any():
        first = int(strange.argmax())
        raise HoldfastError(
            f"{path}: column 'reviewed' says {column.iloc[first]!r} ({rows_text(np.flatnonzero(strange))}); "
            "write yes or no, true or false, 1 or 0, x or nothing"
        )
    return torch.tensor([word in YES for word in words], dtype=torch.bool)


def _reviewers(table: pd.DataFrame, index: Tensor, reviewed: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """(N,) the number of those who have reviewed each row, from 1, and their names; 0 where nobody is named."""
    number = torch.zeros(len(reviewed), dtype=torch.int64)
    if "reviewers" not in table.columns:
        return number, ()
    said = table["reviewers"].astype(object).where(table["reviewers"].notna(), "").map(name_of)
    codes, names = pd.factorize(said.where(reviewed[index].numpy(), ""))
    place = {name: k + 1 for k, name in enumerate(name for name in names if name)}
    number[index] = torch.tensor([place.get(name, 0) for name in names], dtype=torch.int64)[codes]
    return number, tuple(place)


def _warned(rows: Rows, path: Path) -> Rows:
    """The rows with a word that nothing is reviewed."""
    if rows.summary is None:
        return rows
    text = f"no row of {path.name} is marked as reviewed, so none of its labels is trusted more than others"
    return replace(rows, summary=replace(rows.summary, warnings=(*rows.summary.warnings, text)))
