"""The answers of reviewers about the rows of a run, beside what the run says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.errors import HoldfastError
from holdfast.review.store import REVIEWS, Label, Settled, decisions_at

SAME = 1e-6
"""Numbers that differ by less than this part of their size, or of the size of all, are the same: a page rounds them."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Answers:
    """What reviewers have decided about rows, by their place in ``Run.issue_table``.

    Attributes
    ----------
    settled: what is decided about each row that anybody has answered about, in the order of the rows.
    reviewed, wrong: (N,) whether reviewers agree on a label, and whether that is another than the given one.
    """

    settled: dict[int, Settled]
    reviewed: NDArray[np.bool_]
    wrong: NDArray[np.bool_]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Where reviewers agree on a label."""
        return np.flatnonzero(self.reviewed)

    def labels(self) -> list[Label]:
        """What they agree on there."""
        return [label for label in (self.settled[row].label for row in self.rows.tolist()) if label is not None]


def answers_at(folder: Path | None, fingerprint: str, table: pd.DataFrame, classes: bool) -> Answers | None:
    """The answers in the folder of a run; None where nobody has answered.

    Parameters
    ----------
    table: ``Run.issue_table``.
    """
    path = None if folder is None else folder / REVIEWS
    if path is None or not path.exists():
        return None
    decisions = decisions_at(path, fingerprint)
    if (last := max(decisions.by_row, default=0)) >= len(table):
        raise HoldfastError(f"{path} tells of row {last} of {len(table):,}; move the file away to begin anew")
    found = {row: decisions.settled(row) for row in sorted(decisions.by_row)}
    settled = {row: each for row, each in found.items() if each is not None}
    if not settled:
        return None
    width = len(columns_of(table, "given"))
    for row, each in settled.items():
        if (each.label is not None and isinstance(each.label, str) != classes) or _width(each.label) not in (0, width):
            raise HoldfastError(f"{path} has a label of another kind for row {row}; move the file away to begin anew")
    reviewed, wrong = np.zeros(len(table), dtype=bool), np.zeros(len(table), dtype=bool)
    reviewed[[row for row, each in settled.items() if each.label is not None]] = True
    answers = Answers(settled, reviewed, wrong)
    if len(answers.rows):
        wrong[answers.rows] = _differs(table, answers.rows, answers.labels(), classes)
    return answers


def _width(label: Label | None) -> int:
    """How many numbers a label has; 0 of a class."""
    return len(label) if isinstance(label, list) else 0


def columns_of(table: pd.DataFrame, which: str) -> list[str]:
    """The columns that hold a label in a table of issues: one, or one for each of several targets."""
    return [name for name in table.columns if name == which or name.startswith(f"{which}_")]


def _differs(table: pd.DataFrame, rows: Array, labels: Sequence[Label], classes: bool) -> Array:
    """(M,) whether labels are others than those given to some rows."""
    differs: Array
    if classes:
        differs = table["given"].to_numpy()[rows] != np.array(labels, dtype=object)
        return differs
    given = table[columns_of(table, "given")].to_numpy(dtype=np.float64)
    size = np.abs(given[rows]) + np.median(np.abs(given), axis=0)
    differs = (np.abs(np.array(labels, dtype=np.float64) - given[rows]) > SAME * size).any(1)
    return differs
