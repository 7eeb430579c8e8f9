"""The review queue: suspects of a run in the order to ask about them, and what was decided."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.display import Display
from holdfast.errors import HoldfastError
from holdfast.issues.find import REVIEWED
from holdfast.review.agreement import Pace
from holdfast.review.assign import Assignments
from holdfast.review.calibrate import Tally
from holdfast.review.groups import GRID, Grid, Kinds, class_kinds, number_kinds
from holdfast.review.order import Order, ordered
from holdfast.review.shown import Likely, Shown
from holdfast.review.standing import Standing
from holdfast.review.store import Answer, Label, Said, Store
from holdfast.review.views import View

DOUBTFUL = 0.9
"""Rows trusted less than this are asked about."""
VIEWS = 16
"""Filters whose rows are kept in order."""
STALE = 0.1
"""Seconds for which an estimate is told again, however many answers come meanwhile."""

Array = NDArray[Any]


class Queue(StrEnum):
    """Which rows are asked about."""

    open = "open"
    """What nobody has decided, and nobody else is looking at."""
    second = "second"
    """What others have decided and this reviewer has not."""
    disputes = "disputes"
    """What reviewers are evenly divided about."""


@dataclass(frozen=True)
class Filter:
    """Which suspects to walk through, and in which order."""

    given: str | None = None
    suggested: str | None = None
    low: float = 0.0
    high: float = 1.0
    order: Order = Order.informative
    queue: Queue = Queue.open

    @property
    def rows(self) -> tuple[Any, ...]:
        """What tells apart the rows it is about, whoever asks."""
        return self.given, self.suggested, self.low, self.high, self.order


class Aside(NamedTuple):
    """What was taken out of a stroke."""

    stroke: frozenset[int]
    verdict: Answer
    rows: tuple[int, ...]


class ReviewQueue:
    """What the page asks for, without a word about how it travels. All of it is as of the last ``catch_up``.

    Parameters
    ----------
    table: ``Run.issue_table``, one line a row.
    classes: names, or None for a regression.
    features: (N, d) by which neighbours are near; None: no neighbours.
    display: what there is to see of each row, or None.
    likely: ``Run.likely_classes``, or None.
    unseen: whether networks were asked that had not seen the labels.
    double: whether each row is asked about twice, of two reviewers.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        classes: Sequence[str] | None,
        features: Tensor | None,
        display: Display | None,
        store: Store,
        likely: Likely | None = None,
        unseen: bool = False,
        double: bool = False,
    ) -> None:
        # A doubtful label that stands has no suggestion yet; what else it could be is worth asking about.
        rivals = {name: name.replace("rival", "suggested") for name in table.columns if name.startswith("rival")}
        table = table.drop(columns=list(rivals.values())).rename(columns=rivals)
        unit = None if features is None else torch.nn.functional.normalize(features.flatten(1).float(), dim=1)
        self.store = store
        self.double = double
        self.shown = Shown(table, classes, unit, display, likely, unseen)
        self.trust: Array = table["trust"].to_numpy(dtype=float)
        self.suspects: Array = np.flatnonzero(self.trust < DOUBTFUL)
        self._unsettled = np.flatnonzero(table["why"].to_numpy() != REVIEWED)
        self._sort_by, self._kinds = self._labels()
        self.pace = Pace()
        self.standing = Standing(store, len(table), lambda row: self.shown.label(row, "given"), self.pace.hear)
        self._tally = Tally(self.trust, self.standing.reviewed, self.standing.wrong)
        self._left: int | None = None
        self._counted, self._behind = 0.0, False
        self._settled = self.standing.decided.copy()
        self._aside: dict[str, list[Aside]] = {}
        self._assigned = Assignments(len(table))
        self._orders: dict[Order, Array] = {}
        self._views: OrderedDict[tuple[Any, ...], View] = OrderedDict()
        self._grids: dict[tuple[Any, ...], Grid] = {}
        self._view(Filter())

    def __len__(self) -> int:
        return len(self.trust)

    def _labels(self) -> tuple[Array, Kinds]:
        """What sorts rows by their given label, and the kinds of groups."""
        if self.shown.classes is not None:
            codes = self.shown.codes("given")
            return codes, class_kinds(codes, self.shown.codes("suggested"), self.shown.classes)
        given, suggested = (
            np.stack([v for n, v in self.shown.columns.items() if n == which or n.startswith(f"{which}_")], axis=1)
            for which in ("given", "suggested")
        )
        return given[:, 0], number_kinds(given.astype(float), suggested.astype(float))

    def _view(self, wanted: Filter) -> View:
        """The rows of a filter; made once and then kept up to date."""
        key = wanted.rows
        if key in self._views:
            self._views.move_to_end(key)
            return self._views[key]
        rows = self.ordered(wanted.order)
        trust = self.trust[rows]
        mask: Array = (trust >= wanted.low) & (trust <= wanted.high)
        for which, name in (("given", wanted.given), ("suggested", wanted.suggested)):
            if name is not None:
                mask &= self.shown.columns[which][rows] == name if self.shown.classes is not None else False
        view = self._views[key] = View(rows[mask], self.standing.voices)
        if len(self._views) > VIEWS:
            gone, _ = self._views.popitem(last=False)
            self._grids.pop(gone, None)
        return view

    def ordered(self, order: Order) -> Array:
        """Rows in the order in which they are asked about."""
        if order not in self._orders:
            self._orders[order] = ordered(order, self.trust, self.suspects, self._sort_by, self._unsettled)
        return self._orders[order]

    def next(self, reviewer: str, wanted: Filter, beyond: int | None = None, back: bool = False) -> int | None:
        """The next row for a reviewer, which nobody else gets for some minutes; after or before one to page along."""
        if beyond is not None:
            self._check(beyond)
        for row in self._rows(self._view(wanted), reviewer, wanted.queue, beyond, back):
            self._assigned.hand_out(reviewer, [row])
            return row
        if beyond is None:
            self._assigned.take_back(reviewer)
        return None

    def _rows(self, view: View, reviewer: str, queue: Queue, beyond: int | None, back: bool) -> Iterator[int]:
        """Rows of a view that are asked about, and that nobody else looks at."""
        decided, voices = self.standing.decided, self.standing.voices

        def free(rows: Array) -> Any:
            return self._assigned.free(rows, reviewer)

        if queue is Queue.disputes:
            yield from (row for row in self._disputes(view, reviewer, beyond, back) if free(np.array([row]))[0])
            return

        def nobody(rows: Array) -> Any:
            return ~decided[rows]

        def others(rows: Array) -> Any:
            return decided[rows] & ~own[rows]

        def one_other(rows: Array) -> Any:
            return (voices[rows] == 1) & ~own[rows]

        def fewer_than_two(rows: Array) -> Any:
            return (voices[rows] < 2) & ~own[rows]

        if queue is Queue.open and not self.double:
            yield from view.open_rows(nobody, free) if beyond is None else view.beyond(beyond, nobody, free, back)
            return
        own = self.standing.decided_by(reviewer)
        if beyond is not None:
            yield from view.beyond(beyond, others if queue is Queue.second else fewer_than_two, free, back)
        elif queue is Queue.second:
            yield from view.second_rows((queue, reviewer), others, free)
        else:
            yield from view.second_rows((queue, reviewer), one_other, free)
            yield from view.open_rows(nobody, free)

    def _disputes(self, view: View, reviewer: str, beyond: int | None, back: bool) -> Iterator[int]:
        """Rows that reviewers are divided about and on which this one has not spoken since."""
        rows = np.fromiter(self.standing.disputes, dtype=np.int64)
        places = np.sort(view.place[rows])
        places = places[places >= 0]
        if beyond is not None:
            at = int(view.place[beyond])
            places = places[places < at][::-1] if back else places[places > at]
        for place in places.tolist():
            row = int(view.rows[place])
            if not self.standing.decisions.has_answered_dispute(row, reviewer):
                yield row

    def progress(self, reviewer: str, wanted: Filter) -> dict[str, Any]:
        """How far the work is, and how many wrong labels remain."""
        view = self._view(wanted)
        if wanted.queue is Queue.open:
            left = view.open + (view.once if self.double else 0)
        elif wanted.queue is Queue.second:
            left = len(view.rows) - view.open - view.own(reviewer, self.standing.decided_by(reviewer))
        else:
            left = sum(1 for _ in self._disputes(view, reviewer, None, False))
        return {
            "decided": len(self.standing.decisions.by_row),
            "own": len(self.standing.decisions.of(reviewer)),
            "open": left,
            "suspects": len(self.suspects),
            "remaining": self.remaining(),
        }

    def remaining(self) -> int:
        """How many wrong labels nobody has reviewed yet, by estimate; as of a moment ago where answers come fast."""
        now = time.monotonic()
        if self._left is None or (self._behind and now - self._counted > STALE):
            self._left, self._counted, self._behind = round(self._tally.left()), now, False
        return self._left

    def item(self, row: int, short: bool = False) -> dict[str, Any]:
        """All that the page shows of a row."""
        self._check(row)
        by_reviewer = self.standing.decisions.by_row.get(row, {})
        said = [f"{name}: {decisions[-1].verdict}" for name, decisions in by_reviewer.items()]
        return self.shown.item(row, said, short)

    def _check(self, row: int) -> None:
        if not 0 <= row < len(self):
            raise HoldfastError(f"there is no row {row}" if abs(row) < 10**12 else "there is no such row")

    def group(
        self, reviewer: str, wanted: Filter, after: int | None = None, first: int | None = None
    ) -> dict[str, Any] | None:
        """Similar open suspects to settle in one stroke, the largest kind first, or ``first`` as long as it lasts."""
        if wanted.queue is not Queue.open:
            return None
        grid = self._grid(wanted)
        for kind in (after, first):
            if kind is not None and not 0 <= kind < len(self._kinds.names):
                raise HoldfastError("there is no such group")

        def free(rows: Array) -> Array:
            return self._assigned.free(rows, reviewer)

        for kind in grid.kinds(first, after):
            rows = grid.rows(kind, free)
            if rows:
                shown = self.shown.most_alike(rows, GRID)
                self._assigned.hand_out(reviewer, shown)
                return self._group(kind, shown, grid.open_of(kind) - len(shown))
        return None

    def group_of(self, reviewer: str, rows: Sequence[int], wanted: Filter) -> dict[str, Any]:
        """The group that some rows were shown in."""
        aside = next((each for each in self._aside.get(reviewer, []) if set(each.rows) == set(rows)), None)
        if aside is not None:
            return self.exceptions(reviewer, rows, aside.verdict, wanted)
        kind = int(self._kinds.of_row[rows[0]])
        return self._group(kind, rows, max(0, self._grid(wanted).open_of(kind) - len(rows)))

    def exceptions(self, reviewer: str, rows: Sequence[int], verdict: Answer, wanted: Filter) -> dict[str, Any]:
        """What was taken out of a stroke with this verdict, to be settled next: else one of two answers would be heard
        alone, and what answers say of all other labels would be askew."""
        self._assigned.hand_out(reviewer, rows)
        kind = int(self._kinds.of_row[rows[0]])
        return {**self._group(kind, rows, self._grid(wanted).open_of(kind)), "aside": verdict.value}

    def _group(self, kind: int, rows: Sequence[int], more: int) -> dict[str, Any]:
        given, suggested = self._kinds.names[kind]
        items = [self.item(row, short=True) for row in rows]
        return {"key": str(kind), "given": given, "suggested": suggested, "items": items, "more": more, "aside": None}

    def kind_of(self, row: int) -> int:
        self._check(row)
        return int(self._kinds.of_row[row])

    def _grid(self, wanted: Filter) -> Grid:
        view = self._view(wanted)
        if wanted.rows not in self._grids:
            self._grids[wanted.rows] = Grid(view, self._kinds, self._settled)
        return self._grids[wanted.rows]

    def said(self, row: int, verdict: Answer, label: Label | None = None) -> Said:
        """An answer with the label that it comes to, checked before it is kept."""
        self._check(row)
        if verdict is Answer.unsure:
            return Said(row, verdict, None)
        if verdict is not Answer.other:
            return Said(row, verdict, self.shown.label(row, "given" if verdict is Answer.keep else "suggested"))
        if self.shown.classes is not None:
            if label not in self.shown.classes:
                raise HoldfastError(f"{str(label)[:60]!r} is none of the classes")
            return Said(row, verdict, label)
        width = len(self.shown.label(row, "given"))
        if not isinstance(label, list) or len(label) != width or not np.isfinite(label).all():
            raise HoldfastError(f"a label of this run is {width} finite number(s)")
        return Said(row, verdict, label)

    def set_aside(self, reviewer: str, stroke: Sequence[int], verdict: Answer, rows: Sequence[int]) -> None:
        """Keep rows out of groups from now on: they were taken out of a stroke."""
        for row in rows:
            self._check(row)
        if rows:
            self._aside.setdefault(reviewer, []).append(Aside(frozenset(stroke), verdict, tuple(rows)))
        for row in rows:
            self._settle(row, True)

    def undone(self, reviewer: str, rows: Sequence[int]) -> list[int]:
        """A stroke was taken back, and with it what was set aside in it; all rows that were shown."""
        strokes, shown = self._aside.get(reviewer, []), list(rows)
        last = next((each for each in reversed(strokes) if each.stroke == set(rows)), None)
        if last is not None:
            strokes.remove(last)
            shown += last.rows
        taken_out = any(set(each.rows) == set(shown) for each in strokes)
        for row in shown:
            self._settle(row, taken_out or bool(self.standing.decided[row]))
        self._assigned.hand_out(reviewer, shown)
        return shown

    def catch_up(self) -> None:
        """Take in what anybody has written since, here or in another process."""
        for change in self.standing.catch_up():
            row, decided = change.row, change.now > 0
            self._tally.set(row, bool(self.standing.reviewed[row]), bool(self.standing.wrong[row]))
            self._behind = True
            self._assigned.let_go(row, change.reviewer)
            for view in self._views.values():
                view.hear(change)
            if change.flipped:
                self._settle(row, decided)

    def _settle(self, row: int, settled: bool) -> None:
        if bool(self._settled[row]) != settled:
            self._settled[row] = settled
            for grid in self._grids.values():
                grid.flip(row, settled)
