"""What a tool is told of each row, and what comes back from it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from holdfast.data.display import Display
from holdfast.errors import HoldfastError
from holdfast.issues.find import REVIEWED
from holdfast.review.store import REVIEWS, Answer, Decisions, Label, Store
from holdfast.run import Run

ROW = "holdfast_row"
RUN = "holdfast_run"
"""The names under which a tool keeps the number of a row and the digest of the run, and gives them back."""
QUESTION = "label"


@dataclass(frozen=True)
class Item:
    """One row to be labelled.

    Attributes
    ----------
    place: of the row in ``Run.issue_table``.
    given, suggested: class names, or numbers.
    trust: the probability that the given label is right.
    fields: its columns as people read them, by name; none for a picture.
    columns: the line of the table that was read.
    picture: its bytes as PNG.
    """

    place: int
    name: str
    given: str | float
    suggested: str | float
    trust: float
    fields: dict[str, str] = field(default_factory=dict)
    columns: pd.Series[Any] | None = None
    picture: bytes | None = None

    @property
    def score(self) -> float:
        """How likely the suggestion is."""
        return round(self.trust if self.given == self.suggested else 1 - self.trust, 4)

    @property
    def link(self) -> str:
        """The picture as a link that holds it."""
        return f"data:image/png;base64,{base64.b64encode(self.picture or b'').decode()}"

    @property
    def text(self) -> str:
        """The columns as lines of text."""
        return "\n".join(f"{name}: {value}" for name, value in self.fields.items())


class Decided(NamedTuple):
    """What one person says of one row."""

    place: int
    reviewer: str
    label: str | float


def items(run: Run, every: bool = False) -> list[Item]:
    """The doubtful rows of a run that nobody has reviewed, or all, least trusted first."""
    table = run.answered_table()
    if "given" not in table:
        raise HoldfastError("rows with several targets have no one label to ask for; holdfast review shows them")
    chosen = table if every else table[table["flag"] & (table["why"] != REVIEWED)]
    if not len(chosen):
        raise HoldfastError(
            "no label is likelier wrong than right, so there is nothing to ask; pass --all for all rows"
        )
    display = Display(run.judged_rows())
    return [_item(line, place, display) for place, line in _lines(chosen)]


def _lines(table: pd.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
    ranked = table.sort_values("trust", kind="stable")
    yield from zip(ranked.index.tolist(), ranked.to_dict("records"), strict=True)


def _item(line: dict[str, Any], place: int, display: Display) -> Item:
    about = (place, str(line["name"]), line["given"], line["suggested"], float(line["trust"]))
    if display.pictures:
        return Item(*about, picture=display.png(place))
    columns = None if display.frame is None else display.frame.iloc[place]
    fields = {field.name: field.value for field in display.fields(place)} | dict(display.texts(place))
    return Item(*about, fields or {"row": str(line["row"])}, columns)


def take_in(run: Run, folder: Path, decided: Iterable[Decided]) -> int:
    """Keep decisions of a tool beside those of the review page; how many are new. What is there already is left."""
    table, classes = run.issue_table(), run.classes
    new = 0
    with closing(Store(folder / REVIEWS, run.config.fingerprint)) as store, store.transaction():
        # In one transaction: of two processes that take in the same file, the second finds all of it there.
        known = Decisions(store)
        for place, reviewer, label in decided:
            if not 0 <= place < len(table):
                raise HoldfastError(f"row {place} is none of the {len(table):,} rows of the run")
            value = _value(label, classes, place)
            before = known.by_row.get(place, {}).get(reviewer)
            if before and before[-1].label == value:
                continue
            store.decide(place, reviewer, _answer(table, place, label, classes), value)
            new += 1
    return new


def _value(label: str | float, classes: tuple[str, ...] | None, place: int) -> Label:
    if classes is None:
        try:
            number = float(label)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise HoldfastError(f"row {place} was labelled {label!r}, which is no number")
        return [number]
    if label not in classes:
        raise HoldfastError(f"row {place} was labelled {label!r}, which is none of the {len(classes)} classes")
    return str(label)


def _answer(table: pd.DataFrame, place: int, label: str | float, classes: tuple[str, ...] | None) -> Answer:
    chosen = label if classes is not None else float(label)
    if chosen == table.at[place, "given"]:
        return Answer.keep
    return Answer.suggestion if chosen == table.at[place, "suggested"] else Answer.other
