"""The feed of a session: batches of any inputs, several of which may make up one step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.augment import Augments
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.feed import LEAST, Feed, evaluate
from holdfast.ranks import get_ranks
from holdfast.session.examples import Examples
from holdfast.types import Plan


@dataclass(frozen=True)
class Loading:
    """How batches are made.

    Attributes
    ----------
    batch_size: rows of a batch in each process.
    accumulate: batches whose gradients are added up before the optimizer takes a step.
    augment: as ``Feed`` takes it.
    options: further settings of the ``DataLoader``.
    """

    batch_size: int
    accumulate: int = 1
    augment: Augments | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def count(self, rows: int) -> int:
        """Batches that so many rows make in each process, the last joined to the one before it where it is small."""
        parts = self.accumulate * get_ranks().count
        size = self.batch_size * parts
        steps = max(1, math.ceil(rows / size))
        return (steps - (steps > 1 and 0 < rows % size < LEAST * parts)) * self.accumulate


class SessionFeed(Feed):
    """A feed whose step takes ``accumulate`` batches in each of several processes.

    Its ``batch_size`` is what all of them take in one step, so that a plan, a ranking or a count of steps means what it
    means in one process without accumulation.

    Attributes
    ----------
    scales: a factor on the loss of each batch of the epoch, so that the mean over the batches of a step is the mean
        over its rows, by their weights; None: one for all.
    """

    def __init__(
        self, rows: Rows, examples: Examples | None, loading: Loading, *, device: torch.device, seed: int
    ) -> None:
        if loading.batch_size < 1 or loading.accumulate < 1:
            raise HoldfastError("batch_size and accumulate are at least 1")
        size = loading.batch_size * loading.accumulate * get_ranks().count
        super().__init__(rows, batch_size=size, augment=loading.augment, device=device, seed=seed)
        self.loading = loading
        self.scales: list[float] | None = None
        self._examples = examples

    @property
    def least(self) -> int:
        return LEAST * self.ranks.count * self.loading.accumulate

    def deal(self, plan: Plan) -> list[Tensor]:
        count = self.loading.accumulate
        steps = super().deal(plan)
        if count > 1 and len(steps[-1]) < self.least:
            raise HoldfastError(
                f"an epoch of {len(plan.index)} rows is too small for steps of {count} batches in {self.ranks.count} "
                "process(es); accumulate fewer"
            )
        batches = [[step[_share(len(step), k, count)] for k in range(count)] for step in steps]
        self.scales = self._scales(plan, batches)
        return [batch for step in batches for batch in step]

    def _scales(self, plan: Plan, steps: list[list[Tensor]]) -> list[float] | None:
        if self.loading.accumulate == 1 and self.weight is None:
            return None
        own = torch.ones(len(plan.index)) if self.weight is None else self.weight[plan.index.cpu()]
        weight = own if plan.weight is None else own * plan.weight.cpu()
        scales = []
        for step in steps:
            whole = torch.cat(step)
            mean = float(own[whole].double().mean()) / max(float(weight[whole].double().sum()), 1e-300)
            scales += [len(step) * float(weight[batch].double().sum()) * mean for batch in step]
        return scales

    def _load(self, picks: list[Tensor]) -> Iterator[Any]:
        if self._examples is None or not picks:
            return super()._load(picks)
        # A generator of its own: a DataLoader would draw a seed for its workers from torch's.
        chance = torch.Generator().manual_seed(self.generator.initial_seed() + len(picks))
        return iter(self._examples.load(picks, generator=chance, **self.loading.options))

    def _ready(self, x: Any) -> Any:
        return super()._ready(x) if self._examples is None else x.to(self.device)

    def _outputs(self, net: nn.Module) -> Tensor:
        if self._examples is None:
            return super()._outputs(net)
        rows = torch.arange(len(self))[self.ranks.share(len(self))]
        return self.ranks.gather(evaluate(net, (self._ready(x) for x in self._load(list(rows.split(self._chunk))))))

    @property
    def _chunk(self) -> int:
        return 2 * self.loading.batch_size


def _share(size: int, part: int, count: int) -> slice:
    return slice(size * part // count, size * (part + 1) // count)
