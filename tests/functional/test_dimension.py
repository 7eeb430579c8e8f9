import math

import pytest
import torch

from holdfast.functional.dimension import local_dimension


def test_numbers_of_the_specification():
    found = local_dimension(torch.tensor([[0.0], [1.0], [3.0], [7.0]]), 3)
    assert found.tolist() == pytest.approx([1.074034, 1.037929, 3.058636, 4.203055], abs=1e-5)


def test_against_a_loop():
    points = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = local_dimension(points, 6)
    for i in range(30):
        r = sorted(math.dist(points[i], points[j]) for j in range(30) if j != i)[:6]
        assert found[i].item() == pytest.approx(-1 / (sum(math.log(d / r[-1]) for d in r) / 6))


def test_points_in_more_dimensions_have_more_of_them():
    source = torch.Generator().manual_seed(1)
    flat, solid = torch.rand(500, 2, generator=source), torch.rand(500, 8, generator=source)
    assert local_dimension(flat).mean() < 3 < 5 < local_dimension(solid).mean()


def test_twins_and_equal_distances():
    assert local_dimension(torch.eye(4), 3).tolist() == [math.inf] * 4
    assert local_dimension(torch.zeros(4, 2), 3).tolist() == [math.inf] * 4
    assert local_dimension(torch.tensor([[0.0], [0.0], [1.0]]), 2).tolist()[:2] == [0, 0]
