"""AUM: rows that never lean towards their label, judged by rows whose label is wrong on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.lots import row_lots
from holdfast.method import Batch, Nets, Plan, Stage, Step
from holdfast.methods.staged import Staged, even_stages, quarter
from holdfast.ranks import here

if TYPE_CHECKING:
    from holdfast.feed import Feed

RUNS = 2
"""Trainings for the scores; each has its own threshold rows, so that every row is once judged under its own label."""


class AUM(Staged):
    """The mean over training of ``z_y - max_{c != y} z_c``; rows below what wrong labels reach are left out.

    Two short trainings: in each some rows get a random other label, and a row is flagged if its area under the margin
    lies below all but one in a hundred of theirs. Rows flagged wherever they kept their label go, and training starts
    from scratch on the rest.

    Parameters
    ----------
    each: epochs of each short training, of those asked for; None takes a quarter of all; 0 scores nothing.
    quantile: of the threshold rows, in (0, 1).

    Shapes
    ------
    Outputs (B, C), labels (B,) -> margins (B,); ``scores()`` (N,).

    Differs from the paper: threshold rows get a random class other than their own instead of an additional one, since
    the network has no output for that; where a given label is wrong this may make it right.

    Reference: Pleiss et al., "Identifying Mislabeled Data using the Area Under the Margin Ranking", NeurIPS 2020.

    >>> AUM(each=10)
    AUM(each=10)
    """

    fake: Tensor
    area: Tensor
    seen: Tensor
    kept: Tensor

    def __init__(self, *, each: int | None = None, quantile: float = 0.99) -> None:
        super().__init__()
        if (each is not None and each < 0) or not 0 < quantile < 1:
            raise HoldfastError(f"each must be at least 0 and quantile lie in (0, 1), not {each} and {quantile:g}")
        self.each = each
        self.quantile = quantile
        self._now = RUNS

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        n, classes = len(data), data.task.outputs
        chance = torch.Generator().manual_seed(data.generator.initial_seed())
        count = n // (classes + 1)
        lots = row_lots(n, data.generator.initial_seed(), 0).argsort()
        fake = torch.full((RUNS, n), -1)
        for run in range(RUNS):
            rows = lots[run * count : (run + 1) * count]
            fake[run, rows] = (data.y.cpu()[rows] + torch.randint(1, classes, (count,), generator=chance)) % classes
        self.register_buffer("fake", fake.to(data.device))
        self.register_buffer("area", torch.zeros(RUNS, n, dtype=torch.float64, device=data.device))
        self.register_buffer("seen", torch.zeros(RUNS, n, dtype=torch.int64, device=data.device))
        self.register_buffer("kept", torch.ones(n, dtype=torch.bool, device=data.device))

    def length(self, epochs: int) -> int:
        """Epochs of each short training."""
        return quarter(self.each, epochs)

    def stages(self, epochs: int) -> Sequence[Stage]:
        return even_stages(RUNS, self.length(epochs), epochs)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        length = self.length(epochs)
        self._now = min(RUNS, epoch // length) if length else RUNS
        if not length or epoch == 0 or epoch % length or epoch > RUNS * length:
            return
        if self._now == RUNS:
            self.kept.copy_(~flagged(self.areas(), self.fake >= 0, self.quantile))
        self.restart(nets)

    def areas(self) -> Tensor:
        """(runs, N) mean margins against the label that each training gave."""
        return self.area / self.seen.clamp_min(1)

    def scores(self) -> Tensor:
        """(N,) the area under the margin of each row, over the trainings in which it kept its label."""
        own = (self.fake < 0).double()
        return (self.areas() * own).sum(0) / own.sum(0)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        if self._now < RUNS:
            fake = self.fake[self._now]
            target = self.task.encode(torch.where(fake >= 0, fake, data.y))
            return Plan(torch.arange(len(data), device=data.device), target=target)
        return None if bool(self.kept.all()) else Plan(self.kept.nonzero()[:, 0])

    def loss(self, nets: Nets, batch: Batch) -> Step:
        step = super().loss(nets, batch)
        if self._now < RUNS and step.output is not None:
            index, margins = (here().gather(part) for part in (batch.index, self.task.margins(step.output, batch.y)))
            self.area[self._now].index_add_(0, index, margins.double())
            self.seen[self._now].index_add_(0, index, torch.ones_like(index))
        return step


def flagged(areas: Tensor, fake: Tensor, quantile: float) -> Tensor:
    """(N,) rows that lie below the quantile of the threshold rows wherever they kept their label.

    Shape: areas (runs, N), fake (runs, N) booleans -> (N,).
    """
    low = torch.ones(areas.shape[1], dtype=torch.bool, device=areas.device)
    for area, mine in zip(areas, fake, strict=True):
        edge = area[mine].quantile(quantile) if bool(mine.any()) else -torch.inf
        low &= mine | (area < edge)
    return low
