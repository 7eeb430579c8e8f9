"""Labels that a person has settled: any method, with full trust in those rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from holdfast.functional.reduce import weighted_mean
from holdfast.method import Batch, Epoch, Method, Nets, Plan, Stage, Step, Verdict

if TYPE_CHECKING:
    from holdfast.feed import Feed


class Trusting(Method):
    """A method that decides about all rows but some, which are always trained towards their given label.

    Plans get the rows that they leave out, with their own labels; of each batch the method sees the other rows, and
    the losses of both parts are averaged by their sizes.

    Parameters
    ----------
    method: decides about the rest.
    rows: (N,) true where the given label is settled.
    """

    rows: Tensor

    def __init__(self, method: Method, rows: Tensor) -> None:
        super().__init__()
        self.method = method
        self.register_buffer("rows", rows.clone())
        self.networks = method.networks
        self.views = method.views

    def __repr__(self) -> str:
        return f"Trusting({self.method!r}, {int(self.rows.sum())} rows)"

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.rows = self.rows.to(data.device)
        self.method.begin(nets, data)

    def stages(self, epochs: int) -> Sequence[Stage]:
        return self.method.stages(epochs)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self.method.before_epoch(nets, data, epoch, epochs)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        plan = self.method.plan(nets, data)
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
        if target is not None:
            target = torch.where(self.rows[:, None], self.task.encode(data.y).to(target.dtype), target)
        return plan._replace(
            index=torch.cat([index, added]),
            weight=joined(weight, torch.ones(len(added), device=index.device)),
            partner=joined(plan.partner, added),
            share=joined(plan.share, torch.zeros(len(added), device=index.device)),
            target=target,
        )

    def loss(self, nets: Nets, batch: Batch) -> Step:
        settled = self.rows[batch.index]
        count, rest = int(settled.sum()), ~settled
        if count == 0:
            return self.method.loss(nets, batch)
        view = batch.x[0] if isinstance(batch.x, tuple) else batch.x
        # All rows go through, since normalisation over a few of them would differ from that over a batch.
        outputs = [net(view) for net in nets]
        mine = torch.stack(
            [weighted_mean(self.task.losses(out, batch.y)[settled], batch.weight[settled]) for out in outputs]
        ).sum()
        weight, output = settled.to(batch.weight), torch.stack([out.detach() for out in outputs]).mean(0)
        # A single other row has no batch to be judged in.
        if len(settled) - count < 2:
            return Step(mine, weight, output)
        x = tuple(part[rest] for part in batch.x) if isinstance(batch.x, tuple) else batch.x[rest]
        step = self.method.loss(nets, Batch(x, batch.y[rest], batch.index[rest], batch.weight[rest]))
        weight[rest] = (batch.weight[rest] if step.weight is None else step.weight.detach()).to(weight)
        share = count / len(settled)
        return Step(share * mine + (1 - share) * step.loss, weight, output)

    def after_backward(self, nets: Nets) -> None:
        self.method.after_backward(nets)

    def after_step(self, nets: Nets) -> None:
        self.method.after_step(nets)

    def after_epoch(self, nets: Nets) -> None:
        self.method.after_epoch(nets)

    def judge(self, epoch: Epoch) -> Verdict | None:
        return self.method.judge(epoch)

    def withhold(self, data: Feed) -> Tensor | None:
        return self.method.withhold(data)

    def predictor(self, nets: Nets) -> nn.Module:
        return self.method.predictor(nets)
