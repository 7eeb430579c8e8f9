"""Fully connected networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with ReLU between them, on flattened inputs.

    Parameters
    ----------
    inputs: numbers in one input, at least 1.
    outputs: numbers in one output, at least 1.
    hidden: width of each hidden layer; empty for a linear model.

    Shapes
    ------
    (B, ...) -> (B, outputs); features (B, hidden[-1]).

    >>> MLP(4, 3).head
    Linear(in_features=256, out_features=3, bias=True)
    """

    def __init__(self, inputs: int, outputs: int, hidden: Sequence[int] = (256,)) -> None:
        super().__init__()
        widths = (inputs, *hidden)
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], outputs)

    def features(self, x: Tensor) -> Tensor:
        """What the last layer sees, (B, d)."""
        features: Tensor = self.body(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Logits or targets, (B, outputs)."""
        outputs: Tensor = self.head(self.features(x))
        return outputs
