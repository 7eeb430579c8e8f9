"""What every algorithm of the family owes on any input, by property tests."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from holdfast.select import facility_location
from holdfast.select.distributed import greedi
from holdfast.select.stochastic import stochastic_greedy
from holdfast.select.streaming import SieveStreaming


def streamed(points, k):
    """One pass, then a second look, which makes a stream's result comparable with the others."""
    sieve = SieveStreaming(k)
    for chunk in points.split(7):
        sieve.update(chunk)
    found = sieve.result()
    owner, distance, gain = sieve.assign(points)
    owner[found.index] = torch.arange(k)
    return found._replace(assignment=owner, gain=gain, objective=float(distance.double().sum()))


FAMILY = {
    "stochastic": stochastic_greedy,
    "greedi": lambda points, k: greedi(points, k, parts=min(3, len(points))),
    "streaming": streamed,
}
each = pytest.mark.parametrize("select", FAMILY.values(), ids=FAMILY.keys())


@st.composite
def problems(draw):
    n, d = draw(st.integers(1, 24)), draw(st.integers(1, 6))
    kind = draw(st.sampled_from(["grid", "float", "duplicates"]))
    if kind == "grid":
        points = draw(hnp.arrays(np.float64, (n, d), elements=st.integers(-3, 3).map(float)))
    elif kind == "float":
        points = draw(hnp.arrays(np.float64, (n, d), elements=st.floats(-100, 100, width=32)))
    else:
        points = draw(hnp.arrays(np.float64, (2, d), elements=st.floats(-4, 4, width=16)))[np.arange(n) % 2]
    dtype = draw(st.sampled_from([torch.float16, torch.float32, torch.float64]))
    return torch.from_numpy(points).to(dtype), draw(st.integers(1, n))


def distances(points):
    p = points.double().numpy()
    return np.sqrt(((p[:, None] - p[None]) ** 2).sum(-1))


@each
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_whole_and_recomputed(select, problem):
    points, k = problem
    n = len(points)
    before = points.clone()
    found = select(points, k)
    between = distances(points)
    reached = between[:, found.index.numpy()].min(1)
    slack = 1e-4 * max(1.0, between.max())
    assert found.index.shape == found.gain.shape == found.weight.shape == (k,)
    assert found.index.unique().numel() == k
    assert 0 <= int(found.index.min()) <= int(found.index.max()) < n
    assert found.objective == pytest.approx(reached.sum(), abs=n * slack)
    assert float(found.weight.sum()) == pytest.approx(n)
    assert found.assignment[found.index].tolist() == list(range(k))
    np.testing.assert_allclose(between[np.arange(n), found.index[found.assignment].numpy()], reached, atol=slack)
    if k == n:
        assert found.objective <= n * slack
    assert torch.equal(points, before)
    # Each gain is what the losses before and after differ by; the first has its own start.
    losses = [between[:, found.index[: t + 1].numpy()].min(1).sum() for t in range(k)]
    np.testing.assert_allclose(found.gain[1:], -np.diff(losses), atol=n * slack)
    centre = points.double().numpy().mean(0)
    width = 2 * np.sqrt(((points.double().numpy() - centre) ** 2).sum(1)).max()
    assert float(found.gain[0]) == pytest.approx(n * width - losses[0], abs=2 * n * slack)


@each
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_value_against_exact_greedy(select, problem):
    """F with the largest distance as offset: at least (1 - 1/e) / 2 of exact greedy's, the least of the guarantees."""
    points, k = problem
    between = distances(points)
    ceiling = len(points) * between.max()
    exact = ceiling - between[:, facility_location(points, k).index.numpy()].min(1).sum()
    value = ceiling - between[:, select(points, k).index.numpy()].min(1).sum()
    assert value >= (1 - 1 / np.e) / 2 * exact - 1e-4


@each
def test_layout_and_kind_do_not_matter(select):
    wide = torch.randn(40, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    strided = wide[:, ::3]
    assert not strided.is_contiguous()
    expected = select(strided.contiguous(), 9).index.tolist()
    assert select(strided, 9).index.tolist() == expected
    assert select(strided.float(), 9).index.tolist() == expected
    assert select(strided.contiguous().T.contiguous().T, 9).index.tolist() == expected
    assert select(strided.clone().requires_grad_(), 9).index.tolist() == expected


@each
def test_zero_vectors_and_one_point(select):
    zeros = select(torch.zeros(6, 3), 4)
    assert zeros.index.unique().numel() == 4
    assert zeros.objective == 0
    assert zeros.gain.tolist() == [0] * 4
    one = select(torch.tensor([[2.5, -1.0]]), 1)
    assert one.index.tolist() == [0]
    assert one.objective == 0
