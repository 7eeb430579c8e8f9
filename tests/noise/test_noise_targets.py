"""Corruption of targets against the definitions, and what the named kinds promise."""

import pytest
import torch

from holdfast import HoldfastError, Rows
from holdfast.noise import TARGET_KINDS, corrupt, linadv, mixture, signflip, target_pairflip, uninoise


def landmarks(n=1000, q=10):
    source = torch.Generator().manual_seed(0)
    x = torch.randn(n, 20, generator=source)
    y = x @ torch.randn(20, q, generator=source)
    return x, (y - y.mean(0)) / y.std(0, correction=0)


@pytest.mark.parametrize("kind", TARGET_KINDS)
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.29, 0.4])
def test_exactly_the_share_is_changed_and_the_rest_is_not(kind, rate):
    x, y = landmarks(100)
    given = y.clone()
    noise = corrupt(kind, Rows(x, y), rate, 3)
    assert int(noise.mask.sum()) == round(100 * rate)
    assert torch.equal(noise.labels[~noise.mask], y[~noise.mask])
    assert (noise.labels[noise.mask] != y[noise.mask]).any(1).all()
    assert torch.equal(y, given)
    assert torch.equal(noise.labels, corrupt(kind, Rows(x, y), rate, 3).labels)
    if rate:
        assert not torch.equal(noise.mask, corrupt(kind, Rows(x, y), rate, 4).mask)


def test_linadv_is_one_wrong_linear_function_of_the_stated_size():
    x, y = landmarks()
    noise = linadv(x, y, 0.4, seed=1)
    inside = torch.cat([x[noise.mask], torch.ones(400, 1)], 1).double()
    wrong = noise.labels[noise.mask].double()
    fitted = inside @ torch.linalg.lstsq(inside, wrong).solution
    assert (fitted - wrong).abs().max() < 1e-3
    whole = linadv(x, y, 1.0, seed=1).labels
    torch.testing.assert_close(whole.std(0, correction=0), torch.full((10,), 15.0), rtol=1e-4, atol=0)
    torch.testing.assert_close(whole.mean(0), torch.zeros(10), atol=1e-4, rtol=0)
    assert linadv(x, y, 1.0, ratio=2.0).labels.std() == pytest.approx(2.0, rel=0.01)


def test_signflip_is_minus_a_standardised_target():
    _, y = landmarks()
    noise = signflip(y, 0.3)
    torch.testing.assert_close(noise.labels[noise.mask], -y[noise.mask], atol=1e-5, rtol=0)
    shifted = signflip(y + 100, 0.3)
    torch.testing.assert_close(shifted.labels[shifted.mask] - 100, -y[shifted.mask], atol=1e-3, rtol=0)


def test_uninoise_fills_the_range_of_each_target():
    _, y = landmarks()
    noise = uninoise(y * torch.arange(1, 11), 1.0)
    scaled = noise.labels / torch.arange(1, 11)
    assert (scaled >= y.amin(0) - 1e-5).all()
    assert (scaled <= y.amax(0) + 1e-5).all()
    middle = (y.amin(0) + y.amax(0)) / 2
    assert (scaled.mean(0) - middle).abs().max() < 0.2


def test_pairflip_moves_points_whole():
    y = torch.tensor([[1.0, 2, 3, 4, 5, 10, 20, 30, 40, 50]])
    assert target_pairflip(y, 1.0).labels.tolist() == [[2, 3, 4, 5, 1, 20, 30, 40, 50, 10]]
    assert target_pairflip(y, 1.0, planes=1).labels.tolist() == [[2, 3, 4, 5, 10, 20, 30, 40, 50, 1]]
    assert target_pairflip(torch.tensor([[1.0, 2.0]]), 1.0).labels.tolist() == [[2, 1]]
    for bad in (torch.ones(3, 1), torch.ones(3, 2)):
        with pytest.raises(HoldfastError, match="nothing to take for one another"):
            target_pairflip(bad, 0.5, planes=2 if bad.shape[1] == 2 else None)


def test_a_mixture_holds_all_four_in_equal_parts():
    x, y = landmarks()
    noise = mixture(x, y, 0.4)
    wrong, clean = noise.labels[noise.mask], y[noise.mask]
    flipped = (wrong + clean).abs().amax(1) < 1e-4
    moved = (wrong - target_pairflip(clean, 1.0).labels[:]).abs().amax(1) < 1e-6
    far = wrong.abs().amax(1) > 6
    assert int(flipped.sum()) == 100
    # A pairflip of all rows finds those that were flipped, whatever their order.
    assert int(moved.sum()) == 100
    assert 90 <= int(far.sum()) <= 105


def test_mistakes_are_named():
    x, y = landmarks(10)
    with pytest.raises(HoldfastError, match=r"noise in targets is called 'symmetric' \(there are linadv, signflip"):
        corrupt("symmetric", Rows(x, y), 0.1, 0)
    with pytest.raises(HoldfastError, match="did you mean signflip"):
        corrupt("signflp", Rows(x, y), 0.1, 0)
    with pytest.raises(HoldfastError, match="between 0 and 1"):
        signflip(y, 1.5)
    with pytest.raises(HoldfastError, match="floats of shape"):
        signflip(torch.arange(5), 0.5)
    with pytest.raises(HoldfastError, match="5 inputs but 10 targets"):
        linadv(x[:5], y, 0.5)
    with pytest.raises(HoldfastError, match="must be positive"):
        linadv(x, y, 0.5, ratio=0)
