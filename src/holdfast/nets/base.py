"""What the convolutional networks share: their norms, their memory layout and their last steps."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError

Norm = Literal["batch", "group"]


def norm_layer(norm: Norm | None, channels: int) -> nn.Module:
    """The norm of a convolution's output; nothing for None."""
    if norm is None:
        return nn.Identity()
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    if norm == "group":
        return nn.GroupNorm(group_count(8, channels), channels)
    raise HoldfastError(f"norm must be 'batch', 'group' or None, not {norm!r}")


def group_count(groups: int, channels: int) -> int:
    """A number of groups that divides the channels."""
    return math.gcd(groups, channels)


class ConvNet(nn.Module):
    """Base of the networks for images: a body of convolutions, global average pooling and a linear head.

    Weights and activations lie channels last in memory, which is faster on a CPU.
    """

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def features(self, x: Tensor) -> Tensor:
        """What the last layer sees, (B, d)."""
        features: Tensor = self.body(x.contiguous(memory_format=torch.channels_last)).mean((2, 3))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Logits or targets, (B, outputs)."""
        outputs: Tensor = self.head(self.features(x))
        return outputs
