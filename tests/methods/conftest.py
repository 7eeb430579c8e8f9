"""Shared by the tests of methods: the numbers of the specification, and a batch that goes straight to the loss."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from holdfast import Feed, Rows
from holdfast.method import Batch


class Outputs(nn.Module):
    """A network whose outputs are its parameters: row i of the batch gets row i of a table."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table[x.long().flatten()]


@pytest.fixture
def second() -> torch.Tensor:
    return torch.tensor([[1.0, 1.5, 0.0], [0.2, 0.1, 2.0], [0.0, -1.0, 0.8], [2.5, 0.0, 0.0]])


@pytest.fixture
def on_tables():
    """Begin a method on networks that output given tables; returns the networks and the batch of all rows."""

    def begin(method, tables, y, epoch=20):
        n = len(y)
        nets = [Outputs(table) for table in tables]
        x = torch.arange(n).float()[:, None]
        classes = None if y.is_floating_point() else tuple(map(str, range(tables[0].shape[1])))
        feed = Feed(Rows(x, y, classes), batch_size=n)
        method.begin(nets, feed)
        method.before_epoch(nets, feed, epoch, 30)
        return nets, Batch(x, y, torch.arange(n), torch.ones(n))

    return begin


@pytest.fixture
def trained():
    """Gradients of a loss at the tables of networks."""

    def gradients(method, nets, batch):
        step = method.loss(nets, batch)
        step.loss.backward()
        return step, [net.table.grad for net in nets]

    return gradients


@pytest.fixture
def matrix() -> list[list[float]]:
    """The transition matrix of the specification."""
    return [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]]


@pytest.fixture
def blobs():
    """Three classes of points, of which a share is labelled as the next class."""

    def make(n=1500, wrong=0.4):
        source = torch.Generator().manual_seed(0)
        truth = torch.randint(0, 3, (n,), generator=source)
        x = torch.randn(n, 2, generator=source) + 4 * torch.eye(3)[truth][:, :2]
        flip = torch.rand(n, generator=source) < wrong
        return Rows(x, torch.where(flip, (truth + 1) % 3, truth), tuple("abc"), truth=truth)

    return make
