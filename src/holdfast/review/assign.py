"""Who gets which row: what one reviewer looks at is not handed to another for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

HELD = 300.0
"""Seconds for which a row that was handed out is kept from other reviewers."""


class Assignments:
    """Rows in the hands of reviewers: of each the last row, or the last group, that was shown.

    >>> assignments = Assignments()
    >>> assignments.hand_out("Ada", [3, 4])
    >>> assignments.is_free(3, "Bob"), assignments.is_free(3, "Ada"), assignments.is_free(5, "Bob")
    (False, True, True)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._holder: dict[int, tuple[str, float]] = {}
        self._rows: dict[str, list[int]] = {}

    def hand_out(self, reviewer: str, rows: Iterable[int]) -> None:
        """Give rows to a reviewer in place of those that they had before."""
        self.take_back(reviewer)
        until = self._clock() + HELD
        self._rows[reviewer] = list(rows)
        for row in self._rows[reviewer]:
            self._holder[row] = (reviewer, until)

    def take_back(self, reviewer: str) -> None:
        for row in self._rows.pop(reviewer, ()):
            self.let_go(row, reviewer)

    def let_go(self, row: int, reviewer: str) -> None:
        """A reviewer has done with a row."""
        if self._holder.get(row, ("", 0.0))[0] == reviewer:
            del self._holder[row]

    def is_free(self, row: int, reviewer: str) -> bool:
        """Whether a row can be shown to a reviewer."""
        holder = self._holder.get(row)
        return holder is None or holder[0] == reviewer or holder[1] < self._clock()
