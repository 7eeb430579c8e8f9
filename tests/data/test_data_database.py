"""SQLite: which table is read, in which order, and that a database is only ever read."""

import hashlib
import sqlite3
from contextlib import closing

import openpyxl
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.data import read
from holdfast.data.database import connected
from holdfast.data.formats import FileFormat, Kind, detect
from holdfast.data.load import load, load_table
from holdfast.errors import HoldfastError

ODD = 'the "people"; DROP TABLE orders; --'


def made(path, *statements):
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)
    return path


@pytest.fixture
def shop(tmp_path):
    """Two tables, of which one has a name that would do harm if it were not quoted, and a view."""
    odd = ODD.replace('"', '""')
    return made(
        tmp_path / "shop.db",
        f'CREATE TABLE "{odd}" (age, "a ""b""" TEXT)',
        f'INSERT INTO "{odd}" (rowid, age, "a ""b""") VALUES (9, 1, \'z\'), (2, NULL, \'y\'), (5, 3, \'x\')',
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, price REAL)",
        "INSERT INTO orders VALUES (4, 1.5), (1, NULL)",
        "CREATE VIEW dear AS SELECT price FROM orders WHERE price > 1",
    )


def test_rows_come_in_the_order_of_their_rowids_and_names_are_quoted(shop):
    frame = load(shop, table=ODD)
    assert list(frame) == ["age", 'a "b"']
    assert frame['a "b"'].tolist() == ["y", "x", "z"]
    assert frame["age"].isna().tolist() == [True, False, False]
    assert frame["age"].dtype == float
    assert load(shop, table="orders")["id"].tolist() == [1, 4]


def test_views_are_read(shop):
    found = load_table(shop, table="dear")
    assert found.frame["price"].tolist() == [1.5]
    assert found.found == "SQLite, table 'dear' of 3"


@pytest.mark.parametrize(
    "columns", ["k TEXT PRIMARY KEY, rowid TEXT", "k TEXT PRIMARY KEY, rowid TEXT, _rowid_ TEXT, oid TEXT"]
)
def test_columns_that_are_called_as_row_numbers_are(tmp_path, columns):
    rest = ", 'p'" * (columns.count(",") - 1)
    path = made(
        tmp_path / "a.db", f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES ('b', 'a'{rest}), ('a', 'b'{rest})"
    )
    assert load(path)["k"].tolist() == ["b", "a"]


def test_a_table_without_rowids_is_read(tmp_path):
    path = made(
        tmp_path / "a.db", "CREATE TABLE t (k TEXT PRIMARY KEY) WITHOUT ROWID", "INSERT INTO t VALUES ('b'), ('a')"
    )
    assert load(path)["k"].tolist() == ["a", "b"]


def test_which_table_is_meant_must_be_said(shop):
    with pytest.raises(HoldfastError, match=r"holds 3 tables \(orders, .*, dear\); name the one .* with --table"):
        load(shop)
    with pytest.raises(HoldfastError, match="has no table 'order'; name one of orders"):
        load(shop, table="order")
    with pytest.raises(HoldfastError, match="has no table 'sqlite_master'"):
        load(shop, table="sqlite_master")


def test_it_is_known_by_its_first_bytes(shop, tmp_path):
    shop.rename(tmp_path / "shop.csv")
    assert detect(tmp_path / "shop.csv", table="orders") == FileFormat(Kind.SQLITE, table="orders")
    (tmp_path / "no.sqlite").write_text("a,b\n1,2\n")
    with pytest.raises(HoldfastError, match="does not begin as a file of SQLite does"):
        load(tmp_path / "no.sqlite")


def test_a_database_is_only_read(shop):
    before = hashlib.sha256(shop.read_bytes()).digest()
    for name in (ODD, "orders", "dear"):
        load(shop, table=name)
    with pytest.raises(HoldfastError, match="readonly"), connected(shop) as database:
        database.execute("DELETE FROM orders")
    assert hashlib.sha256(shop.read_bytes()).digest() == before
    assert [path.name for path in shop.parent.iterdir()] == ["shop.db"]


def test_what_has_one_table_has_none_to_name(tmp_path):
    pd.DataFrame({"a": [1, 2], "y": ["p", "q"]}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(HoldfastError, match="neither a database nor a workbook"):
        read(tmp_path / "a.csv", label="y", table="t")
    with pytest.raises(HoldfastError, match="neither a database nor a workbook"):
        holdfast.check(tmp_path / "a.csv", label="y", table="t")


def test_a_sheet_may_be_named(tmp_path):
    book = openpyxl.Workbook()
    for name, value in (("one", 1), ("two", 2)):
        sheet = book.create_sheet(name)
        sheet.append(["a"])
        sheet.append([value])
    book.save(tmp_path / "a.xlsx")
    assert load(tmp_path / "a.xlsx")["a"].tolist() == [1]
    found = load_table(tmp_path / "a.xlsx", table="two")
    assert (found.frame["a"].tolist(), found.found) == ([2], "Excel, sheet 'two' of 3")
    with pytest.raises(HoldfastError, match="it has no sheet 'three'; it has Sheet, one, two"):
        load(tmp_path / "a.xlsx", table="three")


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.mark.slow
def test_from_the_command_line(tmp_path):
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        people = pd.DataFrame({"age": range(60), "town": ["A", "B", "C"] * 20, "rich": ["no"] * 30 + ["yes"] * 30})
        people.to_sql("people", database, index=False)
        people.drop(columns="rich").tail(5).to_sql("more", database, index=False)
    data, folder = tmp_path / "people.db", tmp_path / "run"
    fit = ("fit", data, "--label", "rich", "--table", "people", "--method", "standard", "--net", "mlp", "--out", folder)
    assert "data: SQLite, table 'people' of 2; 60 rows" in run(*fit, "--epochs", 2, "--quiet")
    made = holdfast.Run.records(folder)
    assert made.config.source["reading"]["table"] == "people"
    assert len(made.read_again()) == 60
    run(*fit, "--epochs", 2, "--quiet", "--resume")
    run("fit", "--config", folder / "run.json", "--out", tmp_path / "again", "--quiet")
    for table, count in ((None, 60), ("more", 5)):
        out = tmp_path / f"{table}.csv"
        run("predict", folder, data, "--out", out, "--keep", "age", *(() if table is None else ("--table", table)))
        assert pd.read_csv(out)["age"].tolist() == list(range(60))[-count:]
    said = run("check", data, "--label", "rich", "--table", "people", "--out", tmp_path / "check", "--quiet")
    assert "--table people" in said
    refused = CliRunner().invoke(app, ["noise", str(data), "--out", str(tmp_path / "noisy.db"), "--label", "rich"])
    assert refused.exit_code == 1
    assert "is a database, which is not written" in str(refused.exception)
