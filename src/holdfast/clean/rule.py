"""Which labels of a run are corrected and which rows dropped, by trust and by what reviewers have decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.errors import HoldfastError
from holdfast.issues.find import FLAGGED
from holdfast.run import Run

USUAL = 0.5
"""Labels below this trust are corrected where nobody says what to do: those that are likelier wrong than right."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Rule:
    """What to do with labels of little trust; reviewed labels are as decided under any rule.

    Parameters
    ----------
    correct: labels of less trust become what is suggested; at most one half, since beyond it nothing else is likelier.
        0: none.
    drop: other rows of less trust go. 0: none.
    mark: trust and suggestion are written beside the rows.
    """

    correct: float = 0.0
    drop: float = 0.0
    mark: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= FLAGGED:
            raise HoldfastError(
                f"labels are corrected below a trust of at most {FLAGGED:g}, not {self.correct:g}: "
                "above it the given label is likelier right than any other"
            )
        if not 0 <= self.drop <= 1:
            raise HoldfastError(f"trust lies between 0 and 1, so rows cannot be dropped below {self.drop:g}")

    @classmethod
    def asked(cls, correct: float | None, drop: float | None, mark: bool) -> Rule:
        """The rule of some options; the usual one where there are none."""
        if correct is None and drop is None and not mark:
            return cls(correct=USUAL)
        return cls(correct or 0.0, drop or 0.0, mark)

    def __str__(self) -> str:
        parts = [f"labels below a trust of {self.correct:g} corrected"] if self.correct else []
        parts += [f"{'other ' if self.correct else ''}rows below {self.drop:g} dropped"] if self.drop else []
        parts += ["trust and suggestion written beside the rows"] if self.mark else []
        return ", ".join([*parts, "reviewed labels as decided"])


@dataclass(frozen=True)
class Judged:
    """What becomes of each row of ``Run.issue_table``, in its order.

    Attributes
    ----------
    row: (N,) its number among the rows that were read.
    given, wanted, suggested: (N,) numbers of classes, or (N, q) targets.
    dropped, reviewed, doubted: (N,) whether it goes, a person has decided about it, another label is suggested.
    trust: (N,) of the given label; 1 where a person has decided.
    """

    row: NDArray[np.int64]
    given: Array
    wanted: Array
    suggested: Array
    dropped: NDArray[np.bool_]
    reviewed: NDArray[np.bool_]
    doubted: NDArray[np.bool_]
    trust: NDArray[np.float64]


def judged(run: Run, rule: Rule) -> Judged:
    """The rows of a run under a rule."""
    if run.config.unlabelled:
        raise HoldfastError("the run has learned without labels, so there are none to clean")
    table, answers = run.answered_table(), run.answers()
    given, suggested = (_labels(table, name, run.classes) for name in ("given", "suggested"))
    reviewed = np.zeros(len(table), dtype=bool) if answers is None else answers.reviewed
    wanted = given.copy()
    wanted[reviewed] = suggested[reviewed]
    trust = table["trust"].to_numpy(dtype=np.float64)
    corrected = (trust < rule.correct) & ~reviewed
    wanted[corrected] = suggested[corrected]
    dropped = (trust < rule.drop) & ~reviewed & ~corrected
    doubted = table["flag"].to_numpy(dtype=bool) & ~reviewed
    row = table["row"].to_numpy(dtype=np.int64)
    return Judged(row, given, wanted, suggested, dropped, reviewed, doubted, np.where(reviewed, 1.0, trust))


def _labels(table: pd.DataFrame, which: str, classes: tuple[str, ...] | None) -> Array:
    """(N,) numbers of classes, or (N, q) targets, of a table of issues."""
    if classes is None:
        named = [name for name in table.columns if name == which or name.startswith(f"{which}_")]
        return table[named].to_numpy(dtype=np.float64)
    number = {name: k for k, name in enumerate(classes)}
    return table[which].map(number).to_numpy(dtype=np.int64)
