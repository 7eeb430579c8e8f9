"""The mixture of two normal distributions: the specification's numbers, a loop, and scikit-learn beside it."""

import math

import pytest
import torch

from holdfast.functional.mixture import Mixture, fit_mixture, small_component


def two_kinds(n=2000, seed=0, share=0.3):
    source = torch.Generator().manual_seed(seed)
    large = torch.rand(n, generator=source) < share
    small = 0.1 + 0.06 * torch.randn(n, generator=source)
    return torch.where(large, 0.75 + 0.12 * torch.randn(n, generator=source), small).clamp(0, 1), large


def test_posterior_of_the_specification():
    fields = ([0.6, 0.4], [0.1, 0.8], [0.01, 0.04])
    mixture = Mixture(*(torch.tensor(field, dtype=torch.float64) for field in fields))
    found = mixture.posterior(torch.tensor([0.05, 0.3, 0.5, 0.9]))
    expected = torch.tensor([0.999666, 0.902350, 0.003090, 0.0], dtype=torch.float64)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_components_of_known_data_are_found():
    values, large = two_kinds()
    found = fit_mixture(values)
    assert found.weight.tolist() == pytest.approx([0.7, 0.3], abs=0.03)
    assert found.mean.tolist() == pytest.approx([0.1, 0.75], abs=0.02)
    assert found.variance.sqrt().tolist() == pytest.approx([0.06, 0.12], abs=0.03)
    assert ((small_component(values) > 0.5) != large).float().mean() > 0.99


def test_the_start_is_the_split_of_least_squared_error():
    values = torch.tensor([0.3, 0.0, 0.9, 0.1, 0.35, 1.0, 0.2], dtype=torch.float64)
    ordered = sorted(values.tolist())
    errors = []
    for k in range(1, 7):
        parts = ordered[:k], ordered[k:]
        errors.append(sum((v - sum(part) / len(part)) ** 2 for part in parts for v in part))
    k = errors.index(min(errors)) + 1
    found = fit_mixture(values, rounds=0)
    assert found.mean.tolist() == pytest.approx([sum(ordered[:k]) / k, sum(ordered[k:]) / (7 - k)])
    assert found.weight.tolist() == pytest.approx([k / 7, 1 - k / 7])


def test_a_round_against_a_loop():
    values = torch.tensor([0.0, 0.1, 0.15, 0.5, 0.8, 1.0], dtype=torch.float64)
    start = fit_mixture(values, rounds=0)
    got = fit_mixture(values, rounds=1)
    pdf = [
        [w / math.sqrt(2 * math.pi * v) * math.exp(-((x - m) ** 2) / 2 / v) for w, m, v in zip(*start, strict=True)]
        for x in values.tolist()
    ]
    share = [[p / sum(row) for p in row] for row in pdf]
    for k in (0, 1):
        size = sum(row[k] for row in share)
        mean = sum(row[k] * x for row, x in zip(share, values.tolist(), strict=True)) / size
        spread = sum(row[k] * (x - mean) ** 2 for row, x in zip(share, values.tolist(), strict=True)) / size
        assert float(got.weight[k]) == pytest.approx(size / 6)
        assert float(got.mean[k]) == pytest.approx(mean)
        assert float(got.variance[k]) == pytest.approx(spread + 5e-4)


@pytest.mark.parametrize(("seed", "share"), [(0, 0.3), (1, 0.5), (2, 0.1)])
def test_scikit_learn_finds_the_same(seed, share):
    mixture = pytest.importorskip("sklearn.mixture")
    values, _ = two_kinds(seed=seed, share=share)
    model = mixture.GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0, n_init=3)
    points = values.double().numpy()[:, None]
    expected = model.fit(points).predict_proba(points)[:, model.means_.argmin()]
    found = fit_mixture(values).posterior(values)
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=2e-3, rtol=0)


def test_equal_values_are_all_of_the_small_kind():
    assert small_component(torch.full((5,), 0.3)).tolist() == [1.0] * 5
    one = small_component(torch.tensor([0.3, 0.3, 0.3, 2.0]))
    assert torch.isfinite(one).all()
    assert (one > 0.5).tolist() == [True, True, True, False]
