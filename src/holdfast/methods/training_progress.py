"""Methods that follow the share of training done, step by step."""

from __future__ import annotations

from holdfast.feed import Feed
from holdfast.method import Method
from holdfast.types import Nets


class WithProgress(Method):
    """A method that knows how much of the training is done.

    The count of steps starts anew in each epoch, so that it needs no place in a checkpoint.
    """

    _start = 0.0
    _step = 0.0
    _steps = 0

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._start = epoch / epochs
        self._step = 1 / (epochs * data.steps())
        self._steps = 0

    def after_step(self, nets: Nets) -> None:
        self._steps += 1

    @property
    def share(self) -> float:
        """How much of the training is done, in [0, 1]."""
        return self._start + self._step * self._steps
