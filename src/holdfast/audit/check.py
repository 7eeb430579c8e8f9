"""``holdfast.check``: what is wrong with data, before anything is trained on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.audit.classes import find_rare_classes
from holdfast.audit.columns import find_columns
from holdfast.audit.duplicates import find_duplicates
from holdfast.audit.empty import find_empty_rows
from holdfast.audit.finding import COLUMNS, Finder, Finding
from holdfast.audit.labels import Judged, judge_labels
from holdfast.audit.opening import Data, open_subject
from holdfast.audit.outliers import find_outliers
from holdfast.audit.page import fit_command, write_page
from holdfast.audit.subject import Subject
from holdfast.errors import HoldfastError
from holdfast.progress import MakeProgress, Progress, Silent, silent
from holdfast.spreadsheet import write_csv

FINDERS: dict[str, Finder] = {
    "columns": find_columns,
    "classes": find_rare_classes,
    "empty rows": find_empty_rows,
    "duplicates": find_duplicates,
    "outliers": find_outliers,
}
"""What is looked for beside wrong labels, in this order."""


@dataclass(frozen=True)
class Check:
    """What a check has found.

    Attributes
    ----------
    subject: the rows that were checked.
    findings: one for each kind of issue, wrong labels first, kinds without any issue included.
    judged: what the judgement of labels rests on.
    """

    subject: Subject
    findings: tuple[Finding, ...]
    judged: Judged

    @cached_property
    def lines(self) -> pd.DataFrame:
        """All issues, and all labels with their score; ``position`` is the place of a row among those checked."""
        tables = [found.table(self.subject) for found in self.findings if len(found.rows)]
        if not tables:
            return pd.DataFrame(columns=[*COLUMNS, "position"])
        table = pd.concat(tables, ignore_index=True)
        return table.sort_values("flag", ascending=False, kind="stable", ignore_index=True)

    @property
    def issues(self) -> pd.DataFrame:
        """One line an issue: row, name, column, kind, score, flag, given, suggested, why; flagged lines first.

        Every row has a line of the kind "label", whose score is the probability that the label is wrong.
        """
        return self.lines[list(COLUMNS)]

    @property
    def summary(self) -> pd.DataFrame:
        """One line a kind: how many are flagged, and what was found in a sentence."""
        lines = [(found.kind, found.count, found.sentence) for found in self.findings]
        return pd.DataFrame(lines, columns=["kind", "issues", "found"])

    def rows(self, kind: str) -> list[int]:
        """Numbers of the rows that are flagged for one kind of issue, the gravest first."""
        known = [found.kind for found in self.findings]
        if kind not in known:
            raise HoldfastError(f"no kind of issue is called {kind!r}; there are {', '.join(known)}")
        lines = self.issues
        return [int(row) for row in lines.loc[(lines["kind"] == kind) & lines["flag"], "row"].dropna()]

    @property
    def next_step(self) -> str:
        """Commands to go on with."""
        return f"{fit_command(self.subject)}, then holdfast review run/"

    def write(self, folder: str | Path) -> None:
        """Write ``issues.csv`` and ``check.html`` into a folder."""
        write_csv(self.issues, Path(folder) / "issues.csv")
        write_page(self.subject, self.findings, self.judged.noise, self.lines, Path(folder) / "check.html")


def check(
    data: Data,
    label: str | None = None,
    *,
    test: Data | None = None,
    encoder: str | None = "auto",
    features: str | os.PathLike[str] | None = None,
    model: Any = None,
    progress: Progress | None = None,
    encoding_bar: MakeProgress = silent,
    **reading: Any,
) -> Check:
    """Say what is wrong with data: labels, duplicates, outliers, rare classes, empty rows, suspicious columns.

    Nothing of one's own need be trained or named: labels are judged by models from scikit-learn that have not seen
    them, and that are chosen by how likely they find the labels of other rows.

    Parameters
    ----------
    data: a path that ``holdfast.read`` understands, a table in memory, or inputs and labels.
    label: the column of the labels, of a table.
    test: rows to test on; those that training rows repeat are found.
    encoder: a pre-trained network that reads texts, beside their words, or photographs; "auto": the usual one, if it is
        installed, unless that would take more than five minutes; None: words and thumbnails alone. docs/encoders.md.
    features: a .npy file of numbers to judge by instead, a row for each row of the data.
    model: one more model to choose among, of scikit-learn's kind, such as ``LGBMClassifier()``, with ``predict_proba``,
        for numbers ``predict``. Of a table it gets a number a column, NaN for gaps and numbers of categories.
    progress: a bar.
    encoding_bar: makes the bar of an encoding.
    reading: further options of ``holdfast.read``, such as ``task`` or ``missing_labels``.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(100, 3)); x[40] = x[7]
    >>> check((x, (x[:, 0] > 0).astype(int))).rows("duplicate")
    [40]
    """
    # Before the bar: an encoding has one of its own.
    subject = open_subject(data, test, label, encoder=encoder, features=features, encoding_bar=encoding_bar, **reading)
    if subject.rows.unlabelled:
        raise HoldfastError("the rows have no labels to check")
    with progress or Silent() as bar:
        steps = len(FINDERS) + 1
        found: list[Finding] = []
        for done, (name, finder) in enumerate(FINDERS.items()):
            bar.at(done, steps)
            bar.phase(name)
            found += finder(subject)
        bar.at(steps - 1, steps)
        judged = judge_labels(subject, lambda text: bar.phase(f"labels: {text}"), model)
        bar.at(steps, steps)
    return Check(subject, (judged.finding, *found), judged)
