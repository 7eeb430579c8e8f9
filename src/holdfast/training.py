"""What changes while a network trains, and one epoch of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from holdfast import checkpoint
from holdfast.data.rows import Rows
from holdfast.engine import Engine, bare
from holdfast.feed import Feed, outputs_of
from holdfast.functional.schedules import Schedule
from holdfast.kept import rows_of
from holdfast.ledger import Ledger
from holdfast.method import Method, stage_at
from holdfast.nets import WithTrees, without_trees
from holdfast.noise_model import NoiseModel
from holdfast.stop.rule import StopRule
from holdfast.types import Epoch, Plan


@dataclass
class Training:
    """All that changes while a network trains, and how to save it."""

    engine: Engine
    nets: list[nn.Module]
    method: Method
    stop: StopRule | None
    feed: Feed
    optimizer: Optimizer
    schedule: Schedule
    ledger: Ledger
    epochs: int
    history: list[dict[str, float]]
    start: dict[str, Tensor]
    """The weights of the first network where it began."""
    time: float = 0.0
    """The learning rates of all steps, summed."""
    stopped: str = ""
    """Why a stop rule has ended the training."""
    best: dict[str, Tensor] | None = None
    """The weights of the epoch that a stop rule takes for the best."""
    _tree_opinion: Tensor | None = None
    """What trees expect of the test rows, where they have joined the network: the same in each epoch."""

    def __post_init__(self) -> None:
        self.feed.learning = self.ledger.learning

    def epoch(self, epoch: int, tick: Callable[[float], None]) -> tuple[float, Plan | None]:
        """Train for one epoch; the mean loss and what was trained on."""
        nets, method, feed = self.nets, self.method, self.feed
        stages = method.stages(self.epochs)
        at = stage_at(stages, epoch)
        stage, end = stages[at], stages[at + 1].start if at + 1 < len(stages) else self.epochs
        plan = self._without_withheld(method.open_epoch(nets, feed, self.optimizer, epoch, self.epochs))
        self.ledger.plan(plan)
        steps, total = feed.steps(plan), torch.zeros((), device=feed.device)
        for number, batch in enumerate(feed.batches(plan, method.views)):
            done = (epoch - stage.start + number / steps) / (end - stage.start)
            self._set_rate(stage.rate * self.schedule(done))
            step = method.step(nets, batch, self.optimizer, partial(self._backward, scale=feed.weight_of(batch)))
            self.ledger.record(batch, step)
            total += step.loss.detach()
            tick((number + 1) / steps)
        self.ledger.flush()
        ranks = feed.ranks
        return float(ranks.total(total)) / ranks.count / steps, plan

    def _without_withheld(self, plan: Plan | None) -> Plan | None:
        """The plan less the rows that the stop rule keeps from training."""
        withheld = None if self.stop is None else self.stop.withheld()
        if withheld is None:
            return plan
        return (plan or Plan(torch.arange(len(self.feed), device=withheld.device))).without(withheld)

    def judge(self, number: int) -> dict[str, float]:
        """How far the network has gone and how well it fits the given labels, and what a stop rule makes of it."""
        distance, agreement = distance_from(self.start, bare(self.nets[0])), self.ledger.agreement()
        net = self.method.predictor(self.nets)
        joined = {"trees": float(net.trees.share)} if isinstance(net, WithTrees) else {}
        line = {"distance": distance, "train": agreement, **joined}
        if self.stop is None:
            return line
        verdict = self.stop.judge(Epoch(number, self.epochs, distance, agreement, self.time), net, self.feed)
        best, self.stopped = self.feed.ranks.objects((verdict.best, verdict.stop))[0]
        if best:
            self.best = {name: value.detach().clone() for name, value in self._bare_predictor().state_dict().items()}
        return {**line, "best": float(best), **(verdict.measured or {})}

    def predictor(self) -> nn.Module:
        """The network that the run returns: as it is, or as it was in the best epoch."""
        net = self._bare_predictor()
        if self.best is not None:
            net.load_state_dict(self.best)
        return net

    def _bare_predictor(self) -> nn.Module:
        return bare(self.method.predictor([bare(net) for net in self.nets]))

    def test_scores(self, held_out: Rows) -> dict[str, float]:
        """Of the network that predicts, by the given labels and, where they are known, by the true ones."""
        net, task, device = self.method.predictor(self.nets), self.feed.task, self.feed.device
        output = outputs_of(without_trees(net), held_out.x, device)
        if isinstance(net, WithTrees):
            if self._tree_opinion is None:
                self._tree_opinion = outputs_of(net.trees, held_out.x, device)
            output = net.trees.join(output, self._tree_opinion)
        labels = {"test": held_out.y} if held_out.truth is None else {"test": held_out.y, "test_true": held_out.truth}
        predicted = task.predict(output)
        return {name: task.score(predicted, y.to(output.device)) for name, y in labels.items()}

    def _backward(self, loss: Tensor, scale: Tensor | None = None) -> None:
        """The backward pass, scaled where rows weigh more or less than others, and what DDP leaves to each process:
        gradients of the method's own parameters, and running statistics."""
        self.engine.backward(loss if scale is None else loss * scale)
        ranks = self.feed.ranks
        if ranks.count == 1:
            return
        own = [parameter for parameter in self.method.parameters() if parameter.requires_grad]
        for parameter in own:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        ranks.average([parameter.grad for parameter in own if parameter.grad is not None])
        ranks.average([buffer for net in self.nets for buffer in net.buffers() if buffer.is_floating_point()])

    def _set_rate(self, factor: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        self.time += self.optimizer.param_groups[0]["lr"]

    def state(self) -> dict[str, Any]:
        return {
            "nets": [dict(net.state_dict()) for net in self.nets],
            "method": dict(self.method.state_dict()),
            "stop": {} if self.stop is None else dict(self.stop.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "ledger": self.ledger.state_dict(),
            "history": self.history,
            "time": self.time,
            "stopped": self.stopped,
            "best": self.best,
            "shuffle": self.feed.generator.get_state(),
            "random": self._random(),
        }

    def _random(self) -> Any:
        """The random state, or in several processes that of each."""
        states = self.feed.ranks.objects(checkpoint.random_state())
        return states[0] if len(states) == 1 else states

    def restore(self, state: dict[str, Any]) -> None:
        for net, saved in zip(self.nets, state["nets"], strict=True):
            net.load_state_dict(saved)
        self.method.load_state_dict(state["method"])
        if self.stop is not None:
            self.stop.load_state_dict(state["stop"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.ledger.load_state_dict(state["ledger"])
        self.history = state["history"]
        self.time = state["time"]
        self.stopped = state["stopped"]
        self.best = state["best"]
        self.start = {name: value.to(self.feed.device) for name, value in state["start"].items()}
        self.feed.generator.set_state(state["shuffle"])
        states = state["random"] if isinstance(state["random"], list) else [state["random"]]
        # Going on with more processes than before, the further ones share states.
        checkpoint.set_random_state(states[self.feed.ranks.rank % len(states)])


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    """A copy of the trained weights of a network."""
    return {name: p.detach().clone() for name, p in net.named_parameters() if p.requires_grad}


def distance_from(start: dict[str, Tensor], net: nn.Module) -> float:
    """``||W - W_0|| / ||W_0||`` over all trained weights.

    Reference: Li, Soltanolkotabi and Oymak, AISTATS 2020, Figure 3.
    """
    # In the order of the network, whatever that of the file: sums of floats depend on it.
    pairs = [(p.detach(), start[name]) for name, p in net.named_parameters() if name in start]
    gone = sum(float((now - then).double().square().sum()) for now, then in pairs)
    return math.sqrt(gone / max(sum(float(then.double().square().sum()) for _, then in pairs), 1e-300))


def coverage(plan: Plan | None, rows: Rows, model: NoiseModel) -> dict[str, float]:
    """The share of rows trained towards their given labels and, where the truth is known, how many are right."""
    if plan is None:
        return {"coverage": 1.0}
    index = plan.index.cpu()
    if plan.target is not None:
        index = index[model.agrees(rows_of(plan.target.cpu(), index), rows.y[index])]
    line = {"coverage": len(index) / len(rows)}
    if rows.truth is not None and len(index):
        right = rows.y[index] == rows.truth[index]
        line["purity"] = float(right.reshape(len(index), -1).all(1).double().mean())
    return line
