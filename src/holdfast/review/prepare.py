"""All that a queue needs of a run: its judgement, its rows as people see them, and what the network makes of them."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from holdfast.data.display import Display
from holdfast.errors import HoldfastError
from holdfast.functional.capture import output_layer
from holdfast.nets import without_trees
from holdfast.review.features import features_of
from holdfast.review.queue import ReviewQueue
from holdfast.review.shown import Likely
from holdfast.review.store import Store
from holdfast.run import Run


def prepare(
    run: Run, store: Store, double: bool, tell: Callable[[str], None], say: Callable[[str], None]
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
    features = None if rows is None else features_of(rows, _network(run))
    display = None if rows is None else Display(rows)
    tell(f"ordering {int((table['trust'] < 1).sum()):,} rows")
    return ReviewQueue(table, run.classes, features, display, store, likely, run.config.evidence, double)


def _network(run: Run) -> nn.Module | None:
    """The network of a run, without trees; None where it cannot be made again, or has no features."""
    try:
        run.read_network()
        net = without_trees(run.net)
        output_layer(net)
        return net
    except HoldfastError:
        return None
