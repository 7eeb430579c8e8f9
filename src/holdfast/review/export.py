"""Corrected labels: what reviewers have settled in this round and before, beside everything else as it was given."""

from __future__ import annotations

import numpy as np
import pandas as pd

from holdfast.data.corrected import ROUNDINGS
from holdfast.review.answers import Answers, columns_of
from holdfast.run import Run


def corrected(run: Run, answers: Answers | None) -> pd.DataFrame:
    """One line a row, in the order of the data, as ``holdfast fit --labels`` reads it.

    Columns: row and name; the label that the data has (``original``), the one that the run was trained with
    (``given``), and the corrected one (``label``); whether it is reviewed, by whom, whether reviewers differ, and the
    trust of the run in the given label. Several targets have a column each: ``original_0``, ``original_1``, ...

    What was reviewed before the run stays so, unless reviewers have settled it anew. A row on which they are unsure or
    evenly divided keeps what it had.
    """
    table = run.issue_table()
    given = columns_of(table, "given")
    numbers = _rounded(table[given]) if run.classes is None else table[given]
    earlier = run.earlier_reviews()
    reviewed, by = earlier["reviewed"].to_numpy(copy=True), earlier["reviewers"].tolist()
    original = earlier.filter(regex="^original")
    if original.empty:
        original = numbers.set_axis([name.replace("given", "original", 1) for name in given], axis=1)
    label = numbers.astype(object).set_axis([name.replace("given", "label", 1) for name in given], axis=1)
    disputed = np.zeros(len(table), dtype=bool)
    if answers is not None:
        values = np.empty((len(answers.rows), len(given)), dtype=object)
        for line, value in zip(values, answers.labels(), strict=True):
            line[:] = [value] if isinstance(value, str) else value
        kept = ~answers.wrong[answers.rows]  # to the last digit, however a page has shown it
        values[kept] = label.to_numpy()[answers.rows[kept]]
        label.iloc[answers.rows] = values
        for row, settled in answers.settled.items():
            disputed[row] = settled.disputed
            if settled.label is not None or not reviewed[row]:
                by[row] = ", ".join(settled.reviewers)
        reviewed |= answers.reviewed
    out = pd.concat([table[["row", "name"]], original, numbers, label], axis=1)
    out = out.assign(reviewed=reviewed, reviewers=by, disputed=disputed, trust=table["trust"])
    return out.sort_values("row", ignore_index=True)


def _rounded(numbers: pd.DataFrame) -> pd.DataFrame:
    """Targets without the digits that are left over from scaling them and back."""
    middle = numbers.abs().quantile([0.25, 0.5, 0.75]).max()
    coarse = np.log10((ROUNDINGS * float(np.finfo(np.float32).eps) * middle).clip(lower=1e-12))
    return numbers.astype(np.float64).round(dict(np.ceil(-coarse).clip(lower=0).astype(int)))
