"""Tables as people have them and edits of them, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from holdfast.clean.edit import Edit

CLASSES = ("low", "high", "a;b,c|d")
SPELLED = {"low": ("low", "Low", "low "), "high": ("high", "HIGH"), "a;b,c|d": ("a;b,c|d",)}
"""The ways in which a file spells a class; the first is drawn most often."""


@dataclass(frozen=True)
class Drawn:
    """A table of text with a column of labels, and what is to become of it."""

    columns: dict[str, list[str]]
    label: str
    edit: Edit

    def __len__(self) -> int:
        return len(self.columns[self.label])

    @property
    def lines(self) -> list[list[str]]:
        return [list(line) for line in zip(*self.columns.values(), strict=True)]

    @property
    def wanted(self) -> list[str]:
        """The labels that the table must have afterwards, rows that go included."""
        labels = list(self.columns[self.label])
        spelled = {k: commonest([labels[row] for row in self.edit.rows[self.edit.given == k]]) for k in range(3)}
        for row, given, now in zip(self.edit.rows, self.edit.given, self.edit.wanted, strict=True):
            if given != now:
                labels[row] = spelled[now] or CLASSES[now]
        return labels


def commonest(values: list[str]) -> str | None:
    """Of equally common ones the first."""
    return max(dict.fromkeys(values), key=values.count) if values else None


TEXTS = st.text(st.sampled_from("abz é0.,;|\t\"'\n=-"), max_size=6)


@st.composite
def drawn(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS, change: bool = True, mark: bool = False) -> Drawn:
    """A table of up to eight rows, some of them without a label."""
    count = draw(st.integers(1, 8))
    given = draw(st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=count, max_size=count))
    labels = ["" if k < 0 else draw(st.sampled_from(SPELLED[CLASSES[k]])) for k in given]
    names = draw(st.permutations(["first", "the label", "last, or not"]))
    others = st.lists(texts, min_size=count, max_size=count)
    columns = {name: labels if name == "the label" else draw(others) for name in names}
    rows = np.array([row for row, k in enumerate(given) if k >= 0], dtype=np.int64)
    classes = np.array([k for k in given if k >= 0], dtype=np.int64)
    wanted, dropped = classes.copy(), np.zeros(len(rows), dtype=bool)
    if change and len(rows):
        some = st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))
        wanted = np.where(draw(flags(len(rows))), np.array(draw(some)), classes)
        dropped = np.array(draw(flags(len(rows))))
    marked = {}
    if mark:
        doubted = np.array(draw(flags(len(rows))), dtype=bool)
        marked = {"trust": np.linspace(0, 1, len(rows)), "suggested": (classes + 1) % 3, "doubted": doubted}
    return Drawn(columns, "the label", Edit("the label", rows, classes, wanted, dropped, CLASSES, **marked))


def flags(count: int) -> st.SearchStrategy[list[bool]]:
    return st.lists(st.booleans(), min_size=count, max_size=count)


def edit_of(rows, given, wanted, dropped=(), **marks) -> Edit:
    """An edit of some rows in a column y of two classes; those dropped by their place."""
    gone = np.isin(np.arange(len(rows)), dropped)
    arrays = {name: np.array(values) for name, values in marks.items()}
    return Edit("y", np.array(rows), np.array(given), np.array(wanted), gone, CLASSES[:2], **arrays)
