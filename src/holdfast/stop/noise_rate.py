"""What the stop rules share that need the noise rate."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.feed import Feed
from holdfast.noise_model import PROBE, Rate, check_rate, noise_model
from holdfast.stop.rule import StopRule
from holdfast.task import Classification
from holdfast.types import Epoch


class NoiseRateRule(StopRule):
    """Base of rules that are given the noise rate, or estimate it in the first epochs."""

    requires = Classification
    expected: Tensor
    interval: Tensor
    looking: Tensor

    def __init__(self, rate: Rate = "auto") -> None:
        super().__init__()
        check_rate(rate)
        self.rate: Rate = rate

    def begin(self, data: Feed) -> None:
        super().begin(data)
        shape = len(data) if self.rate == "auto" else 0, data.task.outputs
        self.register_buffer("expected", torch.zeros(shape, device=data.device))
        self.register_buffer("interval", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("looking", torch.tensor(self.rate == "auto"))

    @property
    def probing(self) -> bool:
        """Whether the estimate may still change."""
        return bool(self.looking)

    def noise_rate(self, epoch: Epoch, net: nn.Module, data: Feed) -> float:
        """The noise rate as it is known at the end of this epoch."""
        if not isinstance(self.rate, str):
            return self.rate
        if self.probing:
            model, expected = noise_model(self.task), self.task.expected(data.outputs(net))
            stability = model.stability(self.expected, expected) if epoch.number > 0 else 1.0
            self.expected.copy_(expected)
            going_on = model.improve(self.interval, expected, data.y, stability)
            self.looking.fill_(going_on and epoch.number + 1 < PROBE)
        return float(self.interval[0])
