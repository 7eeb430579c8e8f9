import time

import numpy as np
import pytest
import torch

from holdfast.errors import HoldfastError
from holdfast.select import (
    Selection,
    central,
    centrality,
    cluster_weights,
    facility,
    facility_location,
    nearest,
    radius_weights,
)

PROXIES = torch.tensor([0, 0.1, 0.2, 0.3, 5, 5.2, 9], dtype=torch.float64)[:, None]
ALL = torch.arange(7)


def distance_matrix(points):
    p = points.double().numpy()
    return np.sqrt(((p[:, None] - p[None]) ** 2).sum(-1)).astype(np.float32).astype(np.float64)


def value(distances, chosen):
    """F(S) = sum_i max_{j in S} (d0 - d_ij), as written in the paper."""
    d0 = distances.max()
    return sum(max(d0 - distances[i, j] for j in chosen) for i in range(len(distances)))


def textbook_greedy(distances, k):
    """Add the point of largest gain, k times; the first of equals."""
    d0 = distances.max()
    kept = np.zeros(len(distances))
    chosen, gains = [], []
    for _ in range(k):
        gain = np.maximum(d0 - distances - kept[None], 0).sum(1)
        gain[chosen] = -1
        chosen.append(int(gain.argmax()))
        gains.append(gain.max())
        kept = np.maximum(kept, d0 - distances[chosen[-1]])
    return chosen, gains


def random_points(kind, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    if kind == "normal":
        points = rng.normal(size=(n, 3))
    elif kind == "grid":
        points = rng.integers(0, 4, size=(n, 2))
    elif kind == "duplicates":
        points = rng.normal(size=(4, 3))[rng.integers(0, 4, size=n)]
    else:
        points = np.ones((n, 2))
    return torch.from_numpy(points.astype(np.float32)), int(rng.integers(1, n + 1))


def check_whole(selection: Selection, n: int, k: int):
    assert selection.index.shape == selection.weight.shape == selection.gain.shape == (k,)
    assert selection.index.unique().numel() == k
    assert selection.weight.sum() == n
    assert selection.weight.min() >= 1
    assert selection.assignment[selection.index].tolist() == list(range(k))


def test_greedy_on_the_worked_example():
    found = facility_location(PROXIES, 3)
    assert found.index.tolist() == [3, 5, 6]
    torch.testing.assert_close(found.gain.cumsum(0).tolist(), [44.1, 58.4, 62.2], atol=1e-5, rtol=0)
    assert found.objective == pytest.approx(62.2, abs=1e-5)
    assert found.weight.tolist() == [4, 2, 1]
    assert found.assignment.tolist() == [0, 0, 0, 0, 1, 1, 2]
    cost = (PROXIES - PROXIES[found.index[found.assignment]]).abs().sum()
    assert float(cost) == pytest.approx(0.8)


def test_central_on_the_worked_example():
    found = central(PROXIES, 3)
    assert found.index.tolist() == [3, 2, 1]
    torch.testing.assert_close(found.gain.tolist(), [-18.9 / 7, -19 / 7, -19.3 / 7], atol=1e-5, rtol=0)
    check_whole(found, 7, 3)


def test_radius_counts_of_the_worked_example():
    assert radius_weights(PROXIES, ALL, 0.25).tolist() == [3, 4, 4, 3, 2, 2, 1]
    assert radius_weights(PROXIES, ALL, 2.0).tolist() == [4, 4, 4, 4, 2, 2, 1]
    assert radius_weights(PROXIES, torch.tensor([6, 1]), 0.25).tolist() == [1, 4]


def test_radius_is_open():
    points = torch.tensor([[0.0], [1.0], [2.0]])
    assert radius_weights(points, torch.tensor([1]), 1.0).tolist() == [1]


@pytest.mark.parametrize("kind", ["normal", "grid", "duplicates", "constant"])
@pytest.mark.parametrize("block", range(5))
def test_greedy_is_the_textbook_greedy(kind, block):
    for seed in range(20 * block, 20 * block + 20):
        points, k = random_points(kind, seed)
        distances = distance_matrix(points)
        found = facility_location(points, k)
        chosen, gains = textbook_greedy(distances, k)
        assert found.index.tolist() == chosen
        np.testing.assert_allclose(found.gain, gains, atol=1e-6)
        assert found.objective == pytest.approx(value(distances, chosen), abs=1e-5)
        assert (found.gain.diff() <= 0).all()
        check_whole(found, len(points), k)
        reached = distances[np.arange(len(points)), found.index[found.assignment].numpy()]
        np.testing.assert_array_equal(reached, distances[:, chosen].min(1))


@pytest.mark.parametrize("kind", ["normal", "grid", "duplicates", "constant"])
def test_central_is_the_sorted_sum(kind):
    for seed in range(50):
        points, k = random_points(kind, seed)
        total = distance_matrix(points).sum(1)
        found = central(points, k)
        assert found.index.tolist() == np.argsort(total, kind="stable")[:k].tolist()
        assert found.objective == pytest.approx(float(found.gain.sum()))
        check_whole(found, len(points), k)


@pytest.mark.parametrize("select", [facility_location, central])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_all_and_one(select, dtype):
    points = torch.randn(9, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    everything = select(points, 9)
    assert sorted(everything.index.tolist()) == list(range(9))
    assert everything.weight.tolist() == [1] * 9
    one = select(points, 1)
    assert one.index.tolist() == [int(distance_matrix(points).sum(1).argmin())]
    assert one.weight.tolist() == [9]


def test_single_point():
    assert facility_location(torch.zeros(1, 2), 1).index.tolist() == [0]
    assert central(torch.zeros(1, 2), 1).objective == 0


def test_blocks_do_not_matter(monkeypatch):
    points = torch.randn(50, 3, generator=torch.Generator().manual_seed(2))
    before = facility_location(points, 9), central(points, 9), radius_weights(points, torch.arange(50), 1.0)
    monkeypatch.setattr("holdfast.select.weights._BLOCK", 120)
    after = facility_location(points, 9), central(points, 9), radius_weights(points, torch.arange(50), 1.0)
    torch.testing.assert_close(before, after, rtol=0, atol=0)


def test_reference_points():
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(3))
    for enough in (40, 41):
        assert torch.equal(centrality(points, enough), centrality(points))
    draw = [central(points, 5, 6, torch.Generator().manual_seed(s)) for s in (4, 4, 5)]
    assert draw[0].gain.tolist() == draw[1].gain.tolist() != draw[2].gain.tolist()
    drawn = torch.randperm(40, generator=torch.Generator().manual_seed(4))[:6].numpy()
    mean = distance_matrix(points)[:, drawn].mean(1)
    np.testing.assert_allclose(draw[0].gain, -np.sort(mean)[:5], atol=1e-6)
    state = torch.get_rng_state()
    central(points, 5, reference=6)
    assert torch.equal(state, torch.get_rng_state())


def test_cluster_weights_agree_with_the_selection():
    points = torch.randn(60, 3, generator=torch.Generator().manual_seed(5))
    found = facility_location(points, 11)
    assert cluster_weights(points, found.index).tolist() == found.weight.tolist()
    assert torch.equal(nearest(points, found.index), found.assignment)


@pytest.mark.parametrize("select", [facility_location, central])
@pytest.mark.parametrize("k", [0, -1, 8])
def test_size_out_of_range(select, k):
    with pytest.raises(HoldfastError, match=f"cannot select {k} of 7"):
        select(PROXIES, k)


def test_mistakes_are_named(monkeypatch):
    with pytest.raises(HoldfastError, match="point 1 is NaN"):
        facility_location(torch.tensor([[0.0], [torch.nan]]), 1)
    with pytest.raises(HoldfastError, match=r"shape \(n, d\)"):
        central(torch.zeros(3), 1)
    with pytest.raises(HoldfastError, match="radius must be positive"):
        radius_weights(PROXIES, ALL, 0)
    with pytest.raises(HoldfastError, match="0 to 6"):
        cluster_weights(PROXIES, torch.tensor([7]))
    with pytest.raises(HoldfastError, match="compare with 0"):
        central(PROXIES, 2, reference=0)
    monkeypatch.setattr(facility, "LIMIT", 6)
    with pytest.raises(HoldfastError, match="class by class"):
        facility_location(PROXIES, 2)


def test_half_of_three_thousand_in_five_seconds():
    facility_location(PROXIES, 2)
    points = torch.randn(3000, 10, generator=torch.Generator().manual_seed(6))
    start = time.perf_counter()
    found = facility_location(points, 1500)
    assert time.perf_counter() - start < 5
    check_whole(found, 3000, 1500)


def test_distances_far_from_the_origin():
    points = torch.tensor([[0.0], [1e-4], [0.0], [3e-4], [1e-4]], dtype=torch.float64) + 1e5
    assert radius_weights(points, torch.arange(5), 1e-6).tolist() == [2, 2, 2, 1, 2]
    assert facility_location(points, 3).index.tolist() == textbook_greedy(distance_matrix(points), 3)[0]
