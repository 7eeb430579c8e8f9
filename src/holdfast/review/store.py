"""The decisions of reviewers: a log in SQLite that only grows, each entry on disk before it is answered for."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.errors import HoldfastError
from holdfast.review.log import INDEXES, LATER, TABLES, check_ours, opened, opened_to_read, trouble

REVIEWS = "reviews.sqlite"
"""The file of decisions in the folder of a run."""

Label = str | list[float]
"""A class name, or the values of a regression."""
Result = TypeVar("Result")


class Answer(StrEnum):
    """What a reviewer says of a given label."""

    keep = "keep"
    suggestion = "suggestion"
    other = "other"
    unsure = "unsure"


class Said(NamedTuple):
    """An answer about a row, and the label that it comes to."""

    row: int
    verdict: Answer
    label: Label | None


Sign = Callable[[str], tuple[str, str]]
"""Of the text of an entry: the link through which it came, and its signature."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One reviewer on one row."""

    number: int
    row: int
    reviewer: str
    verdict: Answer
    label: Label | None
    """What the label should be; None where the reviewer is unsure."""
    at: float = 0.0
    """Seconds since 1970."""


@dataclass(frozen=True)
class Settled:
    """What the reviewers of a row agree on."""

    label: Label | None
    """The label that most of them give; None where they are unsure or evenly divided."""
    reviewers: tuple[str, ...]
    disputed: bool


class Store:
    """A file of decisions that belongs to one run. Rows are numbered as the run trained on them.

    Nothing is ever changed or removed: taking a decision back is an entry of its own. Decisions made with one key, such
    as those on a group of rows, are a stroke: on disk together or not at all, and taken back together.

    Parameters
    ----------
    only_read: a connection to be read and not written.
    """

    def __init__(self, path: Path, fingerprint: str, only_read: sqlite3.Connection | None = None) -> None:
        self.path = path
        self._fingerprint = fingerprint
        self._inside = False
        self._unwritten: list[tuple[Any, ...]] = []
        try:
            self.connection = opened(path) if only_read is None else only_read
        except sqlite3.Error as error:
            raise trouble(path, error) from None
        try:
            self._begin(only_read is not None)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            raise trouble(path, error) from None
        except HoldfastError:
            self.close()
            raise

    def _begin(self, only_read: bool) -> None:
        """Take the file for one of this run, or make it one."""
        if not only_read:
            check_ours(self.connection, self.path)
            # The log survives a killed process, and with full synchronisation a lost machine.
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            with self.transaction():
                self._prepare()
        # One that was killed before it had made its tables has left a file without any.
        self._begun = "entries" in check_ours(self.connection, self.path)
        owner = self.connection.execute("SELECT fingerprint FROM run").fetchone() if self._begun else None
        if owner is not None and owner[0] != self._fingerprint:
            raise HoldfastError(f"{self.path} holds reviews of other data; move it away to begin anew")

    def _prepare(self) -> None:
        """Make the tables, or bring those of an earlier version up to date."""
        execute = self.connection.execute
        for name in ("run", "entries"):
            execute(f"CREATE TABLE IF NOT EXISTS {name} ({TABLES[name]})")
        there = {line[1] for line in execute("PRAGMA table_info(entries)")}
        for name, kind in LATER.items():
            if name not in there:
                execute(f"ALTER TABLE entries ADD COLUMN {name} {kind}")
        for name, what in INDEXES.items():
            execute(f"CREATE INDEX IF NOT EXISTS {name} ON {what}")
        if execute("SELECT fingerprint FROM run").fetchone() is None:
            execute("INSERT INTO run VALUES (?)", (self._fingerprint,))

    def again(self) -> Store:
        """Another connection to the same file, for another thread."""
        return Store(self.path, self._fingerprint)

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What happens inside is on disk when this ends, all of it or nothing; one inside another is part of it."""
        if self._inside:
            yield
            return
        self.connection.execute("BEGIN IMMEDIATE")
        self._inside = True
        try:
            yield
            self._write()
            self.connection.execute("COMMIT")
        except BaseException:
            self.connection.rollback()
            raise
        finally:
            self._inside = False
            self._unwritten = []

    def together(self, jobs: Sequence[Callable[[Store], Result]]) -> list[Result]:
        """Do several things in one transaction: one wait for the disk instead of many."""
        with self.transaction():
            return [job(self) for job in jobs]

    def decide(self, row: int, reviewer: str, verdict: Answer, label: Label | None) -> None:
        """Add a decision; on disk when this returns."""
        self.stroke(reviewer, [Said(row, verdict, label)])

    def stroke(self, reviewer: str, said: Sequence[Said], sign: Sign | None = None) -> None:
        """Add decisions that were made with one key; on disk when this returns."""
        stroke = secrets.token_hex(8) if len(said) > 1 else None
        lines = [(row, verdict.value, None if label is None else json.dumps(label)) for row, verdict, label in said]
        self._add(reviewer, [(*line, None) for line in lines], stroke, sign)

    def undo(self, reviewer: str, sign: Sign | None = None) -> list[int]:
        """Take back the reviewer's last stroke that still stands; its rows, none where there is none."""
        stands = "undoes IS NULL AND NOT EXISTS (SELECT 1 FROM entries later WHERE later.undoes = entries.number)"
        with self.transaction():
            self._write()
            last = self.connection.execute(
                f"SELECT number, row, stroke FROM entries WHERE reviewer = ? AND {stands} ORDER BY number DESC LIMIT 1",
                (reviewer,),
            ).fetchall()
            if last and last[0][2] is not None:
                last = self.connection.execute(
                    f"SELECT number, row, stroke FROM entries WHERE stroke = ? AND {stands} ORDER BY number",
                    (last[0][2],),
                ).fetchall()
            self._add(reviewer, [(row, "undo", None, number) for number, row, _ in last], None, sign)
        return [int(row) for _, row, _ in last]

    def _add(
        self,
        reviewer: str,
        lines: Sequence[tuple[int, str, str | None, int | None]],
        stroke: str | None,
        sign: Sign | None,
    ) -> None:
        signed = [(None, None) if sign is None else sign(entry_text(reviewer, *line)) for line in lines]
        with self.transaction():
            self._unwritten += [(reviewer, *line, stroke, *seal) for line, seal in zip(lines, signed, strict=True)]

    def _write(self) -> None:
        """Write the entries of a transaction: in one statement, since after each one the thread that writes has to wait
        for the one that answers."""
        lines, self._unwritten = self._unwritten, []
        if lines:
            columns = ", ".join(f"json_extract(value, '$[{k}]')" for k in range(len(lines[0])))
            self.connection.execute(
                "INSERT INTO entries (reviewer, row, verdict, label, undoes, stroke, link, signature) "
                f"SELECT {columns} FROM json_each(?) ORDER BY key",
                (json.dumps(lines),),
            )

    def since(self, number: int) -> Iterator[tuple[int, Decision | int]]:
        """Entries after a number, oldest first: a decision, or the number of one that was taken back."""
        if not self._begun:
            return
        lines = self.connection.execute(
            "SELECT number, row, reviewer, verdict, label, undoes, (julianday(at) - 2440587.5) * 86400.0 "
            "FROM entries WHERE number > ? ORDER BY number",
            (number,),
        )
        for entry, row, reviewer, verdict, label, undoes, at in lines:
            if undoes is not None:
                yield entry, int(undoes)
                continue
            try:
                value = None if label is None else json.loads(label)
                decision = Decision(entry, row, reviewer, Answer(verdict), value, at or 0.0)
                if not _is_sound(decision):
                    raise ValueError
            except (ValueError, TypeError, RecursionError):  # of a column of any kind, SQLite keeps any kind of value
                raise HoldfastError(
                    f"entry {entry} of {self.path} is no decision; move the file away to begin anew"
                ) from None
            yield entry, decision


def _is_sound(decision: Decision) -> bool:
    """Whether the parts of a decision are of the kinds that they should be."""
    label = decision.label
    numbers = isinstance(label, list) and all(isinstance(each, int | float) for each in label)
    return (
        isinstance(decision.row, int)
        and decision.row >= 0
        and isinstance(decision.reviewer, str)
        and (label is None or isinstance(label, str) or numbers)
    )


def entry_text(reviewer: str, row: int, verdict: str, label: str | None, undoes: int | None) -> str:
    """An entry as it is signed."""
    return json.dumps([reviewer, row, verdict, label, undoes])


class Touched(NamedTuple):
    """A reviewer has decided about a row, or taken it back."""

    row: int
    reviewer: str


class Decisions:
    """The decisions that stand, in memory, kept up with the file: other processes may write to it too."""

    def __init__(self, store: Store, heard: Callable[[Decision], None] | None = None) -> None:
        self._store = store
        self._heard = heard
        self._last = 0
        self._stand: dict[int, Decision] = {}
        self._of: dict[str, set[int]] = {}
        self.by_row: dict[int, dict[str, list[Decision]]] = {}
        self.refresh()

    def refresh(self) -> list[Touched]:
        """Take in what is new; whom and what it is about."""
        touched = []
        for number, entry in self._store.since(self._last):
            self._last = number
            if isinstance(entry, Decision):
                self._stand[entry.number] = entry
                self.by_row.setdefault(entry.row, {}).setdefault(entry.reviewer, []).append(entry)
                self._of.setdefault(entry.reviewer, set()).add(entry.row)
                if self._heard is not None:
                    self._heard(entry)
                touched.append(Touched(entry.row, entry.reviewer))
            elif gone := self._stand.pop(entry, None):
                by_reviewer = self.by_row[gone.row]
                by_reviewer[gone.reviewer].remove(gone)
                if not by_reviewer[gone.reviewer]:
                    del by_reviewer[gone.reviewer]
                    self._of[gone.reviewer].discard(gone.row)
                if not by_reviewer:
                    del self.by_row[gone.row]
                touched.append(Touched(gone.row, gone.reviewer))
        return touched

    def of(self, reviewer: str) -> set[int]:
        """Rows about which a reviewer has decided."""
        return self._of.get(reviewer, set())

    @property
    def reviewers(self) -> list[str]:
        """Who has decided about anything, in the order in which they began."""
        return [name for name, rows in self._of.items() if rows]

    def settled(self, row: int) -> Settled | None:
        """What is settled about a row by the last word of each of its reviewers; None where nobody spoke."""
        by_reviewer = self.by_row.get(row)
        if not by_reviewer:
            return None
        return _settled({name: decisions[-1] for name, decisions in by_reviewer.items()})

    def has_answered_dispute(self, row: int, reviewer: str) -> bool:
        """Whether a reviewer has decided about a row while its reviewers were already evenly divided."""
        entries = sorted((entry for by in self.by_row.get(row, {}).values() for entry in by), key=lambda e: e.number)
        last: dict[str, Decision] = {}
        for entry in entries:
            if entry.reviewer == reviewer and is_open_dispute(_settled(last)):
                return True
            last[entry.reviewer] = entry
        return False


def _settled(last: dict[str, Decision]) -> Settled:
    if len(last) == 1:
        (only,) = last.values()
        return Settled(only.label, (only.reviewer,), False)
    votes = Counter(json.dumps(decision.label) for decision in last.values() if decision.label is not None)
    best = votes.most_common(2)
    tie = len(best) == 2 and best[0][1] == best[1][1]
    label: Any = json.loads(best[0][0]) if best and not tie else None
    return Settled(label, tuple(last), len(votes) > 1)


def is_open_dispute(settled: Settled | None) -> bool:
    """Whether reviewers differ and no label has more voices than the others."""
    return settled is not None and settled.disputed and settled.label is None


def decisions_at(path: Path, fingerprint: str) -> Decisions:
    """The decisions of a file, read once."""
    try:
        with opened_to_read(path) as connection:
            return Decisions(Store(path, fingerprint, connection))
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the file opens, and a page of it is damaged
        raise trouble(path, error) from None
