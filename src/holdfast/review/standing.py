"""Where the review stands: what is decided of each row, as arrays that follow the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.review.store import Decision, Decisions, Label, Store, is_open_dispute

Array = NDArray[Any]


class Change(NamedTuple):
    """What one entry of the log has changed."""

    row: int
    reviewer: str
    own: int
    """1: a row that this reviewer had not decided before, -1: one taken back, 0: neither."""
    before: int
    """How many had spoken about the row before, and how many have now."""
    now: int

    @property
    def flipped(self) -> bool:
        """Whether the row was open before and is not now, or the other way round."""
        return (self.before == 0) != (self.now == 0)


class Standing:
    """What is decided of each row.

    Attributes
    ----------
    decided, reviewed, wrong: (N,) whether anybody spoke about the row; whether a label came of it; whether it is
        another than the given one.
    voices: (N,) how many reviewers spoke about the row.
    disputes: rows whose reviewers are evenly divided.
    shared: rows about which more than one reviewer spoke.
    """

    def __init__(
        self, store: Store, size: int, given: Callable[[int], Label], heard: Callable[[Decision], None]
    ) -> None:
        self.decided, self.reviewed, self.wrong = (np.zeros(size, dtype=bool) for _ in range(3))
        self.voices = np.zeros(size, dtype=np.int16)
        self.disputes: set[int] = set()
        self.shared: set[int] = set()
        self.decisions = Decisions(store, heard)
        self._given = given
        self._by: dict[str, Array] = {}
        self.unsure = 0
        for row in self.decisions.by_row:
            self._settle(row)

    def catch_up(self) -> Iterator[Change]:
        """Take in what anybody has written since."""
        for row, reviewer in self.decisions.refresh():
            own = 0
            if reviewer in self._by:
                now = row in self.decisions.of(reviewer)
                own = int(now) - int(self._by[reviewer][row])
                self._by[reviewer][row] = now
            before = int(self.voices[row])
            self._settle(row)
            yield Change(row, reviewer, own, before, int(self.voices[row]))

    def decided_by(self, reviewer: str) -> Array:
        """(N,) which rows a reviewer has decided."""
        if reviewer not in self._by:
            self._by[reviewer] = np.zeros(len(self.decided), dtype=bool)
            self._by[reviewer][list(self.decisions.of(reviewer))] = True
        return self._by[reviewer]

    def _settle(self, row: int) -> None:
        settled = self.decisions.settled(row)
        label = None if settled is None else settled.label
        was_unsure = bool(self.decided[row] and not self.reviewed[row] and row not in self.disputes)
        self.decided[row] = settled is not None
        self.voices[row] = 0 if settled is None else len(settled.reviewers)
        self.reviewed[row] = label is not None
        self.wrong[row] = label is not None and label != self._given(row)
        for rows, member in (
            (self.disputes, is_open_dispute(settled)),
            (self.shared, settled is not None and len(settled.reviewers) > 1),
        ):
            (rows.add if member else rows.discard)(row)
        self.unsure += int(settled is not None and label is None and row not in self.disputes) - int(was_unsure)
