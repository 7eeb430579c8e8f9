import pytest
import torch
import torch.nn.functional as F

from holdfast import HoldfastError
from holdfast.functional import (
    backward_losses,
    confident_joint,
    confident_suspects,
    forward_losses,
    total_variation,
    transition_by_anchors,
    transition_by_joint,
)
from holdfast.functional.transition import checked_transition
from holdfast.plots import heat_map

LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.0, 1.0, 0.5], [-0.5, 0.2, 1.5], [1.2, 1.0, -0.3]])
LABELS = torch.tensor([0, 2, 2, 1])
MATRIX = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]])
ANCHORS = torch.tensor(
    [[0.9, 0.06, 0.04], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.6, 0.15], [0.1, 0.2, 0.7], [0.3, 0.1, 0.6]]
)
HELD_OUT = torch.tensor(
    [
        [0.8, 0.1, 0.1],
        [0.6, 0.3, 0.1],
        [0.2, 0.7, 0.1],
        [0.1, 0.8, 0.1],
        [0.1, 0.3, 0.6],
        [0.7, 0.2, 0.1],
        [0.2, 0.2, 0.6],
        [0.1, 0.1, 0.8],
    ]
)
GIVEN = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0)


def test_losses_of_the_specification():
    close(forward_losses(LOGITS, LABELS, MATRIX), [0.407230, 1.155065, 0.515493, 1.061179])
    close(backward_losses(LOGITS, LABELS, MATRIX), [-0.419403, 1.311222, -0.037686, 0.801957])


@pytest.mark.parametrize("losses", [forward_losses, backward_losses])
def test_shares_of_classes_are_taken_too(losses):
    torch.testing.assert_close(
        losses(LOGITS, F.one_hot(LABELS, 3).float(), MATRIX), losses(LOGITS, LABELS, MATRIX), atol=1e-5, rtol=0
    )


def test_the_identity_is_cross_entropy_to_the_last_bit():
    assert torch.equal(forward_losses(LOGITS, LABELS, torch.eye(3)), F.cross_entropy(LOGITS, LABELS, reduction="none"))


def test_backward_losses_average_to_the_loss_of_true_labels():
    log = -LOGITS.log_softmax(1)
    for true in range(3):
        losses = torch.stack([backward_losses(LOGITS, torch.full((4,), j), MATRIX) for j in range(3)])
        torch.testing.assert_close(MATRIX[true] @ losses, log[:, true], atol=1e-5, rtol=0)


def test_anchors_of_the_specification():
    before = ANCHORS.clone()
    close(transition_by_anchors(ANCHORS, None), [[0.9, 0.06, 0.04], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
    close(transition_by_anchors(ANCHORS), [[0.7, 0.2, 0.1], [0.25, 0.6, 0.15], [0.3, 0.1, 0.6]])
    assert torch.equal(ANCHORS, before)


def test_the_confident_joint_of_the_specification():
    close(confident_joint(HELD_OUT, GIVEN), [[0.25, 0.125, 0.0], [0.1875, 0.1875, 0.0], [0.0, 0.0, 0.25]])
    close(transition_by_joint(HELD_OUT, GIVEN), [[0.571429, 0.428571, 0], [0.4, 0.6, 0], [0, 0, 1]])


def test_suspects():
    # Of class 0 one label is wrong, of class 1 one and a half, which rounds to the even two.
    assert confident_suspects(HELD_OUT, GIVEN, "class").nonzero()[:, 0].tolist() == [2, 4, 5]
    assert confident_suspects(HELD_OUT, GIVEN, "noise_rate").nonzero()[:, 0].tolist() == [2, 4, 5]
    assert confident_suspects(HELD_OUT, GIVEN, "confident").nonzero()[:, 0].tolist() == [2, 5]
    with pytest.raises(HoldfastError, match="prune is one of"):
        confident_suspects(HELD_OUT, GIVEN, "all")


def test_anchors_recover_a_planted_matrix():
    source = torch.Generator().manual_seed(0)
    sure = F.one_hot(torch.randint(0, 3, (3000,), generator=source), 3) * torch.rand(3000, 1, generator=source)
    clean = sure + (1 - sure.sum(1, keepdim=True)) / 3
    found = transition_by_anchors(clean @ MATRIX)
    assert float(total_variation(found, MATRIX).max()) < 0.08
    assert float(total_variation(torch.eye(3), MATRIX).min()) >= 0.2 - 1e-6


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="3 x 3"):
        checked_transition(torch.eye(2), 3)
    with pytest.raises(HoldfastError, match="sums to one"):
        checked_transition(MATRIX * 2, 3)
    with pytest.raises(HoldfastError, match="quantile"):
        transition_by_anchors(ANCHORS, 1.5)


def test_a_heat_map_is_drawn(tmp_path):
    from PIL import Image

    path = tmp_path / "t.png"
    heat_map(MATRIX, path, ("ant", "beetle", "cricket"), title="how labels go wrong")
    with Image.open(path) as picture:
        assert picture.width > 400
        assert len(picture.convert("RGB").getcolors(maxcolors=10**6)) > 50
    heat_map(torch.eye(100), tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 5_000
