"""What the page shows of a row: labels, what speaks for which, the row itself and rows like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.display import Display
from holdfast.report.parts import label_text
from holdfast.review import reasons
from holdfast.review.marks import TEXTS, Mark, Marks
from holdfast.review.nearby import Nearby, Wanted
from holdfast.review.store import Label

Array = NDArray[Any]

TRUSTED = 0.5
"""Rows trusted at least so much may stand for their label."""
NEIGHBOURS = 6
VOICES = 5
"""Most similar rows whose labels are told in words."""
KEPT = 4096
"""Rows whose description is kept for the next who asks."""


class Likely(NamedTuple):
    """The likeliest classes of each row."""

    classes: Array
    """(N, K) numbers of classes, the likeliest first."""
    probability: Array
    """(N, K)."""


class Shown:
    """Descriptions of rows.

    Parameters
    ----------
    table: ``Run.issue_table``, one line a row, with what each label could be instead as the suggestion.
    classes: names, or None for a regression.
    features: (N, d) of unit length by which rows are near; None: no neighbours.
    display: what there is to see of each row, or None.
    likely: ``Run.likely_classes``, or None.
    unseen: whether networks were asked that had not seen the labels.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        classes: Sequence[str] | None,
        features: Tensor | None,
        display: Display | None,
        likely: Likely | None,
        unseen: bool,
    ) -> None:
        self.classes = None if classes is None else list(classes)
        self.display = display
        self.columns: dict[str, Array] = {
            str(name): np.asarray(table[name], dtype=object if table[name].dtype.kind not in "biuf" else None)
            for name in table
        }
        self._code = {} if classes is None else {name: k for k, name in enumerate(classes)}
        self._likely, self._unseen = likely, unseen
        self.features = features
        trusted = np.flatnonzero(self.columns["trust"] >= TRUSTED)
        codes = None if classes is None else self.codes("given")
        self._nearby = None if features is None else Nearby(features, trusted, codes)
        self.kind = self._kind()
        self._marks = self._counted_words(trusted, codes)
        self._static = lru_cache(KEPT)(self._made)
        self._neighbour = lru_cache(16 * KEPT)(self._as_neighbour)

    def codes(self, which: str) -> Array:
        """(N,) the numbers of the given or suggested classes: names are slow to compare by the thousand."""
        found: Array = pd.Index(self.classes or (), dtype=object).get_indexer(pd.Index(self.columns[which]))
        return found

    def _kind(self) -> str:
        if self.display is None or not len(self.columns["trust"]):
            return "bare"
        if self.display.pictures:
            return "picture"
        if self.display.texts(0):
            return "text"
        return "table" if self.display.fields(0, 1) else "bare"

    def _counted_words(self, trusted: Array, codes: Array | None) -> dict[str, Marks]:
        frame = None if self.display is None else self.display.frame
        if self.kind != "text" or frame is None or self.display is None or self.classes is None or codes is None:
            return {}
        some = np.sort(np.random.default_rng(0).permutation(trusted)[:TEXTS])
        names = [name for name, _ in self.display.texts(0)]
        return {
            name: Marks(frame[name].iloc[some].fillna("").astype(str).tolist(), codes[some], len(self.classes))
            for name in names
        }

    def label(self, row: int, which: str) -> Label:
        """The given or suggested label of a row: a class name, or a list of values."""
        if self.classes is not None:
            return str(self.columns[which][row])
        return self.numbers(row, which)

    def numbers(self, row: int, which: str) -> list[float]:
        """The given or suggested values of a row of a regression."""
        named = [which] if which in self.columns else [name for name in self.columns if name.startswith(f"{which}_")]
        return [float(self.columns[name][row]) for name in named]

    def item(self, row: int, decisions: Sequence[str], short: bool = False) -> dict[str, Any]:
        """All that the page shows of a suspect; in a grid without its neighbours."""
        shown = {**self._static(row), "decisions": list(decisions)}
        return {**shown, "neighbours": []} if short else shown

    def _made(self, row: int) -> dict[str, Any]:
        line = self.line(row)
        near, neighbours = self._near(row)
        return {
            "row": row,
            "source_index": int(line["row"]),
            "name": str(line["name"]),
            "given": label_text(line, "given"),
            "suggested": label_text(line, "suggested"),
            "trust": round(float(line["trust"]), 6),
            "reasons": self._reasons(row, line, near),
            "likely": [{"label": name, "probability": round(p, 6)} for name, p in self._likeliest(row)],
            "picture": self.display is not None and self.display.pictures,
            "texts": self._texts(row, line),
            "fields": [] if self.display is None else [field._asdict() for field in self.display.fields(row)],
            "neighbours": neighbours,
        }

    def _likeliest(self, row: int) -> list[tuple[str, float]]:
        if self._likely is None or self.classes is None:
            return []
        numbers, shares = self._likely.classes[row].tolist(), self._likely.probability[row].tolist()
        return [(self.classes[k], share) for k, share in zip(numbers, shares, strict=True)]

    def _reasons(self, row: int, line: Mapping[str, Any], near: Sequence[int]) -> list[str]:
        if self.classes is not None:
            labels = [str(self.columns["given"][other]) for other in near]
            return reasons.of_classes(line, self._likeliest(row), labels, self.kind, self._unseen)
        given, expected = self.numbers(row, "given"), self.numbers(row, "suggested")
        if len(given) > 1:
            return [f"{label_text(line, 'suggested')} is expected here."]
        values = [float(self.columns["given"][other]) for other in near]
        interval = (float(line["low"]), float(line["high"])) if "low" in line else None
        return reasons.of_numbers(given[0], expected[0], interval, values)

    def _texts(self, row: int, line: Mapping[str, Any]) -> list[tuple[str, str, list[Mark]]]:
        found = []
        for name, text in [] if self.display is None else self.display.texts(row):
            marks = self._marks.get(name)
            pair = () if marks is None else (self._code[line["given"]], self._code[line["suggested"]])
            found.append((name, text, [] if marks is None else marks.of(text, *pair)))
        return found

    def _near(self, row: int) -> tuple[list[int], list[dict[str, Any]]]:
        """The most similar rows whose label is trusted; and those of the given label and of the suggested one, or of
        any in a regression, as the page shows them."""
        if self._nearby is None:
            return [], []
        names: list[str | None] = [None]
        if self.classes is not None:
            names = [str(self.columns[which][row]) for which in ("given", "suggested")]
        wanted = [Wanted(NEIGHBOURS, None if name is None else self._code[name]) for name in names]
        near, *found = self._nearby.nearest(row, [Wanted(VOICES), *wanted])
        return near, [
            {"label": name or "", "rows": [self._neighbour(other) for other in rows]}
            for name, rows in zip(names, found, strict=True)
        ]

    def _as_neighbour(self, row: int) -> dict[str, Any]:
        return {"row": row, "label": label_text(self.line(row), "given"), "text": self._glimpse(row)}

    def most_alike(self, rows: Sequence[int], most: int) -> list[int]:
        """The first of some rows and those most like it, in their order."""
        if self.features is None or len(rows) <= most:
            return list(rows[:most])
        likeness = self.features[torch.as_tensor(rows)] @ self.features[rows[0]]
        likeness[0] = torch.inf
        return [rows[k] for k in sorted(likeness.topk(most).indices.tolist())]

    def _glimpse(self, row: int) -> str:
        """A neighbour in a line, where it is no picture."""
        if self.display is None or self.display.pictures:
            return ""
        texts = self.display.texts(row)
        if texts:
            return texts[0][1][:160]
        return ", ".join(f"{field.name} {field.value}" for field in self.display.fields(row, 3))

    def line(self, row: int) -> Mapping[str, Any]:
        columns = self.columns.items()
        return {name: values[row].item() if values.dtype != object else values[row] for name, values in columns}
