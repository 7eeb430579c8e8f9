"""The automatic rate: what it estimates, when it stops, and that it survives a checkpoint."""

import pytest
import torch

from holdfast import Method, Rows, fit
from holdfast.feed import Feed
from holdfast.functional import confident_joint, label_noise_rate, target_noise_rate, undirected_noise_rate
from holdfast.methods import METHODS, PRLL, CoPRLL
from holdfast.methods.sample_selection import WithNoiseRate
from holdfast.noise import pairflip, symmetric


def clusters(n=3000, classes=5):
    source = torch.Generator().manual_seed(5)
    truth = torch.arange(n) % classes
    centres = 3 * torch.randn(classes, 10, generator=source)
    return centres[truth] + torch.randn(n, 10, generator=source), truth


@pytest.mark.parametrize(
    ("kind", "rate"), [(symmetric, 0.0), (symmetric, 0.2), (symmetric, 0.5), (pairflip, 0.25), (pairflip, 0.45)]
)
def test_an_automatic_rate_is_near_and_rather_high(kind, rate):
    x, truth = clusters()
    rows = Rows(x, kind(truth, rate, 5, seed=1).labels, tuple("abcde"))
    method = PRLL()
    fit(rows, method, "mlp", epochs=12, batch_size=64)
    wrong = float((rows.y != truth).double().mean())
    found = method.estimate
    assert found.low <= found.rate <= found.high
    assert wrong - 0.02 <= found.rate <= wrong + 0.08
    assert found.high >= wrong - 0.01


def test_an_automatic_rate_finds_gross_targets():
    source = torch.Generator().manual_seed(5)
    x = torch.randn(2000, 6, generator=source)
    y = x @ torch.randn(6, 3, generator=source) + 0.1 * torch.randn(2000, 3, generator=source)
    y[:600] = 8 * torch.randn(600, 3, generator=source)
    method = CoPRLL()
    fit(Rows(x, y), method, "mlp", epochs=12, batch_size=32)
    assert 0.27 <= method.estimate.rate <= 0.45


def test_nothing_is_dropped_before_the_first_estimate(blobs):
    method = PRLL()
    feed, nets = Feed(blobs, batch_size=40), [torch.nn.Linear(2, 3)]
    method.begin(nets, feed)
    for epoch in (0, 1):
        method.before_epoch(nets, feed, epoch, 10)
        for number, batch in enumerate(feed.batches()):
            step = method.loss(nets, batch)
            if epoch == 0:
                assert step.weight.tolist() == [1] * 40
            elif number == 0:
                rate = method.estimate.rate
                assert method.drop_rate == pytest.approx((rate + (rate * (1 - rate) / 40) ** 0.5) / 10)
    assert method.estimate.rate > 0


def test_the_confident_joint_of_the_specification():
    p = [[8, 1, 1], [6, 3, 1], [2, 7, 1], [1, 8, 1], [1, 3, 6], [7, 2, 1], [2, 2, 6], [1, 1, 8]]
    y = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    joint = confident_joint(torch.tensor(p) / 10, y)
    expected = torch.tensor([[0.25, 0.125, 0], [0.1875, 0.1875, 0], [0, 0, 0.25]])
    torch.testing.assert_close(joint, expected)
    rate, low, high = label_noise_rate(torch.tensor(p) / 10, y)
    assert low <= rate <= high
    assert high == pytest.approx(0.375)


def guesses(truth, classes, right, seed):
    """What a weak network expects, right about so many and else one class off, on either side."""
    source = torch.Generator().manual_seed(seed)
    uniform = torch.rand(len(truth), generator=source)
    guessed = torch.where(uniform < right, truth, (truth + torch.where(uniform < (1 + right) / 2, 1, -1)) % classes)
    near = torch.stack([(guessed + step) % classes for step in (0, 1, -1)], 1)
    output = torch.rand(len(truth), classes, generator=source).scatter(1, near, 2.0).scatter(1, near[:, :1], 3.0)
    return output.softmax(1)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8])
def test_a_weak_network_tells_labels_on_unlikely_classes_from_its_own_errors(rate):
    truth = torch.arange(5000) % 10
    y = symmetric(truth, rate, 10, seed=1).labels
    expected = guesses(truth, 10, 0.4, seed=0)
    assert undirected_noise_rate(expected, y) == pytest.approx(rate, abs=0.1)
    usual = label_noise_rate(expected, y)[0]
    found = label_noise_rate(expected, y, stability=0.4)
    assert found[0] == pytest.approx(undirected_noise_rate(expected, y))
    assert found[1] == 0
    assert found[0] + 0.05 < usual
    assert found[0] <= found[2]
    assert label_noise_rate(expected, y, stability=0.5)[0] == usual


def test_the_undirected_rate_is_at_most_one():
    assert undirected_noise_rate(torch.tensor([[0.5, 0.3, 0.2]] * 10), torch.full((10,), 2)) == 1


def test_of_two_classes_none_is_the_least_likely_without_being_the_other():
    y = torch.arange(100) % 2
    expected = guesses(y, 2, 0.6, seed=0)
    assert undirected_noise_rate(expected, y) == label_noise_rate(expected, y)[2]
    assert label_noise_rate(expected, y, stability=0.1)[0] == label_noise_rate(expected, y)[0]


def test_a_rate_follows_a_network_as_long_as_most_of_its_predictions_change():
    truth = torch.arange(2000) % 10
    rows = Rows(torch.randn(2000, 2), symmetric(truth, 0.5, 10, seed=1).labels, tuple("abcdefghij"))
    method, feed, nets = PRLL(), Feed(rows), [torch.nn.Linear(2, 10)]
    method.begin(nets, feed)
    weak = [guesses(truth, 10, 0.35, seed=seed) for seed in range(4)]
    # It changes its mind from each of these to the next, and then hardly.
    predictions = [*weak, torch.where(torch.arange(2000)[:, None] % 5 == 0, weak[0], weak[3])]
    for epoch, expected in enumerate(predictions):
        method.before_epoch(nets, feed, epoch, 10)
        for index in torch.arange(2000).split(128):
            method.observe(index, expected[index].log())
        if epoch == 1:
            assert method.estimate.rate == pytest.approx(label_noise_rate(predictions[0], rows.y)[0])
        elif epoch > 1:
            assert method.estimate.rate == pytest.approx(undirected_noise_rate(predictions[epoch - 1], rows.y))
        assert bool(method.probing)
    method.before_epoch(nets, feed, 5, 10)
    assert not bool(method.probing)
    # Settled without having learnt anything: what was found before stays.
    assert method.estimate.rate == pytest.approx(undirected_noise_rate(predictions[3], rows.y))


def test_far_targets_are_counted_whatever_their_size():
    source = torch.Generator().manual_seed(0)
    expected = torch.randn(1000, 4, generator=source)
    y = expected + 0.1 * torch.randn(1000, 4, generator=source)
    rate, low, high = target_noise_rate(expected, y)
    assert low < 0.04 < 0.07 < rate < 0.13 < high < 0.25
    one = target_noise_rate(expected[:, :1], y[:, :1])
    assert one == pytest.approx((0.1, 0.025, 0.2), abs=0.03)
    for far in (5, 5000):
        y[:400] = expected[:400] + far
        rate, low, high = target_noise_rate(expected, y)
        assert 0.4 <= low <= rate <= high < 0.46


def test_all_methods_with_a_rate_take_auto():
    rated = [make for make in METHODS.values() if isinstance(make, type) and issubclass(make, WithNoiseRate)]
    assert len(rated) == 9
    assert all(make(rate="auto").rate == "auto" for make in rated)
    assert not isinstance(Method(), WithNoiseRate)


def test_the_estimate_is_part_of_the_state(blobs):
    method, again = PRLL(), PRLL()
    fit(blobs, method, "mlp", epochs=5, batch_size=40)
    again.begin([torch.nn.Linear(2, 3)], Feed(blobs))
    again.load_state_dict(method.state_dict())
    assert again.estimate == method.estimate
    assert method.estimate.rate > 0.1
