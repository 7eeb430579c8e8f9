"""The end of a review: what came of it, corrected labels as a file, and the command that trains with them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.config import RunConfig
from holdfast.issues.noise import NORMAL, WrongLabels
from holdfast.review.agreement import agreements
from holdfast.review.answers import columns_of
from holdfast.review.export import corrected
from holdfast.review.order import Order
from holdfast.review.queue import ReviewQueue
from holdfast.run import Run
from holdfast.spreadsheet import write_csv

Array = NDArray[Any]

CORRECTED = "corrected.csv"
"""The file of corrected labels in the folder of a run."""


def export_command(folder: Path) -> str:
    """Writes the corrected labels of a run."""
    return shlex.join(["holdfast", "export", str(folder), "--out", str(folder / CORRECTED), "--force"])


def refit_command(folder: Path, config: RunConfig) -> str:
    """Trains as the run did, with its corrected labels; empty where its rows came from memory."""
    if not config.source:
        return ""
    words = ["holdfast", "fit", "--config", str(folder / "run.json"), "--labels", str(folder / CORRECTED)]
    return shlex.join([*words, "--out", str(_following(folder))])


def _following(folder: Path) -> Path:
    """A folder beside a run for the next one, which is not there yet."""
    folder = folder if folder.name not in ("", "..") else folder.absolute()
    found = re.fullmatch(r"(.*?)-(\d+)", folder.name)
    name, number = (found[1], int(found[2])) if found else (folder.name, 1)
    while (beside := folder.with_name(f"{name}-{(number := number + 1)}")).exists():
        pass
    return beside


class End:
    """What the page says and does when the work is done.

    Parameters
    ----------
    folder: of the run.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        self._folder = folder
        self._run = run

    @property
    def commands(self) -> dict[str, str]:
        return {"export": export_command(self._folder), "refit": refit_command(self._folder, self._run.config)}

    def estimates(self) -> dict[str, Any]:
        """How many labels are wrong, as ``holdfast issues`` tells it."""
        return estimates(self._run.wrong_labels())

    def export(self) -> dict[str, Any]:
        """Write corrected labels beside the run, in place of those of before."""
        path = self._folder / CORRECTED
        table = corrected(self._run, self._run.answers())
        write_csv(table, path)
        before, after = (table[columns_of(table, name)].to_numpy() for name in ("original", "label"))
        return {
            "path": str(path),
            "reviewed": int(table["reviewed"].sum()),
            "changed": int((before != after).any(1).sum()),
            "command": self.commands["refit"],
        }


def summary(queue: ReviewQueue) -> dict[str, Any]:
    """What came of the review so far."""
    queue.catch_up()
    standing = queue.standing
    wrong = int(np.count_nonzero(standing.wrong))
    reviewers = standing.decisions.reviewers
    return {
        "kept": int(np.count_nonzero(standing.reviewed)) - wrong,
        "corrected": wrong,
        "unsure": standing.unsure,
        "disputed": len(standing.disputes),
        "open": int(np.count_nonzero(~standing.decided[queue.suspects])),
        "sample": sampled(queue),
        "reviewers": queue.pace.of(reviewers, standing.decisions),
        "agreement": agreements(standing.decisions, standing.shared),
    }


def estimates(found: WrongLabels) -> dict[str, Any]:
    """The share of wrong labels before any answer and, where there are answers, with them; how many remain."""
    names = ("estimate", "low", "high")
    rate, review = (found.rate, found.low, found.high), found.review
    left = review.left if review else tuple(value * found.rows for value in rate)
    return {
        "before": dict(zip(names, review.before if review else rate, strict=True)),
        "after": dict(zip(names, rate, strict=True)) if review else None,
        "remaining": dict(zip(names, map(round, left), strict=True)),
    }


def sampled(queue: ReviewQueue) -> dict[str, float] | None:
    """The share of wrong labels by the random sample alone, with Wilson's interval of 95 %; None before it began.

    The rows of the sample come in a fixed random order. All rows up to the first that nobody has decided are a random
    sample of the run, whoever decided them and in whatever order they were asked about. Those on which reviewers are
    unsure or divided are left out.
    """
    standing = queue.standing
    order = queue.ordered(Order.sample)
    open_rows = np.flatnonzero(~standing.decided[order])
    rows = order[: int(open_rows[0])] if len(open_rows) else order
    judged = rows[standing.reviewed[rows]]
    if not len(judged):
        return None
    count, share = len(judged), float(standing.wrong[judged].mean())
    middle = (share + NORMAL**2 / (2 * count)) / (1 + NORMAL**2 / count)
    reach = NORMAL * np.sqrt(share * (1 - share) / count + NORMAL**2 / (4 * count**2)) / (1 + NORMAL**2 / count)
    return {
        "rows": count,
        "wrong": int(standing.wrong[judged].sum()),
        "rate": share,
        "low": max(0.0, middle - reach),
        "high": min(1.0, middle + reach),
    }
