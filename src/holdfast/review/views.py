"""Views: the rows that a filter asks for, in order, with what is open among them kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    decided: (N,) whether anybody has decided about each row of the run; kept by others.
    """

    def __init__(self, rows: Array, decided: Array) -> None:
        self.rows = rows.astype(np.int32)
        self.place = np.full(len(decided), -1, dtype=np.int32)
        """(N,) where each row of the run stands in the view; -1 where it is no part of it."""
        self.place[rows] = np.arange(len(rows), dtype=np.int32)
        self.open = int(np.count_nonzero(~decided[rows]))
        self._first_open = 0
        self._first_second: dict[str, int] = {}
        self._own: dict[str, int] = {}

    def flip(self, row: int, decided: bool) -> None:
        """A row was decided that was open, or is open again."""
        at = int(self.place[row])
        if at < 0:
            return
        self.open += -1 if decided else 1
        if not decided:
            self._first_open = min(self._first_open, at)

    def touch(self, row: int, reviewer: str, change: int) -> None:
        """Somebody spoke about a row: others may be asked about it now, and it may be one more, or fewer, of theirs."""
        at = int(self.place[row])
        if at < 0:
            return
        for name, first in self._first_second.items():
            if at < first:
                self._first_second[name] = at
        if change and reviewer in self._own:
            self._own[reviewer] += change

    def own(self, reviewer: str, decided_by: Array) -> int:
        """How many rows of the view a reviewer has decided; ``decided_by`` (N,) says which of the run."""
        if reviewer not in self._own:
            self._own[reviewer] = int(np.count_nonzero(decided_by[self.rows]))
        return self._own[reviewer]

    def open_rows(self, eligible: Eligible) -> Iterator[int]:
        """Open rows, the first first; nothing before it is looked at again until it is opened again."""
        places = self.places(self._first_open, eligible)
        first = next(places, None)
        self._first_open = len(self.rows) if first is None else first
        if first is not None:
            yield int(self.rows[first])
            yield from (int(self.rows[place]) for place in places)

    def second_rows(self, reviewer: str, eligible: Eligible) -> Iterator[int]:
        """The same of rows that others have decided and a reviewer has not."""
        places = self.places(self._first_second.get(reviewer, 0), eligible)
        first = next(places, None)
        self._first_second[reviewer] = len(self.rows) if first is None else first
        if first is not None:
            yield int(self.rows[first])
            yield from (int(self.rows[place]) for place in places)

    def beyond(self, row: int, eligible: Eligible, back: bool) -> Iterator[int]:
        """Rows after one, or before it with the nearest first."""
        at = int(self.place[row])
        start = (at - 1 if at >= 0 else len(self.rows) - 1) if back else at + 1
        for place in self.places(start, eligible, back):
            yield int(self.rows[place])

    def places(self, start: int, eligible: Eligible, back: bool = False) -> Iterator[int]:
        """Where eligible rows stand, from a place on, forwards or backwards."""
        width = FIRST
        while 0 <= start < len(self.rows):
            low, high = (max(0, start - width + 1), start + 1) if back else (start, min(len(self.rows), start + width))
            found = np.flatnonzero(eligible(self.rows[low:high])) + low
            yield from (found[::-1] if back else found).tolist()
            start, width = (low - 1 if back else high), min(4 * width, LARGEST)
