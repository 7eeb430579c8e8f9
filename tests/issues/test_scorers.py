"""The scores of the field, against loops and known numbers."""

import numpy as np
import pytest

from holdfast import HoldfastError
from holdfast.issues import confident_joint, gradient_norm, neighbour_vote, probability_margin

PROBS = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [0.1, 0.3, 0.6], [0.7, 0.2, 0.1],
                  [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])  # fmt: skip
LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2])


def test_the_confident_joint_of_the_paper_s_example():
    expected = [[0.25, 0.125, 0], [0.1875, 0.1875, 0], [0, 0, 0.25]]
    np.testing.assert_allclose(confident_joint(LABELS, PROBS), expected, atol=1e-6)


def test_margin_and_gradient_equal_loops():
    for i, (own, line) in enumerate(zip(LABELS, PROBS, strict=True)):
        others = max(p for c, p in enumerate(line) if c != own)
        assert probability_margin(LABELS, PROBS)[i] == pytest.approx(line[own] - others)
        pull = sum((p - (c == own)) ** 2 for c, p in enumerate(line)) ** 0.5
        assert gradient_norm(LABELS, PROBS)[i] == pytest.approx(-pull)


def test_the_vote_of_neighbours_equals_a_loop():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 5)), rng.integers(0, 3, 60)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    found = neighbour_vote(points, labels, k=7)
    for i in range(60):
        order = [j for j in np.argsort(-(unit @ unit[i])) if j != i][:7]
        assert found[i] == pytest.approx(np.mean([labels[j] == labels[i] for j in order]))


def test_a_vote_of_too_many_is_refused():
    with pytest.raises(HoldfastError, match="from 1 to 2"):
        neighbour_vote(np.eye(3), [0, 1, 2], k=3)
