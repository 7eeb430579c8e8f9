"""The decisions of reviewers: a log in SQLite that only grows, each entry on disk before it is answered for."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError

REVIEWS = "reviews.sqlite"
"""The file of decisions in the folder of a run."""

Label = str | list[float]
"""A class name, or the values of a regression."""


class Answer(StrEnum):
    """What a reviewer says of a given label."""

    keep = "keep"
    suggestion = "suggestion"
    other = "other"
    unsure = "unsure"


@dataclass(frozen=True)
class Decision:
    """One reviewer on one row."""

    number: int
    row: int
    reviewer: str
    verdict: Answer
    label: Label | None
    """What the label should be; None where the reviewer is unsure."""


@dataclass(frozen=True)
class Settled:
    """What the reviewers of a row agree on."""

    label: Label | None
    """The label that most of them give; None where they are unsure or evenly divided."""
    reviewers: tuple[str, ...]
    disputed: bool


class Store:
    """A file of decisions that belongs to one run. Rows are numbered as the run trained on them.

    Nothing is ever changed or removed: taking a decision back is an entry of its own.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=10)
            # The log survives a killed process, and with full synchronisation a lost machine.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("CREATE TABLE IF NOT EXISTS run (fingerprint TEXT NOT NULL)")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, "
                "reviewer TEXT NOT NULL, verdict TEXT NOT NULL, label TEXT, undoes INTEGER, "
                "at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))"
            )
            owner = self._connection.execute("SELECT fingerprint FROM run").fetchone()
            if owner is None:
                self._connection.execute("INSERT INTO run VALUES (?)", (fingerprint,))
        except sqlite3.Error as error:
            raise HoldfastError(f"{path} cannot be used for reviews ({error}); move it away to begin anew") from None
        if owner is not None and owner[0] != fingerprint:
            raise HoldfastError(f"{path} holds reviews of other data; move it away to begin anew")

    def close(self) -> None:
        self._connection.close()

    def decide(self, row: int, reviewer: str, verdict: Answer, label: Label | None) -> None:
        """Add a decision; on disk when this returns."""
        self._add(row, reviewer, verdict.value, None if label is None else json.dumps(label), None)

    def undo(self, reviewer: str) -> int | None:
        """Take back the reviewer's last decision that still stands; its row, or None where there is none."""
        last = self._connection.execute(
            "SELECT number, row FROM entries WHERE reviewer = ? AND undoes IS NULL AND number NOT IN "
            "(SELECT undoes FROM entries WHERE undoes IS NOT NULL) ORDER BY number DESC LIMIT 1",
            (reviewer,),
        ).fetchone()
        if last is None:
            return None
        self._add(last[1], reviewer, "undo", None, last[0])
        return int(last[1])

    def _add(self, row: int, reviewer: str, verdict: str, label: str | None, undoes: int | None) -> None:
        self._connection.execute(
            "INSERT INTO entries (row, reviewer, verdict, label, undoes) VALUES (?, ?, ?, ?, ?)",
            (row, reviewer, verdict, label, undoes),
        )

    def since(self, number: int) -> Iterator[tuple[int, Decision | int]]:
        """Entries after a number, oldest first: a decision, or the number of one that was taken back."""
        lines = self._connection.execute(
            "SELECT number, row, reviewer, verdict, label, undoes FROM entries WHERE number > ? ORDER BY number",
            (number,),
        )
        for at, row, reviewer, verdict, label, undoes in lines.fetchall():
            if undoes is not None:
                yield at, int(undoes)
            else:
                value = None if label is None else json.loads(label)
                yield at, Decision(at, row, reviewer, Answer(verdict), value)


class Decisions:
    """The decisions that stand, in memory, kept up with the file: other processes may write to it too."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = 0
        self._stand: dict[int, Decision] = {}
        self.by_row: dict[int, dict[str, list[Decision]]] = {}
        self.refresh()

    def refresh(self) -> set[int]:
        """Take in what is new; the rows it is about."""
        touched = set()
        for number, entry in self._store.since(self._last):
            self._last = number
            if isinstance(entry, Decision):
                self._stand[entry.number] = entry
                self.by_row.setdefault(entry.row, {}).setdefault(entry.reviewer, []).append(entry)
                touched.add(entry.row)
            elif gone := self._stand.pop(entry, None):
                by_reviewer = self.by_row[gone.row]
                by_reviewer[gone.reviewer].remove(gone)
                if not by_reviewer[gone.reviewer]:
                    del by_reviewer[gone.reviewer]
                if not by_reviewer:
                    del self.by_row[gone.row]
                touched.add(gone.row)
        return touched

    def of(self, reviewer: str) -> set[int]:
        """Rows about which a reviewer has decided."""
        return {row for row, by_reviewer in self.by_row.items() if reviewer in by_reviewer}

    def settled(self, row: int) -> Settled | None:
        """What is settled about a row by the last word of each of its reviewers; None where nobody spoke."""
        by_reviewer = self.by_row.get(row)
        if not by_reviewer:
            return None
        last = [decisions[-1] for decisions in by_reviewer.values()]
        votes = Counter(json.dumps(decision.label) for decision in last if decision.label is not None)
        best = votes.most_common(2)
        tie = len(best) == 2 and best[0][1] == best[1][1]
        label: Any = json.loads(best[0][0]) if best and not tie else None
        return Settled(label, tuple(by_reviewer), len(votes) > 1)


def decisions_at(path: Path, fingerprint: str) -> Decisions:
    """The decisions of a file, read once."""
    with closing(Store(path, fingerprint)) as store:
        return Decisions(store)
