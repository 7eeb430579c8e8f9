"""SQLite: a table of a database file, which is only read; all that is put into SQL are names, quoted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pandas as pd

from holdfast.errors import HoldfastError

_NUMBERS = ("rowid", "_rowid_", "oid")
"""What SQLite calls the number of a row, unless a column has that name."""
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
        rows = database.execute(f"SELECT * FROM {quoted(name)}{order}").fetchall()
        frame = pd.DataFrame.from_records(rows, columns=column_names(database, name), coerce_float=True)
        others = len(_names(database, "table", "view"))
    return frame, f"table {name!r} of {others}" if others > 1 else ""


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
