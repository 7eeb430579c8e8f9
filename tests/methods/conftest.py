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
