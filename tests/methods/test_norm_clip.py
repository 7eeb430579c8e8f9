import pytest
import torch
from torch import nn

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.methods import NormClip


@pytest.mark.parametrize("regression", [False, True])
def test_the_contract_holds(regression):
    check_method(NormClip(), neutral=NormClip(float("inf")), regression=regression)


def test_numbers_of_the_specification():
    net = nn.Linear(1, 1)
    net.weight.grad, net.bias.grad = torch.tensor([[1.15]]), torch.tensor([1.075])
    NormClip(1.0).after_backward([net])
    assert net.weight.grad.item() == pytest.approx(0.730527, abs=1e-5)
    assert net.bias.grad.item() == pytest.approx(0.682884, abs=1e-5)
    NormClip(5.0).after_backward([net])
    assert net.bias.grad.item() == pytest.approx(0.682884, abs=1e-5)


def test_the_loop_clips_before_it_steps(blobs):
    from torch.optim import SGD

    from holdfast import fit

    net = nn.Linear(2, 3)
    before = [p.detach().clone() for p in net.parameters()]
    fit(blobs, NormClip(1e-3), net, epochs=1, batch_size=240, optimizer=lambda p: SGD(p, 1.0))
    moved = torch.cat([(a - b).flatten() for a, b in zip(before, net.parameters(), strict=True)])
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_the_limit_is_positive():
    with pytest.raises(HoldfastError, match="must be positive, not 0"):
        NormClip(0)
