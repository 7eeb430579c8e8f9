"""Full trust in some rows, whatever the method makes of the others."""

import pytest
import torch
from torch import nn

from holdfast import PRLL, CoTeaching, Crust, DivideMix, Method, Rows, check_method, fit
from holdfast.feed import Feed
from holdfast.reviewed import ReviewedLabels


@pytest.mark.parametrize("method", [Method(), PRLL(), CoTeaching(), Crust(), DivideMix()])
def test_it_keeps_the_contract(method):
    check_method(ReviewedLabels(method, torch.arange(48) % 3 == 0))


def test_settled_rows_are_trained_whatever_the_method_thinks(blobs):
    reviewed = torch.zeros(240, dtype=torch.bool)
    reviewed[(blobs.y != blobs.truth).nonzero()[:6, 0]] = True
    run = fit(Rows(blobs.x, blobs.y, blobs.classes, reviewed=reviewed), PRLL(0.4), "mlp", epochs=8, device="cpu")
    share = (run.ledger["selected"] / run.ledger["trained"]).to_numpy()
    assert (share[reviewed.numpy()] == 1).all()
    assert share[(blobs.y != blobs.truth).numpy() & ~reviewed.numpy()].mean() < 0.5


def test_the_loss_is_that_of_both_parts(blobs):
    reviewed = torch.arange(240) % 4 == 0
    net = nn.Linear(2, 3)
    feed = Feed(blobs, batch_size=32)
    trusting, alone = ReviewedLabels(PRLL(0.5), reviewed), PRLL(0.5)
    trusting.begin([net], feed)
    alone.begin([net], feed)
    for method in (trusting, alone):
        method.before_epoch([net], feed, 5, 10)
    batch = next(iter(feed.batches()))
    own = reviewed[batch.index]
    rest = type(batch)(*(part[~own] for part in batch))
    losses = nn.functional.cross_entropy(net(batch.x), batch.y, reduction="none")
    share = own.double().mean()
    expected = share * losses[own].mean() + (1 - share) * alone.loss([net], rest).loss
    torch.testing.assert_close(trusting.loss([net], batch).loss.double(), expected.double())


class Counted(nn.Linear):
    """How many rows went through it in training."""

    rows = 0

    def forward(self, x):
        self.rows += len(x) if self.training else 0
        return super().forward(x)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("method", [Method(), PRLL(0.1, forwards="one"), CoTeaching(0.1, forwards="one")], ids=repr)
def test_each_row_goes_through_each_network_once(blobs, normalised, method):
    feed, reviewed = Feed(blobs, batch_size=30), torch.arange(240) % 4 == 0
    nets = [nn.Sequential(Counted(2, 8), nn.BatchNorm1d(8) if normalised else nn.Tanh(), nn.Linear(8, 3))]
    nets += [nn.Sequential(Counted(2, 8), nn.Tanh(), nn.Linear(8, 3))] * (method.networks - 1)
    wrapped = ReviewedLabels(method, reviewed)
    wrapped.begin(nets, feed)
    wrapped.before_epoch(nets, feed, 5, 10)
    batch = next(iter(feed.batches()))
    step = wrapped.loss(nets, batch)
    assert [net[0].rows for net in nets] == [30] * method.networks
    step.loss.backward()
    assert step.output.shape == (30, 3)
    assert (step.weight[reviewed[batch.index]] == 1).all()
