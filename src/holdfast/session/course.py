"""The course of a training in a loop that is not ours: its epochs, its losses, and all that must be saved."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from holdfast import checkpoint
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.ledger import Ledger
from holdfast.method import Method
from holdfast.nets.mean import MeanOf
from holdfast.noise_model import noise_model
from holdfast.session.batch import SessionBatch, given_of
from holdfast.session.feed import SessionFeed
from holdfast.session.forwarding import Forwarding, bare
from holdfast.stop.rule import StopRule
from holdfast.training import coverage, distance_from, weights_of
from holdfast.types import Epoch, Plan, Step


@dataclass
class Course:
    """What changes while a session trains, from ``begin`` on."""

    rows: Rows
    nets: list[Forwarding]
    method: Method
    stop: StopRule | None
    feed: SessionFeed
    ledger: Ledger
    epochs: int
    optimizer: Optimizer | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    start: dict[str, Tensor] | None = None
    """The weights of the first network where it began, for stop rules that ask how far it has gone."""
    time: float = 0.0
    """The learning rates of all steps, summed."""
    stopped: str = ""
    best: dict[str, Tensor] | None = None
    """The weights of the epoch that a stop rule takes for the best."""
    under_way: bool = False
    planned: bool = False
    """Whether no batch of the epoch that is under way was taken yet."""
    plan: Plan | None = None
    dealt: int = 0
    """Batches of the epoch that is under way."""
    given: int = 0
    """How many of them have a loss."""
    total: Tensor = field(default_factory=lambda: torch.zeros(()))
    began: tuple[float, float] = (0.0, 0.0)

    @property
    def done(self) -> int:
        """Epochs that have ended."""
        return len(self.history)

    @property
    def stepping(self) -> Optimizer:
        if self.optimizer is None:
            raise HoldfastError("the session has no optimizer yet; pass it to begin(net, optimizer) or attach it")
        return self.optimizer

    def open_epoch(self) -> None:
        """Plan the next epoch; nothing where it is planned already and no batch of it was taken."""
        if self.planned:
            return
        self.end_epoch()
        if self.done >= self.epochs:
            raise HoldfastError(f"all {self.epochs} epochs of this session are done; pass more to it (epochs=...)")
        self.began = time.perf_counter(), time.process_time()
        plan = self.method.open_epoch(self.nets, self.feed, self.stepping, self.done, self.epochs)
        self.plan = self._without_withheld(plan)
        self.ledger.plan(self.plan)
        self.planned = self.under_way = True
        rows = len(self.feed) if self.plan is None else len(self.plan.index)
        self.given, self.dealt = 0, self.feed.loading.count(rows)
        self.total = torch.zeros((), device=self.feed.device)

    def batches(self) -> Iterator[SessionBatch]:
        """Go through the next epoch."""
        self.open_epoch()
        self.planned = False
        for number, batch in enumerate(self.feed.batches(self.plan, self.method.views)):
            views = [given_of(view) for view in (batch.x if self.method.views > 1 else (batch.x,))]
            scales = self.feed.scales
            scale = None if scales is None else torch.tensor(scales[number], device=self.feed.device)
            yield SessionBatch(views[0], *batch[1:], scale, tuple(views[1:]) or None)
        self.end_epoch()

    def loss(self, outputs: Sequence[Tensor | None], batch: SessionBatch) -> Tensor:
        """What the method makes of a batch and of the outputs for it; the ledger takes it in."""
        own = batch.for_method()
        first = own.x[0] if batch.views is not None else own.x
        for net, output in zip(self.nets, outputs, strict=True):
            net.answer(first, None if self.method.looks_inside else output)
        try:
            step: Step = self.method.loss(self.nets, own)
        finally:
            for net in self.nets:
                net.answer(None, None)
        self.ledger.record(own, step)
        loss = step.loss if batch.scale is None else step.loss * batch.scale
        self.total += loss.detach()
        self.given += 1
        return loss

    def end_epoch(self) -> None:
        """Judge the epoch that is under way and write a line about it; nothing where none is."""
        if not self.under_way or self.planned:
            return
        self.under_way = False
        self.ledger.flush()
        ranks = self.feed.ranks
        loss = float(ranks.total(self.total)) / ranks.count / max(1, self.given)
        if not math.isfinite(loss):
            raise HoldfastError(f"the loss is no longer a number in epoch {self.done + 1}; lower the learning rate")
        wall, cpu = self.began
        self.history.append(
            {
                "epoch": float(self.done),
                "loss": loss,
                **coverage(self.plan, self.rows, noise_model(self.feed.task)),
                "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - cpu,
                **self._judged(),
                **self.method.figures(),
            }
        )

    def _judged(self) -> dict[str, float]:
        agreement = self.ledger.agreement()
        if self.stop is None or self.start is None:
            return {"train": agreement}
        distance = distance_from(self.start, bare(self.nets[0].model))
        epoch = Epoch(self.done, self.epochs, distance, agreement, self.time)
        verdict = self.stop.judge(epoch, self.method.predictor(self.nets), self.feed)
        best, self.stopped = self.feed.ranks.objects((verdict.best, verdict.stop))[0]
        if best:
            self.best = {name: value.detach().clone() for name, value in self.current().state_dict().items()}
        return {"distance": distance, "train": agreement, "best": float(best), **(verdict.measured or {})}

    def current(self) -> nn.Module:
        """The network that predicts, as it is."""
        net = self.method.predictor(self.nets)
        return MeanOf([_own(each) for each in net.together]) if isinstance(net, MeanOf) else _own(net)

    def predictor(self) -> nn.Module:
        """The network that predicts, as it is; once training has ended, as it was in the best epoch."""
        net = self.current()
        if self.best is not None and (self.stopped or self.done >= self.epochs):
            net.load_state_dict(self.best)
        return net

    def _without_withheld(self, plan: Plan | None) -> Plan | None:
        withheld = None if self.stop is None else self.stop.withheld()
        if withheld is None:
            return plan
        return (plan or Plan(torch.arange(len(self.feed), device=withheld.device))).without(withheld)

    def before_step(self) -> None:
        """Gradients are ready: the method's own are averaged over the processes, as the networks' have been."""
        self.time += self.stepping.param_groups[0]["lr"]
        if self.feed.ranks.count > 1:
            own = [parameter for parameter in self.method.parameters() if parameter.requires_grad]
            for parameter in own:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            self.feed.ranks.average([parameter.grad for parameter in own if parameter.grad is not None])
        self.method.after_backward(self.nets)

    def after_step(self) -> None:
        self.method.after_step(self.nets)

    def state(self) -> dict[str, Any]:
        if self.under_way and self.given < self.dealt:
            raise HoldfastError(
                f"epoch {self.done + 1} is under way ({self.given} of {self.dealt} batches); the state of a session is "
                "whole at the end of an epoch: save it there"
            )
        self.end_epoch()
        return {
            "method": _kept(self.method.state_dict()),
            "stop": {} if self.stop is None else _kept(self.stop.state_dict()),
            "ledger": _kept(self.ledger.state_dict()),
            "history": [dict(line) for line in self.history],
            "start": self.start,
            "time": self.time,
            "stopped": self.stopped,
            "best": self.best,
            "shuffle": self.feed.generator.get_state(),
            "random": checkpoint.random_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.method.load_state_dict(state["method"])
        if self.stop is not None:
            self.stop.load_state_dict(state["stop"])
        self.ledger.load_state_dict(state["ledger"])
        self.history = [dict(line) for line in state["history"]]
        self.start, self.time = state["start"], state["time"]
        self.stopped, self.best = state["stopped"], state["best"]
        self.feed.generator.set_state(state["shuffle"].cpu())
        if self.feed.ranks.count == 1:  # of several processes each needs one of its own
            checkpoint.set_random_state(state["random"])


def first_weights(net: nn.Module, stop: StopRule | None) -> dict[str, Tensor] | None:
    return None if stop is None else weights_of(net)


def _kept(state: dict[str, Any]) -> dict[str, Any]:
    """A copy that stays as it is when training goes on."""
    return {name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def _own(net: nn.Module) -> nn.Module:
    """The loop's own network."""
    return bare(net.model) if isinstance(net, Forwarding) else net
