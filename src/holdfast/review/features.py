"""What a network makes of each row, in the few directions in which rows differ most: by these numbers rows are near."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from holdfast.data.rows import Rows
from holdfast.feed import inputs_of
from holdfast.functional.capture import penultimate

DIRECTIONS = 32
"""Directions of the features that are kept: those in which rows are longest. All others would cost several times as
much, most of it for reading them from memory, and hardly change which rows are near."""
WHOLE, SAMPLE = 65_536, 8192
"""Features of so many rows are held whole; of more, the directions are those of a random sample."""


@torch.no_grad()
def features_of(rows: Rows, net: nn.Module | None) -> Tensor:
    """(N, k) the inputs of the output layer, as unit vectors, along their longest directions; the rows themselves where
    there is no network."""
    if len(rows) <= WHOLE:
        whole = torch.cat(list(_units(rows, net)))
        return whole @ longest(whole)
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:SAMPLE].sort().values
    directions = longest(torch.cat(list(_units(rows.take(chosen), net))))
    return torch.cat([part @ directions for part in _units(rows, net)])


def _units(rows: Rows, net: nn.Module | None) -> Iterator[Tensor]:
    """(B, d) features of one batch of rows after the other, each of length one."""
    inputs = inputs_of(rows.x, "cpu")
    if net is None:
        yield from (normalize(x.flatten(1), dim=1) for x in inputs)
        return
    training = net.training
    net.eval()
    with penultimate(net) as caught:
        for x in inputs:
            net(x)
            yield normalize(caught.pop().flatten(1).float(), dim=1)
    net.train(training)


def longest(features: Tensor) -> Tensor:
    """(d, k) the directions in which some features (M, d) are longest, at most ``DIRECTIONS``.

    >>> longest(torch.tensor([[3.0, 0.0], [0.0, 1.0]])).shape
    torch.Size([2, 2])
    """
    width = features.shape[1]
    if width <= DIRECTIONS:
        return torch.eye(width)
    second = features.T.double() @ features.double()
    found: Tensor = torch.linalg.eigh(second).eigenvectors
    return found[:, -DIRECTIONS:].float()
