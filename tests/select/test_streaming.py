import numpy as np
import pytest
import torch

from holdfast.errors import HoldfastError
from holdfast.select.streaming import SieveStreaming, stream


def islands(n, seed=0):
    """Twelve clusters in six dimensions, in random order."""
    source = torch.Generator().manual_seed(seed)
    centres = 5 * torch.randn(12, 6, generator=source)
    return centres[torch.randint(12, (n,), generator=source)] + torch.randn(n, 6, generator=source)


def distances(left, right):
    return torch.cdist(left.double(), right.double()).numpy()


def loss(points, chosen):
    return distances(points, chosen).min(1).sum()


def sieved(points, k, epsilon, phantom, between):
    """Sieve-streaming as written in the paper, one point after another; value of the best sieve."""
    alone = np.maximum(phantom - between, 0).sum(1)
    top, best = alone.max(), 0.0
    low, high = np.ceil(np.log(top) / np.log1p(epsilon)), np.floor(np.log(2 * k * top) / np.log1p(epsilon))
    for power in np.arange(low, high + 1):
        guess, nearest, value = (1 + epsilon) ** power, phantom.copy(), 0.0
        size = 0
        for row in between:
            gain = np.maximum(nearest - row, 0).sum()
            if size < k and gain > 0 and gain >= (guess / 2 - value) / (k - size):
                nearest, value, size = np.minimum(nearest, row), value + gain, size + 1
        best = max(best, value)
    return best


def test_sieves_are_those_of_the_paper():
    points = islands(300)
    sieve = SieveStreaming(9, epsilon=0.2, reference=300).update(points)
    between = distances(points, points)
    expected = sieved(points, 9, 0.2, between.mean(1), between)
    assert sieve._value.max() * sieve._like.unit == pytest.approx(expected, rel=1e-4)


def test_sieves_keep_their_guarantee():
    points = islands(400)
    between = distances(points, points)
    phantom = between.mean(1)
    for k in (1, 5, 20):
        sieve = SieveStreaming(k, epsilon=0.1, reference=400).update(points)
        nearest, best = phantom.copy(), 0.0
        for _ in range(k):
            gain = np.maximum(nearest - between, 0).sum(1)
            best += gain.max()
            nearest = np.minimum(nearest, between[gain.argmax()])
        assert sieve._value.max() * sieve._like.unit >= (0.5 - 0.1) * best
        found = sieve.result()
        value = np.maximum(phantom - distances(points, points[found.index]).min(1), 0).sum()
        assert value >= 0.99 * sieve._value.max() * sieve._like.unit
        assert value >= 0.9 * best


def test_chunks_do_not_matter_once_the_reference_is_whole():
    points = islands(900)
    sample = (torch.arange(0, 900, 3), points[::3])
    found = []
    for size in (900, 128, 7):
        sieve = SieveStreaming(8, sample=sample)
        for chunk in points.split(size):
            sieve.update(chunk)
        found.append(sieve.result().index.tolist())
    # Sieves that open later have seen less: picks may differ between sizes, their worth hardly does.
    losses = [loss(points, points[index]) for index in found]
    assert max(losses) < 1.1 * min(losses)


def test_a_reservoir_is_a_uniform_sample():
    rows = torch.arange(4000.0)[:, None]
    sieve = SieveStreaming(3, reference=400)
    for chunk in rows.split(250):
        sieve.update(chunk)
    sampled = np.sort(sieve._row)
    assert len(np.unique(sampled)) == 400
    np.testing.assert_allclose(sieve._sample[:, 0] * sieve._like.unit + sieve._like.mean.item(), sieve._row, rtol=1e-5)
    assert abs(sampled.mean() - 2000) < 4 * 4000 / np.sqrt(12 * 400)
    assert np.histogram(sampled, 4, (0, 4000))[0].min() > 60


def test_values_follow_the_reservoir():
    points = islands(1500)
    sieve = SieveStreaming(6, reference=200)
    for chunk in points.split(100):
        sieve.update(chunk)
    for v in range(len(sieve._value)):
        picks = sieve._stored[sieve._picks[v, : sieve._size[v]]]
        reached = distances(torch.from_numpy(sieve._sample), torch.from_numpy(picks)).min(1)
        value = np.maximum(sieve._phantom - reached, 0).sum()
        assert sieve._value[v] == pytest.approx(value, rel=1e-4)


def test_estimate_and_second_look():
    points = islands(3000)
    sieve = SieveStreaming(30, reference=1500)
    for chunk in points.split(500):
        sieve.update(chunk)
    found = sieve.result()
    assert found.index.unique().numel() == 30
    assert found.assignment.numel() == 0
    assert float(found.weight.sum()) == pytest.approx(3000)
    torch.testing.assert_close(sieve.points_.float(), points[found.index], rtol=1e-4, atol=1e-4)
    truth = loss(points, points[found.index])
    assert abs(found.objective - truth) < 4 * sieve.error_ + 0.02 * truth
    owner, distance, gain = sieve.assign(points)
    assert float(distance.sum()) == pytest.approx(truth, rel=1e-4)
    assert np.array_equal(owner.numpy(), distances(points, points[found.index]).argmin(1))
    assert gain.shape == (30,)
    chance = loss(points, points[:30])
    assert truth < 0.9 * chance


def test_a_file_is_read_twice_and_measured_whole(tmp_path):
    points = islands(5000)
    np.save(tmp_path / "points.npy", points.numpy())
    found = stream(tmp_path / "points.npy", 25)
    assert found.index.unique().numel() == 25
    assert found.objective == pytest.approx(loss(points, points[found.index]), rel=1e-4)
    assert float(found.weight.sum()) == 5000
    assert found.assignment[found.index].tolist() == list(range(25))
    again = stream(str(tmp_path / "points.npy"), 25)
    assert again.index.tolist() == found.index.tolist()


def test_chunks_are_let_go():
    """A stream far larger than what is kept: only reference and picks stay."""
    source = torch.Generator().manual_seed(0)
    sieve = SieveStreaming(4, reference=100)
    for _ in range(40):
        sieve.update(torch.randn(1000, 3, generator=source))
    assert sieve.seen == 40_000
    assert len(sieve._stored) <= 4 * len(sieve._value)
    assert sieve._sample.shape == (100, 4)


def test_arrays_and_short_streams():
    chunks = [np.array([[0.0], [1.0]]), np.zeros((0, 1)), np.array([[9.0]])]
    found = stream(iter(chunks), 2)
    assert sorted(found.index.tolist()) in ([0, 2], [1, 2])
    assert found.objective == 1


def test_mistakes_are_named(tmp_path):
    with pytest.raises(HoldfastError, match="at least 1"):
        SieveStreaming(0)
    with pytest.raises(HoldfastError, match="epsilon"):
        SieveStreaming(2, epsilon=1)
    with pytest.raises(HoldfastError, match="give it 5 or more"):
        SieveStreaming(5, reference=4)
    with pytest.raises(HoldfastError, match="cannot select 3 of 2"):
        SieveStreaming(3).update(torch.zeros(2, 1)).result()
    with pytest.raises(HoldfastError, match="starts at row 2 has 3 columns"):
        SieveStreaming(1).update(torch.zeros(2, 2)).update(torch.zeros(2, 3))
    with pytest.raises(HoldfastError, match="starts at row 2: point 1 is NaN"):
        SieveStreaming(1).update(torch.zeros(2, 1)).update(torch.tensor([[0.0], [torch.nan]]))
    with pytest.raises(HoldfastError, match="call it first"):
        SieveStreaming(1).assign(torch.zeros(2, 1))
    with pytest.raises(HoldfastError, match="cannot be read"):
        stream(tmp_path / "absent.npy", 1)
    np.save(tmp_path / "flat.npy", np.zeros(4))
    with pytest.raises(HoldfastError, match=r"shape \(n, d\)"):
        stream(tmp_path / "flat.npy", 1)
