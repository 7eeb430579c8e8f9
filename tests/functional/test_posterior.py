"""Posteriors on data whose noise is known."""

import torch

from holdfast.functional import anchor_rows, anchor_transition, denoised_posterior, label_posterior, rival_strength
from holdfast.noise import symmetric


def toy(sharpness: float, n: int = 6000, seed: int = 0):
    """Calibrated probabilities of the true class of rows in three classes, and the true classes drawn from them."""
    source = torch.Generator().manual_seed(seed)
    p = (sharpness * torch.randn(n, 3, generator=source)).softmax(1)
    return p, torch.multinomial(p, 1, generator=source)[:, 0]


def test_anchors_are_the_surest_rows_of_each_predicted_class():
    p, _ = toy(3.0)
    rows = anchor_rows(p, share=0.1)
    for c, found in enumerate(rows):
        members = [i for i in range(len(p)) if p[i].argmax() == c]
        assert sorted(found.tolist()) == sorted(sorted(members, key=lambda i: -p[i, c])[: len(members) // 10])
    empty = torch.tensor([[0.9, 0.1]] * 5)
    assert [len(found) for found in anchor_rows(empty)] == [0, 0]


def test_the_posterior_of_noisy_outputs_is_that_of_bayes():
    p, truth = toy(6.0, 40_000)
    y = symmetric(truth, 0.4, 3, seed=2).labels
    t = torch.full((3, 3), 0.2) + 0.4 * torch.eye(3)
    exact = p * t[:, y].T
    exact /= exact.sum(1, keepdim=True)
    for expected in (p, p @ t):  # a network that has not taken over the noise, and one that has
        found = label_posterior(denoised_posterior(expected), y, anchor_transition(expected, y))
        torch.testing.assert_close(found.sum(1), torch.ones(len(p)))
        assert (found - exact).abs().mean() < 0.02


def test_a_sure_network_and_clean_labels_leave_the_labels_alone():
    y = torch.arange(4).repeat(50)
    expected = torch.full((200, 4), 0.01) + 0.96 * torch.eye(4)[y]
    assert (label_posterior(denoised_posterior(expected), y, anchor_transition(expected, y)).argmax(1) == y).all()
    assert (label_posterior(denoised_posterior(expected), y, anchor_transition(expected, y)).amax(1) > 0.99).all()


def test_a_rival_stands_out_among_the_classes():
    even = torch.full((5, 5), 0.1) + 0.5 * torch.eye(5)
    assert rival_strength(even, torch.full((5,), 50)).tolist() == [0.0] * 5
    one = torch.eye(5)
    one[3] = torch.tensor([0.0, 0.4, 0.0, 0.6, 0.0])
    found = rival_strength(one, torch.full((5,), 50))
    error = (0.4 * 0.6 / 50) ** 0.5
    torch.testing.assert_close(found, torch.tensor([0.0, 0.4 - 2 * error, 0.0, 0.0, 0.0]))
    assert float(rival_strength(one, torch.full((5,), 4)).max()) == 0, "so few rows show nothing"
    two = torch.tensor([[0.7, 0.3], [0.0, 1.0]])
    torch.testing.assert_close(
        rival_strength(two, torch.tensor([100, 100])), torch.tensor([0.0, 0.3 - 2 * (0.3 * 0.7 / 100) ** 0.5])
    )
