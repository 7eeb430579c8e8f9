import math

import pytest
import torch

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.methods import APL
from holdfast.methods.apl import normalised_cross_entropy
from holdfast.noise import symmetric


@pytest.mark.parametrize("method", [APL(), APL(10, 0.1), APL(0, 1, floor=0.01)], ids=repr)
def test_the_contract_holds(method):
    check_method(method)


def test_losses_and_gradients_against_loops(on_tables, trained, logits, labels):
    method = APL(2.0, 0.5, floor=0.01)
    nets, batch = on_tables(method, [logits], labels)
    step, (gradient,) = trained(method, nets, batch)
    z = logits.clone().requires_grad_()
    total = 0.0
    for i in range(4):
        p = z[i].exp() / z[i].exp().sum()
        active = -p[labels[i]].log() / sum(-p[c].log() for c in range(3))
        passive = sum(-p[c] * math.log(1.0 if c == labels[i] else 0.01) for c in range(3))
        total = total + (2.0 * active + 0.5 * passive) / 4
    total.backward()
    assert step.loss.item() == pytest.approx(total.item(), abs=1e-6)
    torch.testing.assert_close(gradient, z.grad)


def test_the_active_loss_sums_to_one_over_the_labels(logits):
    """The condition under which symmetric noise does not move the minimum."""
    every = torch.stack([normalised_cross_entropy(logits, torch.eye(3)[[c] * 4]) for c in range(3)])
    torch.testing.assert_close(every.sum(0), torch.ones(4))
    assert ((every >= 0) & (every <= 1)).all()


def test_wrong_labels_are_memorised_less_than_by_ordinary_training():
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(600) % 3
    x = torch.randn(600, 20, generator=source) + 1.5 * torch.eye(20)[truth]
    rows = Rows(x, symmetric(truth, 0.4, 3, seed=1).labels, tuple("abc"), truth=truth)
    wrong = rows.y != truth

    def fitted(method):
        run = fit(rows, method, "mlp", epochs=40, batch_size=30, device="cpu")
        return float((run.net(x).argmax(1) == rows.y)[wrong].double().mean())

    assert fitted(APL()) < fitted(Method()) - 0.1


def test_mistakes_are_named(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(APL(), [torch.zeros(3, 1)], torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="not both 0"):
        APL(0, 0)
    with pytest.raises(HoldfastError, match=r"floor must lie in \(0, 1\), not 1"):
        APL(floor=1)
