"""The contract: everything the library can do to training is a ``Method``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.ranks import here
from holdfast.task import Task

if TYPE_CHECKING:
    from holdfast.feed import Feed

Nets = Sequence[nn.Module]


class Plan(NamedTuple):
    """What one epoch trains on: M rows, in any order (the feed shuffles them)."""

    index: Tensor  # type: ignore[assignment]
    """(M,) rows."""
    weight: Tensor | None = None
    """(M,) weight of each in the loss; None: one."""
    partner: Tensor | None = None
    """(M,) rows to mix in."""
    share: Tensor | None = None
    """(M,) share of the partner in the mix, of inputs and labels alike."""
    target: Tensor | None = None
    """(N, q) what each row of the data is trained towards; None: the given labels."""
    output: Tensor | None = None
    """(N, q) outputs for all rows, where planning computed them: evidence for the ledger."""


class Batch(NamedTuple):
    """What the feed hands to a method."""

    x: Any
    """(B, ...), or a tuple of views."""
    y: Tensor
    """(B,) classes or (B, q) targets; soft (B, C) after mixing or with planned targets."""
    index: Tensor  # type: ignore[assignment]
    """(B,) rows."""
    weight: Tensor
    """(B,) from the plan."""


class Step(NamedTuple):
    """What the method made of one batch."""

    loss: Tensor
    """(), summed over the networks."""
    weight: Tensor | None = None
    """(B,) trust put in each example."""
    output: Tensor | None = None
    """(B, q), detached."""
    target: Tensor | None = None
    """(B, q) what was trained towards."""


class Stage(NamedTuple):
    """A part of training that starts anew: the optimizer forgets, and the schedule begins again."""

    start: int
    """Its first epoch."""
    rate: float = 1.0
    """Factor on the learning rate."""


class Epoch(NamedTuple):
    """What is known at the end of an epoch."""

    number: int
    """From zero."""
    epochs: int
    """How many there are to be."""
    net: nn.Module
    """The network that predicts."""
    data: Feed
    distance: float
    """How far the weights of the first network are from where they began, in lengths of where they began."""
    agreement: float
    """How well it fits the given labels: the score of what it said of each row when it was last seen."""
    time: float
    """The learning rates of all steps so far, summed: the clock of gradient flow."""


class Verdict(NamedTuple):
    """What a stop rule makes of an epoch."""

    best: bool
    """Whether it is the best so far: the weights of the last such epoch are what the run returns."""
    stop: str = ""
    """Why to stop here, as a sentence; empty: go on."""
    measured: Mapping[str, float] | None = None
    """Numbers for the history."""


class Method(nn.Module):
    """Ordinary training, and the base of every other way to train.

    A method is a module: its buffers and parameters are moved, saved and, where they require a gradient,
    optimised with the networks. ``begin`` is called once, before anything else and before a checkpoint is
    loaded, so buffers whose size depends on the data are registered there. ``__init__`` stores each parameter
    under its own name.
    """

    networks: int = 1
    """How many networks it trains side by side."""
    views: int = 1
    """How many augmented views of each example it wants."""
    _task: Task | None = None

    def __repr__(self) -> str:
        """The call that makes this method: parameters that differ from their defaults."""
        given = inspect.signature(type(self).__init__).parameters.values()
        named = [p for p in given if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        told = [f"{p.name}={getattr(self, p.name)!r}" for p in named if getattr(self, p.name) != p.default]
        return f"{type(self).__name__}({', '.join(told)})"

    @property
    def task(self) -> Task:
        if self._task is None:
            raise HoldfastError(f"{type(self).__name__} has no task yet; call begin(nets, feed) first")
        return self._task

    def begin(self, nets: Nets, data: Feed) -> None:
        """Once, before the first epoch."""
        if len(nets) != self.networks:
            raise HoldfastError(f"{type(self).__name__} trains {self.networks} network(s), not {len(nets)}")
        self._task = data.task

    def stages(self, epochs: int) -> Sequence[Stage]:
        """The parts of a training of so many epochs, the first from epoch 0; what the networks start from is up to
        ``before_epoch``."""
        return (Stage(0),)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        """At the start of epoch ``epoch`` of ``epochs``, before ``plan``."""

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        """What this epoch trains on; None: all rows."""
        return None

    def loss(self, nets: Nets, batch: Batch) -> Step:
        """The loss of a batch: by default the weighted mean of the task's losses."""
        output = nets[0](batch.x)
        losses = self.task.losses(output, batch.y)
        return Step(weighted_mean(losses, batch.weight), batch.weight, output.detach())

    def after_backward(self, nets: Nets) -> None:
        """Gradients are ready and not yet used."""

    def after_step(self, nets: Nets) -> None:
        """The optimizer has stepped."""

    def after_epoch(self, nets: Nets) -> None:
        """All steps of an epoch are done."""

    def judge(self, epoch: Epoch) -> Verdict | None:
        """After that: is this epoch the best, is it time to stop? None: no opinion, the last epoch counts."""
        return None

    def withhold(self, data: Feed) -> Tensor | None:
        """(N,) marks of rows that no epoch is to train on, whoever plans it; None: none."""
        return None

    def predictor(self, nets: Nets) -> nn.Module:
        """The network that predicts: evaluated, saved and returned."""
        return nets[0]

    def batches(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> Iterator[Batch]:
        """The batches of one epoch in a loop of your own; ``fit`` does the same. Not a hook."""
        self.before_epoch(nets, data, epoch, epochs)
        yield from data.batches(self.planned(nets, data), self.views)

    def planned(self, nets: Nets, data: Feed) -> Plan | None:
        """The plan of an epoch without the rows that are withheld. Not a hook."""
        plan, withheld = self.plan(nets, data), self.withhold(data)
        return plan if withheld is None else _without(plan, withheld)


class Weigh(Method):
    """Methods that only decide how much each example of a batch counts for each network.

    Where several processes share a batch, each decides about all of it, so that ranking means the same.
    """

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        """(B,) weights for each network, from the detached outputs of all of them."""
        raise NotImplementedError(f"{type(self).__name__} must define weigh(outputs, batch)")

    def loss(self, nets: Nets, batch: Batch) -> Step:
        outputs = [net(batch.x) for net in nets]
        with torch.no_grad():
            detached = [output.detach() for output in outputs]
            decided = self.weigh([here().gather(output) for output in detached], whole_batch(batch))
            weights = [weight[here().share(len(weight))] * batch.weight for weight in decided]
        total = torch.stack(
            [
                weighted_mean(self.task.losses(output, batch.y), weight)
                for output, weight in zip(outputs, weights, strict=True)
            ]
        ).sum()
        return Step(total, torch.stack(weights).mean(0), torch.stack(detached).mean(0))


def whole_batch(batch: Batch) -> Batch:
    """The batch of which this process has a part."""
    ranks = here()
    if ranks.count == 1:
        return batch
    x = tuple(map(ranks.gather, batch.x)) if isinstance(batch.x, tuple) else ranks.gather(batch.x)
    return Batch(x, *map(ranks.gather, batch[1:]))


class Stack(Method):
    """Several methods as one: ``Stack(Crust(), DistanceStop())``.

    At most one member plans, makes the loss, names the predictor, has stages or judges epochs; a clash raises here.
    The other hooks run in the order given.
    """

    def __init__(self, *members: Method) -> None:
        super().__init__()
        if not members:
            raise HoldfastError("a stack needs at least one method")
        self.members = nn.ModuleList(members)
        self._planner = _sole(members, "plan")
        self._loser = _sole(members, "loss")
        self._predicting = _sole(members, "predictor")
        self._staged = _sole(members, "stages")
        self._judging = _sole(members, "judge")
        networks = {member.networks for member in members if member.networks > 1}
        if len(networks) > 1:
            raise HoldfastError(f"stacked methods ask for different numbers of networks: {sorted(networks)}")
        self.networks = max(member.networks for member in members)
        self.views = max(member.views for member in members)

    def __repr__(self) -> str:
        return f"Stack({', '.join(map(repr, self._all()))})"

    def _all(self) -> list[Method]:
        return [member for member in self.members if isinstance(member, Method)]

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        for member in self._all():
            member.begin(nets[: member.networks], data)

    def stages(self, epochs: int) -> Sequence[Stage]:
        return self._all()[self._staged].stages(epochs)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        for member in self._all():
            member.before_epoch(nets, data, epoch, epochs)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        return self._all()[self._planner].plan(nets, data)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        return self._all()[self._loser].loss(nets, batch)

    def after_backward(self, nets: Nets) -> None:
        for member in self._all():
            member.after_backward(nets)

    def after_step(self, nets: Nets) -> None:
        for member in self._all():
            member.after_step(nets)

    def after_epoch(self, nets: Nets) -> None:
        for member in self._all():
            member.after_epoch(nets)

    def judge(self, epoch: Epoch) -> Verdict | None:
        return self._all()[self._judging].judge(epoch)

    def withhold(self, data: Feed) -> Tensor | None:
        marks = [mark for mark in (member.withhold(data) for member in self._all()) if mark is not None]
        return torch.stack(marks).any(0) if marks else None

    def predictor(self, nets: Nets) -> nn.Module:
        return self._all()[self._predicting].predictor(nets)


def _without(plan: Plan | None, withheld: Tensor) -> Plan:
    """A plan less some rows; a row whose partner is one of them is mixed with itself."""
    if plan is None:
        return Plan((~withheld).nonzero()[:, 0])
    index = plan.index.to(withheld.device)
    kept = ~withheld[index]
    some = {
        name: part[kept.to(part.device)] for name in ("weight", "share") if (part := getattr(plan, name)) is not None
    }
    if plan.partner is not None:
        partner = plan.partner.to(withheld.device)[kept]
        some["partner"] = torch.where(withheld[partner], index[kept], partner)
    return plan._replace(index=index[kept], **some)


def _sole(members: Sequence[Method], hook: str) -> int:
    """Position of the one member that overrides a hook (the first member where none does)."""
    own = [k for k, member in enumerate(members) if getattr(type(member), hook) is not getattr(Method, hook)]
    if len(own) > 1:
        names = " and ".join(type(members[k]).__name__ for k in own)
        raise HoldfastError(f"{names} both define {hook}(); a stack takes only one of them")
    return own[0] if own else 0
