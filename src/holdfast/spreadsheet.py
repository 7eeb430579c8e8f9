"""CSV files for people: what a spreadsheet would run as a formula is escaped, and unescaped when we read it back."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import pandas as pd

from holdfast.files import written_aside

_RUN = re.compile(r"'*[=+\-@\t\r\n]")
"""What a spreadsheet takes for a formula, or what already looks like one that was escaped."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ESCAPED = re.compile(r"''*[=+\-@\t\r\n]")
T = TypeVar("T")


def escaped(value: T) -> T | str:
    """A cell that a spreadsheet shows and does not run; numbers and all that is no text stay as they are.

    >>> escaped("=cmd|' /C calc'!A0"), escaped("-3.5"), escaped("'=x")
    ("'=cmd|' /C calc'!A0", '-3.5', "''=x")
    """
    if not isinstance(value, str) or not _RUN.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def unescaped(value: T) -> T | str:
    """A cell as it was before ``escaped``.

    >>> unescaped("'=x"), unescaped("'tis")
    ('=x', "'tis")
    """
    return value[1:] if isinstance(value, str) and _ESCAPED.match(value) else value


def write_csv(table: pd.DataFrame, to: Path | IO[str]) -> None:
    """Write a table for people, names of columns escaped too; a file is written aside and renamed."""
    safe = _changed(table, escaped)
    if not isinstance(to, Path):
        safe.to_csv(to, index=False)
        return
    with written_aside(to) as aside:
        safe.to_csv(aside, index=False)


def read_back(table: pd.DataFrame) -> pd.DataFrame:
    """A table that ``write_csv`` has written, as it was."""
    return _changed(table, unescaped)


def _changed(table: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """The table with its names and its cells that are no numbers changed."""
    changed = table.rename(columns=change)
    for at, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            changed.isetitem(at, table.iloc[:, at].map(change).to_numpy(dtype=object))
    return changed
