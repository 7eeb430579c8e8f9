"""SeLa: cluster all rows evenly by what the network says of them, and train it on the clusters as labels, by turns."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from holdfast.augment import Augment
from holdfast.contrastive.base import Contrastive, Recipe, embedding_width
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch, Nets, Step

EVEN, ROUNDS = 0.1, 1000
"""How far from even clusters may be when scaling stops, and its most rounds."""


class SeLa(Contrastive):
    """Self-labelling: ``min_q E(p, q)`` over assignments q that use all clusters alike, then over the network's p.

    ``E = -(1 / N) sum_i log p(q_i | x_i)``. Labels are the largest entries of ``diag(a) P^lambda diag(b)`` with rows
    and columns of even sums, found by Sinkhorn's scaling over all rows; between two of them the network is trained on
    labels by cross entropy, with a linear layer for each of several clusterings.

    Parameters
    ----------
    clusters: of each clustering, at least 2, and never more than half of the rows; 3,000 for ImageNet, 128 for CIFAR.
    heads: clusterings, at least 1.
    sharpness: lambda, positive.
    assignments: how often labels are found anew, at least 1, at most once an epoch; more often at first.

    Shapes
    ------
    One view (B, ...) -> embeddings (B, h) -> scores (B, K) of each head -> losses (B,).

    Differs from the authors' code: labels change between epochs alone; linear layers lie on the embedding of SANE's
    head.

    Reference: Asano et al., "Self-Labelling via Simultaneous Clustering and Representation Learning", ICLR 2020.

    >>> SeLa(50, 1)
    SeLa(clusters=50, heads=1)
    """

    name = "sela"
    views = 1

    def __init__(self, clusters: int = 128, heads: int = 10, *, sharpness: float = 25.0, assignments: int = 80) -> None:
        super().__init__()
        if clusters < 2 or heads < 1 or assignments < 1:
            raise HoldfastError(
                f"SeLa needs two clusters, one head and one assignment or more, not {clusters}, {heads}, {assignments}"
            )
        if not sharpness > 0:
            raise HoldfastError(f"the sharpness of assignments must be positive, not {sharpness:g}")
        self.clusters = clusters
        self.heads = heads
        self.sharpness = sharpness
        self.assignments = assignments

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        return (recipe.weak(),)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width, count = embedding_width(nets[0], data), max(1, min(self.clusters, len(data) // 2))
        self.score = nn.ModuleList(nn.Linear(width, count) for _ in range(self.heads)).to(data.device)
        labels = torch.zeros(self.heads, len(data), dtype=torch.int64, device=data.device)
        self.register_buffer("labels", labels)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        super().before_epoch(nets, data, epoch, epochs)
        if epoch not in assigned_at(self.assignments, epochs):
            return
        with torch.no_grad():
            found = data.outputs(nets[0])
            for own, layer in zip(self.get_buffer("labels"), self.score, strict=True):
                own.copy_(even_labels(layer(found).log_softmax(1), self.sharpness))

    def loss(self, nets: Nets, batch: Batch) -> Step:
        found, labels = nets[0](batch.x), self.get_buffer("labels")[:, batch.index]
        losses = [
            nn.functional.cross_entropy(layer(found), own, reduction="none")
            for own, layer in zip(labels, self.score, strict=True)
        ]
        return Step(weighted_mean(torch.stack(losses).mean(0), batch.weight), batch.weight)


def assigned_at(times: int, epochs: int) -> set[int]:
    """The epochs before which labels are found anew: spread as squares, dense at first."""
    return {int(epochs * (k / times) ** 2) for k in range(times)}


def even_labels(log: Tensor, sharpness: float) -> Tensor:
    """The cluster of each row, of even sizes as far as one cluster a row allows.

    ``diag(a) P^lambda diag(b)`` is scaled by turns to columns of 1 / K and rows of 1 / N, in logarithms.

    Shape: log p (N, K) -> (N,).
    """
    power, (rows, clusters) = sharpness * log, log.shape
    row = power.new_full((rows, 1), -math.log(rows))
    for _ in range(ROUNDS):
        column = -math.log(clusters) - (power + row).logsumexp(0, keepdim=True)
        row = -math.log(rows) - (power + column).logsumexp(1, keepdim=True)
        size = clusters * (power + row + column).exp().sum(0)
        if bool((size - 1).abs().max() < EVEN):
            break
    return (power + column).argmax(1)
