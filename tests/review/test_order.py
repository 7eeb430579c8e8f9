"""What is asked first."""

import numpy as np

from holdfast.review.order import telling


def test_doubt_comes_first():
    trust = np.array([0.01, 0.5, 0.99, 0.3])
    assert np.argsort(-telling(trust)).tolist()[:2] == [1, 3]
