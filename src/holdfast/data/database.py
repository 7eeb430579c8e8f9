"""SQLite: a table of a database file, which is only read; all that is put into SQL are names, quoted."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.errors import HoldfastError
from holdfast.memory import check_fits

_NUMBERS = ("rowid", "_rowid_", "oid")
"""What SQLite calls the number of a row, unless a column has that name."""
_LINES = 1000
_STEP, _STEPS, _PAGE = 100_000, 500, 4096
"""Instructions of SQLite between two looks; how many such looks a page of a file may take, and its bytes."""
_LISTED = 10
"""Names that an error lists."""


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A database that cannot be written to; what goes wrong with it is an error in one sentence."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as found:
            # What a file defines itself, such as its views, may not call functions that do anything but reckon.
            found.execute("PRAGMA trusted_schema = OFF")
            yield found
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise HoldfastError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def load(path: Path, asked: str | None) -> tuple[pd.DataFrame, str]:
    """A table of a database in the order of its rows, and which it is."""
    with connected(path) as database:
        name = table_named(database, path, asked)
        number = row_number(database, name)
        order = "" if number is None else f" ORDER BY {number}"
        rows = _fetched(database, f"SELECT * FROM {quoted(name)}{order}", path)
        frame = pd.DataFrame.from_records(rows, columns=column_names(database, name), coerce_float=True)
        others = len(_names(database, "table", "view"))
    return frame, f"table {name!r} of {others}" if others > 1 else ""


def _fetched(database: sqlite3.Connection, query: str, path: Path) -> list[tuple[Any, ...]]:
    """All rows of a query, counted as they come: those of a view may have no end."""
    found, size, on_disk = [], 0, path.stat().st_size
    steps = iter(range(_STEPS * (1 + on_disk // _PAGE)))
    database.set_progress_handler(lambda: next(steps, None) is None, _STEP)  # a number that is not 0 interrupts
    answer = database.execute(query)
    while lines := answer.fetchmany(_LINES):
        found += lines
        size += sum(sum(map(sys.getsizeof, line)) for line in lines)
        check_fits(size, on_disk, path)
    return found


def table_named(database: sqlite3.Connection, path: Path, asked: str | None) -> str:
    """The table or view that was asked for, else the only one there is."""
    tables, views = _names(database, "table"), _names(database, "view")
    every = [*tables, *views]
    if asked in every:
        return str(asked)
    if not every:
        raise HoldfastError(f"{path} holds no tables")
    listed = ", ".join(every[:_LISTED]) + (", ..." if len(every) > _LISTED else "")
    if asked is not None:
        raise HoldfastError(f"{path} has no table {asked!r}; name one of {listed} with --table")
    if len(tables or views) > 1:
        raise HoldfastError(f"{path} holds {len(every)} tables ({listed}); name the one that is meant with --table")
    return (tables or views)[0]


def row_number(database: sqlite3.Connection, table: str) -> str | None:
    """What the number of a row is called in a table; None of a view or a table that has no such numbers."""
    if table not in _names(database, "table"):
        return None
    taken = {name.lower() for name in column_names(database, table)}
    free = next((name for name in _NUMBERS if name not in taken), None)
    if free is None:
        return None
    try:
        database.execute(f"SELECT {free} FROM {quoted(table)} LIMIT 0")
    except sqlite3.OperationalError:
        return None
    return free


def column_names(database: sqlite3.Connection, table: str) -> list[str]:
    described = database.execute(f"SELECT * FROM {quoted(table)} LIMIT 0").description
    return [name for name, *_ in described]


def quoted(name: str) -> str:
    """A name as SQL has it.

    >>> quoted('12" disc')
    '"12"" disc"'
    """
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _names(database: sqlite3.Connection, *kinds: str) -> list[str]:
    listed = database.execute("SELECT type, name FROM sqlite_master WHERE typeof(name) = 'text' ORDER BY name")
    return [name for kind, name in listed if kind in kinds and not name.lower().startswith("sqlite_")]
