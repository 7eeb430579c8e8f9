"""What CRUST, PRL and SANE prove, held against computations."""

import math

import pytest
import torch

from holdfast import HoldfastError
from holdfast.functional import robust_mean
from holdfast.theory import Shallow, nearest_labels, separation, softplus_slopes
from holdfast.theory.coresets import (
    Extremes,
    coreset_descent,
    coreset_training,
    extreme_training,
    label_noise_inside,
    main_clusters,
    weighted_jacobian,
)
from holdfast.theory.early import Setting
from holdfast.theory.gradients import (
    BiasedDescent,
    dropped_at_random,
    dropped_by_gradient,
    dropped_by_norm,
    filtered_descent,
    ranks_differ,
)
from holdfast.theory.refinery import corrupted_crops, generalisation, refine, refinement, risk_gap


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
    # Tall matrices too.
    tall = weighted_jacobian(jacobian.T.contiguous(), torch.arange(90), torch.ones(90))
    assert tall.alpha == pytest.approx(float(torch.linalg.svdvals(jacobian)[-1]), rel=1e-5)
    assert tall.epsilon == pytest.approx(0, abs=1e-5)


def test_singular_values_are_taken_over_the_main_clusters_alone():
    source = torch.Generator().manual_seed(3)
    jacobian = torch.randn(12, 40, generator=source, dtype=torch.float64)
    coreset, cluster = torch.arange(6), torch.tensor([0, 0, 1, 1, 1, 2])
    weight = torch.tensor([4.0, 4.0, 2.0, 2.0, 2.0, 9.0])
    found = weighted_jacobian(jacobian, coreset, weight, cluster)
    # The shortest J^T v of unit vectors that are constant on each cluster, by drawing many of them.
    drawn = torch.randn(20_000, 3, generator=source, dtype=torch.float64)[:, cluster]
    drawn = drawn / drawn.norm(dim=1, keepdim=True)
    plain, heavy = drawn @ jacobian[:6], (drawn * weight.double().sqrt()) @ jacobian[:6]
    assert len(found.values) == 3
    assert found.alpha == pytest.approx(float(weight.min().sqrt() * plain.norm(dim=1).min()), rel=0.01)
    assert float(found.values[-1]) == pytest.approx(float(heavy.norm(dim=1).min()), rel=0.01)
    assert float(found.values[0]) == pytest.approx(float(heavy.norm(dim=1).max()), rel=0.01)
    # Weights are alike inside each cluster, so equation 7 holds; over all vectors the smallest is smaller.
    assert found.alpha <= float(found.values[-1]) + 1e-9
    assert weighted_jacobian(jacobian, coreset, weight).alpha < found.alpha


def test_main_clusters_are_those_of_what_was_selected_first():
    points = torch.tensor([[0.0, 0.0], [9.0, 9.0], [0.4, 0.0], [8.0, 9.0], [5.5, 5.5]])
    coreset, group = torch.tensor([0, 2, 1, 3, 4]), torch.tensor([0, 1, 0, 1, 0])
    # The last one is of group 0, but nearer to the first of group 1.
    assert main_clusters(points, coreset, group).tolist() == [0, 0, 1, 1, 1]


def test_extremes_of_a_training_are_those_of_all_its_coresets():
    source = torch.Generator().manual_seed(4)
    found, least, most = Extremes(), [], []
    for k in (5, 7, 4):
        jacobian, weight = torch.randn(k, 20, generator=source), torch.randint(1, 9, (k,), generator=source).float()
        values = torch.linalg.svdvals(jacobian.double())
        least.append(float(weight.min().sqrt() * values[-1]))
        most.append(float(weight.max().sqrt() * values[0]))
        found = found.with_coreset(jacobian, weight)
    assert (found.alpha, found.beta) == pytest.approx((min(least), max(most)))
    wide = extreme_training(found, size=5, wrong=0.1, gap=2.0, smooth=0.0)
    assert wide.rate == pytest.approx(1 / (2 * max(most) ** 2))
    assert wide.iterations == pytest.approx(5 / (wide.rate * min(least) ** 2) * math.log(math.sqrt(10) / 0.2))
    assert wide.conditions[0].holds
    bent = extreme_training(found, size=5, wrong=0.3, gap=2.0, smooth=1e3)
    assert bent.rate == pytest.approx(wide.rate * found.alpha * found.beta / (1e3 * math.sqrt(10)))
    assert not bent.conditions[0].holds


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


def test_biased_descent_reaches_its_bound_and_no_further():
    """Theorem 4 on ``phi = 1/2 sum_j h_j theta_j^2``, whose every part is known."""
    source = torch.Generator().manual_seed(5)
    curve = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    theta = torch.tensor([3.0, -2.0, 1.0], dtype=torch.float64)
    bias = torch.tensor([0.3, 0.0, -0.4], dtype=torch.float64)
    at = BiasedDescent(smooth=2.0, start=float((curve * theta**2).sum() / 2), noise=3 * 0.5**2, bias=0.5)
    steps = 400
    squares = []
    for _ in range(steps):
        squares.append(float((curve * theta).square().sum()))
        theta = theta - at.rate(steps) * (curve * theta + bias + 0.5 * torch.randn(3, generator=source).double())
    assert min(squares) <= sum(squares) / steps <= at.bound(steps)
    assert at.bound(at.steps(0.01)) <= 0.01 + at.bias**2 + 1e-12
    assert at.bound(10**11) == pytest.approx(at.bias**2, rel=1e-3)
    # Without noise it stands still where the gradient is the bias, turned round.
    still, theta = at._replace(noise=0.0), torch.tensor([3.0, -2.0, 1.0], dtype=torch.float64)
    for _ in range(2000):
        theta = theta - still.rate(2000) * (curve * theta + bias)
    assert float((curve * theta).norm()) == pytest.approx(at.bias)
    assert still.steps(0.1) == math.ceil(4 * at.start * 2 / 0.1)
    with pytest.raises(HoldfastError, match="up to 1 / L"):
        at.bound(10, rate=0.6)


def test_descent_on_filtered_gradients_ends_as_near_as_promised():
    """Corollary 1: clean gradients towards nine points, a fifth of all replaced by an adversary's."""
    source = torch.Generator().manual_seed(6)
    target = 0.1 * torch.randn(200, 4, generator=source).double() + 1
    theta, reached, largest = torch.full((4,), 1.5, dtype=torch.float64), [], []
    for _ in range(300):
        clean = theta - target
        given = clean.clone()
        given[:40] = -torch.full((4,), float(clean.norm(dim=1).max()) / 2)
        reached.append(float(clean.mean(0).norm()))
        largest.append(float(clean.norm(dim=1).max()))
        theta = theta - 0.1 * robust_mean(given, 0.2)
    assert min(reached) <= filtered_descent(0.2, max(largest))
    assert filtered_descent(0.2, 1.0) == pytest.approx(math.sqrt(2) * 0.8)
    assert filtered_descent(0.0, 5.0) == 0


def test_gradients_and_losses_rank_pairs_in_opposite_order_where_the_lemma_says():
    source = torch.Generator().manual_seed(7)
    first, second = (torch.distributions.Dirichlet(torch.full((5,), 0.5)).sample((4000,)).double() for _ in range(2))
    label = torch.randint(5, (4000,), generator=source)
    hot = torch.nn.functional.one_hot(label, 5).double()
    smaller = (first * hot).sum(1) >= (second * hot).sum(1)
    larger = (first - hot).norm(dim=1) >= (second - hot).norm(dim=1)
    found = ranks_differ(first, second, label)
    assert torch.equal(found, smaller & larger)
    assert 20 < int(found.sum()) < 2000


def test_wrong_labels_cost_what_they_are_away_from_true_ones():
    source = torch.Generator().manual_seed(8)
    classes = torch.arange(60) % 3
    truth = (classes[:, None] == classes).double() / 20
    output = 2 * (classes[:, None] == classes) + torch.randn(60, 60, generator=source)
    gaps, bounds = [], []
    for share in (0.0, 0.5, 1.0):
        y = share * torch.eye(60) + (1 - share) * truth
        found = generalisation(output, y, truth)
        gaps.append(risk_gap(output, y, truth))
        bounds.append(found.labels)
        assert gaps[-1] <= found.labels + 1e-12 <= found.bound + 1e-12
    # Both grow linearly with the distance of the labels: Theorem 1 from above, its second part from below.
    assert gaps[0] == bounds[0] == 0
    assert gaps[1] == pytest.approx(gaps[2] / 2, rel=1e-5)
    assert bounds[1] == pytest.approx(bounds[2] / 2, rel=1e-5)
    losses = -(truth * output.double().log_softmax(1)).sum(1)
    logs = math.log(2 * 10 / 0.1)
    found = generalisation(output, truth, truth, hypotheses=10, failure=0.1)
    width = float(losses.max() - losses.min())
    assert found.variance == pytest.approx(math.sqrt(2 * width**2 * float(losses.var()) * logs / 60))
    assert found.range == pytest.approx(7 * width**2 * logs / (3 * 59))
