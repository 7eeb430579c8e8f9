"""The contract of a finder: it looks at the subject and says which rows have an issue of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.audit.subject import Subject

Array = NDArray[Any]
COLUMNS = ("row", "name", "column", "kind", "score", "flag", "given", "suggested", "why")


@dataclass(frozen=True)
class Finding:
    """What a finder has to say.

    Attributes
    ----------
    kind: the kind of issue, as the table and the report call it.
    rows: (M,) positions of rows among those checked; -1 for an issue of no single row.
    score: (M,) from 0 to 1, larger where the issue is surer or graver.
    flag: (M,) whether it is an issue; a row may be scored and stand.
    why: (M,) a sentence for each flagged row.
    sentence: what was found, in one sentence.
    given, suggested: (M,) labels, where they matter.
    columns: (M,) columns of the table that the issues are about.
    """

    kind: str
    rows: Array
    score: Array
    flag: Array
    why: Sequence[str]
    sentence: str
    given: Sequence[str] | None = None
    suggested: Sequence[str] | None = None
    columns: Sequence[str] | None = None

    @property
    def count(self) -> int:
        """How many are flagged."""
        return int(self.flag.sum())

    @property
    def hint(self) -> bool:
        """Whether nothing is flagged although there was something to see."""
        return not self.count and len(self.rows) > 0

    def table(self, subject: Subject) -> pd.DataFrame:
        """One line an issue, the gravest first."""
        known = self.rows >= 0
        number = np.where(known, subject.numbers[np.maximum(self.rows, 0)], -1)
        names = subject.rows.names
        blank = [""] * len(self.rows)
        frame = pd.DataFrame(
            {
                "row": pd.array(np.where(known, number, 0), dtype="Int64"),
                "name": blank if names is None else [names[row] if row >= 0 else "" for row in self.rows.tolist()],
                "column": blank if self.columns is None else list(self.columns),
                "kind": self.kind,
                "score": self.score.astype(float).round(6),
                "flag": self.flag.astype(bool),
                "given": subject.labels(self.rows) if self.given is None else list(self.given),
                "suggested": blank if self.suggested is None else list(self.suggested),
                "why": list(self.why),
            }
        )
        frame.loc[~known, "row"] = pd.NA
        frame["position"] = self.rows
        return frame.sort_values(["flag", "score"], ascending=False, kind="stable", ignore_index=True)


Finder = Callable[[Subject], list[Finding]]


def nothing(kind: str, sentence: str) -> Finding:
    """No issue of a kind."""
    none = np.empty(0)
    return Finding(kind, none.astype(int), none, none.astype(bool), [], sentence, [])
