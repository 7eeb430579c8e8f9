"""How a training goes where nobody says otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from torch import nn
from torch.optim import Adam, Optimizer

from holdfast.data.rows import Rows
from holdfast.data.tune import tuned_in
from holdfast.feed import usual_batch
from holdfast.functional.schedules import Cosine, OneCycle, Schedule

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]


@dataclass(frozen=True)
class Usual:
    """Settings of a training that nobody has chosen.

    Attributes
    ----------
    epochs: passes over the data at least.
    steps: fewer rows than make for so many in all are passed over more often, up to ``most`` times.
    rate: learning rate of Adam; ``sgd`` that of SGD with momentum.
    schedule: of either rate.
    largest: rows in a batch at most.
    """

    epochs: int
    rate: float
    sgd: float
    schedule: Schedule
    largest: int
    steps: int = 0
    most: int = 30

    @property
    def optimizer(self) -> MakeOptimizer:
        return partial(Adam, lr=self.rate, fused=True)

    def epochs_of(self, rows: int) -> int:
        """Epochs for so many rows.

        >>> TUNED.epochs_of(20_000), TUNED.epochs_of(1_000), TUNED.epochs_of(50)
        (3, 5, 30)
        """
        an_epoch = math.ceil(rows / self.batch_size(rows))
        return max(self.epochs, min(self.most, math.ceil(self.steps / an_epoch)))

    def batch_size(self, rows: int) -> int:
        return min(usual_batch(rows), self.largest)


NEW = Usual(epochs=30, rate=1e-3, sgd=0.1, schedule=Cosine(), largest=128)
"""Networks that begin with random weights."""
TUNED = Usual(epochs=3, rate=1e-4, sgd=0.01, schedule=OneCycle(), largest=32, steps=300)
"""Pre-trained networks that are to stay near what they know: few epochs, a small rate, and a rise to it."""


def usual_for(rows: Rows) -> Usual:
    """The settings that suit the network of some rows."""
    return NEW if tuned_in(rows.recipe) is None else TUNED
