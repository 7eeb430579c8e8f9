"""Who gets which row: what one reviewer looks at is not handed to another for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELD = 300.0
"""Seconds for which a row that was handed out is kept from other reviewers."""

Array = NDArray[Any]


class Assignments:
    """Rows in the hands of reviewers: of each the last row, or the last group, that was shown.

    Parameters
    ----------
    rows: of the run, how many.

    >>> assignments = Assignments(10)
    >>> assignments.hand_out("Ada", [3, 4])
    >>> assignments.free(np.array([3, 5]), "Bob"), assignments.free(np.array([3]), "Ada")
    (array([False,  True]), array([ True]))
    """

    def __init__(self, rows: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = np.full(rows, -np.inf)
        self._holder = np.zeros(rows, dtype=np.int32)
        self._number: dict[str, int] = {}
        self._rows: dict[str, list[int]] = {}

    def hand_out(self, reviewer: str, rows: Iterable[int]) -> None:
        """Give rows to a reviewer in place of those that they had before."""
        self.take_back(reviewer)
        self._rows[reviewer] = list(rows)
        self._until[self._rows[reviewer]] = self._clock() + HELD
        self._holder[self._rows[reviewer]] = self._numbered(reviewer)

    def take_back(self, reviewer: str) -> None:
        for row in self._rows.pop(reviewer, ()):
            self.let_go(row, reviewer)

    def let_go(self, row: int, reviewer: str) -> None:
        """A reviewer has done with a row."""
        if self._holder[row] == self._numbered(reviewer):
            self._until[row] = -np.inf

    def free(self, rows: Array, reviewer: str) -> Array:
        """(M,) which rows can be shown to a reviewer: all at once, since many are passed over that others look at."""
        free: Array = (self._until[rows] < self._clock()) | (self._holder[rows] == self._numbered(reviewer))
        return free

    def _numbered(self, reviewer: str) -> int:
        return self._number.setdefault(reviewer, len(self._number) + 1)
