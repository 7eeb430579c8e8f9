"""What the methods share that need the noise rate, and those that drop a share of each batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypedDict, get_args

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.drop_rate import DropRate, as_ramp
from holdfast.functional.reduce import weighted_mean
from holdfast.method import Method, Weigh
from holdfast.noise_model import PROBE, Rate, RateEstimate, check_rate, noise_model
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Step

Forwards = Literal["auto", "one", "two"]


class Dropping(TypedDict, total=False):
    """Settings that the methods which drop a share of each batch have in common; see ``WithNoiseRate``."""

    ramp: int | DropRate
    forwards: Forwards


class WithNoiseRate(Method):
    """Base of methods that need the noise rate.

    Parameters
    ----------
    rate: noise rate, in [0, 1), or "auto": estimated from the outputs of the first epochs. Nothing is
        dropped before the first estimate; then one standard deviation more than it from each batch.
    ramp: epochs over which the drop rate grows to the noise rate, or any function of rate and epoch.
    forwards: "one" scores and trains with the same forward pass; "two" scores without a gradient and then trains on
        what is kept alone; "auto" takes two where less than two thirds are kept, which is then the cheaper way. They
        differ where a network ties examples together (BatchNorm) or draws at random (dropout).
    """

    expected: Tensor
    stayed: Tensor
    interval: Tensor
    probing: Tensor

    def __init__(self, rate: Rate = "auto", *, ramp: int | DropRate = 10, forwards: Forwards = "auto") -> None:
        super().__init__()
        check_rate(rate)
        if forwards not in get_args(Forwards):
            raise HoldfastError(f"forwards is one of {', '.join(get_args(Forwards))}, not {forwards!r}")
        as_ramp(ramp)
        self.rate: Rate = rate
        self.ramp = ramp
        self.forwards = forwards
        self._epoch = 0
        self._batch_size = 1

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self._batch_size = data.batch_size
        if self.rate == "auto":
            self._model = noise_model(data.task)
            shape = len(data), data.task.outputs
            self.register_buffer("expected", torch.full(shape, torch.nan, device=data.device))
            self.register_buffer("stayed", torch.zeros(2, dtype=torch.float64))
            self.register_buffer("interval", torch.zeros(3, dtype=torch.float64))
            self.register_buffer("probing", torch.ones((), dtype=torch.bool))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._epoch = epoch
        if self.rate == "auto" and bool(self.probing) and epoch > 0:
            seen = ~self.expected.isnan().any(1)
            if not seen.any():
                return
            stayed, compared = self.stayed.tolist()
            stability = stayed / compared if compared else 1.0
            self.stayed.zero_()
            going_on = self._model.improve(self.interval, self.expected[seen], data.y[seen], stability)
            self.probing.fill_(going_on and epoch < PROBE)

    @property
    def estimate(self) -> RateEstimate:
        """The rate in use and its interval; a rate that was given has none."""
        if self.rate != "auto":
            return RateEstimate(self.rate, self.rate, self.rate)
        return RateEstimate(*self.interval.tolist())

    @property
    def drop_rate(self) -> float:
        """The share of a batch that is dropped in this epoch."""
        rate = self.estimate.rate
        if self.rate == "auto":
            # Wrong labels are not spread evenly: a batch often holds more than its share, and one gross target that
            # slips through undoes the rest. One standard deviation more is on the safe side.
            rate = min(0.99, rate + math.sqrt(max(0.0, rate * (1 - rate)) / self._batch_size))
        return as_ramp(self.ramp)(rate, self._epoch)

    def figures(self) -> Mapping[str, float]:
        """The noise rate in use, the share that is dropped and, while the rate is estimated, how stable outputs are."""
        found = {"noise_rate": self.estimate.rate, "drop_rate": self.drop_rate}
        if self.rate == "auto" and float(self.stayed[1]):
            found["stability"] = float(self.stayed[0] / self.stayed[1])
        return found

    def observe(self, index: Tensor, output: Tensor) -> None:
        """Keep what the first epochs expect of each row, and count what stayed, for the automatic rate."""
        if self.rate == "auto" and bool(self.probing):
            ranks = get_ranks()
            rows, now = ranks.gather(index), self.task.expected(ranks.gather(output.float()))
            before = self.expected[rows]
            seen = ~before.isnan().any(1)
            if count := int(seen.sum()):
                stability = self._model.stability(before[seen], now[seen])
                self.stayed += torch.tensor([stability * count, count], dtype=torch.float64)
            self.expected[rows] = now

    def in_two(self) -> bool:
        """Whether to train by a second forward pass through what is kept."""
        return self.forwards == "two" or (self.forwards == "auto" and 1 - self.drop_rate < 2 / 3)


class SampleSelection(WithNoiseRate, Weigh):
    """Base of methods that pick the examples of a batch by the outputs of their networks: ``weigh`` is one for what
    each network is to train on and zero for the rest."""

    def selected_losses(self, outputs: list[Tensor], labels: list[Tensor]) -> list[Tensor]:
        """What each network trains on: losses of the examples that were picked for it."""
        return [self.task.losses(output, y) for output, y in zip(outputs, labels, strict=True)]

    def loss(self, nets: Nets, batch: Batch) -> Step:
        twice = self.in_two()
        with torch.set_grad_enabled(not twice):
            outputs = [net(batch.x) for net in nets]
        detached = [output.detach() for output in outputs]
        weights = self.decide(detached, batch)
        with torch.no_grad():
            self.observe(batch.index, detached[0])
        picked = [_picked(weight) if twice else torch.arange(len(weight)) for weight in weights]
        if twice:
            outputs = [net(batch.x[rows]) for net, rows in zip(nets, picked, strict=True)]
        losses = self.selected_losses(outputs, [batch.y[rows] for rows in picked])
        parts = [weighted_mean(each, weight[rows]) for each, weight, rows in zip(losses, weights, picked, strict=True)]
        return Step(torch.stack(parts).sum(), torch.stack(weights).mean(0), torch.stack(detached).mean(0))


def _picked(weight: Tensor) -> Tensor:
    """Positions of what counts; at least one, so that a batch of which nothing counts still has a graph."""
    return weight.nonzero()[:, 0] if bool((weight > 0).any()) else torch.zeros(1, dtype=torch.int64)
