import copy
import math

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Rows, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.functional import local_dimension, row_uniforms
from holdfast.methods import D2L, d2l

HISTORY = [10, 8, 6, 5, 5.2, 5, 5.1, 4.9, 5, 5.1, 7]


class Told(D2L):
    """Dimensions as they are told instead of measured."""

    def __init__(self, *dimensions, **settings):
        super().__init__(**settings)
        self.dimensions = dimensions

    def measure(self, net, data, epoch):
        return self.dimensions[epoch]


@pytest.mark.parametrize("method", [D2L(), D2L(0, 2, 4)], ids=repr)
def test_the_contract_holds(method):
    check_method(method, neutral=D2L())


def test_numbers_of_the_specification(on_tables, logits, labels):
    method = Told(*[math.nan] * 30)
    nets, batch = on_tables(method, [logits], labels)
    for epoch, dimension in enumerate(HISTORY):
        assert not method.turned
        assert float(method.alpha) == 1
        if epoch == 10:
            assert float(method.recent.mean()) == pytest.approx(5.02)
            assert float(method.recent.std(correction=0)) == pytest.approx(0.074833, abs=1e-6)
        method.follow(dimension, nets[0], epoch / 50)
    assert method.turned
    assert float(method.alpha) == pytest.approx(0.751477, abs=1e-6)
    for i, loss in enumerate([0.241311, 1.056008, 0.342076, 0.864157]):
        only = batch._replace(weight=torch.eye(4)[i])
        assert method.loss(nets, only).loss.item() == pytest.approx(loss, abs=1e-5)
    assert method.loss(nets, batch).loss.item() == pytest.approx(0.625888, abs=1e-5)


def test_targets_are_constants(on_tables, trained, logits, labels):
    method = Told(*[math.nan] * 30)
    nets, batch = on_tables(method, [logits], labels)
    method.alpha.fill_(0.6)
    _, (grad,) = trained(method, nets, batch)
    target = 0.6 * torch.eye(3)[labels] + 0.4 * torch.eye(3)[logits.argmax(1)]
    torch.testing.assert_close(grad, (logits.softmax(1) - target) / 4)


def test_the_dimension_is_that_of_random_rows_in_small_batches(blobs, monkeypatch):
    monkeypatch.setattr(d2l, "ROWS", 100)
    monkeypatch.setattr(d2l, "CHUNK", 40)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 3))
    feed, method = Feed(blobs, batch_size=16, seed=5), D2L(neighbours=6)
    method.begin([net], feed)
    before = torch.get_rng_state(), feed.generator.get_state()
    found = [method.measure(net, feed, epoch) for epoch in (3, 3, 4)]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(feed.generator.get_state(), before[1])
    assert net.training
    assert found[0] == found[1] != found[2]
    rows = row_uniforms(240, 5, 3).argsort()[:100]
    with torch.no_grad():
        features = net[0](blobs.x[rows]).tanh()
    each = torch.cat([local_dimension(features[a : a + 40], 6) for a in (0, 40, 80)])
    assert found[0] == pytest.approx(each.mean().item(), rel=1e-5)


def test_at_the_turning_point_the_weights_of_the_epoch_before_come_back(blobs):
    class Wrapped(nn.Module):
        """As engines wrap networks: other names, the same parameters in order."""

        def __init__(self, inner):
            super().__init__()
            self.module = inner

    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    method = Told(5, 4, 5, 4, 5, 9, 5, start=2, window=3)
    method.begin([net], Feed(blobs))
    kept = []
    for epoch in range(7):
        method.before_epoch([Wrapped(net)], Feed(blobs), epoch, 10)
        kept.append(copy.deepcopy(net.state_dict()))
        assert bool(method.turned) == (epoch >= 5)
        net(blobs.x[:20] + epoch)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 1
    for name, value in kept[5].items():
        assert torch.equal(value, kept[4][name]), name
    assert not torch.equal(kept[4]["0.weight"], kept[3]["0.weight"])
    assert kept[4]["1.num_batches_tracked"] == 4
    # Once is enough: later epochs keep what they learn.
    assert torch.equal(kept[6]["0.weight"], kept[5]["0.weight"] + 1)
    assert float(method.alpha) == pytest.approx(torch.tensor(-0.6 * 5 / 4).exp().item())


@pytest.mark.parametrize(("dimension", "turns"), [(5.18, True), (5.16, False)])
def test_the_bound_is_two_standard_deviations_of_the_window_itself(blobs, dimension, turns):
    net, method = nn.Linear(2, 3), D2L()
    method.begin([net], Feed(blobs))
    for measured in [*HISTORY[:-1], dimension]:  # 5.02 + 2 * 0.0748 = 5.17
        method.follow(measured, net, 0.2)
    assert bool(method.turned) == turns


def test_nothing_turns_before_start_and_window_are_over(blobs):
    for jump, turns in ((3, False), (4, True)):
        net, method = nn.Linear(2, 3), D2L(2, 2)
        method.begin([net], Feed(blobs))
        for epoch in range(jump + 1):
            method.follow(9.0 if epoch == jump else 5.0, net, 0.2)
        assert bool(method.turned) == turns


def test_what_cannot_be_measured_counts_as_before(blobs):
    net = nn.Linear(2, 3)
    method = D2L(0, 2)
    method.begin([net], Feed(blobs))
    method.follow(math.nan, net, 0.0)
    assert method.seen == 0
    for dimension in (3.0, 4.0, math.nan, math.inf):
        method.follow(dimension, net, 0.1)
    assert method.recent.tolist() == [4, 4]
    assert not method.turned


def test_a_network_that_has_died_trains_on(blobs):
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    nn.init.constant_(net[0].bias, -1e3)
    method = D2L(0, 2)
    fit(blobs, method, net, epochs=4, batch_size=40)
    assert method.seen == 0


@pytest.mark.parametrize("broken", [2, 4, 5])
def test_window_weights_and_share_survive_a_checkpoint(resumes, blobs, broken):
    # The turning point lies ahead of the break, right after it, and behind.
    make = lambda: Told(5, 5, 4.9, 5.1, 9, 6, 5, 7, start=1, window=3)  # noqa: E731
    method = resumes(make, blobs, 8, broken)
    assert method.turned
    assert method.alpha < 1


def test_small_data_and_real_dimensions(blobs):
    small = Rows(blobs.x[:5], blobs.y[:5], ("a", "b", "c"))
    method = D2L(1, 2)
    fit(small, method, "mlp", epochs=5, batch_size=2)
    assert method.seen == 5
    method = D2L(1, 2)
    fit(blobs, method, "mlp", epochs=5, batch_size=40)
    assert 0.5 < float(method.recent[-1]) < 10


def test_mistakes_are_named(on_tables, blobs):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(D2L(), [torch.zeros(3, 1)], torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="at least 2, not 5, 1 and 20"):
        D2L(window=1)
    with pytest.raises(HoldfastError, match=r"no nn.Linear layer"):
        fit(blobs, D2L(), Bare(), epochs=1)


class Bare(nn.Module):
    """A network without an output layer that could be looked into."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 3))

    def forward(self, x):
        return x @ self.weight
