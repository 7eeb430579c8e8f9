import pytest
import torch

from holdfast.contract import check_method
from holdfast.methods import CoPRLL


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("method", [CoPRLL(), CoPRLL(0.45, ramp=0), CoPRLL(0.2, ramp=0, exchange=False)], ids=repr)
def test_the_contract_holds(method, regression):
    check_method(method, neutral=CoPRLL(0.0), regression=regression)


@pytest.mark.parametrize(
    ("rate", "exchange", "losses"),
    [
        (0.5, True, (0.761173, 0.791618)),
        (0.5, False, (0.291694, 0.376420)),
        (0.25, True, (0.587886, 1.411748)),
        (0.25, False, (0.499083, 0.618990)),
    ],
)
def test_numbers_of_the_specification(on_tables, logits, second, labels, rate, exchange, losses):
    method = CoPRLL(rate, exchange=exchange)
    nets, batch = on_tables(method, [logits, second], labels)
    assert method.loss(nets, batch).loss.item() == pytest.approx(sum(losses), abs=2e-5)


def test_each_network_learns_what_the_other_kept(on_tables, trained):
    source = torch.Generator().manual_seed(1)
    tables = [2 * torch.randn(30, 3, generator=source) for _ in range(2)]
    y = torch.randint(0, 3, (30,), generator=source)
    for exchange in (True, False):
        method = CoPRLL(0.4, ramp=0, exchange=exchange)
        nets, batch = on_tables(method, tables, y, epoch=0)
        _, grads = trained(method, nets, batch)
        kept = []
        for table in tables:
            p = table.softmax(1)
            score = [(p[i] - torch.eye(3)[y[i]]).norm().item() for i in range(30)]
            kept.append(sorted(sorted(range(30), key=lambda i: score[i])[:18]))
        for own in (0, 1):
            taught = kept[1 - own] if exchange else kept[own]
            assert grads[own].norm(dim=1).nonzero()[:, 0].tolist() == taught
    assert kept[0] != kept[1]
