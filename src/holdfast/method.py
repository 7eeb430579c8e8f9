"""The contract: everything the library can do to training is a ``Method``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from holdfast.configurable import Configurable
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.ranks import get_ranks
from holdfast.task import Task
from holdfast.types import Batch, Fields, Nets, Plan, Stage, Step


class Method(Configurable):
    """Ordinary training, and the base of every other way to train.

    ``fit(rows, Method())`` is what the command line calls ``--method standard``; ``fit(rows)`` is the default of both,
    ``SecondOpinion()``.

    A method is a module: its buffers and parameters are moved, saved and, where they require a gradient,
    optimised with the networks. ``begin`` is called once, before anything else and before a checkpoint is
    loaded, so buffers whose size depends on the data are registered there. ``__init__`` stores each parameter
    under its own name.
    """

    name: ClassVar[str] = "standard"
    """What the command line calls it."""
    requires: ClassVar[type[Task]] = Task  # type: ignore[type-abstract]
    """The task that it works for: any, or classes alone."""
    uses_evidence: bool = False
    """Whether ``data.evidence`` must be gathered before it begins."""
    trees: str | None = None
    """The library whose boosted trees are asked for it (``functional.boosting``); None: as is usual."""
    networks: int = 1
    """How many networks it trains side by side."""
    views: int = 1
    """How many augmented views of each example it wants."""
    looks_inside: bool = False
    """Whether its loss looks into the network while this runs, so that an output that is there already is no help."""
    _task: Task | None = None
    _optimizer: int | None = None

    @property
    def task(self) -> Task:
        if self._task is None:
            raise HoldfastError(f"{type(self).__name__} has no task yet; call begin(nets, feed) first")
        return self._task

    def begin(self, nets: Nets, data: Feed) -> None:
        """Once, before the first epoch."""
        self.check_task(data.task)
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

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        """(B,) the loss of each example: by default the task's."""
        return self.task.losses(output, batch.y)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        """The loss of a batch: by default the weighted mean of ``losses``."""
        output = nets[0](batch.x)
        return Step(weighted_mean(self.losses(output, batch), batch.weight), batch.weight, output.detach())

    def after_backward(self, nets: Nets) -> None:
        """Gradients are ready and not yet used."""

    def after_step(self, nets: Nets) -> None:
        """The optimizer has stepped."""

    def predictor(self, nets: Nets) -> nn.Module:
        """The network that predicts: evaluated, saved and returned."""
        return nets[0]

    def figures(self) -> Mapping[str, float]:
        """Numbers of its own for the history, at the end of an epoch."""
        return {}

    def check_task(self, task: Task) -> None:
        """Refuse rows that it is not for."""
        if not isinstance(task, self.requires):
            raise HoldfastError(f"{type(self).__name__} {self.requires.wanted}")

    # What follows are no hooks: a loop calls them, and no method overrides them.

    def batches(self, nets: Nets, data: Feed, optimizer: Optimizer, epoch: int, epochs: int) -> Iterator[Batch]:
        """The batches of epoch ``epoch`` of ``epochs``; take a ``step`` on each."""
        yield from data.batches(self.open_epoch(nets, data, optimizer, epoch, epochs), self.views)

    def open_epoch(self, nets: Nets, data: Feed, optimizer: Optimizer, epoch: int, epochs: int) -> Plan | None:
        """Begin an epoch and say what it trains on; where a stage begins, the optimizer forgets and takes its rate."""
        stages = self.stages(epochs)
        at = stage_at(stages, epoch)
        if stages[at].start == epoch:
            if epoch:
                optimizer.state.clear()
            for group in optimizer.param_groups:
                group["lr"] *= stages[at].rate / (stages[at - 1].rate if at else 1.0)
        self.before_epoch(nets, data, epoch, epochs)
        return self.plan(nets, data)

    def step(
        self, nets: Nets, batch: Batch, optimizer: Optimizer, backward: Callable[[Tensor], Any] = Tensor.backward
    ) -> Step:
        """One step of training: loss, gradients, optimizer, with all that the method does in between."""
        self._check_optimizer(optimizer)
        step = self.loss(nets, batch)
        optimizer.zero_grad()
        backward(step.loss)
        self.after_backward(nets)
        optimizer.step()
        self.after_step(nets)
        return step

    def _check_optimizer(self, optimizer: Optimizer) -> None:
        """A method whose own parameters are not optimised would silently be another method."""
        if self._optimizer == id(optimizer):
            return
        optimised = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad and id(parameter) not in optimised:
                raise HoldfastError(
                    f"{type(self).__name__} has a parameter of its own ({name}) that the optimizer does not have; make "
                    "the optimizer after begin, with [*net.parameters(), *method.parameters()]"
                )
        self._optimizer = id(optimizer)


class Weigh(Method):
    """Methods that only decide how much each example of a batch counts for each network.

    Where several processes share a batch, each decides about all of it, so that ranking means the same.
    """

    def weigh(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        """(B,) weights for each network, from the detached outputs of all of them."""
        raise NotImplementedError(f"{type(self).__name__} must define weigh(outputs, batch)")

    def loss(self, nets: Nets, batch: Batch) -> Step:
        outputs = [net(batch.x) for net in nets]
        detached = [output.detach() for output in outputs]
        weights = self.decide(detached, batch)
        parts = [
            weighted_mean(self.losses(output, batch), weight) for output, weight in zip(outputs, weights, strict=True)
        ]
        return Step(torch.stack(parts).sum(), torch.stack(weights).mean(0), torch.stack(detached).mean(0))

    @torch.no_grad()
    def decide(self, outputs: list[Tensor], batch: Batch) -> list[Tensor]:
        """The weights of this process's part of the batch, times those of the plan."""
        ranks = get_ranks()
        decided = self.weigh([ranks.gather(output) for output in outputs], whole_batch(batch))
        return [weight[ranks.share(len(weight))] * batch.weight for weight in decided]


def whole_batch(batch: Batch) -> Batch:
    """The batch of which this process has a part."""
    ranks = get_ranks()
    if ranks.count == 1:
        return batch
    if isinstance(batch.x, Fields):
        x: Any = None  # of texts, each process has a length of its own
    else:
        x = tuple(map(ranks.gather, batch.x)) if isinstance(batch.x, tuple) else ranks.gather(batch.x)
    return Batch(x, *map(ranks.gather, batch[1:]))


def stage_at(stages: Sequence[Stage], epoch: int) -> int:
    """The position of the stage to which an epoch belongs."""
    return max(k for k, stage in enumerate(stages) if stage.start <= epoch)
