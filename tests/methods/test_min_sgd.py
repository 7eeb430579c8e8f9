import pytest
import torch

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.methods import MinSGD


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("method", [MinSGD(), MinSGD(4), MinSGD(5, keep=2)], ids=repr)
def test_the_contract_holds(method, regression):
    check_method(method, neutral=MinSGD(1), regression=regression)


def test_numbers_of_the_specification(on_tables, logits, labels):
    method = MinSGD()
    nets, batch = on_tables(method, [logits], labels)
    step = method.loss(nets, batch)
    assert step.loss.item() == pytest.approx(0.241311, abs=1e-5)
    assert step.weight.tolist() == [1, 0, 0, 0]
    output, y = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([[1.5], [2.0], [6.0], [3.0]])
    nets, batch = on_tables(method, [output], y)
    step = method.loss(nets, batch)
    assert step.loss.item() == 0
    assert step.weight.tolist() == [0, 1, 0, 0]


def test_each_group_has_winners_of_its_own(on_tables, logits, labels):
    method = MinSGD(2)
    nets, batch = on_tables(method, [logits], labels)
    assert method.loss(nets, batch).weight.tolist() == [1, 0, 1, 0]
    assert method.loss(nets, batch).loss.item() == pytest.approx((0.241311 + 0.342076) / 2, abs=1e-5)
    with pytest.raises(HoldfastError, match="not 3 of 2"):
        MinSGD(2, keep=3)
