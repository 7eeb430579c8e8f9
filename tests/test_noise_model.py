"""What is believed of the noise, for classes and for numbers."""

import pytest
import torch

from holdfast import HoldfastError
from holdfast.noise_model import LabelNoise, TargetNoise, check_rate, noise_model
from holdfast.task import Classification, Regression


def test_the_task_decides_which_noise_there_can_be():
    assert isinstance(noise_model(Classification(3)), LabelNoise)
    assert isinstance(noise_model(Regression(2)), TargetNoise)


def test_labels_are_as_probable_as_expectation_and_transition_have_it(logits, labels):
    model, expected = LabelNoise(3), logits.softmax(1)
    assert model.label_probability(expected, labels, torch.eye(3)).tolist() == [1, 1, 1, 1]
    flips = torch.tensor([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for row, label in enumerate(labels.tolist()):
        joint = expected[row] * flips[:, label]
        found = model.label_probability(expected, labels, flips)[row]
        assert float(found) == pytest.approx(float(joint[label] / joint.sum()))
    assert model.agrees(expected, labels).tolist() == [True, False, True, False]
    assert model.stability(expected, expected.flip(0)) == 0.5


def test_a_number_agrees_where_its_residual_is_usual():
    residual = torch.tensor([[0.1], [-0.2], [0.15], [0.12], [9.0]])
    model = TargetNoise(1)
    assert model.agrees(residual, torch.zeros(5, 1)).tolist() == [True] * 4 + [False]
    assert model.label_probability(residual, torch.zeros(5, 1), torch.eye(1)).tolist() == [1, 1, 1, 1, 0]


def test_an_estimate_is_taken_while_the_network_learns():
    model, interval = LabelNoise(2), torch.zeros(3, dtype=torch.float64)
    expected = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).repeat(50, 1)
    y = torch.tensor([0, 1]).repeat(50)
    y[:20] = 1 - y[:20]
    assert model.improve(interval, expected, y, 1.0)
    assert interval.tolist() == pytest.approx(model.noise_rate(expected, y))
    assert not model.improve(interval, expected, y, 1.0)
    assert model.improve(interval, expected, y, 0.4)


def test_a_rate_is_a_share_or_found():
    check_rate("auto")
    check_rate(0.3)
    with pytest.raises(HoldfastError, match='or "auto", not'):
        check_rate("high")
    with pytest.raises(HoldfastError, match="noise rate must lie"):
        check_rate(1.0)
