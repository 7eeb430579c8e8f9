"""Full trust in some rows, whatever the method makes of the others."""

import pytest
import torch
from torch import nn

from holdfast import PRLL, CoTeaching, Crust, DivideMix, HoldfastError, Method, Rows, check_method, fit
from holdfast.feed import Feed
from holdfast.reviewed import ReviewedLabels


@pytest.mark.parametrize("method", [Method(), PRLL(), CoTeaching(), Crust(), DivideMix()])
def test_it_keeps_the_contract(method):
    check_method(ReviewedLabels(method, torch.arange(48) % 3 == 0))


def test_settled_rows_are_trained_whatever_the_method_thinks(blobs):
    settled = torch.zeros(240, dtype=torch.bool)
    settled[(blobs.y != blobs.truth).nonzero()[:6, 0]] = True
    run = fit(Rows(blobs.x, blobs.y, blobs.classes, reviewed=settled), PRLL(0.4), "mlp", epochs=8, device="cpu")
    share = (run.ledger["selected"] / run.ledger["trained"]).to_numpy()
    assert (share[settled.numpy()] == 1).all()
    assert share[(blobs.y != blobs.truth).numpy() & ~settled.numpy()].mean() < 0.5


def test_the_loss_is_that_of_both_parts(blobs):
    settled = torch.arange(240) % 4 == 0
    net = nn.Linear(2, 3)
    feed = Feed(blobs, batch_size=32)
    trusting, alone = ReviewedLabels(PRLL(0.5), settled), PRLL(0.5)
    trusting.begin([net], feed)
    alone.begin([net], feed)
    for method in (trusting, alone):
        method.before_epoch([net], feed, 5, 10)
    batch = next(iter(feed.batches()))
    mine = settled[batch.index]
    rest = type(batch)(*(part[~mine] for part in batch))
    losses = nn.functional.cross_entropy(net(batch.x), batch.y, reduction="none")
    share = mine.double().mean()
    expected = share * losses[mine].mean() + (1 - share) * alone.loss([net], rest).loss
    torch.testing.assert_close(trusting.loss([net], batch).loss.double(), expected.double())


def test_several_devices_are_refused(blobs):
    rows = Rows(blobs.x, blobs.y, blobs.classes, reviewed=torch.ones(240, dtype=torch.bool))
    with pytest.raises(HoldfastError, match="one device"):
        fit(rows, Method(), "mlp", epochs=1, device="cpu", devices=2)
