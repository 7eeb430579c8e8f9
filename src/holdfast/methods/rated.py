"""What the methods share that drop a share of each batch: the rate, its growth, and a cheap backward pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.forget import Forget, as_ramp
from holdfast.functional.reduce import check_forget_rate, weighted_mean
from holdfast.method import Batch, Method, Nets, Step, whole_batch
from holdfast.ranks import here
from holdfast.task import Task

if TYPE_CHECKING:
    from holdfast.feed import Feed

Rate = float | Literal["auto"]
Forwards = Literal["auto", "one", "two"]

PROBE = 5
"""The last epoch before which an automatic rate is estimated anew."""


class Estimate(NamedTuple):
    """A corruption rate and the interval it is thought to lie in."""

    rate: float
    low: float
    high: float


def check_rate(rate: Rate) -> None:
    if isinstance(rate, str):
        if rate != "auto":
            raise HoldfastError(f'a corruption rate is a number in [0, 1) or "auto", not {rate!r}')
    else:
        check_forget_rate(rate)


def improve(interval: Tensor, task: Task, expected: Tensor, y: Tensor, settled: float) -> bool:
    """Take a new estimate of the share of wrong labels into (3,) rate, low and high; False once it is no better."""
    found = task.wrong(expected, y, settled)
    before = float(interval[2])
    better = before == 0 or task.still_learning(before, found[2], settled)
    if better:
        interval.copy_(torch.tensor(found))
    return better


class Rated(Method):
    """Base of methods that drop a share of the examples.

    Parameters
    ----------
    rate: share of wrong labels, in [0, 1), or "auto": estimated from the outputs of the first epochs. Nothing is
        dropped before the first estimate; then one standard deviation more than it from each batch.
    ramp: epochs over which the dropped share grows to the rate, or any function of rate and epoch.
    forwards: "one" scores and trains with the same forward pass; "two" scores without a gradient and then trains on
        what is kept alone; "auto" takes two where less than two thirds are kept, which is then the cheaper way. They
        differ where a network ties examples together (BatchNorm) or draws at random (dropout).
    """

    expected: Tensor
    stayed: Tensor
    interval: Tensor
    probing: Tensor

    def __init__(self, rate: Rate = "auto", *, ramp: int | Forget = 10, forwards: Forwards = "auto") -> None:
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
            settled = stayed / compared if compared else 1.0
            self.stayed.zero_()
            going_on = improve(self.interval, self.task, self.expected[seen], data.y[seen], settled)
            self.probing.fill_(going_on and epoch < PROBE)

    @property
    def estimate(self) -> Estimate:
        """The rate in use and its interval; a rate that was given has none."""
        if self.rate != "auto":
            return Estimate(self.rate, self.rate, self.rate)
        return Estimate(*self.interval.tolist())

    @property
    def forget(self) -> float:
        """The share of a batch that is dropped in this epoch."""
        rate = self.estimate.rate
        if self.rate == "auto":
            # Wrong labels are not spread evenly: a batch often holds more than its share, and one gross target that
            # slips through undoes the rest. One standard deviation more is on the safe side.
            rate = min(0.99, rate + math.sqrt(max(0.0, rate * (1 - rate)) / self._batch_size))
        return as_ramp(self.ramp)(rate, self._epoch)

    def observe(self, index: Tensor, output: Tensor) -> None:
        """Keep what the first epochs expect of each row, and count what stayed, for the automatic rate."""
        if self.rate == "auto" and bool(self.probing):
            rows, now = here().gather(index), self.task.expected(here().gather(output.float()))
            before = self.expected[rows]
            seen = ~before.isnan().any(1)
            if count := int(seen.sum()):
                share = self.task.settled(before[seen], now[seen])
                self.stayed += torch.tensor([share * count, count], dtype=torch.float64)
            self.expected[rows] = now

    def in_two(self) -> bool:
        """Whether to train by a second forward pass through what is kept."""
        return self.forwards == "two" or (self.forwards == "auto" and 1 - self.forget < 2 / 3)


class Filter(Rated):
    """Base of methods that pick the examples of a batch by the outputs of their networks."""

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        """(B,) one for what each network is to train on and zero for the rest, from detached outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define weigh(outputs, batch)")

    def losses(self, output: Tensor, y: Tensor) -> Tensor:
        """(B,) what is trained on of the examples that were picked."""
        return self.task.losses(output, y)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        twice = self.in_two()
        with torch.set_grad_enabled(not twice):
            outputs = [net(batch.x) for net in nets]
        with torch.no_grad():
            detached = [output.detach() for output in outputs]
            # Ranking is over the whole batch where several processes share it.
            decided = self.weigh([here().gather(output) for output in detached], whole_batch(batch))
            weights = [weight[here().share(len(weight))] * batch.weight for weight in decided]
            self.observe(batch.index, detached[0])
        parts = []
        for net, output, weight in zip(nets, outputs, weights, strict=True):
            x, y, counted = batch.x, batch.y, weight
            if twice:
                # At least one row, so that a batch of which nothing counts still has a graph.
                rows = weight.nonzero()[:, 0] if bool((weight > 0).any()) else torch.zeros(1, dtype=torch.int64)
                x, y, counted = x[rows], y[rows], weight[rows]
                output = net(x)
            parts.append(weighted_mean(self.losses(output, y), counted))
        return Step(torch.stack(parts).sum(), torch.stack(weights).mean(0), torch.stack(detached).mean(0))
