"""The contract of stop rules: judge each epoch, keep the best, say when to stop."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from holdfast.configurable import Configurable
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.task import Task
from holdfast.types import Epoch, Verdict


class StopRule(Configurable):
    """Judges the epochs of a training, whatever the method: ``fit(rows, PRLL(), stop=DistanceStop())``.

    The loop says what it knows at the end of an epoch, keeps the weights of the epoch that the rule takes for the best,
    in the checkpoint too, and returns them. State that must survive a checkpoint is a buffer, registered in ``begin``.
    """

    name: ClassVar[str]
    """What the command line calls it."""
    requires: ClassVar[type[Task]] = Task  # type: ignore[type-abstract]
    """The task that it works for: any, or classes alone."""
    _task: Task

    @property
    def task(self) -> Task:
        return self._task

    def begin(self, data: Feed) -> None:
        """Once, before the first epoch and before a checkpoint is loaded."""
        if not isinstance(data.task, self.requires):
            raise HoldfastError(f"{type(self).__name__} {self.requires.wanted}")
        self._task = data.task

    def withheld(self) -> Tensor | None:
        """(N,) marks of rows that no epoch is to train on; None: none."""
        return None

    def judge(self, epoch: Epoch, net: nn.Module, data: Feed) -> Verdict:
        """Is this epoch of the network that predicts the best so far, is it time to stop?"""
        raise NotImplementedError(f"{type(self).__name__} must define judge(epoch, net, data)")


def check_patience(patience: int) -> None:
    if patience < 1:
        raise HoldfastError(f"a stop rule waits for at least one epoch, not {patience}")
