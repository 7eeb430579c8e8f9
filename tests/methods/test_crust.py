"""CRUST against loops written from the paper, and what its presets promise."""

import pytest
import torch
from torch import nn
from torch.optim import Adam

from holdfast import Crust, Feed, HoldfastError, Method, Rows, check_method, fit
from holdfast.functional import anchor_rows, output_layer
from holdfast.methods.crust import CRAMMED, _turned
from holdfast.noise import symmetric


def begun(method, rows, epoch=10, batch_size=24):
    torch.manual_seed(0)
    feed = Feed(rows, batch_size=batch_size)
    outputs = feed.task.outputs
    net = nn.Sequential(nn.Linear(rows.x.shape[1], 16), nn.ReLU(), nn.Linear(16, outputs))
    fit(rows, Method(), net, epochs=20, batch_size=batch_size)
    method.begin([net], feed)
    method.before_epoch([net], feed, epoch, 30)
    return net, feed


NEUTRAL = {"fraction": 1.0, "rest": "drop", "average": 0, "memory": 0, "warmup": 0}


@pytest.mark.parametrize(
    "method",
    [
        Crust(warmup=0),
        Crust.paper(),
        Crust.authors(),
        Crust(0.5, warmup=0, rest="drop"),
        Crust(0.5, warmup=0, select="facility", weights="cluster", mix="cluster"),
        Crust(0.5, warmup=0, proxy="features", group="observed", weights="radius", mix="same_label"),
        Crust(0.4, warmup=0, every=2, group="one"),
    ],
    ids=repr,
)
def test_the_contract_holds(method):
    check_method(method, neutral=Crust(**NEUTRAL))


@pytest.mark.parametrize(
    "method", [Crust(warmup=0), Crust(0.8, bins=3, warmup=0, mix="cluster", rest="drop")], ids=repr
)
def test_the_contract_holds_for_regression(method):
    check_method(method, neutral=Crust(**NEUTRAL), regression=True)


def test_paper_preset_selects_as_algorithm_1(blobs):
    method = Crust.paper(0.3)
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    with torch.no_grad():
        p = net(blobs.x).softmax(1)
    g = p - nn.functional.one_hot(blobs.y, 3)
    expected = {}
    for c in range(3):
        group = [i for i in range(240) if p[i].argmax() == c]
        d = (
            torch.cdist(g[group].double(), g[group].double(), compute_mode="donot_use_mm_for_euclid_dist")
            .float()
            .double()
        )
        chosen, best = [], torch.full((len(group),), d.max().item(), dtype=torch.float64)
        for _ in range(max(1, round(0.3 * len(group)))):
            gains = [(best - d[j]).clamp_min(0).sum().item() if j not in chosen else -1 for j in range(len(group))]
            chosen.append(max(range(len(group)), key=lambda j: gains[j]))
            best = torch.minimum(best, d[chosen[-1]])
        nearest = d[:, chosen].argmin(1)
        nearest[chosen] = torch.arange(len(chosen))
        for k, j in enumerate(chosen):
            expected[group[j]] = ({group[i] for i in range(len(group)) if nearest[i] == k}, c)
    assert sorted(plan.index.tolist()) == sorted(expected)
    for i, weight, partner in zip(plan.index.tolist(), plan.weight.tolist(), plan.partner.tolist(), strict=True):
        cluster, _ = expected[i]
        assert weight == len(cluster)
        assert partner in cluster
        assert (partner != i) == (len(cluster) > 1)
    assert plan.weight.sum() == 240


def test_central_keeps_the_points_nearest_to_all_others_in_each_observed_class(blobs):
    method = Crust(0.4, group="observed", proxy="features", rest="drop", memory=0, average=0)
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    with torch.no_grad():
        g = (net(blobs.x).softmax(1) - nn.functional.one_hot(blobs.y, 3)) @ output_layer(net).weight
    expected = []
    for c in range(3):
        group = (blobs.y == c).nonzero()[:, 0]
        total = torch.cdist(g[group], g[group]).sum(1)
        expected += group[total.argsort()[: round(0.4 * len(group))]].tolist()
    assert sorted(plan.index.tolist()) == sorted(expected)


def test_proxy_at_the_features_of_the_specification(logits, labels):
    head = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])
    gradient = logits.softmax(1) - nn.functional.one_hot(labels, 3)
    torch.testing.assert_close((gradient @ head)[0], torch.tensor([-0.253516, 0.214403]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("features", [2, 3, 64])
def test_distances_at_the_features_need_no_more_dimensions_than_outputs(features):
    generator = torch.Generator().manual_seed(0)
    gradient, head = torch.randn(20, 3, generator=generator), torch.randn(3, features, generator=generator)
    points = gradient @ _turned(head)
    assert points.shape[1] == min(3, features)
    torch.testing.assert_close(torch.cdist(points, points), torch.cdist(gradient @ head, gradient @ head))


def test_authors_partners_share_the_label_and_keep_it(blobs):
    method = Crust.authors()
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    assert (blobs.y[plan.index] == blobs.y[plan.partner]).all()
    assert (plan.index != plan.partner).any()
    assert plan.share.mean() < 0.3
    for batch in feed.batches(plan):
        assert (batch.y.argmax(1) == blobs.y[batch.index]).all()


def test_nothing_is_selected_before_the_warm_up_ends(blobs):
    method = Crust(0.5, warmup=3, rest="drop")
    net, feed = begun(method, blobs, epoch=0)
    assert method.plan([net], feed) is None
    method.before_epoch([net], feed, 2, 30)
    assert len(method.plan([net], feed).index) == 240
    method.before_epoch([net], feed, 3, 30)
    assert len(method.plan([net], feed).index) == pytest.approx(120, abs=2)


def test_selection_each_n_epochs(blobs):
    method = Crust(0.5, warmup=1, every=3, rest="drop")
    net, feed = begun(method, blobs, epoch=1)
    first = method.plan([net], feed)
    with torch.no_grad():
        net[2].weight.neg_()
    method.averaged.load_state_dict(net.state_dict())
    method.before_epoch([net], feed, 2, 30)
    kept = method.plan([net], feed)
    assert torch.equal(first.index, kept.index)
    assert kept.output is None
    method.before_epoch([net], feed, 4, 30)
    assert not torch.equal(method.plan([net], feed).index, first.index)


def test_fractions_for_each_class(blobs):
    method = Crust([0.1, 0.5, 1.0], group="observed", rest="drop")
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    for c, share in enumerate((0.1, 0.5, 1.0)):
        assert (blobs.y[plan.index] == c).sum() == round(share * int((blobs.y == c).sum()))


def test_the_default_finds_the_wrong_labels_without_a_rate(blobs):
    run = fit(blobs, Crust(), "mlp", test=Rows(blobs.x, blobs.truth, blobs.classes), epochs=20, batch_size=16)
    end = run.history.iloc[-1]
    right = float((blobs.y == blobs.truth).double().mean())
    assert end["purity"] > 0.95 > right
    assert abs(end["coverage"] - right) < 0.06
    assert end["test"] > 0.95


def rivals_in_loops(flips, anchors):
    """For each label, how far its best rival stands out, two standard errors down."""
    found = []
    for label in range(len(flips)):
        others = [(float(flips[c, label]), c) for c in range(len(flips)) if c != label]
        most, who = max(others)
        usual = (sum(share for share, _ in others) - most) / max(1, len(others) - 1)
        least = most - 2 * (most * (1 - most) / anchors[who]) ** 0.5
        found.append(min(1.0, max(0.0, (least - usual) / float(flips[label, label]))))
    return found


def test_a_network_that_still_learns_keeps_its_labels(blobs):
    # One class is often given the name of another, so that one label has a rival and the others have none.
    y = blobs.truth.clone()
    y[(y == 0).nonzero()[::3, 0]] = 1
    rows = Rows(blobs.x, y, blobs.classes, truth=blobs.truth)
    method = Crust(average=0)
    net, feed = begun(method, rows)
    given = nn.functional.one_hot(y, 3).float()
    learning = method.plan([net], feed).target
    part = rivals_in_loops(method.flips, [len(found) for found in anchor_rows(method.expected())])
    posterior = method.task.posterior(method.task.clean(method.expected()), y, method.flips)
    for i in range(240):
        mixed = (1 - part[y[i]]) * given[i] + part[y[i]] * posterior[i]
        torch.testing.assert_close(learning[i], mixed, atol=1e-5, rtol=0)
    method.settled.fill_(1.0)
    settled = method.plan([net], feed).target
    assert torch.equal(settled[method.kept], given[method.kept])
    torch.testing.assert_close(settled[~method.kept], method.expected()[~method.kept])
    right = method.task.right(method.task.clean(method.expected()), y, method.flips)
    assert torch.equal(method.kept, (method.expected().argmax(1) == y) | (right >= 0.8))


def test_rows_are_withheld_while_the_network_learns(blobs):
    method = Crust(average=0)
    net, feed = begun(method, blobs, epoch=1)
    assert len(method.planned([net], feed).index) == 240
    method.before_epoch([net], feed, 2, 30)
    plan = method.planned([net], feed)
    assert int(method.probe.sum()) == 12
    assert sorted(plan.index.tolist()) == (~method.probe).nonzero()[:, 0].tolist()
    method.settled.fill_(0.9)
    assert len(method.planned([net], feed).index) == 240
    for whole in (Crust(0.5, warmup=0), Crust(rest="drop", warmup=0)):
        net, feed = begun(whole, blobs)
        whole.plan([net], feed)
        assert whole.withhold(feed) is None


def test_coresets_begin_once_labels_are_learnt_by_heart(monkeypatch):
    """Dropout keeps a network from settling while it learns wrong labels by heart."""
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(2000) % 10
    centres = nn.functional.normalize(torch.randn(10, 20, generator=source))
    x = 2 * centres[truth] + torch.randn(2000, 20, generator=source)
    rows = Rows(x, symmetric(truth, 0.5, 10, seed=1).labels, tuple("abcdefghij"), truth=truth)
    wrong = rows.y != truth
    fitted = {}
    for limit in (CRAMMED, 1.0):
        monkeypatch.setattr("holdfast.methods.crust.CRAMMED", limit)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))
        method = Crust()
        run = fit(rows, method, net, epochs=14, batch_size=32, optimizer=lambda p: Adam(p, lr=0.01))
        assert float(method.settled) < 0.85
        assert bool(method.crammed) == (limit < 1)
        assert (method.withhold(Feed(rows)) is None) == (limit < 1)
        fitted[limit] = float((run.outputs(x).argmax(1) == rows.y)[wrong].double().mean())
    assert fitted[CRAMMED] < 0.85 * fitted[1.0]


@pytest.mark.parametrize("ask_to_stop", [True, False])
def test_settling_is_the_share_of_expected_predictions_in_training(blobs, ask_to_stop):
    method = Crust(average=0)
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    before, same = method.expected().argmax(1), 0
    with torch.no_grad():
        net[2].bias.add_(torch.tensor([2.0, 0.0, 0.0]))
    for batch in feed.batches(plan):
        step = method.loss([net], batch)
        same += int((step.output.argmax(1) == before[batch.index]).sum())
    assert 0 < same < 240
    if ask_to_stop:
        assert method.after_epoch([net]) is None
    else:
        method.before_epoch([net], feed, 11, 30)
    assert float(method.settled) == pytest.approx(same / 240)


def test_statistics_of_normalisation_are_averaged_with_the_weights(blobs):
    method = Crust(average=1)
    net = nn.Sequential(nn.Linear(blobs.x.shape[1], 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    feed = Feed(blobs, batch_size=24)
    method.begin([net], feed)
    mean = method.averaged[1].running_mean.clone()
    net[1].running_mean.fill_(1.0)
    net[1].num_batches_tracked.fill_(7)
    method.after_step([net])
    share = 1 / max(1.0, 11 / 9)
    torch.testing.assert_close(method.averaged[1].running_mean, mean + share * (1 - mean))
    assert method.averaged[1].num_batches_tracked == 7


def test_the_averaged_network_follows_the_trained_one(blobs):
    method = Crust(average=0.5)
    net, _ = begun(method, blobs)
    before = method.averaged[0].weight.clone()
    with torch.no_grad():
        net[0].weight.add_(1.0)
    for _ in range(200):
        method.after_step([net])
    assert method.predictor([net]) is method.averaged
    assert (method.averaged[0].weight - before - 1).abs().max() < 1e-3
    assert not any(p.requires_grad for p in method.parameters())


@pytest.mark.parametrize(("settled", "memory"), [(1.0, 0.75), (0.5, 0.375)])
def test_memory_averages_predictions_over_epochs(blobs, settled, memory):
    method = Crust(memory=0.75, average=0)
    net, feed = begun(method, blobs, epoch=1)
    method.settled.fill_(settled)
    method.plan([net], feed)
    one = method.expected().clone()
    with torch.no_grad():
        torch.testing.assert_close(one, net(blobs.x).softmax(1), atol=1e-5, rtol=0)
        net[2].bias.add_(torch.tensor([3.0, 0.0, 0.0]))
        two = net(blobs.x).softmax(1)
    method.before_epoch([net], feed, 2, 30)
    method.plan([net], feed)
    expected = (memory * (1 - memory) * one + (1 - memory) * two) / (1 - memory**2)
    torch.testing.assert_close(method.expected(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fraction": 0.0}, r"\(0, 1\], not 0"),
        ({"fraction": 1.2}, r"\(0, 1\], not 1.2"),
        ({"fraction": [0.5, -1]}, r"\(0, 1\], not -1"),
        ({"select": "greedy"}, "select is one of central, facility"),
        ({"memory": 1.0}, "memory must lie"),
        ({"every": 0}, "at least 1"),
    ],
)
def test_settings_are_checked_when_made(settings, words):
    with pytest.raises(HoldfastError, match=words):
        Crust(**settings)
