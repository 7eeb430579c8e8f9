"""Views: the rows that a filter asks for, in order, with what is open among them kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.review.standing import Change

Array = NDArray[Any]
Eligible = Callable[[Array], Array]
"""(M,) rows -> (M,) whether each may be shown."""

FIRST, LARGEST = 64, 65_536
"""Rows looked at in one go: few at first, since what is sought is mostly near."""


class View:
    """Some rows in an order. A request looks at a few of them and never at all.

    Parameters
    ----------
    rows: (Q,) in the order in which they are shown.
    voices: (N,) how many have spoken about each row of the run.

    Attributes
    ----------
    open, once: rows about which nobody has spoken, and about which one reviewer has.
    """

    def __init__(self, rows: Array, voices: Array) -> None:
        self.rows = rows.astype(np.int32)
        self.place = np.full(len(voices), -1, dtype=np.int32)
        """(N,) where each row of the run stands in the view; -1 where it is no part of it."""
        self.place[rows] = np.arange(len(rows), dtype=np.int32)
        self.open, self.once = (int(np.count_nonzero(voices[rows] == count)) for count in (0, 1))
        self._first_open = 0
        self._first_second: dict[Hashable, int] = {}
        self._own: dict[str, int] = {}

    def hear(self, change: Change) -> None:
        """Somebody spoke about a row, or took it back."""
        at = int(self.place[change.row])
        if at < 0:
            return
        self.open += int(change.now == 0) - int(change.before == 0)
        self.once += int(change.now == 1) - int(change.before == 1)
        if change.now == 0:
            self._first_open = min(self._first_open, at)
        # Others may be asked about it now.
        for asked, first in self._first_second.items():
            if at < first:
                self._first_second[asked] = at
        if change.reviewer in self._own:
            self._own[change.reviewer] += change.own

    def own(self, reviewer: str, decided_by: Array) -> int:
        """How many rows of the view a reviewer has decided; ``decided_by`` (N,) says which of the run."""
        if reviewer not in self._own:
            self._own[reviewer] = int(np.count_nonzero(decided_by[self.rows]))
        return self._own[reviewer]

    def open_rows(self, eligible: Eligible, free: Eligible) -> Iterator[int]:
        """Open rows that are free, the first first; what lies before the first open row, free or not, is not looked at
        again until it is opened again."""
        first = next(self.places(self._first_open, eligible), None)
        self._first_open = len(self.rows) if first is None else first
        yield from self._both(self._first_open, eligible, free)

    def second_rows(self, asked: Hashable, eligible: Eligible, free: Eligible) -> Iterator[int]:
        """The same of rows about which somebody has spoken; ``asked`` tells apart who is asked about which of them."""
        first = next(self.places(self._first_second.get(asked, 0), eligible), None)
        self._first_second[asked] = len(self.rows) if first is None else first
        yield from self._both(self._first_second[asked], eligible, free)

    def _both(self, start: int, eligible: Eligible, free: Eligible, back: bool = False) -> Iterator[int]:
        for place in self.places(start, lambda rows: eligible(rows) & free(rows), back):
            yield int(self.rows[place])

    def beyond(self, row: int, eligible: Eligible, free: Eligible, back: bool) -> Iterator[int]:
        """Rows after one, or before it with the nearest first."""
        at = int(self.place[row])
        start = (at - 1 if at >= 0 else len(self.rows) - 1) if back else at + 1
        yield from self._both(start, eligible, free, back)

    def places(self, start: int, eligible: Eligible, back: bool = False) -> Iterator[int]:
        """Where eligible rows stand, from a place on, forwards or backwards."""
        width = FIRST
        while 0 <= start < len(self.rows):
            low, high = (max(0, start - width + 1), start + 1) if back else (start, min(len(self.rows), start + width))
            found = np.flatnonzero(eligible(self.rows[low:high])) + low
            yield from (found[::-1] if back else found).tolist()
            start, width = (low - 1 if back else high), min(4 * width, LARGEST)
