"""What is asked first."""

import numpy as np
import torch

from holdfast.review.order import crowding, telling


def test_crowded_rows_come_before_lonely_ones():
    source = torch.Generator().manual_seed(0)
    crowd = torch.randn(200, 8, generator=source) * 0.1 + torch.ones(8)
    lonely = torch.randn(20, 8, generator=source)
    points = torch.nn.functional.normalize(torch.cat([crowd, lonely]), dim=1)
    place = crowding(points, np.arange(220))
    assert place[:200].min() > place[200:].max() - 0.05
    assert 0 <= place.min() <= place.max() <= 1


def test_doubt_comes_first():
    trust = np.array([0.01, 0.5, 0.99, 0.3])
    assert np.argsort(-telling(trust, np.zeros(4))).tolist()[:2] == [1, 3]
