import pytest
import torch

from holdfast.contract import check_method
from holdfast.methods import CoTeaching


@pytest.mark.parametrize("method", [CoTeaching(), CoTeaching(0.45, ramp=0), CoTeaching(0.2, ramp=0)], ids=repr)
def test_the_contract_holds(method):
    check_method(method, neutral=CoTeaching(0.0))


@pytest.mark.parametrize(("rate", "losses"), [(0.25, (0.587886, 1.411748)), (0.5, (0.761173, 0.791618))])
def test_numbers_of_the_specification(on_tables, logits, second, labels, rate, losses):
    method = CoTeaching(rate)
    nets, batch = on_tables(method, [logits, second], labels)
    assert method.loss(nets, batch).loss.item() == pytest.approx(sum(losses), abs=2e-5)


def test_against_a_loop(on_tables, trained):
    source = torch.Generator().manual_seed(3)
    tables = [2 * torch.randn(30, 4, generator=source) for _ in range(2)]
    y = torch.randint(0, 4, (30,), generator=source)
    method = CoTeaching(0.3)
    nets, batch = on_tables(method, tables, y, epoch=5)
    step, grads = trained(method, nets, batch)
    count = int((1 - 0.15) * 30 + 1e-9)
    losses = [[-table.log_softmax(1)[i, y[i]].item() for i in range(30)] for table in tables]
    kept = [sorted(range(30), key=lambda i, k=k: losses[k][i])[:count] for k in (0, 1)]
    total = sum(losses[0][i] for i in kept[1]) / count + sum(losses[1][i] for i in kept[0]) / count
    assert step.loss.item() == pytest.approx(total, abs=1e-5)
    assert grads[0].norm(dim=1).nonzero()[:, 0].tolist() == sorted(kept[1])
    assert grads[1].norm(dim=1).nonzero()[:, 0].tolist() == sorted(kept[0])
