"""SQLite: a copy of the database, in one table of which labels change, rows go or columns are added."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.clean.edit import SUGGESTED, TRUST, Edit, Spelling, check_free_names
from holdfast.data.database import column_names, connected, quoted, row_number, table_named
from holdfast.data.formats import FileFormat
from holdfast.errors import HoldfastError

_DECLARED = {str: "TEXT", int: "INTEGER", float: "REAL"}


def write(path: Path, out: Path, found: FileFormat, edit: Edit) -> None:
    """Copy a database and edit one table of the copy."""
    with connected(path) as before:
        table = table_named(before, path, found.table)
        number = _row_number(before, path, table, edit)
        with closing(sqlite3.connect(out, isolation_level=None)) as copy:
            before.backup(copy)
            copy.execute("PRAGMA trusted_schema = OFF")
            copy.execute("PRAGMA foreign_keys = OFF")  # rows of other tables stay, whatever they refer to
            try:
                copy.execute("BEGIN")
                _edit(copy, quoted(table), number, edit)
                copy.execute("COMMIT")
            except sqlite3.Error as error:
                raise HoldfastError(f"table {table!r} of {path} does not take the new labels: {error}") from None


def _row_number(database: sqlite3.Connection, path: Path, table: str, edit: Edit) -> str:
    """What rows are found again by; an error where there is nothing, or where an edit would change more than labels."""
    number = row_number(database, table)
    if number is None:
        raise HoldfastError(
            f"{table!r} of {path} is a view or a table without rowids, whose rows cannot be changed; train on another"
        )
    names = column_names(database, table)
    if edit.label not in names:
        raise HoldfastError(f"table {table!r} of {path} has no column {edit.label!r}; train again")
    check_free_names(edit, names)
    named = database.execute("SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    trigger = next((name for name, of in named if of.lower() == table.lower()), None)
    if trigger is not None:
        raise HoldfastError(
            f"table {table!r} of {path} has a trigger ({trigger}), which could change more than labels; "
            "drop it in a copy and train on that"
        )
    return number


def _edit(database: sqlite3.Connection, table: str, number: str, edit: Edit) -> None:
    label = quoted(edit.label)
    found = database.execute(f"SELECT {number}, {label} FROM {table} ORDER BY {number}").fetchall()
    rows, cells = [row for row, _ in found], [cell for _, cell in found]
    kinds = {type(cell) for cell in cells if cell is not None}
    spelling: Spelling[Any] = Spelling(edit, cells, int if kinds == {int} else str, round if kinds == {int} else float)
    changed = [(cell, rows[place]) for place, cell in spelling.new().items()]
    database.executemany(f"UPDATE {table} SET {label} = ? WHERE {number} = ?", changed)
    if edit.marks:
        declared = _DECLARED[kinds.pop()] if len(kinds) == 1 else ""
        database.execute(f"ALTER TABLE {table} ADD COLUMN {TRUST} REAL")
        database.execute(f"ALTER TABLE {table} ADD COLUMN {SUGGESTED} {declared}")
        beside = zip(edit.trusts(len(rows)), spelling.suggested(), rows, strict=True)
        database.executemany(f"UPDATE {table} SET {TRUST} = ?, {SUGGESTED} = ? WHERE {number} = ?", beside)
    gone = [(row,) for row, stays in zip(rows, edit.kept(len(rows)).tolist(), strict=True) if not stays]
    database.executemany(f"DELETE FROM {table} WHERE {number} = ?", gone)
