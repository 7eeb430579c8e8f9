import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.noise import (
    CIFAR10_PAIRS,
    CIFAR100_NEXT,
    KINDS,
    MNIST_PAIRS,
    asymmetric,
    corrupt,
    derangement,
    flip_rates,
    instance,
    instance_probabilities,
    next_class,
    pair_matrix,
    pairflip,
    realised_transition,
    symmetric,
    symmetric_matrix,
)
from holdfast.noise.maps import _CIFAR100_COARSE, CIFAR10, CIFAR100


def labels(n, classes, seed=0):
    return torch.randint(classes, (n,), generator=torch.Generator().manual_seed(seed))


def inputs(n, *shape, seed=1):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def rows(n, classes, *shape):
    return Rows(inputs(n, *shape), labels(n, classes), tuple(map(str, range(classes))))


def within_three_sigma(noise, y, matrix):
    counts = torch.bincount(y, minlength=len(matrix)).double()[:, None]
    sigma = (matrix * (1 - matrix) / counts).sqrt()
    # Exact zeros and ones have no spread at all.
    return bool(((noise.transition - matrix).abs() <= 3 * sigma + 1e-12).all())


def close(actual, expected):
    torch.testing.assert_close(torch.as_tensor(actual).double(), torch.tensor(expected).double(), atol=1e-5, rtol=0)


def test_symmetric_matrices():
    excluding = symmetric_matrix(3, 0.3)
    close(excluding, [[0.7, 0.15, 0.15], [0.15, 0.7, 0.15], [0.15, 0.15, 0.7]])
    close(torch.linalg.det(excluding), 0.3025)
    including = symmetric_matrix(3, 0.3, including=True)
    close(including, [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    close(torch.linalg.det(including), 0.49)
    assert excluding.dtype == torch.float64


def test_pair_matrices():
    matrix = pair_matrix(3, 0.3)
    close(matrix, [[0.7, 0.3, 0], [0, 0.7, 0.3], [0.3, 0, 0.7]])
    close(torch.linalg.det(matrix), 0.37)
    close(pair_matrix(3, 0.3, {0: 2}), [[0.7, 0, 0.3], [0, 1, 0], [0, 0, 1]])


def test_published_maps():
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    words = {f"{names[a]} {names[b]}" for a, b in CIFAR10_PAIRS.items()}
    assert words == {"truck automobile", "bird airplane", "deer horse", "cat dog", "dog cat"}
    assert {f"{a}{b}" for a, b in MNIST_PAIRS.items()} == {"71", "27", "38", "56", "65"}
    assert Counter(_CIFAR100_COARSE) == dict.fromkeys(range(20), 5)
    walk = [4]
    for _ in range(5):
        walk.append(CIFAR100_NEXT[walk[-1]])
    assert walk == [4, 30, 55, 72, 95, 4]
    assert (CIFAR100_NEXT[0], CIFAR100_NEXT[1]) == (51, 32)
    assert sorted(CIFAR100_NEXT) == sorted(CIFAR100_NEXT.values()) == list(range(100))
    assert all(_CIFAR100_COARSE[a] == _CIFAR100_COARSE[b] for a, b in CIFAR100_NEXT.items())


@pytest.mark.parametrize("including", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_symmetric_realises_its_matrix(including, exact):
    y = labels(30_000, 3)
    noise = symmetric(y, 0.3, 3, including=including, exact=exact, seed=1)
    assert within_three_sigma(noise, y, symmetric_matrix(3, 0.3, including))
    rate = 0.2 if including else 0.3
    assert float(noise.mask.double().mean()) == pytest.approx(rate, abs=3 * math.sqrt(rate * (1 - rate) / 30_000))


@pytest.mark.parametrize(("n", "rate", "count"), [(1000, 0.3, 300), (7, 0.5, 3), (100, 0.29, 29), (5, 0.0, 0)])
def test_exact_counts(n, rate, count):
    assert int(symmetric(labels(n, 4), rate, 4, exact=True).mask.sum()) == count
    assert int(symmetric(labels(n, 4), rate, 4, exact=True, including=True).mask.sum()) <= count


@pytest.mark.parametrize(("mapping", "classes"), [(MNIST_PAIRS, 10), (CIFAR10_PAIRS, 10), (CIFAR100_NEXT, 100)])
def test_asymmetric_realises_its_matrix(mapping, classes):
    y = labels(500 * classes, classes)
    noise = asymmetric(y, 0.4, mapping, classes=classes, seed=3)
    matrix = pair_matrix(classes, 0.4, mapping)
    sigma = (0.24 / torch.bincount(y).double()).sqrt()[:, None]
    assert ((noise.transition - matrix).abs() <= 4 * sigma).all()
    assert ((noise.transition > 0) == (matrix > 0)).all()


def test_pairflip_realises_its_matrix():
    y = labels(20_000, 5)
    assert within_three_sigma(pairflip(y, 0.45, 5, seed=2), y, pair_matrix(5, 0.45))


@pytest.mark.parametrize("seed", range(5))
def test_derangement_moves_every_class_to_one_other(seed):
    noise = derangement(labels(5000, 6), 0.4, 6, seed=seed)
    off = noise.transition - noise.transition.diag().diag()
    assert ((off > 0).sum(1) == 1).all()
    assert ((off > 0).sum(0) == 1).all()
    assert off.sum(1) == pytest.approx(np.full(6, 0.4), abs=0.06)


def test_derangement_depends_on_the_seed():
    y = torch.arange(8)
    assert len({tuple(derangement(y, 1.0, 8, seed=s).labels.tolist()) for s in range(5)}) > 1


def test_instance_probabilities_of_the_worked_example():
    weights = torch.tensor([[0.0, 1, -1], [0, 0.5, 1]])
    p = instance_probabilities(torch.tensor([[1.0, 2.0]]), weights, 0, torch.tensor([0.3]))
    close(p, [[0.7, 0.219318, 0.080682]])


@pytest.mark.parametrize(("rate", "mean"), [(0.1, 0.128760), (0.3, 0.300444)])
def test_truncation_moves_the_mean(rate, mean):
    q = flip_rates(20_000, rate, np.random.default_rng(0))
    assert float(q.mean()) == pytest.approx(mean, abs=0.003)
    assert 0 <= float(q.min()) <= float(q.max()) <= 1
    noise = instance(inputs(20_000, 5), labels(20_000, 4), rate, 4)
    assert float(noise.mask.double().mean()) == pytest.approx(mean, abs=3 * math.sqrt(mean / 20_000))


def test_instance_noise_is_drawn_from_its_probabilities():
    x = torch.cat([torch.full((20_000, 1), -1.0), torch.full((20_000, 1), 1.0)])
    y = torch.zeros(40_000, dtype=torch.long)
    noise = instance(x, y, 0.4, 3, seed=5)
    rng = np.random.default_rng(5)
    flip_rates(40_000, 0.4, rng)
    rng.random(40_000)
    weights = torch.from_numpy(rng.standard_normal((1, 3), dtype=np.float32))
    for half, sign in ((noise.labels[:20_000], -1.0), (noise.labels[20_000:], 1.0)):
        p = instance_probabilities(torch.tensor([[sign]]), weights, 0, torch.tensor([0.4]))[0]
        share = torch.bincount(half, minlength=3).double() / 20_000
        assert (share - p).abs().max() < 0.012


def test_instance_noise_depends_on_the_input_alone():
    """Equal inputs of a class, however scaled or typed, are mistaken for the same classes."""
    x = torch.randint(256, (300, 3, 8, 8), generator=torch.Generator().manual_seed(0)).byte()
    y = labels(300, 4)
    noisy = instance(x, y, 0.5, 4, seed=2).labels
    assert torch.equal(noisy, instance(x.float() / 255, y, 0.5, 4, seed=2).labels)
    assert torch.equal(noisy, instance(7 * x.double() - 30, y, 0.5, 4, seed=2).labels)


def test_instance_noise_standardises_by_channel_or_feature():
    table = inputs(500, 4) * torch.tensor([1.0, 10, 100, 1000]) + 5
    y = labels(500, 3)
    plain = (table - table.mean(0)) / table.std(0, unbiased=False)
    assert torch.equal(instance(table, y, 0.5, 3).labels, instance(plain, y, 0.5, 3).labels)
    images = inputs(500, 2, 4, 4) * torch.tensor([1.0, 50]).reshape(2, 1, 1)
    by_channel = images / images.std((0, 2, 3), keepdim=True)
    by_pixel = images / images.std(0, keepdim=True)
    noisy = instance(images, y, 0.5, 3).labels
    assert torch.equal(noisy, instance(by_channel, y, 0.5, 3).labels)
    assert not torch.equal(noisy, instance(by_pixel, y, 0.5, 3).labels)


def test_instance_noise_by_parts_is_the_same(monkeypatch):
    x, y = inputs(200, 6), labels(200, 3)
    whole = instance(x, y, 0.4, 3)
    monkeypatch.setattr("holdfast.noise.part_dependent._ROWS", 7)
    assert torch.equal(whole.labels, instance(x, y, 0.4, 3).labels)


def test_instance_noise_bears_constant_features():
    x = torch.cat([inputs(100, 2), torch.ones(100, 1)], 1)
    assert int(instance(x, labels(100, 3), 0.5, 3).mask.sum()) > 20


DRAWS = {
    "symmetric": lambda y, rate, seed: symmetric(y, rate, 5, seed=seed),
    "including": lambda y, rate, seed: symmetric(y, rate, 5, including=True, seed=seed),
    "exact": lambda y, rate, seed: symmetric(y, rate, 5, exact=True, seed=seed),
    "asymmetric": lambda y, rate, seed: asymmetric(y, rate, next_class(5), classes=5, seed=seed),
    "pairflip": lambda y, rate, seed: pairflip(y, rate, 5, seed=seed),
    "derangement": lambda y, rate, seed: derangement(y, rate, 5, seed=seed),
    "instance": lambda y, rate, seed: instance(inputs(len(y), 6), y, rate, 5, seed=seed),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
class TestEveryKind:
    def test_seed_decides(self, draw):
        y = labels(500, 5)
        before = y.clone()
        state = torch.get_rng_state()
        first, again, other = draw(y, 0.3, 7), draw(y, 0.3, 7), draw(y, 0.3, 8)
        assert torch.equal(first.labels, again.labels)
        assert not torch.equal(first.labels, other.labels)
        assert torch.equal(y, before)
        assert torch.equal(torch.get_rng_state(), state)

    def test_what_it_returns(self, draw):
        y = labels(500, 5).clamp(max=3)
        noise = draw(y, 0.3, 0)
        assert noise.labels.dtype == torch.int64
        assert torch.equal(noise.mask, noise.labels != y)
        assert noise.mask.any()
        torch.testing.assert_close(noise.transition, realised_transition(y, noise.labels, 5))
        assert noise.transition[4].tolist() == [0, 0, 0, 0, 1]

    def test_no_noise_at_rate_zero(self, draw):
        assert not draw(labels(100, 5), 0.0, 0).mask.any()

    @pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
    def test_rate_out_of_range(self, draw, rate):
        with pytest.raises(HoldfastError, match="between 0 and 1"):
            draw(labels(10, 5), rate, 0)

    def test_rate_beyond_learning_is_allowed(self, draw):
        assert draw(labels(2000, 5), 0.9, 0).mask.double().mean() > 0.65

    def test_label_out_of_range(self, draw):
        with pytest.raises(HoldfastError, match="row 1 has label 5"):
            draw(torch.tensor([0, 5]), 0.3, 0)


def test_realised_transition():
    matrix = realised_transition(torch.tensor([0, 0, 0, 0, 2]), torch.tensor([0, 1, 1, 2, 2]), 3)
    assert matrix.tolist() == [[0.25, 0.5, 0.25], [0, 1, 0], [0, 0, 1]]


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="integers of shape"):
        symmetric(torch.rand(4), 0.2, 3)
    with pytest.raises(HoldfastError, match="two classes"):
        symmetric(torch.zeros(4, dtype=torch.long), 0.2, 1)
    with pytest.raises(HoldfastError, match="class 1 to 3"):
        asymmetric(labels(4, 3), 0.2, {1: 3}, classes=3)
    with pytest.raises(HoldfastError, match="3 inputs but 4 labels"):
        instance(inputs(3, 2), labels(4, 3), 0.2, 3)
    with pytest.raises(HoldfastError, match="4 clean labels beside 3"):
        realised_transition(labels(4, 3), labels(3, 3), 3)


@pytest.mark.parametrize("kind", KINDS)
def test_corrupt_by_name(kind):
    data = rows(200, 3, 5)
    noise = corrupt(kind, data, 0.3, 1)
    assert torch.equal(noise.labels, corrupt(kind, data, 0.3, 1).labels)
    assert 20 < int(noise.mask.sum()) < 100


def test_asymmetric_takes_the_map_of_the_data_set_and_not_of_what_looks_like_it():
    y = labels(600, 10)

    def planted(classes, *shape, **settings):
        data = Rows(inputs(600, *shape), y % len(classes), tuple(classes))
        return corrupt("asymmetric", data, 0.4, 2, **settings).labels

    def expected(mapping, classes=10):
        return asymmetric(y % classes, 0.4, mapping, classes=classes, seed=2).labels

    digits = "0123456789"
    assert torch.equal(planted(CIFAR10, 3, 6, 6), expected(CIFAR10_PAIRS))
    assert torch.equal(planted(CIFAR100, 3, 6, 6), expected(CIFAR100_NEXT, 100))
    # Fashion-MNIST has images and names like those of MNIST, and no class of it looks like a 7 or a 1.
    assert torch.equal(planted(digits, 1, 28, 28), expected(next_class(10)))
    assert torch.equal(planted(digits, 1, 28, 28, pairs="mnist"), expected(MNIST_PAIRS))
    assert torch.equal(planted(CIFAR10, 3, 6, 6, pairs="next"), expected(next_class(10)))
    # A table of as many classes as CIFAR-100 is not CIFAR-100.
    assert torch.equal(planted([str(c) for c in range(100)], 7), expected(next_class(100), 100))
    with pytest.raises(HoldfastError, match="pairs is mnist or cifar10"):
        planted(digits, 7, pairs="minst")


@pytest.mark.parametrize("kind", ["asymmetric", "instance"])
def test_corrupt_reads_datasets(kind):
    data = rows(300, 10, 3, 4, 4)
    listed = Rows(TensorDataset(data.x, data.y), data.y, data.classes)
    assert torch.equal(corrupt(kind, data, 0.4, 2).labels, corrupt(kind, listed, 0.4, 2).labels)


def test_corrupt_names_mistakes():
    with pytest.raises(HoldfastError, match=r"symmetric, asymmetric.*did you mean pairflip"):
        corrupt("pair-flip", rows(5, 3, 2), 0.3, 0)
    with pytest.raises(HoldfastError, match="noise in targets"):
        corrupt("symmetric", Rows(inputs(5, 2), torch.rand(5, 1)), 0.3, 0)
    ragged = Rows([torch.zeros(2), torch.zeros(3)], torch.tensor([0, 1]), ("a", "b"))
    with pytest.raises(HoldfastError, match=r"row 1 has an input of shape \(3,\)"):
        corrupt("instance", ragged, 0.3, 0)
