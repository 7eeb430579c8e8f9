"""AUM: leave out rows whose label never gains a margin, as found with a class that does not exist."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.functional.row_randomness import row_uniforms
from holdfast.methods.multi_stage import MultiStage, even_stages, quarter
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Plan, Stage, Step

RUNS = 2
"""Trainings for the scores; each has its own threshold rows, so that every row is once judged under its own label."""


class AUM(MultiStage):
    """The mean over training of ``z_y - max_{c != y} z_c``; rows below what wrong labels reach are left out.

    Two short trainings: in each some random rows are labelled with an additional class, which no input tells.
    A row is flagged if its area under the margin lies below all but one in a hundred of theirs. Rows flagged wherever
    they kept their label go, and training starts from scratch on the rest.

    Parameters
    ----------
    each: epochs of each short training, of those asked for; None takes a quarter of all; 0 scores nothing.
    quantile: of the threshold rows, in (0, 1).

    Shapes
    ------
    Outputs (B, C), labels (B,) -> margins (B,); ``scores()`` (N,).

    Differs from the paper: the output of the additional class is always 0 and not learnt. A network can say the same
    with it, as only differences of outputs count.

    Reference: Pleiss et al., "Identifying Mislabeled Data using the Area Under the Margin Ranking", NeurIPS 2020.

    >>> AUM(each=10)
    AUM(each=10)
    """

    name = "aum"
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
        n = len(data)
        count = n // (data.task.outputs + 1)
        order = row_uniforms(n, data.generator.initial_seed(), 0).argsort()
        fake = torch.zeros(RUNS, n, dtype=torch.bool)
        for run in range(RUNS):
            fake[run, order[run * count : (run + 1) * count]] = True
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
            self.kept.copy_(~flagged(self.areas(), self.fake, self.quantile))
        self.restart(nets)

    def areas(self) -> Tensor:
        """(runs, N) mean margins against the label that each training gave."""
        return self.area / self.seen.clamp_min(1)

    def scores(self) -> Tensor:
        """(N,) the area under the margin of each row, over the trainings in which it kept its label."""
        own = (~self.fake).double()
        return (self.areas() * own).sum(0) / own.sum(0)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        return None if self._now < RUNS or bool(self.kept.all()) else Plan(self.kept.nonzero()[:, 0])

    def loss(self, nets: Nets, batch: Batch) -> Step:
        return self._scored(nets, batch) if self._now < RUNS else super().loss(nets, batch)

    def _scored(self, nets: Nets, batch: Batch) -> Step:
        """A step of a short training: the margins against the labels that it gives are added to the areas."""
        fake = self.fake[self._now, batch.index]
        output = nets[0](batch.x)
        wider = torch.cat([output, output.new_zeros(len(output), 1)], dim=1)
        label = torch.where(fake, self.task.outputs, batch.y)
        margins = self.task.margins(wider.detach(), label)
        index, margins = get_ranks().gather(batch.index), get_ranks().gather(margins)
        self.area[self._now].index_add_(0, index, margins.double())
        self.seen[self._now].index_add_(0, index, torch.ones_like(index))
        return Step(weighted_mean(self.task.losses(wider, label), batch.weight), batch.weight * ~fake, output.detach())


def flagged(areas: Tensor, fake: Tensor, quantile: float) -> Tensor:
    """(N,) rows that lie below the quantile of the threshold rows wherever they kept their label.

    Shape: areas (runs, N), fake (runs, N) booleans -> (N,).
    """
    low = torch.ones(areas.shape[1], dtype=torch.bool, device=areas.device)
    for area, own in zip(areas, fake, strict=True):
        edge = area[own].quantile(quantile) if bool(own.any()) else -torch.inf
        low &= own | (area < edge)
    return low
