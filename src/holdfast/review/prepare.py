"""All that a queue needs of a run: its judgement, its rows as people see them, and what the network makes of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.data.display import Display
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import evaluate, inputs_of
from holdfast.functional.capture import penultimate
from holdfast.nets import without_trees
from holdfast.review.queue import ReviewQueue
from holdfast.review.shown import Likely
from holdfast.review.store import Store
from holdfast.run import Run


def prepare(
    folder: Path, run: Run, store: Store, double: bool, tell: Callable[[str], None], say: Callable[[str], None]
) -> ReviewQueue:
    """The queue of a run; ``tell`` hears what takes its time, ``say`` why rows cannot be shown where they cannot."""
    table = run.issue_table()
    likely = None if run.classes is None else Likely(*run.likely_classes())
    tell("reading the rows")
    rows = None
    try:
        rows = run.judged_rows()
    except HoldfastError as error:
        say(f"rows cannot be shown, only their numbers: {error}")
    tell("looking at the rows")
    features = None if rows is None else _features(folder, rows, run.trust or ())
    display = None if rows is None else Display(rows)
    tell(f"ordering {int((table['trust'] < 1).sum()):,} rows")
    return ReviewQueue(table, run.classes, features, display, store, likely, run.config.evidence, double)


@torch.no_grad()
def _features(folder: Path, rows: Rows, trust: Collection[str]) -> Tensor:
    """(N, d) the inputs of the output layer; the rows themselves where the network cannot be made again."""
    try:
        net: nn.Module = without_trees(Run.load(folder, trust=trust).net)
        with penultimate(net) as caught:
            evaluate(net, inputs_of(rows.x, "cpu"))
        return torch.cat(caught).float()
    except HoldfastError:
        return torch.cat([x.flatten(1) for x in inputs_of(rows.x, "cpu")])
