"""Shared by the tests of methods: the numbers of the specification, and a batch that goes straight to the loss."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim import Adam

from holdfast import Rows, fit
from holdfast.feed import Feed
from holdfast.types import Batch


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
def flipped():
    """Three classes of points, of which a share is labelled as the next class."""

    def make(n=1500, wrong=0.4):
        source = torch.Generator().manual_seed(0)
        truth = torch.randint(0, 3, (n,), generator=source)
        x = torch.randn(n, 2, generator=source) + 4 * torch.eye(3)[truth][:, :2]
        flip = torch.rand(n, generator=source) < wrong
        return Rows(x, torch.where(flip, (truth + 1) % 3, truth), tuple("abc"), truth=truth)

    return make


def quick(parameters):
    return Adam(parameters, lr=0.03)


class Interrupted(Exception):
    """Raised by a test in the middle of a training."""


@pytest.fixture
def resumes(tmp_path):
    """Train a method at one go and with a break; both must end with the same weights, ledger and state, bit for bit."""

    def check(make, rows, epochs=6, broken=3, **settings):
        def train(out, **more):
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(rows.x.shape[1], 12), nn.Tanh(), nn.Linear(12, len(rows.classes)))
            method = make()
            chosen = {"epochs": epochs, "batch_size": 40, "optimizer": quick, "out": out, **settings, **more}
            return fit(rows, method, net, **chosen), method

        def breaking(epoch, net):
            if epoch == broken:
                raise Interrupted
            return {}

        whole, one = train(tmp_path / f"whole{broken}")
        with pytest.raises(Interrupted):
            train(tmp_path / f"broken{broken}", watch=breaking)
        again, two = train(tmp_path / f"broken{broken}", resume=True)
        assert one.state_dict().keys() == two.state_dict().keys()
        for name, value in one.state_dict().items():
            assert torch.equal(value.nan_to_num(), two.state_dict()[name].nan_to_num()), name
        for name, value in whole.net.state_dict().items():
            assert torch.equal(value, again.net.state_dict()[name]), name
        assert whole.ledger.equals(again.ledger)
        return one

    return check
