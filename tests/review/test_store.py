"""Decisions: kept, taken back, settled by several, and safe from a killed process."""

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from holdfast import HoldfastError
from holdfast.review.store import Answer, Decisions, Store

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
