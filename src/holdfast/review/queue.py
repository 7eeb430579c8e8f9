"""The review queue: suspects of a run in the order to ask about them, what is there to see, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.display import Display
from holdfast.errors import HoldfastError
from holdfast.report.parts import label_text
from holdfast.review.order import Remaining, crowding, remaining, telling
from holdfast.review.store import Answer, Decisions, Label, Store

DOUBTFUL = 0.9
"""Rows trusted less than this are asked about."""
NEIGHBOURS = 6
CANDIDATES = 50_000
"""Rows among which neighbours are sought."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Filter:
    """Which suspects to walk through."""

    given: str | None = None
    low: float = 0.0
    high: float = 1.0
    second: bool = False
    """Also rows about which only others have decided."""


class ReviewQueue:
    """What the page asks for, without a word about how it travels.

    Parameters
    ----------
    table: ``Run.issue_table``, one line a row.
    classes: names, or None for a regression.
    features: (N, d) by which neighbours are near; None: no neighbours, and doubt alone sets the order.
    display: what there is to see of each row, or None.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        classes: Sequence[str] | None,
        features: Tensor | None,
        display: Display | None,
        store: Store,
    ) -> None:
        self.classes = None if classes is None else list(classes)
        self.display = display
        # A doubtful label that stands has no suggestion yet; what else it could be is worth asking about.
        table = table.assign(
            **{name.replace("rival", "suggested"): table[name] for name in table.columns if name.startswith("rival")}
        )
        self._columns: dict[str, Array] = {
            str(name): np.asarray(table[name], dtype=object if table[name].dtype.kind not in "biuf" else None)
            for name in table
        }
        self._store = store
        self._trust: Array = table["trust"].to_numpy(dtype=float)
        self._given: Array = table["given"].to_numpy() if "given" in table else np.zeros(len(table))
        self._features = None if features is None else torch.nn.functional.normalize(features.flatten(1).float(), dim=1)
        suspects = np.flatnonzero(self._trust < DOUBTFUL)
        crowd = np.zeros(len(suspects))
        if self._features is not None and len(suspects):
            crowd = crowding(self._features, suspects)
        self.rows: Array = suspects[np.argsort(-telling(self._trust[suspects], crowd), kind="stable")]
        self._candidates = self._trusted()
        self._near = None if self._features is None else self._features[self._candidates]
        # Numbers in place of names, which are slow to compare by the thousand.
        self._codes, names = pd.factorize(self._given)
        self._code = {str(name): k for k, name in enumerate(names)}
        self._decisions = Decisions(store)
        self._reviewed = np.zeros(len(table), dtype=bool)
        self._wrong = np.zeros(len(table), dtype=bool)
        self._decided = np.zeros(len(table), dtype=bool)
        self._mark(set(self._decisions.by_row))

    def __len__(self) -> int:
        return len(self._trust)

    def _trusted(self) -> Tensor:
        rows = np.flatnonzero(self._trust >= 0.5)
        rows = np.random.default_rng(0).permutation(rows)[:CANDIDATES]
        return torch.from_numpy(np.sort(rows))

    def next(self, reviewer: str, wanted: Filter) -> int | None:
        """The most telling suspect that is open, or None."""
        self._catch_up()
        open_rows = self.rows[self._open(reviewer, wanted)]
        return int(open_rows[0]) if len(open_rows) else None

    def _open(self, reviewer: str, wanted: Filter) -> Array:
        """(Q,) which rows of the queue match a filter and are not decided."""
        trust = self._trust[self.rows]
        mask: Array = (trust >= wanted.low) & (trust <= wanted.high)
        if wanted.given is not None:
            mask &= self._codes[self.rows] == self._code.get(wanted.given, -1)
        if wanted.second:
            mask &= ~np.isin(self.rows, list(self._decisions.of(reviewer)))
        else:
            mask &= ~self._decided[self.rows]
        return mask

    def progress(self, reviewer: str, wanted: Filter) -> dict[str, Any]:
        """How far the work is, and how many wrong labels remain."""
        self._catch_up()
        left: Remaining = remaining(self._trust, self._reviewed, self._wrong)
        return {
            "decided": len(self._decisions.by_row),
            "own": len(self._decisions.of(reviewer)),
            "open": int(self._open(reviewer, wanted).sum()),
            "suspects": len(self.rows),
            "remaining": {name: round(value) for name, value in left._asdict().items()},
        }

    def item(self, row: int) -> dict[str, Any]:
        """All that the page shows of a suspect."""
        line = self._line(row)
        by_reviewer = self._decisions.by_row.get(row, {})
        shown: dict[str, Any] = {
            "row": row,
            "source_index": int(line["row"]),
            "name": str(line["name"]),
            "given": label_text(line, "given"),
            "suggested": label_text(line, "suggested"),
            "trust": float(line["trust"]),
            "why": str(line["why"]),
            "picture": self.display is not None and self.display.pictures,
            "texts": [] if self.display is None else self.display.texts(row),
            "fields": [] if self.display is None else [field._asdict() for field in self.display.fields(row)],
            "neighbours": self.neighbours(row),
            "decisions": [f"{name}: {decisions[-1].verdict}" for name, decisions in by_reviewer.items()],
        }
        return shown

    def neighbours(self, row: int) -> list[dict[str, Any]]:
        """Near rows whose label is trusted: of the given label and of the suggested one, or of any in a regression."""
        if self._features is None or self._near is None or not len(self._candidates):
            return []
        near = self._near @ self._features[row]
        near[self._candidates == row] = -torch.inf
        groups: list[tuple[str, Tensor]] = [("", near)]
        if self.classes is not None:
            line = self._line(row)
            labels = torch.from_numpy(self._codes[self._candidates.numpy()])
            groups = [
                (line[which], near.masked_fill(labels != self._code.get(line[which], -1), -torch.inf))
                for which in ("given", "suggested")
            ]
        found = []
        for name, likeness in groups:
            best = likeness.topk(min(NEIGHBOURS, len(likeness)))
            rows = self._candidates[best.indices[best.values > -torch.inf]].tolist()
            shown = [{"row": r, "label": label_text(self._line(r), "given"), "text": self._glimpse(r)} for r in rows]
            found.append({"label": name, "rows": shown})
        return found

    def _glimpse(self, row: int) -> str:
        """A neighbour in a line, where it is no picture."""
        if self.display is None or self.display.pictures:
            return ""
        texts = self.display.texts(row)
        if texts:
            return texts[0][1][:160]
        return ", ".join(f"{field.name} {field.value}" for field in self.display.fields(row, 3))

    def decide(self, row: int, reviewer: str, verdict: Answer, label: Label | None) -> None:
        """Keep a decision; on disk when this returns."""
        if not 0 <= row < len(self):
            raise HoldfastError(f"there is no row {row}")
        self._store.decide(row, reviewer, verdict, self._checked(row, verdict, label))
        self._catch_up()

    def undo(self, reviewer: str) -> int | None:
        """Take back a reviewer's last decision; its row."""
        row = self._store.undo(reviewer)
        self._catch_up()
        return row

    def _checked(self, row: int, verdict: Answer, label: Label | None) -> Label | None:
        """The label that a verdict comes to."""
        if verdict is Answer.unsure:
            return None
        line = self._line(row)
        if verdict is not Answer.other:
            which = "given" if verdict is Answer.keep else "suggested"
            chosen: Label = label_value(line, which, self.classes is not None)
            return chosen
        if self.classes is not None:
            if label not in self.classes:
                raise HoldfastError(f"{label!r} is none of the classes")
            return label
        width = len(label_value(line, "given", False))
        if not isinstance(label, list) or len(label) != width or not np.isfinite(label).all():
            raise HoldfastError(f"a label of this run is {width} finite number(s)")
        return label

    def _catch_up(self) -> None:
        self._mark(self._decisions.refresh())

    def _mark(self, rows: set[int]) -> None:
        for row in rows:
            settled = self._decisions.settled(row)
            self._decided[row] = settled is not None
            label = None if settled is None else settled.label
            self._reviewed[row] = label is not None
            stands = label_value(self._line(row), "given", self.classes is not None)
            self._wrong[row] = label is not None and label != stands

    def _line(self, row: int) -> Mapping[str, Any]:
        columns = self._columns.items()
        return {name: values[row].item() if values.dtype != object else values[row] for name, values in columns}


def label_value(line: Mapping[str, Any], which: str, classes: bool) -> Any:
    """The label of a row of the table of issues: a class name, or a list of values."""
    if classes:
        return str(line[which])
    if which in line:
        return [float(line[which])]
    return [float(value) for name, value in line.items() if name.startswith(f"{which}_")]
