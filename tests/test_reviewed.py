"""Full trust in some rows, whatever the method makes of the others."""

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.functional.label_trust import trust_in
from holdfast.functional.target_trust import target_trust
from holdfast.issues.noise import noise_of
from holdfast.methods import LDMI, PRLL, CoTeaching, Crust, DivideMix, EMARefinement, Forward, SecondOpinion
from holdfast.reviewed import ReviewedLabels
from holdfast.stop import NoisyValidationStop


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


@pytest.mark.parametrize("stop", [None, NoisyValidationStop(0.3)], ids=["no stop", "validation"])
@pytest.mark.parametrize("method", [Method, Forward, LDMI, EMARefinement, Crust, SecondOpinion])
def test_no_reviewed_row_is_withheld(blobs, method, stop):
    """Neither by a stop rule nor by a method that holds rows out: each is in the plan of every epoch."""
    reviewed = torch.arange(240) % 3 > 0
    rows = Rows(blobs.x, blobs.y, blobs.classes, reviewed=reviewed)
    run = fit(rows, method(), "mlp", stop=stop, epochs=4, device="cpu")
    times = run.ledger["trained"].to_numpy()[reviewed.numpy()]
    assert (times == len(run.history)).all()


def test_a_stop_rule_that_has_nothing_to_withhold_says_so(blobs):
    rows = Rows(blobs.x, blobs.y, blobs.classes, reviewed=torch.ones(240, dtype=torch.bool))
    with pytest.raises(HoldfastError, match="all rows are reviewed and trained on, so none can be withheld"):
        fit(rows, Method(), "mlp", stop=NoisyValidationStop(), epochs=1, device="cpu")


def test_a_certain_label_has_no_part_in_how_others_are_judged():
    """Half of the labels are right for certain; among the others as many are wrong as without those."""
    source = torch.Generator().manual_seed(0)
    truth = torch.randint(3, (3000,), generator=source)
    wrong = torch.rand(3000, generator=source) < 0.3
    y = torch.where(wrong, (truth + 1) % 3, truth)
    evidence = 0.02 + 0.94 * torch.nn.functional.one_hot(truth, 3).double()
    certain = torch.arange(3000) < 1500
    y = torch.where(certain, truth, y)
    alone, beside = trust_in(evidence[1500:], y[1500:]), trust_in(evidence, y, certain)
    torch.testing.assert_close(beside.transition, alone.transition)
    torch.testing.assert_close(beside.right(y)[1500:], alone.right(y[1500:]))
    assert (beside.right(y)[:1500] == 1).all()
    found = noise_of(beside, y, ["a", "b", "c"], certain)
    assert found.rate[0] == pytest.approx(0.15, abs=0.02)
    assert found.rate[1] <= float((y != truth).double().mean()) <= found.rate[2]


def test_a_certain_target_is_right_however_far_off_it_lies():
    source = torch.Generator().manual_seed(0)
    expected = torch.randn(600, 1, generator=source)
    y = expected + 0.1 * torch.randn(600, 1, generator=source)
    y[::6] += 3
    certain = torch.arange(600) % 12 == 0
    found = target_trust(expected, y, certain).right
    assert (found[certain] == 1).all()
    assert (found[6::12] < 0.1).all()


def test_the_default_trains_towards_reviewed_labels_alone(blobs):
    """Not towards the posterior, even where all networks expect another class."""
    reviewed = torch.zeros(240, dtype=torch.bool)
    reviewed[(blobs.y != blobs.truth).nonzero()[:9, 0]] = True
    rows = Rows(blobs.x, blobs.y, blobs.classes, reviewed=reviewed)
    run = fit(rows, SecondOpinion(), "mlp", epochs=3, device="cpu")
    assert (run.ledger["selected"] == run.ledger["trained"])[reviewed.numpy()].all()
    table = run.issue_table()
    assert (table["trust"][reviewed.numpy()] == 1).all()
    assert not table["flag"][reviewed.numpy()].any()
