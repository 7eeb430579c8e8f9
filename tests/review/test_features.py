"""By which numbers rows are near: the longest directions of what a network makes of them."""

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from holdfast.data.rows import Rows
from holdfast.functional.capture import penultimate
from holdfast.review import features
from holdfast.review.features import DIRECTIONS, features_of, longest


def rows_of(n=600, width=16, seed=0):
    source = torch.Generator().manual_seed(seed)
    kind = torch.randint(12, (n,), generator=source)
    centres = torch.randn(12, width, generator=source)
    return Rows(centres[kind] + 0.4 * torch.randn(n, width, generator=source), kind % 3, ("ant", "bee", "cat"))


def network(width=16):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 200), nn.ReLU(), nn.Dropout(0.5), nn.Linear(200, 3))


def nearest(points, count=10):
    likeness = points @ points.T
    return likeness.fill_diagonal_(-torch.inf).topk(count, dim=1).indices


def shared(first, second):
    """How many of the nearest rows are the same."""
    return sum(len(set(a) & set(b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)) / first.numel()


@pytest.mark.parametrize("whole", [10_000, 100], ids=["held whole", "by a sample"])
def test_rows_stay_near_in_a_few_directions(monkeypatch, whole):
    monkeypatch.setattr(features, "WHOLE", whole)
    monkeypatch.setattr(features, "SAMPLE", 200)
    rows, net = rows_of(), network()
    found = features_of(rows, net)
    assert net.training, "as it was before"
    assert found.shape == (len(rows), DIRECTIONS)
    with torch.no_grad(), penultimate(net.eval()) as caught:
        net(rows.x)
    own = normalize(caught[0], dim=1)
    assert shared(nearest(normalize(found, dim=1)), nearest(own)) > 0.85
    unlike = normalize(torch.randn(len(rows), DIRECTIONS), dim=1)
    assert shared(nearest(unlike), nearest(own)) < 0.1


def test_rows_without_a_network_are_their_own_features():
    rows = rows_of(width=4)
    assert torch.allclose(features_of(rows, None), normalize(rows.x, dim=1))


def test_the_longest_directions_hold_all_that_varies():
    source = torch.Generator().manual_seed(1)
    turned = torch.linalg.qr(torch.randn(100, 100, generator=source)).Q[:20]
    points = torch.randn(300, 20, generator=source) @ turned
    directions = longest(points)
    assert directions.shape == (100, DIRECTIONS)
    assert torch.allclose(points @ directions @ directions.T, points, atol=1e-4)
