"""What CRUST, PRL and SANE prove, held against computations."""

import math

import pytest
import torch

from holdfast import HoldfastError
from holdfast.functional import robust_mean
from holdfast.theory import Shallow, nearest_labels, separation, softplus_slopes
from holdfast.theory.coresets import (
    coreset_descent,
    coreset_training,
    label_noise_inside,
    weighted_jacobian,
)
from holdfast.theory.early import Setting
from holdfast.theory.gradients import dropped_at_random, dropped_by_gradient, dropped_by_norm
from holdfast.theory.refinery import corrupted_crops, refine, refinement


def test_singular_values_of_a_weighted_coreset_lie_between_their_bounds():
    source = torch.Generator().manual_seed(0)
    jacobian = torch.randn(40, 90, generator=source)
    coreset = torch.arange(0, 40, 4)
    weight = torch.randint(1, 9, (10,), generator=source).float()
    found = weighted_jacobian(jacobian, coreset, weight)
    direct = torch.linalg.svdvals(weight.double().sqrt()[:, None] * jacobian[coreset].double())
    torch.testing.assert_close(found.values, direct)
    top = float(weight.max().sqrt() * torch.linalg.svdvals(jacobian[coreset])[0])
    assert found.alpha <= float(found.values[-1])
    assert float(found.values[0]) <= top + 1e-6
    whole = float(torch.linalg.svdvals(jacobian)[0])
    assert found.epsilon == pytest.approx(abs(top - whole), rel=1e-5)
    assert found.beta == pytest.approx(whole + found.epsilon)
    # Tall matrices too, and of the first singular values alone.
    tall = weighted_jacobian(jacobian.T.contiguous(), torch.arange(90), torch.ones(90), rank=3)
    assert tall.alpha == pytest.approx(float(torch.linalg.svdvals(jacobian)[2]), rel=1e-5)
    assert tall.epsilon == pytest.approx(0, abs=1e-5)


def test_conditions_of_a_coreset_say_which_fails():
    found = weighted_jacobian(torch.eye(6), torch.arange(3), torch.full((3,), 4.0))
    assert (found.alpha, found.epsilon, found.beta) == pytest.approx((2.0, 1.0, 2.0))
    statement = coreset_training(found, n=6, size=3, wrong=0.1, gap=2.0, smooth=0.1)
    assert statement.rate == pytest.approx(1 / 8)
    assert statement.iterations == pytest.approx(2 * math.log(math.sqrt(6) / 0.1))
    assert [c.holds for c in statement.conditions] == [True, False, True]
    assert statement.conditions[1].factor == pytest.approx(2 * 4 / (3 * 2 * math.log(math.sqrt(3) / 0.1)))
    assert not coreset_training(found, n=6, size=3, wrong=0.3, gap=2.0, smooth=9.0).conditions[0].holds
    low = coreset_descent(found, smooth=0.0, residual=3.0, noise=label_noise_inside(0.1))
    assert low.radius == pytest.approx(6.0)
    assert low.iterations == pytest.approx(5 / (low.rate * 4) * math.log(3 / 0.2))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.45])
def test_the_error_of_a_filtered_mean_stays_below_its_bound(rate):
    source = torch.Generator().manual_seed(1)
    for far in (1.0, 10.0, 1e4):
        clean = torch.randn(200, 5, generator=source)
        given = clean.clone()
        count = int(rate * 200)
        given[:count] = far * torch.randn(count, 5, generator=source) + far
        largest = float(clean.norm(dim=1).max())
        mean = clean.mean(0)
        kept = robust_mean(given, rate)
        assert float((kept - mean).norm()) <= dropped_by_gradient(rate, largest)
        # Dropping at random is safe only as far as the largest corrupted gradient allows.
        order = torch.randperm(200, generator=source)[: 200 - count]
        worst = float(given.norm(dim=1).max())
        error = float((given[order].mean(0) - mean).norm())
        assert error <= dropped_at_random(rate, largest, worst)
        if far == 1e4:
            assert error > dropped_by_norm(rate, largest)


def test_bounds_of_gradients_by_hand():
    assert dropped_at_random(0.2, 1.0, 5.0, 2.0) == pytest.approx(2 * (0.44 + 1.0) / 0.8)
    assert dropped_at_random(0.2, 3.0, 3.0) == pytest.approx(dropped_by_norm(0.2, 3.0))
    assert dropped_by_gradient(0.0, 7.0) == 0
    with pytest.raises(HoldfastError, match="corruption rate"):
        dropped_by_norm(0.5, 1.0)


def crops(wrong, radius=0.0):
    labels = torch.tensor([-1.0, 1.0, -1.0, 1.0])
    data, positive = corrupted_crops(4, 40, 12, labels=labels, radius=radius, wrong=wrong)
    return data, positive, Setting(
        n=160, d=12, k=1000, clusters=4, separation=separation(data.centre, softplus_slopes),
        radius=radius, wrong=wrong, gap=2.0,
    )  # fmt: skip


def test_positives_are_other_crops_of_the_same_sample():
    data, positive, _ = crops(0.0, radius=0.2)
    away = (positive - data.centre[data.cluster]).norm(dim=1)
    assert float(away.max()) <= 0.2 + 1e-12
    assert (positive != data.x).any(1).all()
    assert torch.cdist(positive, data.x).min(1).values.max() < 1e-6
    assert float(torch.pdist(data.centre).min()) >= 0.5


@pytest.mark.parametrize("radius", [0.0, 0.01])
def test_refined_labels_recover_all_true_ones(radius):
    wrong, trust = 0.06, 0.9  # rho <= delta / 32
    data, positive, at = crops(wrong, radius)
    promised = refinement(at, trust)
    assert [c.holds for c in promised.conditions if "wrong" in c.what or "trust" in c.what] == [True, True]
    net = Shallow(12, 1000)
    done = refine(
        net, data.x, positive, data.y, rate=promised.rate, steps=math.ceil(promised.iterations), trust=trust, ramp=20
    )
    values = torch.tensor([-1.0, 1.0]).double()
    assert int((data.y != data.truth).sum()) == 8
    assert torch.equal(nearest_labels(done.labels, values), data.truth)
    assert torch.equal(nearest_labels(done.outputs, values), data.truth)
    size = math.sqrt(len(data.y))
    given = float((data.y - data.truth).norm()) / size
    assert float((done.labels - data.truth).norm()) / size <= promised.label_error(trust, given)
    assert float((done.outputs - data.truth).norm()) / size <= promised.error


def test_too_many_wrong_labels_are_not_recovered():
    data, positive, at = crops(0.6)
    promised = refinement(at, 0.9)
    assert not next(c for c in promised.conditions if "wrong" in c.what).holds
    done = refine(Shallow(12, 1000), data.x, positive, data.y, rate=promised.rate, steps=300)
    assert not torch.equal(nearest_labels(done.labels, torch.tensor([-1.0, 1.0]).double()), data.truth)
