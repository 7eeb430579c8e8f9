"""SQLite: the copy has the same dump, or one that differs where it was asked to."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from drawn_tables import CLASSES, drawn, edit_of
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError, Method, clean, fit
from holdfast.clean.database_file import write
from holdfast.clean.edit import SUGGESTED, TRUST, Edit
from holdfast.clean.files import write_table
from holdfast.data.formats import FileFormat, Kind
from holdfast.data.source import Source

PLAIN_WORDS = st.text(st.sampled_from("ab é0,:=-\"'\n"), max_size=6)
FOUND = FileFormat(Kind.SQLITE, table='the "t"')
TABLE = '"the ""t"""'


def made(path, *statements):
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)
    return path


def asked(path, query):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def dump(path):
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def database_of(table, path):
    """The table beside another, its rows put in from the last to the first, with gaps between their numbers."""
    made(path, f'CREATE TABLE {TABLE} (first, "the label" VARCHAR(9), "last, or not" BLOB)', "CREATE TABLE other (a)",
         f'CREATE INDEX by_label ON {TABLE} ("the label")', "CREATE VIEW v AS SELECT 1",
         "INSERT INTO other VALUES (x'00ff'), (1e300), (NULL), ('')")  # fmt: skip
    names = ("first", "the label", "last, or not")
    lines = [[3 * row + 2, *(table.columns[name][row] or None for name in names)] for row in range(len(table))]
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany(
            f'INSERT INTO {TABLE} (rowid, first, "the label", "last, or not") VALUES (?, ?, ?, ?)', lines[::-1]
        )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("databases")


def both(folder, table):
    before, after = folder / "before.db", folder / "after.db"
    for path in (before, after):
        path.unlink(missing_ok=True)
    write(database_of(table, before), after, FOUND, table.edit)
    assert sorted(path.name for path in folder.iterdir()) == ["after.db", "before.db"]
    return before, after


@settings(max_examples=20, deadline=None)
@given(table=drawn(PLAIN_WORDS, change=False))
def test_without_a_change_the_dump_is_the_same(folder, table):
    before, after = both(folder, table)
    assert dump(after) == dump(before)


@settings(max_examples=30, deadline=None)
@given(table=drawn(PLAIN_WORDS))
def test_changes(folder, table):
    before, after = both(folder, table)
    query = f'SELECT rowid, first, "the label", "last, or not" FROM {TABLE} ORDER BY rowid'
    lines = [(row, first, label or None, last) for (row, first, _, last), label in
             zip(asked(before, query), table.wanted, strict=True)]  # fmt: skip
    assert asked(after, query) == [lines[row] for row in np.flatnonzero(table.edit.kept(len(table)))]
    assert [line for line in dump(after) if "the " not in line] == [line for line in dump(before) if "the " not in line]
    assert asked(after, "PRAGMA integrity_check") == [("ok",)]


@settings(max_examples=20, deadline=None)
@given(table=drawn(PLAIN_WORDS, change=False, mark=True))
def test_marks(folder, table):
    before, after = both(folder, table)
    marks = asked(after, f"SELECT {TRUST}, {SUGGESTED} FROM {TABLE} ORDER BY rowid")
    assert [trust for trust, _ in marks] == table.edit.trusts(len(table))
    doubted = set(table.edit.rows[table.edit.doubted].tolist())
    assert [suggested is not None for _, suggested in marks] == [row in doubted for row in range(len(table))]
    for path in (before, after):
        made(path, "DROP INDEX by_label")
    columns = f'SELECT rowid, first, "the label", "last, or not" FROM {TABLE} ORDER BY rowid'
    assert asked(after, columns) == asked(before, columns)


@pytest.mark.parametrize(
    ("declared", "cells"),
    [
        ("INTEGER", [0, 1, 1]),
        ("", [0, 1, 1]),
        ("TEXT", ["0", "1", "1"]),
        ("", ["0", "1", "1"]),
        ("REAL", [0.0, 1.0, 1.0]),
    ],
)
def test_labels_keep_their_type(tmp_path, declared, cells):
    path = made(tmp_path / "a.db", f"CREATE TABLE t (y {declared})")
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany("INSERT INTO t VALUES (?)", [(cell,) for cell in cells])
    marks = {"trust": [0.1, 0.9, 0.9], "suggested": [1, 1, 0], "doubted": [True, False, False]}
    edit = Edit("y", np.arange(3), np.array([0, 1, 1]), np.array([0, 1, 0]), np.zeros(3, bool), ("0", "1"),
                **{name: np.array(values) for name, values in marks.items()})  # fmt: skip
    write(path, tmp_path / "b.db", FileFormat(Kind.SQLITE), edit)
    (kind,) = {type(cell).__name__ for cell in cells}
    named = {"int": "integer", "str": "text", "float": "real"}[kind]
    assert asked(tmp_path / "b.db", f"SELECT y, typeof(y), {SUGGESTED} FROM t") == [
        (cells[0], named, cells[1]), (cells[1], named, None), (cells[0], named, None)
    ]  # fmt: skip


CHANGE = edit_of([0, 1], [0, 1], [1, 1])
PLAIN = ("CREATE TABLE t (y TEXT)", "INSERT INTO t VALUES ('low'), ('high')")


@pytest.mark.parametrize(
    ("table", "statements", "words"),
    [
        ("v", (*PLAIN, "CREATE VIEW v AS SELECT y FROM t"), "is a view or a table without rowids"),
        (
            "k",
            ("CREATE TABLE k (y TEXT PRIMARY KEY) WITHOUT ROWID", "INSERT INTO k VALUES ('low'), ('high')"),
            "is a view or a table without rowids",
        ),
        ("t", (*PLAIN, "CREATE TRIGGER g AFTER UPDATE ON t BEGIN DELETE FROM t; END"), r"has a trigger \(g\)"),
        ("t", (*PLAIN, "CREATE UNIQUE INDEX u ON t (y)"), "does not take the new labels: UNIQUE constraint failed"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is_left(tmp_path, table, statements, words):
    path = made(tmp_path / "a.db", *statements)
    with pytest.raises(HoldfastError, match=words):
        write_table(path, tmp_path / "b.db", {"table": table}, CHANGE, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


def test_rows_of_other_tables_stay_when_rows_go(tmp_path):
    path = made(
        tmp_path / "a.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, y TEXT)",
        "CREATE TABLE child (of INTEGER REFERENCES t (id) ON DELETE CASCADE)",
        "INSERT INTO t VALUES (5, 'low'), (3, 'high')", "INSERT INTO child VALUES (5), (3)",
    )  # fmt: skip
    write_table(path, tmp_path / "b.db", {"table": "t"}, edit_of([0, 1], [1, 0], [1, 0], dropped=[1]), force=False)
    assert asked(tmp_path / "b.db", "SELECT id FROM t") == [(3,)]
    assert asked(tmp_path / "b.db", "SELECT * FROM child") == [(5,), (3,)]


def test_a_database_stays_one(tmp_path):
    path = made(tmp_path / "a.db", *PLAIN)
    for name, words in (("b.csv", "is SQLite and stays so"), ("b.db.gz", "which is not packed")):
        with pytest.raises(HoldfastError, match=rf"{words}; let {name} end in \.db"):
            write_table(path, tmp_path / name, {}, CHANGE, force=False)
    made(path, "PRAGMA journal_mode = WAL")
    write_table(path, tmp_path / "b.sqlite", {}, CHANGE, force=False)
    assert asked(tmp_path / "b.sqlite", "SELECT y FROM t") == [("high",), ("high",)]


def test_a_run_cleans_its_database(tmp_path):
    rng = np.random.default_rng(0)
    rich = rng.random(120) < 0.5
    says = np.where(rich ^ (np.arange(120) % 8 == 0), CLASSES[1], CLASSES[0])
    people = pd.DataFrame({"age": np.where(rich, 55, 30) + rng.normal(0, 4, 120), "says": says})
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        people.to_sql("people", database)
        people.head(3).to_sql("notes", database)
    rows, held_out = Source.at(tmp_path / "people.db", "0.2", 0, label="says", table="people").load()
    fit(rows, Method(), "mlp", test=held_out, epochs=10, batch_size=16, device="cpu", out=tmp_path / "run")
    done = clean(tmp_path / "run", tmp_path / "clean.db")
    before, after = dump(tmp_path / "people.db"), dump(tmp_path / "clean.db")
    assert 0 < done.changed == sum(was != now for was, now in zip(before, after, strict=True))
    fewer = clean(tmp_path / "run", tmp_path / "fewer.db", drop=0.5)
    assert asked(tmp_path / "fewer.db", "SELECT count(*) FROM people") == [(120 - fewer.dropped,)]
