import pytest
import torch
from torch import nn

from holdfast.errors import HoldfastError
from holdfast.functional import (
    Constant,
    Cosine,
    HoldThenLinear,
    OneCycle,
    Steps,
    keep_count,
    output_layer,
    penultimate,
    smallest,
    weighted_mean,
)


def test_weighted_mean_and_nothing_to_weigh():
    values = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    assert weighted_mean(values, torch.tensor([1.0, 1.0, 2.0])).item() == pytest.approx(11 / 4)
    nothing = weighted_mean(values, torch.zeros(3))
    nothing.backward()
    assert nothing.item() == 0
    assert values.grad.tolist() == [0, 0, 0]


def test_a_weighted_mean_is_in_the_finer_of_both_precisions():
    values, weight = torch.rand(64), torch.rand(64)
    exact = float((values.double() * weight.double()).sum() / weight.double().sum())
    with torch.autocast("cpu", dtype=torch.bfloat16):  # which would take a matrix product in half precision
        assert weighted_mean(values, weight).item() == pytest.approx(exact, rel=1e-6)
    fine = weighted_mean(values.double(), weight)
    assert fine.dtype == torch.float64
    assert fine.item() == pytest.approx(exact, rel=1e-12)
    assert weighted_mean(values.bfloat16(), weight).dtype == torch.float32


@pytest.mark.parametrize(
    ("rate", "size", "kept"), [(0.9, 10, 1), (0.8, 5, 1), (0.25, 4, 3), (0.5, 4, 2), (0, 7, 7), (1, 7, 1)]
)
def test_keep_count(rate, size, kept):
    assert keep_count(rate, size) == kept


def test_smallest_is_stable():
    assert smallest(torch.tensor([2.0, 1.0, 1.0, 0.5]), 3).tolist() == [3, 1, 2]


def test_schedules_at_the_published_points():
    steps = Steps()
    assert [steps(e / 120) for e in (0, 79, 80, 99, 100, 119)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    hold = HoldThenLinear()
    assert [hold(e / 200) for e in (0, 79, 80, 140, 200)] == pytest.approx([1, 1, 1, 0.5, 0])
    assert [Cosine()(s) for s in (0, 0.5, 1)] == pytest.approx([1, 0.5, 0])
    assert [OneCycle()(s) for s in (0, 0.05, 0.1, 0.55, 1)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert Constant()(0.7) == 1


def test_penultimate_catches_the_input_of_the_output_layer():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    x = torch.randn(3, 4)
    with penultimate(net) as caught:
        output = net(x)
    torch.testing.assert_close(caught[0] @ output_layer(net).weight.T + net[2].bias, output)
    net(x)
    assert len(caught) == 1


def test_a_network_without_linear_layers_is_told():
    with pytest.raises(HoldfastError, match=r"no nn\.Linear"):
        output_layer(nn.Conv2d(1, 1, 1))
