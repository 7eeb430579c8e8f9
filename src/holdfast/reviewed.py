"""Labels that a person has reviewed: any method, with full trust in those rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.data.rows import Rows
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.kept import Kept, with_class
from holdfast.method import Method
from holdfast.ranks import get_ranks
from holdfast.stack import Stack
from holdfast.types import Batch, Nets, Plan, Step


class ReviewedLabels(Stack):
    """A method that decides about all rows but those reviewed, which are always trained towards their given label.

    Plans get the reviewed rows that they leave out, with their own labels; of each batch the method sees the other
    rows, and the losses of both parts are averaged by their sizes.

    Parameters
    ----------
    method: decides about the rest.
    rows: (N,) true where the given label is reviewed.
    """

    rows: Tensor

    def __init__(self, method: Method, rows: Tensor) -> None:
        super().__init__(method)
        self.register_buffer("rows", rows.clone())

    def __repr__(self) -> str:
        return f"ReviewedLabels({', '.join(map(repr, self.parts()))}, {int(self.rows.sum())} rows)"

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.rows = self.rows.to(data.device)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        plan = super().plan(nets, data)
        if plan is None:
            return None
        index = plan.index.to(self.rows.device)
        left_out = self.rows.clone()
        left_out[index] = False
        added = left_out.nonzero()[:, 0]

        def joined(values: Tensor | None, more: Tensor) -> Tensor | None:
            return None if values is None else torch.cat([values.to(more.device), more.to(values.dtype)])

        weight = plan.weight
        if weight is not None:
            weight = torch.where(self.rows[index], weight.to(index.device).clamp_min(1), weight.to(index.device))
        target = plan.target
        if isinstance(target, Kept):
            target = with_class(target, data.y, self.rows)
        elif target is not None:
            target = torch.where(self.rows[:, None], self.task.encode(data.y).to(target.dtype), target)
        return plan._replace(
            index=torch.cat([index, added]),
            weight=joined(weight, torch.ones(len(added), device=index.device)),
            partner=joined(plan.partner, added),
            share=joined(plan.share, torch.zeros(len(added), device=index.device)),
            target=target,
        )

    def loss(self, nets: Nets, batch: Batch) -> Step:
        ranks, reviewed = get_ranks(), self.rows[batch.index]
        rest, count = ~reviewed, int(reviewed.sum())
        # Of the whole batch, so that all processes go the same way.
        own_total, total = ranks.total(torch.tensor([count, len(reviewed)], dtype=torch.float64)).tolist()
        if own_total == 0:
            return super().loss(nets, batch)
        if own_total > total - 2 * ranks.count:
            # A single other row has no batch to be judged in.
            outputs = [net(_first_view(batch)) for net in nets]
            loss = self._loss([output[reviewed] for output in outputs], _rows_of(batch, reviewed))
            return Step(loss, reviewed.to(batch.weight), torch.stack(outputs).detach().mean(0))
        own = _rows_of(batch, reviewed)
        with ExitStack() as beside:
            caught = [beside.enter_context(run_beside(net, _first_view(own))) for net in nets] if count else []
            step = super().loss(nets, _rows_of(batch, rest))
        if count:
            outputs = [seen[0] if seen else net(_first_view(own)) for net, seen in zip(nets, caught, strict=True)]
        else:  # those of the batch are with other processes
            outputs = [torch.zeros(0, self.task.outputs, device=rest.device) for _ in nets]
        share = own_total / total
        loss = share * self._loss(outputs, own) + (1 - share) * step.loss
        weight = reviewed.to(batch.weight)
        weight[rest] = (batch.weight[rest] if step.weight is None else step.weight.detach()).to(weight)
        if step.output is None:
            return Step(loss, weight)
        output = step.output.new_zeros(len(reviewed), *step.output.shape[1:])
        output[reviewed], output[rest] = torch.stack(outputs).detach().mean(0).to(output), step.output
        return Step(loss, weight, output)

    def _loss(self, outputs: list[Tensor], batch: Batch) -> Tensor:
        """Ordinary training of every network."""
        parts = [weighted_mean(self.task.losses(output, batch.y), batch.weight) for output in outputs]
        return torch.stack(parts).sum()


def with_reviewed(method: Method, rows: Rows) -> Method:
    """The method, with full trust in the labels that a person has reviewed."""
    if rows.reviewed is None or not bool(rows.reviewed.any()):
        return method
    return ReviewedLabels(method, rows.reviewed)


def take_over(method: Method, trained: Method) -> None:
    """Make a method what it has become in another process, and so those that it is made of, which a user may hold."""
    if not isinstance(method, ReviewedLabels) or not isinstance(trained, ReviewedLabels):
        method.__dict__.update(trained.__dict__)
        return
    for part, other in zip(method.parts(), trained.parts(), strict=True):
        part.__dict__.update(other.__dict__)
    method.__dict__.update({**trained.__dict__, "_modules": method.__dict__["_modules"]})


@contextmanager
def run_beside(net: nn.Module, x: Tensor) -> Iterator[list[Tensor]]:
    """Send further rows through a network together with those that it is called on, in the first pass with a gradient.

    Their outputs are in the list, and what the caller gets back is without them. So BatchNorm sees one batch. A network
    without it sees them on their own as well as together, and is left alone: the list stays empty.
    """
    caught: list[Tensor] = []
    if not any(isinstance(layer, _BatchNorm) for layer in net.modules()):
        yield caught
        return

    def joined(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return None if caught else (torch.cat([given[0], x.to(given[0])]), *given[1:])

    def parted(_: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor | None:
        if caught:
            return None
        if output.requires_grad:
            caught.append(output[-len(x) :])
        return output[: -len(x)]

    with net.register_forward_pre_hook(joined), net.register_forward_hook(parted):
        yield caught


def _first_view(batch: Batch) -> Tensor:
    view: Tensor = batch.x[0] if isinstance(batch.x, tuple) else batch.x
    return view


def _rows_of(batch: Batch, rows: Tensor) -> Batch:
    x = tuple(view[rows] for view in batch.x) if isinstance(batch.x, tuple) else batch.x[rows]
    return Batch(x, batch.y[rows], batch.index[rows], batch.weight[rows])
