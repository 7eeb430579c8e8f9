"""What the rules share that need the share of wrong labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.method import Epoch, Method, Nets
from holdfast.methods.rated import PROBE, Rate, check_rate, improve

if TYPE_CHECKING:
    from holdfast.feed import Feed


class WrongShare(Method):
    """Base of rules that know the share of wrong labels, or estimate it in the first epochs."""

    expected: Tensor
    interval: Tensor
    looking: Tensor

    def __init__(self, rate: Rate = "auto") -> None:
        super().__init__()
        check_rate(rate)
        self.rate: Rate = rate

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        shape = len(data) if self.rate == "auto" else 0, data.task.outputs
        self.register_buffer("expected", torch.zeros(shape, device=data.device))
        self.register_buffer("interval", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("looking", torch.tensor(self.rate == "auto"))

    @property
    def probing(self) -> bool:
        """Whether the estimate may still change."""
        return bool(self.looking)

    def wrong(self, epoch: Epoch) -> float:
        """The share of wrong labels as it is known at the end of this epoch."""
        if not isinstance(self.rate, str):
            return self.rate
        if self.probing:
            expected = self.task.expected(epoch.data.outputs(epoch.net))
            settled = self.task.settled(self.expected, expected) if epoch.number > 0 else 1.0
            self.expected.copy_(expected)
            going_on = improve(self.interval, self.task, expected, epoch.data.y, settled)
            self.looking.fill_(going_on and epoch.number + 1 < PROBE)
        return float(self.interval[0])
