"""Decisions: kept, taken back, settled by several, and safe from a killed process."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from functools import partial

import pytest

from holdfast import HoldfastError
from holdfast.review.store import Answer, Decisions, Said, Store
from holdfast.review.writer import Writer

EVIL = "'; DROP TABLE entries; --"


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "reviews.sqlite", "f")
    yield opened
    opened.close()


def test_decisions_and_what_takes_them_back(store):
    store.decide(3, "Ada", Answer.keep, "cat")
    store.decide(4, "Ada", Answer.other, "dog")
    found = Decisions(store)
    assert found.of("Ada") == {3, 4}
    assert found.settled(4).label == "dog"
    assert store.undo("Ada") == [4]
    assert found.refresh() == [(4, "Ada")]
    assert found.settled(4) is None
    assert store.undo("Ada") == [3]
    assert store.undo("Ada") == []
    assert Decisions(store).by_row == {}


def test_a_later_decision_of_the_same_reviewer_counts(store):
    store.decide(1, "Ada", Answer.keep, "cat")
    store.decide(1, "Ada", Answer.suggestion, "dog")
    assert Decisions(store).settled(1).label == "dog"
    store.undo("Ada")
    assert Decisions(store).settled(1).label == "cat"


def test_several_reviewers(store):
    for name, label in (("Ada", "cat"), ("Bob", "dog")):
        store.decide(1, name, Answer.other, label)
    tie = Decisions(store).settled(1)
    assert (tie.label, tie.disputed, tie.reviewers) == (None, True, ("Ada", "Bob"))
    store.decide(1, "Cleo", Answer.unsure, None)
    assert Decisions(store).settled(1).label is None
    store.decide(1, "Dan", Answer.keep, "cat")
    assert Decisions(store).settled(1).label == "cat"


def test_values_of_a_regression(store):
    store.decide(1, "Ada", Answer.other, [1.5, 2.0])
    assert Decisions(store).settled(1).label == [1.5, 2.0]


def test_another_process_is_seen(store, tmp_path):
    found, other = Decisions(store), Store(tmp_path / "reviews.sqlite", "f")
    other.decide(9, "Bob", Answer.keep, "cat")
    other.close()
    assert found.refresh() == [(9, "Bob")]


def test_reviews_of_other_data_are_refused(store, tmp_path):
    with pytest.raises(HoldfastError, match="other data"):
        Store(tmp_path / "reviews.sqlite", "g")
    (tmp_path / "junk.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(HoldfastError, match="cannot be used"):
        Store(tmp_path / "junk.sqlite", "f")


def test_words_of_sql_are_only_words(store):
    store.decide(1, EVIL, Answer.other, EVIL)
    assert store.undo("' OR 1=1 --") == []
    found = Decisions(store)
    assert found.of(EVIL) == {1}
    assert found.settled(1).label == EVIL


def test_a_killed_process_loses_nothing_that_was_answered(tmp_path):
    path = tmp_path / "reviews.sqlite"
    script = (
        "import sys; from pathlib import Path; from holdfast.review.store import Store, Answer\n"
        f"store = Store(Path({str(path)!r}), 'f')\n"
        "for row in range(10_000):\n"
        "    store.decide(row, 'Ada', Answer.keep, 'cat'); print(row, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    answered = [int(next(child.stdout)) for _ in range(40)]
    os.kill(child.pid, signal.SIGKILL)
    answered += [int(line) for line in child.stdout]
    child.wait()
    child.stdout.close()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store = Store(path, "f")
    assert set(answered) <= Decisions(store).of("Ada")
    store.close()


def stroke(*rows, label="dog"):
    return [Said(row, Answer.suggestion, label) for row in rows]


def test_a_stroke_is_taken_back_as_one(store):
    store.decide(1, "Ada", Answer.keep, "cat")
    store.stroke("Ada", stroke(2, 3, 4))
    store.stroke("Bob", stroke(2, 5))
    found = Decisions(store)
    assert found.of("Ada") == {1, 2, 3, 4}
    assert store.undo("Ada") == [2, 3, 4]
    found.refresh()
    assert (found.of("Ada"), found.of("Bob")) == ({1}, {2, 5})
    assert found.settled(2).reviewers == ("Bob",)
    assert store.undo("Ada") == [1]
    assert store.undo("Ada") == []
    assert store.undo("Bob") == [2, 5]
    assert Decisions(store).by_row == {}


def test_a_stroke_is_kept_whole_or_not_at_all(store):
    with pytest.raises(sqlite3.Error):
        store.stroke("Ada", [*stroke(2, 3), Said(None, Answer.keep, "cat")])
    assert Decisions(store).by_row == {}
    store.decide(1, "Ada", Answer.keep, "cat")
    assert Decisions(store).of("Ada") == {1}, "a mistake leaves no transaction open"


def test_what_fails_takes_nothing_with_it(store):
    def fails(to):
        to.decide(9, "Ada", Answer.keep, "cat")
        raise HoldfastError("no")

    with pytest.raises(HoldfastError, match="no"):
        store.together([lambda to: to.decide(8, "Ada", Answer.keep, "cat"), fails])
    assert Decisions(store).by_row == {}


OLD = """
CREATE TABLE run (fingerprint TEXT NOT NULL);
CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, reviewer TEXT NOT NULL,
    verdict TEXT NOT NULL, label TEXT, undoes INTEGER,
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')));
INSERT INTO run VALUES ('f');
INSERT INTO entries (row, reviewer, verdict, label, undoes, at) VALUES
    (3, 'Ada', 'keep', '"cat"', NULL, '2025-01-01T10:00:00.000Z'),
    (4, 'Ada', 'other', '"dog"', NULL, '2025-01-01T10:00:03.000Z'),
    (4, 'Ada', 'undo', NULL, 2, '2025-01-01T10:00:05.000Z'),
    (5, 'Bob', 'suggestion', '[1.5]', NULL, '2025-01-01T10:00:06.500Z');
"""


def test_a_file_of_before_is_read_and_goes_on(tmp_path):
    path = tmp_path / "reviews.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(OLD)
    old.close()
    for _ in range(2):
        store = Store(path, "f")
        found = Decisions(store)
        assert {row: list(by) for row, by in found.by_row.items()} == {3: ["Ada"], 5: ["Bob"]}
        assert found.by_row[5]["Bob"][0].at == pytest.approx(1735725606.5, abs=0.01)
        store.close()
    store = Store(path, "f")
    store.stroke("Ada", stroke(6, 7))
    assert store.undo("Ada") == [6, 7]
    assert store.undo("Ada") == [3], "also what an earlier version has written"
    store.close()


def test_entries_that_are_none_are_a_sentence(tmp_path):
    store = Store(tmp_path / "reviews.sqlite", "f")
    store.connection.execute("INSERT INTO entries (row, reviewer, verdict, label) VALUES (1, 'Ada', 'maybe', '{')")
    with pytest.raises(HoldfastError, match="entry 1"):
        Decisions(store)
    store.close()


def test_answers_that_come_together_share_a_transaction(tmp_path):
    store = Store(tmp_path / "reviews.sqlite", "f")
    commits = []
    together = store.together
    store.together = lambda jobs: commits.append(len(jobs)) or together(jobs)

    async def answer():
        writer = Writer(store)
        jobs = [partial(Store.stroke, reviewer=f"r{k}", said=stroke(k)) for k in range(200)]
        await asyncio.gather(*(writer.do(job) for job in jobs))
        other = Store(store.path, "f")
        assert len(Decisions(other).by_row) == 200, "what was answered is on disk"
        assert await writer.do(partial(Store.undo, reviewer="r7")) == [7]
        other.close()
        await writer.close()

    asyncio.run(answer())
    assert sum(commits) == 201
    assert len(commits) < 20


def test_a_failed_transaction_is_told_to_all_whose_answers_were_in_it(tmp_path):
    store = Store(tmp_path / "reviews.sqlite", "f")

    async def answer():
        writer = Writer(store)
        jobs = [partial(Store.stroke, reviewer="r", said=[Said(row, Answer.keep, "cat")]) for row in (1, None, 2)]
        ended = await asyncio.gather(*(writer.do(job) for job in jobs), return_exceptions=True)
        told = [isinstance(error, sqlite3.Error) for error in ended]
        await writer.do(partial(Store.stroke, reviewer="r", said=stroke(5)))
        other = Store(store.path, "f")
        kept = Decisions(other).of("r")
        other.close()
        await writer.close()
        return told, kept

    told, kept = asyncio.run(answer())
    assert kept == {row for row, lost in zip((1, None, 2), told, strict=True) if not lost} | {5}
    assert told[1]
