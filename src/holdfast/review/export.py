"""Corrected labels: what reviewers have settled, beside everything else as it was given."""

from __future__ import annotations

import pandas as pd

from holdfast.review.store import Decisions


def corrected(table: pd.DataFrame, decisions: Decisions, classes: bool) -> pd.DataFrame:
    """One line a row, in the order of the data: row, name, given and corrected label, whether reviewed, by whom, trust.

    A row on which reviewers are unsure or evenly divided keeps its given label and does not count as reviewed.

    Parameters
    ----------
    table: ``Run.issue_table``.
    """
    given = [name for name in table.columns if name.startswith("given")]
    out = table[["row", "name", *given]].copy()
    labels = [name.replace("given", "label") for name in given]
    for name, source in zip(labels, given, strict=True):
        out[name] = table[source].astype(object)
    reviewed, by, disputed = [False] * len(out), [""] * len(out), [False] * len(out)
    for row in decisions.by_row:
        settled = decisions.settled(row)
        if settled is None:
            continue
        by[row], disputed[row] = ", ".join(settled.reviewers), settled.disputed
        if settled.label is None:
            continue
        reviewed[row] = True
        for name, value in zip(labels, [settled.label] if classes else settled.label, strict=True):
            out.at[row, name] = value  # type: ignore[assignment]
    out = out.assign(reviewed=reviewed, reviewers=by, disputed=disputed, trust=table["trust"])
    return out.sort_values("row", ignore_index=True)
