"""Heads of contrastive learning: from features to embeddings, and from the embedding of one view to that of another."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.errors import HoldfastError


class LoneNorm(nn.BatchNorm1d):
    """BatchNorm that takes a batch of one row by its running statistics: one row has no variance."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return super().forward(x)


class ProjectionHead(nn.Sequential):
    """Three linear layers, BatchNorm and ReLU after the first two.

    Parameters
    ----------
    inputs: width of the features.
    outputs: width of the embedding.
    hidden: width between them; the features' own if not given.

    Shape: (B, inputs) -> (B, outputs).

    Reference: Zhou et al., "A Theory-Driven Self-Labeling Refinement Method for Contrastive Representation Learning",
    NeurIPS 2021, section 4.
    """

    def __init__(self, inputs: int, outputs: int = 128, hidden: int | None = None) -> None:
        hidden = hidden or inputs
        super().__init__(*_block(inputs, hidden), *_block(hidden, hidden), nn.Linear(hidden, outputs))


class Predictor(nn.Sequential):
    """Two linear layers, BatchNorm and ReLU between them: foretells the embedding of another view.

    Shape: (B, width) -> (B, width).
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(*_block(width, hidden), nn.Linear(hidden, width))


def project(net: nn.Module, outputs: int = 128) -> nn.Module:
    """Put a projection head in the place of a network's linear head, in place."""
    head = getattr(net, "head", None)
    if not isinstance(head, nn.Linear) or not hasattr(net, "features"):
        raise HoldfastError(
            f"{type(net).__name__} cannot take a projection head: it needs features(x) and a linear layer called head"
        )
    net.head = ProjectionHead(head.in_features, outputs)
    return net


def _block(inputs: int, outputs: int) -> list[nn.Module]:
    # No bias: the norm would take it away again.
    return [nn.Linear(inputs, outputs, bias=False), LoneNorm(outputs), nn.ReLU(inplace=True)]
