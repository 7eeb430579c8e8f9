import math

import pytest
import torch

from holdfast import HoldfastError
from holdfast.theory import (
    Shallow,
    SignalSpace,
    by_quadrature,
    clusterable,
    corrupted_clusters,
    descend,
    nearest_labels,
    probit_slopes,
    relu_slopes,
    separation,
    softplus_slopes,
)
from holdfast.theory.early import (
    Setting,
    conditions,
    diffused_bound,
    error_share,
    fit_distance,
    jacobian_bounds,
    low_rank,
    noise_distance,
    pairs_distance,
    perfect_conditions,
    perfect_drift,
    perfect_iterations,
    precise_conditions,
    precise_drift,
    step_size,
)

CENTRES = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(3) / 2]], dtype=torch.float64)
SIGNS = torch.tensor([-1.0, 1.0])


def test_inputs_lie_on_the_sphere_within_the_radius():
    data = clusterable(90, 6, 3, labels=torch.tensor([-1.0, 0.0, 1.0]), radius=0.4)
    torch.testing.assert_close(data.x.norm(dim=1), torch.ones(90).double())
    away = (data.x - data.centre[data.cluster]).norm(dim=1)
    assert 0.2 < float(away.max()) <= 0.4 + 1e-12
    assert float(torch.pdist(data.centre).min()) >= 0.5
    assert torch.equal(data.y, data.truth)


def test_corruption_takes_its_share_of_each_cluster():
    data = corrupted_clusters(clusterable(90, 6, 3, labels=torch.tensor([-1.0, 0.0, 1.0])), 0.25)
    for number in range(3):
        assert int((data.y != data.truth)[data.cluster == number].sum()) == 7
    assert set(data.y.tolist()) <= {-1.0, 0.0, 1.0}


def test_the_network_of_the_specification():
    net = Shallow(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.eye(2))
    torch.testing.assert_close(net.v, torch.tensor([1.0, -1.0]).double() / math.sqrt(2))
    x, y = torch.tensor([[1.0, 0.0]]).double(), torch.zeros(1).double()
    loss = (y - net(x)).square().sum() / 2
    loss.backward()
    assert net(x).item() == pytest.approx(0.438487, abs=1e-6)
    assert loss.item() == pytest.approx(0.096136, abs=1e-6)
    expected = torch.tensor([[0.226670, 0.0], [-0.155029, 0.0]]).double()
    torch.testing.assert_close(net.weight.grad, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(net.jacobian(x)[0] * net(x).item(), expected.flatten(), atol=1e-6, rtol=0)


def test_descent_is_that_of_autograd():
    data = corrupted_clusters(clusterable(20, 3, 2, labels=SIGNS, radius=0.2), 0.2)
    net, twin = Shallow(3, 8), Shallow(3, 8)
    outputs = descend(net, data.x, data.y, 0.01, 3)
    for _ in range(3):
        loss = (data.y - twin(data.x)).square().sum() / 2
        (gradient,) = torch.autograd.grad(loss, twin.weight)
        with torch.no_grad():
            twin.weight -= 0.01 * gradient
    torch.testing.assert_close(net.weight, twin.weight)
    torch.testing.assert_close(outputs[-1], twin(data.x).detach())
    assert outputs.shape == (4, 20)


@pytest.mark.parametrize(
    ("slopes", "off", "least", "condition"),
    [(relu_slopes, 1 / 6, 1 / 3, 3.674235), (softplus_slopes, 0.135714, 0.157665, 7.768026)],
)
def test_covariance_of_the_specification(slopes, off, least, condition):
    found = separation(CENTRES, slopes)
    assert found.covariance[0, 1].item() == pytest.approx(off, abs=1e-6)
    assert found.least == pytest.approx(least, abs=1e-6)
    assert found.condition == pytest.approx(condition, abs=1e-5)
    assert found.norm**2 == pytest.approx(1.5)


def test_slopes_of_the_specification():
    expected = torch.tensor([0.206621, 0.228572, 0.25, 0.271428, 0.293379]).double()
    rho = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0]).double()
    torch.testing.assert_close(softplus_slopes(rho), expected, atol=1e-6, rtol=0)
    normal = by_quadrature(lambda t: torch.special.ndtr(torch.from_numpy(t)).numpy())
    torch.testing.assert_close(normal(rho), probit_slopes(rho), atol=1e-8, rtol=0)


def test_the_covariance_is_that_of_a_wide_network():
    net = Shallow(2, 200_000)
    jacobian = net.jacobian(CENTRES)
    torch.testing.assert_close(
        jacobian @ jacobian.T, separation(CENTRES, softplus_slopes).covariance, atol=3e-3, rtol=0
    )


def test_projections_of_the_specification():
    space = SignalSpace(torch.tensor([0, 0, 0, 1, 1, 1]))
    truth = torch.tensor([-1.0, -1, -1, 1, 1, 1])
    error = torch.tensor([-1.0, -1, 1, 1, 1, -1]) - truth
    torch.testing.assert_close(space.inside(error), torch.tensor([2.0, 2, 2, -2, -2, -2]) / 3)
    assert space.diffusedness == 2
    assert diffused_bound(space, error) == pytest.approx(1.333333, abs=1e-6)
    given = truth + error
    assert float(space.inside(given).norm()) == pytest.approx(0.816497, abs=1e-6)
    assert float(space.outside(given).norm()) == pytest.approx(2.309401, abs=1e-6)
    assert fit_distance(space, given, beta=1.0, noise=0.5) == pytest.approx(2 * 2.309401, abs=1e-5)


def test_quantities_of_the_specification():
    at = Setting(400, 2, 1000, 2, separation(CENTRES, softplus_slopes), wrong=0.15)
    alpha, beta, smooth = jacobian_bounds(at)
    assert step_size(at) == pytest.approx(0.00166667, abs=1e-8)
    assert step_size(at) == pytest.approx(1 / (2 * beta**2))
    assert (alpha, beta, smooth) == pytest.approx((1.985352, 17.320508, 0.547723), abs=1e-5)
    found = low_rank(alpha, beta, smooth, 20.0, 2 * 0.15)
    assert found.radius == pytest.approx(40.295125, abs=1e-5)
    assert found.rate == pytest.approx(step_size(at))
    assert found.iterations == pytest.approx(3196.43, abs=0.3)
    # With this alpha, 5 / (eta alpha^2) is 40 K / (eta n lambda).
    factor = 40 * 2 / (step_size(at) * 400 * at.separation.least)
    assert found.iterations == pytest.approx(factor * math.log(20 / 0.3))


def trained(rate, radius, steps, *, n=120, hidden=1000, scale=1.0):
    data = corrupted_clusters(
        clusterable(n, 8, 3, labels=torch.tensor([-1.0, 0.0, 1.0]), radius=radius, apart=1.2), rate
    )
    net = Shallow(8, hidden)
    start = net.weight.detach().clone()
    at = Setting(
        n, 8, hidden, 3, separation(data.centre, softplus_slopes), radius=radius, wrong=max(rate, 1e-3), gap=1.0
    )
    outputs = descend(net, data.x, data.y, scale * step_size(at), steps if steps else math.ceil(perfect_iterations(at)))
    return data, net, start, at, outputs


def test_perfect_clusters_below_the_limit_get_their_true_labels():
    """Theorem 2.3, within the stated number of steps and the stated distance, and no later overfitting."""
    data, net, start, at, outputs = trained(0.1, 0.0, 0)
    assert [c.holds for c in perfect_conditions(at)] == [True, True, True]
    values = data.truth.unique()
    assert float((outputs[-1] - data.truth).abs().max()) <= 4 * 0.1
    assert torch.equal(nearest_labels(outputs[-1], values), data.truth)
    assert net.distance(start) <= 5 * perfect_drift(at)
    longer = descend(net, data.x, data.y, step_size(at), 2000)
    assert torch.equal(nearest_labels(longer[-1], values), data.truth)


def test_clusters_that_are_not_perfect_stay_within_the_drift_of_the_precise_statement():
    """Equation 6.75 at every step up to the one where training ends."""
    _, net, start, at, outputs = trained(0.1, 0.05, 0)
    steps = len(outputs) - 1
    assert net.distance(start) <= precise_drift(at, steps)
    assert precise_drift(at, steps) > precise_drift(at, 0) == perfect_drift(at)


def test_above_the_limit_they_do_not():
    data, _, _, at, outputs = trained(0.6, 0.0, 0)
    assert [c.holds for c in perfect_conditions(at)] == [True, True, False]
    assert not torch.equal(nearest_labels(outputs[-1], data.truth.unique()), data.truth)


def test_a_network_that_fitted_noise_has_gone_far():
    """Theorem 3.3's lower bound; and an early network is right where the late one is not."""
    data, net, start, _, outputs = trained(0.1, 0.8, 8000, n=60, hidden=200, scale=4.0)
    values = data.truth.unique()
    wrong = [float((nearest_labels(out, values) != data.truth).double().mean()) for out in outputs[::100]]
    assert float((nearest_labels(outputs[-1], values) == data.y).double().mean()) > 0.94
    assert min(wrong[5:20]) <= wrong[-1] / 2
    space = SignalSpace(data.cluster)
    jacobian = Shallow(8, 200).jacobian(data.x)
    outside = torch.stack([space.outside(column) for column in jacobian.T]).T
    beta, noise = float(torch.linalg.matrix_norm(jacobian, 2)), float(torch.linalg.matrix_norm(outside, 2))
    # What was fitted is the first residual less the last; the bounds are those of the Jacobian at the start.
    fitted = outputs[0] - outputs[-1]
    least = fit_distance(space, fitted, beta, noise)
    assert least <= net.distance(start)
    assert pairs_distance(4, 1.0, 0.3) == pytest.approx(2 / 1.5)


def test_the_precise_statement_by_hand():
    at = Setting(
        n=400, d=2, k=1000, clusters=2, separation=separation(CENTRES, relu_slopes), radius=0.01, wrong=0.15, gap=2.0
    )
    log = math.log(math.sqrt(400 * math.log(2)) / 0.15)
    width, radius, exact = precise_conditions(at)
    assert width.required == pytest.approx(4 * 1.5**2 / (1 / 3) ** 4 * log**6)
    assert radius.required == pytest.approx((1 / 3) / (2 * log))
    assert exact.required == pytest.approx(2 * (1 / 9) / (4 * log**3))
    assert (width.holds, radius.holds, exact.holds) == (False, True, False)
    assert error_share(at) == pytest.approx(0.01 * 2 * math.sqrt(math.log(2)) / (2 / 3) * log)
    # Equation 6.75, its two parts.
    start = math.sqrt(2 * math.log(2) * 3)
    assert precise_drift(at, 0) == pytest.approx(start)
    away = 50 * step_size(at) * 0.01 * 2 * 400 * 3 * log**2
    assert precise_drift(at, 50) == pytest.approx(start + away)
    perfect = perfect_conditions(at._replace(radius=0.0))
    assert [c.holds for c in perfect] == [True, True, True]
    assert perfect[0].required == pytest.approx(at.separation.condition**2 * 4)
    assert not perfect_conditions(at)[1].holds
    assert noise_distance(2.0, 0.01, slack=5.0) == pytest.approx(199.995)


def test_conditions_say_by_how_much():
    at = Setting(400, 2, 1000, 2, separation(CENTRES, softplus_slopes), radius=0.5, wrong=0.15)
    width, radius, share = conditions(at)
    assert not width.holds
    assert width.factor == pytest.approx(1000 / (4 * 1.5**2 / 0.157665**4), rel=1e-4)
    assert (radius.required, radius.holds) == (0.25, False)
    assert share.holds
    assert share.factor == pytest.approx(0.25 / 0.15)


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="one label"):
        clusterable(10, 3, 2, labels=torch.tensor([0.0, 2.0]))
    with pytest.raises(HoldfastError, match="do not fit"):
        clusterable(100, 2, 50, labels=torch.zeros(50), apart=1.0)
    with pytest.raises(HoldfastError, match=r"\[0, 1\]"):
        corrupted_clusters(clusterable(10, 3, 2, labels=SIGNS), 2)
