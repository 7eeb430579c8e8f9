import math

import pytest
import torch

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.methods import Huber


def test_the_contract_holds():
    check_method(Huber(), neutral=Huber(float("inf")))
    check_method(Huber(), regression=True)


@pytest.mark.parametrize(("limit", "loss"), [(None, 0.78125), (0.5, 0.46875), (float("inf"), 2.5625 / 2)])
def test_numbers_of_the_specification(on_tables, limit, loss):
    output, y = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([[1.5], [2.0], [6.0], [3.0]])
    method = Huber(limit)
    nets, batch = on_tables(method, [output], y)
    assert method.loss(nets, batch).loss.item() == pytest.approx(loss, abs=1e-5)


def test_classes_against_a_loop(on_tables, trained):
    source = torch.Generator().manual_seed(0)
    table, y = 3 * torch.randn(40, 4, generator=source), torch.randint(0, 4, (40,), generator=source)
    method = Huber(3.0)
    nets, batch = on_tables(method, [table], y)
    step, (grad,) = trained(method, nets, batch)
    p = [table.softmax(1)[i, y[i]].item() for i in range(40)]
    losses = [-math.log(q) if q > 1 / 3 else -3 * q + math.log(3) + 1 for q in p]
    assert step.loss.item() == pytest.approx(sum(losses) / 40, abs=1e-5)
    far = min(range(40), key=lambda i: p[i])
    plain = (table[far].softmax(0) - torch.eye(4)[y[far]]) / 40
    torch.testing.assert_close(grad[far], 3 * p[far] * plain, atol=1e-6, rtol=1e-4)


def test_limits_are_checked(on_tables, logits, labels):
    with pytest.raises(HoldfastError, match="must be positive"):
        Huber(0)
    method = Huber(0.5)
    nets, batch = on_tables(method, [logits], labels)
    with pytest.raises(HoldfastError, match=r"above 1, not 0\.5"):
        method.loss(nets, batch)
