"""The file of decisions in somebody else's run, on a disk that cannot be written, and under two processes at once."""

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from holdfast import HoldfastError, Run
from holdfast.cli import app
from holdfast.exchange.items import Decided, take_in
from holdfast.review.store import REVIEWS, Answer, Store, decisions_at

PRINT = "a fingerprint"


def reviewed(folder: Path) -> Path:
    with closing(Store(folder / REVIEWS, PRINT)) as store:
        for row in range(3):
            store.decide(row, "Ada", Answer.keep, "yes")
    return folder / REVIEWS


def altered(path: Path, *commands: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for command in commands:
            database.execute(command)
        database.commit()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
WHOLE = "i AS number, i AS row, 'a' AS reviewer, 'keep' AS verdict, '1' AS label, NULL AS undoes, 0 AS at"


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        (["DROP TABLE entries", f"CREATE VIEW entries AS {ENDLESS}{WHOLE} FROM n"], "view 'entries'"),
        ([f"CREATE TRIGGER t AFTER INSERT ON entries BEGIN {ENDLESS}i FROM n; END"], "trigger 't'"),
        (["CREATE INDEX i ON entries (hex(zeroblob(row * 1000)))"], "index 'i'"),
        (["ALTER TABLE entries ADD COLUMN more TEXT AS (hex(zeroblob(1000)))"], "table 'entries'"),
        (["ALTER TABLE entries ADD COLUMN more TEXT CHECK (length(hex(zeroblob(1000))))"], "table 'entries'"),
        (["CREATE TABLE more (a)"], "table 'more'"),
    ],
)
def test_what_others_have_put_into_it_is_refused_and_not_run(tmp_path, commands, found):
    path = reviewed(tmp_path)
    altered(path, *commands)
    began = time.process_time()
    for use in (lambda: decisions_at(path, PRINT), lambda: Store(path, PRINT)):
        with pytest.raises(HoldfastError, match=f"holds what Holdfast has not made, {found}"):
            use()
    assert time.process_time() - began < 5


def test_a_file_of_an_earlier_version_is_read_as_it_is_and_brought_up_to_date_when_written(tmp_path):
    path = reviewed(tmp_path)
    altered(path, "DROP INDEX entries_together", *(f"ALTER TABLE entries DROP COLUMN {name}" for name in
                                                   ("signature", "link", "stroke")))  # fmt: skip
    before = path.read_bytes()
    assert sorted(decisions_at(path, PRINT).by_row) == [0, 1, 2]
    assert path.read_bytes() == before
    with closing(Store(path, PRINT)) as store:
        store.decide(7, "Bob", Answer.unsure, None)
    assert sorted(decisions_at(path, PRINT).by_row) == [0, 1, 2, 7]


def test_a_file_whose_maker_was_killed_at_once_holds_no_decisions(tmp_path):
    (tmp_path / REVIEWS).touch()
    assert decisions_at(tmp_path / REVIEWS, PRINT).by_row == {}


@pytest.fixture
def disk(tmp_path):
    """A small disk that can be filled and be closed for writing."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", place]
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=False)


@pytest.mark.parametrize("log", [False, True])
def test_decisions_are_read_where_nothing_can_be_written(disk, log):
    path = reviewed(disk)
    if log:  # a server was killed: its last decisions are in the log alone
        store = Store(path, PRINT)
        store.connection.execute("PRAGMA wal_autocheckpoint = 0")
        store.decide(5, "Bob", Answer.keep, "yes")
        kept = {name: (disk / name).read_bytes() for name in (REVIEWS, f"{REVIEWS}-wal")}
        store.close()
        for name, content in kept.items():
            (disk / name).write_bytes(content)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert sorted(decisions_at(path, PRINT).by_row) == ([0, 1, 2, 5] if log else [0, 1, 2])
    with pytest.raises(OSError, match="Read-only"):
        Store(path, PRINT)


def test_a_full_disk_is_told_and_what_is_there_is_read(disk):
    path = reviewed(disk)
    with suppress(OSError), open(disk / "more", "wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass
    assert sorted(decisions_at(path, PRINT).by_row) == [0, 1, 2]
    with pytest.raises(OSError, match="No space left"), closing(Store(path, PRINT)) as store:
        store.decide(9, "Ada", Answer.keep, "yes")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reviewed")
    x = np.random.default_rng(0).normal(size=(60, 2))
    pd.DataFrame(x, columns=list("ab")).assign(label=np.where(x[:, 0] > 0, "yes", "no")).to_csv(folder / "data.csv")
    words = ["fit", folder / "data.csv", "--label", "label", "--out", folder / "run", "--epochs", 1, "--quiet"]
    done = CliRunner().invoke(app, [*map(str, words), "--method", "standard", "--no-evidence"])
    assert done.exit_code == 0, done.output
    return folder / "run"


def test_two_processes_that_take_in_the_same_decisions_double_none(run):
    made = Run.records(run)
    said = [Decided(row, "Bob", "yes") for row in range(20)]
    second = threading.Thread(target=lambda: take_in(made, run, said))

    def while_another_begins():
        yield from said[:10]
        second.start()
        time.sleep(0.5)
        yield from said[10:]

    assert take_in(made, run, while_another_begins()) == 20
    second.join()
    with closing(sqlite3.connect(run / REVIEWS)) as database:
        assert database.execute("SELECT row FROM entries ORDER BY number").fetchall() == [(row,) for row in range(20)]


def test_of_a_file_with_a_mistake_nothing_is_taken_in(run):
    made = Run.records(run)
    with pytest.raises(HoldfastError, match="none of the"):
        take_in(made, run, [Decided(1, "Eve", "yes"), Decided(10**6, "Eve", "yes")])
    assert "Eve" not in {
        name for by in decisions_at(run / REVIEWS, made.config.fingerprint).by_row.values() for name in by
    }


@pytest.mark.parametrize(
    "entry",
    [
        ("x", "Eve", "keep", '"no"'),
        (1.5, "Eve", "keep", '"no"'),
        (-1, "Eve", "keep", '"no"'),
        (10**15, "Eve", "keep", '"no"'),
        (1, b"\xff", "keep", '"no"'),
        (1, "Eve", "keep", '{"a": 1}'),
        (1, "Eve", "keep", "[1, 2]"),
        (1, "Eve", "keep", "[" * 5000),
        (1, "Eve", b"keep", '"no"'),
    ],
)
def test_entries_of_other_kinds_are_a_sentence(run, tmp_path, entry):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / REVIEWS).unlink(missing_ok=True)
    made = Run.records(tmp_path / "run")
    with closing(Store(tmp_path / "run" / REVIEWS, made.config.fingerprint)) as store:
        store.connection.execute("INSERT INTO entries (row, reviewer, verdict, label) VALUES (?, ?, ?, ?)", entry)
    with pytest.raises(HoldfastError, match="move the file away to begin anew"):
        made.issues()
