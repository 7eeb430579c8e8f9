"""CRUST against loops written from the paper, and its authors' code against loops written from that."""

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.functional import output_layer
from holdfast.methods import Crust, crust
from holdfast.methods.crust import turned
from holdfast.select import facility_location


def begun(method, rows, epoch=10, batch_size=24):
    """A method on a network that has learnt something, at the start of an epoch."""
    torch.manual_seed(0)
    feed = Feed(rows, batch_size=batch_size)
    outputs = feed.task.outputs
    net = nn.Sequential(nn.Linear(rows.x.shape[1], 16), nn.ReLU(), nn.Linear(16, outputs))
    fit(rows, Method(), net, epochs=20, batch_size=batch_size)
    method.begin([net], feed)
    method.before_epoch([net], feed, epoch, 30)
    return net, feed


NEUTRAL = Crust(1.0, partners=0, weighted=False, warmup=0)


@pytest.mark.parametrize(
    "method",
    [
        Crust(warmup=0),
        Crust(warmup=0, select="stochastic"),
        Crust(warmup=0, select="distributed"),
        Crust(warmup=0, select="central", partners=0, group="one"),
        Crust(warmup=0, proxy="features", group="observed"),
        Crust(warmup=0, proxy="gradients", partners=3),
        Crust(0.4, warmup=1, every=2, weighted=False),
        Crust.authors(),
    ],
    ids=repr,
)
def test_the_contract_holds(method):
    check_method(method, neutral=NEUTRAL)


@pytest.mark.parametrize("method", [Crust(warmup=0), Crust(0.8, bins=3, warmup=0, partners=2)], ids=repr)
def test_the_contract_holds_for_regression(method):
    check_method(method, neutral=NEUTRAL, regression=True)


def greedy_in_loops(d, count):
    """Medoids by marginal gain, and the medoid of each point: equation 10 and lines 6 to 8 of Algorithm 1."""
    chosen, best = [], torch.full((len(d),), d.max().item(), dtype=torch.float64)
    for _ in range(count):
        gains = [(best - d[j]).clamp_min(0).sum().item() if j not in chosen else -1 for j in range(len(d))]
        chosen.append(max(range(len(d)), key=lambda j: gains[j]))
        best = torch.minimum(best, d[chosen[-1]])
    nearest = d[:, chosen].argmin(1)
    nearest[chosen] = torch.arange(len(chosen))
    return chosen, nearest


def distances(points):
    points = points.double()
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").float().double()


def algorithm_1(points, groups, share):
    """The coreset of each group: medoid -> its cluster, as row numbers."""
    found = {}
    for group in groups:
        d = distances(points[group])
        chosen, nearest = greedy_in_loops(d, max(1, round(share * len(group))))
        for k, j in enumerate(chosen):
            found[group[j]] = {group[i] for i in range(len(group)) if nearest[i] == k}
    return found


def predicted_groups(p):
    return [[i for i in range(len(p)) if p[i].argmax() == c] for c in range(p.shape[1])]


@pytest.mark.parametrize("partners", [1, 3])
def test_the_plan_is_algorithm_1(blobs, partners):
    method = Crust(0.3, partners=partners)
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    with torch.no_grad():
        p = net(blobs.x).softmax(1)
    expected = algorithm_1(p - nn.functional.one_hot(blobs.y, 3), predicted_groups(p), 0.3)
    assert sorted(plan.index.tolist()) == sorted([*expected] * partners)
    seen = {}
    for i, weight, partner in zip(plan.index.tolist(), plan.weight.tolist(), plan.partner.tolist(), strict=True):
        cluster = expected[i]
        assert weight == pytest.approx(len(cluster) / partners)
        assert partner in cluster
        assert (partner != i) == (len(cluster) > 1)
        seen.setdefault(i, []).append(partner)
    for i, chosen in seen.items():
        assert len(set(chosen)) == min(partners, max(1, len(expected[i]) - 1))
    assert plan.weight.sum() == pytest.approx(240)
    assert 0.3 < plan.share.mean() < 0.7


def test_whole_gradients_are_those_of_equation_6(blobs):
    method = Crust(0.3, proxy="gradients")
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    gradients = []
    for i in range(240):
        loss = nn.functional.cross_entropy(net(blobs.x[i : i + 1]), blobs.y[i : i + 1])
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))]))
    with torch.no_grad():
        p = net(blobs.x).softmax(1)
    expected = algorithm_1(torch.stack(gradients), predicted_groups(p), 0.3)
    assert len({*plan.index.tolist()} ^ {*expected}) <= 2  # near ties are decided by rounding


def test_whole_gradients_are_for_small_networks(blobs):
    net = nn.Sequential(nn.Linear(2, 60_000), nn.Linear(60_000, 3))
    with pytest.raises(HoldfastError, match="at most 50,000,000 are computed"):
        Crust(proxy="gradients").begin([net], Feed(blobs))


@pytest.mark.parametrize("select", ["exact", "stochastic", "distributed"])
def test_every_way_of_section_4_1_covers_nearly_as_well_as_greedy(blobs, select):
    method = Crust(0.2, select=select, partners=0)
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    with torch.no_grad():
        p = net(blobs.x).softmax(1)
    g, loss, best = p - nn.functional.one_hot(blobs.y, 3), 0.0, 0.0
    for group in map(torch.tensor, predicted_groups(p)):
        d = distances(g[group])
        rows = torch.isin(group, plan.index)
        loss += float(d[:, rows].amin(1).sum())
        best += facility_location(g[group], max(1, round(0.2 * len(group)))).objective
    assert loss <= 1.3 * best + 1e-9
    assert len(plan.index) == sum(max(1, round(0.2 * len(group))) for group in predicted_groups(p))
    assert plan.weight.sum() == 240


@pytest.mark.parametrize(
    ("select", "name"),
    [
        ("exact", "facility_location"),
        ("stochastic", "stochastic_greedy"),
        ("distributed", "greedi"),
        ("central", "centrality"),
    ],
)
def test_each_epoch_after_the_warm_up_selects_in_each_class(blobs, monkeypatch, select, name):
    calls = []
    real = getattr(crust, name)
    monkeypatch.setattr(crust, name, lambda *given, **more: calls.append(len(given[0])) or real(*given, **more))
    fit(blobs, Crust(select=select, warmup=2), "mlp", epochs=6, batch_size=48)
    assert len(calls) == 4 * 3
    assert sum(calls) == 4 * 240


def test_central_keeps_the_points_nearest_to_all_others_in_each_observed_class(blobs):
    method = Crust(0.4, select="central", group="observed", proxy="features", partners=0)
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


def test_proxies_at_the_features_of_the_specification(logits, labels):
    method = Crust(proxy="features")
    net = nn.Linear(2, 3)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]]))
    method.begin([net], Feed(_rows_like(logits, labels), batch_size=4))
    points = method._proxies(net, logits, labels)
    # Turned into other axes: lengths and distances are those of W^T (p - y), of which the specification has the first.
    first = torch.tensor([-0.253516, 0.214403])
    assert points[0].norm().item() == pytest.approx(first.norm().item(), abs=1e-5)


def _rows_like(logits, labels):
    from holdfast import Rows

    return Rows(torch.zeros(len(labels), 2), labels, ("a", "b", "c"))


@pytest.mark.parametrize("features", [2, 3, 64])
def test_distances_at_the_features_need_no_more_dimensions_than_outputs(features):
    generator = torch.Generator().manual_seed(0)
    gradient, head = torch.randn(20, 3, generator=generator), torch.randn(3, features, generator=generator)
    points = gradient @ turned(head)
    assert points.shape[1] == min(3, features)
    torch.testing.assert_close(torch.cdist(points, points), torch.cdist(gradient @ head, gradient @ head))


@pytest.mark.parametrize("batch_size", [1, 24])
def test_the_authors_code_in_loops(blobs, batch_size):
    """Observed classes, gradients of the batch mean at the features, int() of the centre, weights inside a radius."""
    method = Crust.authors(0.55)
    method.radius = 0.02
    net, feed = begun(method, blobs)
    feed.batch_size = method._batch_size = batch_size
    plan = method.plan([net], feed)
    with torch.no_grad():
        g = (net(blobs.x).softmax(1) - nn.functional.one_hot(blobs.y, 3)) @ output_layer(net).weight / batch_size
    expected = {}
    for c in range(3):
        group = [i for i in range(240) if blobs.y[i] == c]
        d = torch.cdist(g[group].double(), g[group].double())
        for j in d.sum(1).argsort()[: int(0.55 * len(group))].tolist():
            expected[group[j]] = int((d[j] < 0.02).sum())
    assert dict(zip(plan.index.tolist(), plan.weight.int().tolist(), strict=True)) == expected
    assert batch_size > 1 or len({*expected.values()}) > 3


def test_with_the_authors_radius_weights_are_the_size_of_the_class(blobs):
    method = Crust.authors()
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    sizes = torch.bincount(blobs.y)
    assert torch.equal(plan.weight, sizes[blobs.y[plan.index]].float())


def test_the_authors_mix_rows_of_one_label_from_the_second_epoch_of_selection_on(blobs):
    method = Crust.authors()
    net, feed = begun(method, blobs, epoch=5)
    assert method.plan([net], feed).partner is None
    method.before_epoch([net], feed, 6, 30)
    plan = method.plan([net], feed)
    assert (blobs.y[plan.index] == blobs.y[plan.partner]).all()
    assert (plan.index != plan.partner).any()
    assert 0.03 < plan.share.mean() < 0.2
    for batch in feed.batches(plan):
        assert (batch.y.argmax(1) == blobs.y[batch.index]).all()


def test_nothing_is_selected_before_the_warm_up_ends(blobs):
    method = Crust(0.5, warmup=3)
    net, feed = begun(method, blobs, epoch=2)
    assert method.plan([net], feed) is None
    method.before_epoch([net], feed, 3, 30)
    assert len(method.plan([net], feed).index) == pytest.approx(120, abs=2)


def test_selection_each_n_epochs(blobs):
    method = Crust(0.5, warmup=1, every=3)
    net, feed = begun(method, blobs, epoch=1)
    first = method.plan([net], feed)
    assert first.output is not None
    with torch.no_grad():
        net[2].weight.neg_()
    method.before_epoch([net], feed, 2, 30)
    kept = method.plan([net], feed)
    assert torch.equal(first.index, kept.index)
    assert kept.output is None
    method.before_epoch([net], feed, 4, 30)
    assert not torch.equal(method.plan([net], feed).index, first.index)


def test_fractions_for_each_class(blobs):
    method = Crust([0.1, 0.5, 1.0], group="observed")
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    for c, share in enumerate((0.1, 0.5, 1.0)):
        assert (blobs.y[plan.index] == c).sum() == round(share * int((blobs.y == c).sum()))


def test_a_run_resumes_bit_for_bit(flipped, resumes):
    resumes(lambda: Crust(warmup=1, every=2, select="stochastic", partners=2), flipped(300))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fraction": 0.0}, r"\(0, 1\], not 0"),
        ({"fraction": 1.2}, r"\(0, 1\], not 1.2"),
        ({"fraction": [0.5, -1]}, r"\(0, 1\], not -1"),
        ({"select": "greedy"}, "select is one of exact, stochastic, distributed, central"),
        ({"proxy": "weights"}, "proxy is one of"),
        ({"every": 0}, "at least 1"),
        ({"partners": -1}, "at least 0"),
        ({"alpha": 0.0}, "alpha must be positive"),
    ],
)
def test_settings_are_checked_when_made(settings, words):
    with pytest.raises(HoldfastError, match=words):
        Crust(**settings)
