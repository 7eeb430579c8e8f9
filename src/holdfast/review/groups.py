"""Groups of the grid: suspects with the same given and the same suggested label, to be settled in one stroke."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.review.views import Eligible, View

Array = NDArray[Any]

GRID = 24
"""Rows of a group that are shown at once."""
ALIKE = 2048
"""Open rows of a pair among which those most like the first are sought."""


class Kind(NamedTuple):
    """What the rows of a group have in common, in words."""

    given: str
    suggested: str


class Kinds(NamedTuple):
    """Of each row of the run the kind of group that it belongs to, as a number."""

    of_row: Array
    names: list[Kind]


def class_kinds(given: Array, suggested: Array, classes: Sequence[str]) -> Kinds:
    """Rows with the same given and suggested class are of a kind.

    Shape: given, suggested (N,) numbers of classes.

    >>> class_kinds(np.array([0, 1, 0]), np.array([1, 0, 1]), ["cat", "dog"]).of_row.tolist()
    [0, 1, 0]
    """
    code, pairs = pd.factorize(given * len(classes) + suggested)
    names = [Kind(classes[pair // len(classes)], classes[pair % len(classes)]) for pair in pairs.tolist()]
    return Kinds(code.astype(np.int32), names)


def number_kinds(given: Array, suggested: Array) -> Kinds:
    """Corrections in the same direction and of similar size are of a kind: each twice as large as the one before.

    Shape: given, suggested (N, q); of several targets the one counts that changes most for its spread.
    """
    change = suggested - given
    spread = np.where((width := given.std(0)) > 0, width, 1.0)
    target = np.abs(change / spread).argmax(1)
    size = change[np.arange(len(change)), target]
    octave = np.floor(np.log2(np.maximum(np.abs(size), np.finfo(float).tiny))).astype(np.int64)
    keys = np.stack([target, np.sign(size).astype(np.int64), octave], axis=1)
    distinct, code = np.unique(keys, axis=0, return_inverse=True)
    names = []
    for which, sign, power in distinct.tolist():
        of = f"value {which + 1}" if given.shape[1] > 1 else "value"
        way = f"{'higher' if sign > 0 else 'lower'} by {2.0**power:.4g} to {2.0 ** (power + 1):.4g}"
        names.append(Kind(f"given {of}", way if sign else "the same"))
    return Kinds(code.reshape(-1).astype(np.int32), names)


class Grid:
    """The rows of a view by kind, with the number of open ones of each kept up to date.

    Parameters
    ----------
    settled: (N,) rows that no group shows: decided, or set aside to be looked at one by one; kept by others.
    """

    def __init__(self, view: View, kinds: Kinds, settled: Array) -> None:
        self._kinds = kinds
        self._settled = settled
        self._member = view.place
        of_row = kinds.of_row[view.rows]
        self._rows: Array = view.rows[np.argsort(of_row, kind="stable")]
        self._start: Array = np.searchsorted(np.sort(of_row, kind="stable"), np.arange(len(kinds.names) + 1))
        self._first: Array = self._start[:-1].copy()
        self._open: Array = np.bincount(of_row[~settled[view.rows]], minlength=len(kinds.names))

    def flip(self, row: int, settled: bool) -> None:
        """A row left the groups, or came back."""
        if self._member[row] < 0:
            return
        kind = self._kinds.of_row[row]
        self._open[kind] += -1 if settled else 1
        if not settled:
            self._first[kind] = self._start[kind]

    def kinds(self, first: int | None, after: int | None) -> Iterator[int]:
        """Kinds with open rows: one that is wished for first, then the largest first, or from one on."""
        if first is not None and self._open[first]:
            yield first
        order = np.argsort(-self._open, kind="stable")
        if after is not None:
            order = order[int(np.flatnonzero(order == after)[0]) + 1 :]
        for kind in order.tolist():
            if not self._open[kind]:
                return
            if kind != first:
                yield kind

    def open_of(self, kind: int) -> int:
        return int(self._open[kind])

    def rows(self, kind: int, free: Eligible) -> list[int]:
        """Open rows of a kind that may be shown, in the order of the view, not more than can be looked through."""
        part = self._rows[self._first[kind] : self._start[kind + 1]]
        open_rows = np.flatnonzero(~self._settled[part])
        if len(open_rows):
            self._first[kind] += int(open_rows[0])
        some = part[open_rows[:ALIKE]]
        found: list[int] = some[free(some)].tolist()
        return found
