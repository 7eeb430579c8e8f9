"""The file of decisions: opened to write or only to read, and refused if it holds anything that Holdfast has not made.

A run may come from anybody, and SQLite does what a file defines itself: views without end, triggers, reckoned columns.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.files import temporary_folder

_AT = "at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"
TABLES = {
    "run": "fingerprint TEXT NOT NULL",
    "entries": "number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, reviewer TEXT NOT NULL, "
    f"verdict TEXT NOT NULL, label TEXT, undoes INTEGER, {_AT}",
    "links": "number TEXT PRIMARY KEY, reviewer TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, "
    f"revoked INTEGER NOT NULL DEFAULT 0, {_AT}",
}
"""Tables and their columns; that of links is there only where reviewers have links of their own."""
LATER = {"stroke": "TEXT", "link": "TEXT", "signature": "TEXT"}
"""Columns of entries that files of earlier versions lack."""
INDEXES = {
    "entries_of": "entries (reviewer, number)",
    "entries_undone": "entries (undoes) WHERE undoes IS NOT NULL",
    "entries_together": "entries (stroke) WHERE stroke IS NOT NULL",
}
_ROOM = 1 << 16
"""Bytes that SQLite needs beside a file; where fewer are free, an error of the disk means that it is full."""
_NO_PLACE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
"""What SQLite says where it cannot keep its log beside a file."""


def opened(path: Path) -> sqlite3.Connection:
    """To be written, used from one thread at a time, though not always from the one that opened it."""
    found = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
    found.execute("PRAGMA trusted_schema = OFF")
    return found


@contextmanager
def opened_to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """To be read; where its place cannot be written, a copy, since SQLite keeps a log beside a file even to read it."""
    with closing(opened(path)) as found:
        if _is_readable(found):
            found.execute("PRAGMA query_only = ON")
            yield found
            return
    with temporary_folder() as folder:
        for name in (path.name, f"{path.name}-wal"):
            if path.with_name(name).exists():
                shutil.copyfile(path.with_name(name), folder / name)
        with closing(opened(folder / path.name)) as found:
            yield found


def _is_readable(database: sqlite3.Connection) -> bool:
    """Whether SQLite can keep its log beside a file; what else is wrong with it is raised."""
    try:
        database.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _NO_PLACE:
            raise
        return False
    return True


def check_ours(database: sqlite3.Connection, path: Path) -> list[str]:
    """The tables of a file of decisions; refuses what nobody but its maker can have put in."""
    known = {f"CREATE INDEX {name} ON {what}" for name, what in INDEXES.items()}
    known |= {f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()}
    entries = TABLES["entries"]
    for name, kind in LATER.items():
        entries = f"{entries}, {name} {kind}"
        known.add(f"CREATE TABLE entries ({entries})")
    known, tables = {_without_spaces(text) for text in known}, []
    for kind, name, text in database.execute("SELECT type, name, sql FROM sqlite_master"):
        own = kind in ("table", "index") and str(name).startswith("sqlite_")  # what SQLite itself adds
        if not own and _without_spaces(str(text)) not in known:
            raise HoldfastError(f"{path} holds what Holdfast has not made, {kind} {name!r}; move it away to begin anew")
        if kind == "table" and not own:
            tables.append(str(name))
    return tables


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def trouble(path: Path, error: Exception) -> Exception:
    """What an error of SQLite means for whoever uses the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    room = shutil.disk_usage(path.parent).free if path.parent.is_dir() else 0
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and room < _ROOM):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    if code in _NO_PLACE and not os.access(path.parent, os.W_OK):
        return OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
    return HoldfastError(f"{path} cannot be used for reviews ({error}); move it away to begin anew")
