"""Exact selection against the textbook greedy, on both of its engines and on a device."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.select import (
    FacilityLocation,
    Selection,
    central,
    centrality,
    cluster_weights,
    facility_location,
    k_medoids,
    nearest,
    radius_weights,
)
from holdfast.select.device import device_greedy
from holdfast.select.facility import FEW

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


def untied(distances, chosen):
    """How many picks come before the first whose gain another candidate shares, as a pair far from all others does."""
    best = np.full(len(distances), distances.max())
    for step, pick in enumerate(chosen):
        gain = np.maximum(best[None] - distances, 0).sum(1)
        if np.sort(gain)[-2:].min() >= gain[pick] * (1 - 1e-9):
            return step
        best = np.minimum(best, distances[pick])
    return len(chosen)


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
    assert len(set(selection.index.tolist())) == k
    assert selection.weight.sum() == n
    assert selection.weight.min() >= 1
    assert selection.assignment[selection.index].tolist() == list(range(k))


def test_greedy_on_the_worked_example():
    found = facility_location(PROXIES, 3)
    assert found.index.tolist() == [3, 5, 6]
    torch.testing.assert_close(found.gain.cumsum(0).tolist(), [44.1, 58.4, 62.2], atol=1e-5, rtol=0)
    assert found.objective == pytest.approx(0.8, abs=1e-5)
    assert found.weight.tolist() == [4, 2, 1]
    assert found.assignment.tolist() == [0, 0, 0, 0, 1, 1, 2]


def test_swaps_find_the_best_medoids_of_the_worked_example():
    found = k_medoids(PROXIES, 3)
    assert found.objective == pytest.approx(0.6, abs=1e-5)
    check_whole(found, 7, 3)


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


@pytest.fixture(params=["matrix", "lists"])
def engine(request, monkeypatch):
    """Both ways to find the same picks, whatever the number of points."""
    monkeypatch.setattr("holdfast.select.facility.FEW", 10**6 if request.param == "matrix" else 0)
    return request.param


@pytest.mark.parametrize("kind", ["normal", "grid", "duplicates", "constant"])
@pytest.mark.parametrize("block", range(5))
@pytest.mark.usefixtures("engine")
def test_greedy_is_the_textbook_greedy(kind, block):
    for seed in range(20 * block, 20 * block + 20):
        points, k = random_points(kind, seed)
        distances = distance_matrix(points)
        found = facility_location(points, k)
        chosen, gains = textbook_greedy(distances, k)
        assert found.index.tolist() == chosen
        np.testing.assert_allclose(found.gain, gains, atol=1e-6)
        assert float(found.gain.sum()) == pytest.approx(value(distances, chosen), abs=1e-5)
        assert found.objective == pytest.approx(distances[:, chosen].min(1).sum(), abs=1e-5)
        assert (found.gain.diff() <= 0).all()
        check_whole(found, len(points), k)
        reached = distances[np.arange(len(points)), found.index[found.assignment].numpy()]
        np.testing.assert_array_equal(reached, distances[:, chosen].min(1))
        picked, gain, _, loss = device_greedy(points, k, False)
        assert picked.tolist() == chosen
        np.testing.assert_allclose(gain, gains, atol=1e-6)
        assert loss == pytest.approx(found.objective)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
def test_no_pick_falls_short_of_the_best(metric):
    """Replay in float64, past the point where lists are long, move and are dropped."""
    generator = np.random.default_rng(7)
    centres = generator.normal(size=(30, 9))
    points = (centres[generator.integers(0, 30, 2500)] + 0.3 * generator.normal(size=(2500, 9))).astype(np.float32)
    points = points @ generator.normal(size=(9, 20)).astype(np.float32)
    assert len(points) > FEW
    found = facility_location(points, 1250, metric=metric)
    exact = points.astype(np.float64)
    if metric == "cosine":
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    d = np.square(exact[:, None] - exact[None]).sum(-1)
    d = np.sqrt(d) if metric == "euclidean" else d / 2 if metric == "cosine" else d
    best = np.full(2500, d.max())
    for step, pick in enumerate(found.index):
        if step in range(20) or step % 25 == 0:
            gains = np.maximum(best[None] - d, 0).sum(1)
            assert gains[pick] >= gains.max() * (1 - 1e-6)
            assert gains[pick] == pytest.approx(found.gain[step], rel=1e-5)
        best = np.minimum(best, d[pick])
    assert found.objective == pytest.approx(best.sum(), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 5), st.floats(0.01, 0.99))
def test_permuting_rows_permutes_the_picks(seed, n, d, share):
    generator = np.random.default_rng(seed)
    points, order = generator.normal(size=(n, d)), generator.permutation(n)
    before, after = facility_location(points, share), facility_location(points[order], share)
    sure = untied(distance_matrix(torch.from_numpy(points)), before.index)
    assert order[after.index[:sure]].tolist() == before.index[:sure].tolist()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=1, max_size=6), st.sampled_from([1, 2, 3]))
def test_groups_equal_separate_calls(seed, sizes, threads):
    generator = np.random.default_rng(seed)
    label = generator.permutation(np.repeat(np.arange(len(sizes)) * 3 - 1, sizes))
    points = generator.normal(size=(len(label), 3)).astype(np.float32)
    found = facility_location(points, 0.4, groups=label, threads=threads)
    at, loss = 0, 0.0
    for name in np.unique(label):
        rows = np.flatnonzero(label == name)
        alone = facility_location(points[rows], 0.4)
        k = len(alone.index)
        assert found.index[at : at + k].tolist() == rows[alone.index].tolist()
        assert found.gain[at : at + k].tolist() == alone.gain.tolist()
        assert (found.assignment[rows] - at).tolist() == alone.assignment.tolist()
        at, loss = at + k, loss + alone.objective
    assert len(found.index) == at
    assert found.objective == pytest.approx(loss)
    assert found.weight.sum() == len(label)


def test_one_huge_group_among_tiny_ones():
    label = torch.tensor([0] * 3000 + [1, 2, 2, 3])
    points = torch.randn(3004, 4, generator=torch.Generator().manual_seed(8))
    found = facility_location(points, [1500, 1, 1, 1], groups=label)
    assert torch.bincount(label[found.index]).tolist() == [1500, 1, 1, 1]
    with pytest.raises(HoldfastError, match="group 1: cannot select 5 of 1"):
        facility_location(points, 5, groups=label)
    with pytest.raises(HoldfastError, match="4 groups need as many"):
        facility_location(points, [1, 1], groups=label)
    with pytest.raises(HoldfastError, match="groups must be 3004 integers"):
        facility_location(points, 1, groups=label[:7])


def test_swaps_lower_the_loss_until_none_does():
    points = np.random.default_rng(9).normal(size=(120, 2))
    greedy, found = facility_location(points, 12), k_medoids(points, 12)
    d = np.sqrt(np.square(points[:, None] - points[None]).sum(-1))
    chosen = found.index.tolist()
    loss = d[:, chosen].min(1).sum()
    assert loss < greedy.objective * 0.999
    assert found.objective == pytest.approx(loss, rel=1e-6)
    check_whole(found, 120, 12)
    for s in range(12):
        rest = chosen[:s] + chosen[s + 1 :]
        assert found.gain[s] == pytest.approx(d[:, rest].min(1).sum() - loss, rel=1e-4)
        for j in set(range(120)) - set(chosen):
            assert np.minimum(d[:, rest].min(1), d[:, j]).sum() > loss * (1 - 1e-6)


def test_swaps_survive_duplicates():
    points = np.random.default_rng(10).integers(0, 3, size=(200, 2)).astype(np.float32)
    for k in (2, 5, 9, 30):
        found = k_medoids(points, k)
        check_whole(found, 200, k)
        assert found.objective <= facility_location(points, k).objective
    assert found.objective == 0


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
@pytest.mark.usefixtures("engine")
def test_metrics_equal_a_precomputed_matrix(metric):
    points = torch.randn(80, 5, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
    unit = points / points.norm(dim=1, keepdim=True)
    d = {
        "euclidean": torch.cdist(points, points),
        "sqeuclidean": torch.cdist(points, points).square(),
        "cosine": 1 - unit @ unit.T,
    }[metric]
    d = ((d + d.T) / 2).clamp_min(0).fill_diagonal_(0)
    found, given_ = facility_location(points, 20, metric=metric), facility_location(d, 20, metric="precomputed")
    assert found.index.tolist() == given_.index.tolist()
    torch.testing.assert_close(found.gain, given_.gain, rtol=1e-5, atol=1e-6)
    assert found.objective == pytest.approx(given_.objective, rel=1e-5)


def test_many_axes_take_the_matrix_and_find_the_same(monkeypatch):
    points = torch.randn(900, 100, generator=torch.Generator().manual_seed(12))
    dense = facility_location(points, 90)
    monkeypatch.setattr("holdfast.select.facility.MANY_AXES", 1000)
    lists = facility_location(points, 90)
    assert dense.index.tolist() == lists.index.tolist()
    assert dense.objective == pytest.approx(lists.objective, rel=1e-6)


def test_kinds_of_arrays():
    points = np.random.default_rng(13).normal(size=(40, 6))
    want = facility_location(points, 8)
    assert isinstance(want.index, np.ndarray)
    for other in (points[:, ::-1], np.asfortranarray(points), points.astype(">f8"), points[::-1][::-1]):
        assert facility_location(other, 8).objective == pytest.approx(want.objective)
    found = facility_location(torch.from_numpy(points).T.contiguous().T.requires_grad_(), 8)
    assert isinstance(found.index, torch.Tensor)
    assert found.index.tolist() == want.index.tolist()
    frozen = points.copy()
    frozen.setflags(write=False)
    assert facility_location(frozen, 8).index.tolist() == want.index.tolist()
    assert isinstance(central(points, 3).index, np.ndarray)
    assert isinstance(centrality(points).mean, np.ndarray)
    assert isinstance(nearest(points, want.index), np.ndarray)


def test_scikit_learn_manner():
    points = np.random.default_rng(14).normal(size=(60, 3))
    label = np.array(["a", "b", "c"])[np.arange(60) % 3]
    chooser = FacilityLocation(0.2)
    np.testing.assert_array_equal(chooser.fit(points, label).transform(points), points[chooser.index_])
    assert np.unique(label[chooser.index_], return_counts=True)[1].tolist() == [4, 4, 4]
    assert FacilityLocation(5).fit(points.tolist()).index_.tolist() == facility_location(points, 5).index.tolist()


def test_what_does_not_fit_is_refused_before_it_starts():
    points = np.zeros((100_000, 8), np.float32)
    with pytest.raises(HoldfastError, match=r"100,000 points would take about .* MB, more than the 1\.0 MB"):
        facility_location(points, 10, memory="1MB")
    with pytest.raises(HoldfastError, match="cannot read 'lots'"):
        facility_location(points[:10], 1, memory="lots")


def test_a_small_budget_changes_no_pick():
    points = np.random.default_rng(15).normal(size=(600, 4)).astype(np.float32)
    lists, matrix = (facility_location(points, 300, memory=memory) for memory in ("2MB", "1GB"))
    assert lists.index.tolist() == matrix.index.tolist()


def test_progress_tells_the_forecast(capfd):
    facility_location(np.random.default_rng(16).normal(size=(1000, 4)), 100, progress=True)
    assert "1,000 points: about" in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["normal", "grid", "duplicates", "constant"])
def test_central_is_the_sorted_sum(kind):
    for seed in range(50):
        points, k = random_points(kind, seed)
        total = distance_matrix(points).sum(1)
        found = central(points, k)
        assert found.index.tolist() == np.argsort(total, kind="stable")[:k].tolist()
        assert found.objective == pytest.approx(distance_matrix(points)[:, found.index.tolist()].min(1).sum(), abs=1e-5)
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
    monkeypatch.setattr("holdfast.select.points._BLOCK", 120)
    after = facility_location(points, 9), central(points, 9), radius_weights(points, torch.arange(50), 1.0)
    torch.testing.assert_close(before, after, rtol=0, atol=0)


def test_reference_points():
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(3))
    for enough in (40, 41):
        assert torch.equal(centrality(points, enough).mean, centrality(points).mean)
        assert not centrality(points, enough).error.any()
    draw = [central(points, 5, 6, torch.Generator().manual_seed(s)) for s in (4, 4, 5)]
    assert draw[0].gain.tolist() == draw[1].gain.tolist() != draw[2].gain.tolist()
    drawn = torch.randperm(40, generator=torch.Generator().manual_seed(4))[:6].numpy()
    mean = distance_matrix(points)[:, drawn].mean(1)
    np.testing.assert_allclose(draw[0].gain, -np.sort(mean)[:5], atol=1e-6)
    state = torch.get_rng_state()
    central(points, 5, reference=6)
    assert torch.equal(state, torch.get_rng_state())


def test_the_error_bar_of_a_sample_covers_the_truth():
    points = torch.randn(2000, 5, generator=torch.Generator().manual_seed(17))
    truth, guess = centrality(points).mean, centrality(points, 200)
    off = ((guess.mean - truth) / guess.error).abs()
    assert 0.1 < float((off > 1).double().mean()) < 0.6
    assert float(off.max()) < 5


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


def test_mistakes_are_named():
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
    with pytest.raises(HoldfastError, match="metric is one of euclidean"):
        facility_location(PROXIES, 2, metric="manhattan")
    with pytest.raises(HoldfastError, match="point 0 is zero and has no direction"):
        facility_location(PROXIES, 2, metric="cosine")
    with pytest.raises(HoldfastError, match="must be square"):
        facility_location(PROXIES, 2, metric="precomputed")
    with pytest.raises(HoldfastError, match="must be symmetric"):
        facility_location(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), 1, metric="precomputed")
    with pytest.raises(HoldfastError, match="must not be negative"):
        facility_location(torch.tensor([[0.0, -1.0], [-1.0, 0.0]]), 1, metric="precomputed")
    with pytest.raises(HoldfastError, match="k_medoids takes points"):
        k_medoids(torch.zeros(2, 2), 1, metric="precomputed")
    with pytest.raises(HoldfastError, match="no points"):
        facility_location(torch.zeros(0, 2), 1)
    with pytest.raises(HoldfastError, match="not int64"):
        facility_location(np.zeros((3, 2), np.int64), 1)
    with pytest.raises(HoldfastError, match=r"cannot select 1\.5 of 7"):
        facility_location(PROXIES, 1.5)
    with pytest.raises(HoldfastError, match="needs groups"):
        facility_location(PROXIES, [1, 2])


def test_distances_far_from_the_origin():
    points = torch.tensor([[0.0], [1e-4], [0.0], [3e-4], [1e-4]], dtype=torch.float64) + 1e5
    assert radius_weights(points, torch.arange(5), 1e-6).tolist() == [2, 2, 2, 1, 2]
    assert facility_location(points, 3).index.tolist() == textbook_greedy(distance_matrix(points), 3)[0]
