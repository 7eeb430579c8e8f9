import pytest
import torch

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.methods import Decoupling


@pytest.mark.parametrize("method", [Decoupling(), Decoupling(least=0.1, warmup=1)], ids=repr)
def test_the_contract_holds(method):
    check_method(method)
    check_method(Decoupling(warmup=2), neutral=Decoupling(warmup=2))


@pytest.mark.parametrize(("least", "loss"), [(0.0, 0.710790 + 0.688933), (1.0, 0.355395 + 0.688933 / 2)])
def test_numbers_of_the_specification(on_tables, logits, second, labels, least, loss):
    method = Decoupling(least=least)
    nets, batch = on_tables(method, [logits, second], labels)
    step = method.loss(nets, batch)
    assert step.weight.tolist() == [1, 1, 0, 0]
    assert step.loss.item() == pytest.approx(loss, abs=2e-5)


def test_each_network_learns_from_its_own_loss(on_tables, trained):
    source = torch.Generator().manual_seed(3)
    tables = [torch.randn(30, 4, generator=source) for _ in range(2)]
    y = torch.randint(0, 4, (30,), generator=source)
    method = Decoupling()
    nets, batch = on_tables(method, tables, y)
    _, grads = trained(method, nets, batch)
    differ = [i for i in range(30) if tables[0][i].argmax() != tables[1][i].argmax()]
    assert 0 < len(differ) < 30
    for table, grad in zip(tables, grads, strict=True):
        for i in range(30):
            own = (table[i].softmax(0) - torch.eye(4)[y[i]]) / len(differ)
            torch.testing.assert_close(grad[i], own if i in differ else torch.zeros(4))


def test_where_both_agree_nothing_is_learnt(on_tables, logits, labels):
    method = Decoupling()
    nets, batch = on_tables(method, [logits, logits], labels)
    step = method.loss(nets, batch)
    step.loss.backward()
    assert not nets[0].table.grad.any()
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(Decoupling(), [torch.zeros(3, 1)] * 2, torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="least must lie"):
        Decoupling(least=2)
