import pytest
import torch

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.methods import Bootstrap


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_the_contract_holds(kind):
    check_method(Bootstrap(kind), neutral=Bootstrap(kind, share=1.0))


@pytest.mark.parametrize(("kind", "mean"), [("soft", 0.678232), ("hard", 0.634380)])
def test_numbers_of_the_specification(on_tables, logits, labels, kind, mean):
    method = Bootstrap(kind)
    nets, batch = on_tables(method, [logits], labels)
    assert method.loss(nets, batch).loss.item() == pytest.approx(mean, abs=1e-5)


def test_losses_of_the_specification(on_tables, logits, labels):
    expected = {"soft": [0.260325, 1.172266, 0.364271, 0.916067], "hard": [0.241311, 1.080270, 0.342076, 0.873862]}
    for kind, losses in expected.items():
        method = Bootstrap(kind)
        nets, batch = on_tables(method, [logits], labels)
        for i, loss in enumerate(losses):
            only = batch._replace(weight=torch.eye(4)[i])
            assert method.loss(nets, only).loss.item() == pytest.approx(loss, abs=1e-5)


def test_the_gradient_of_the_soft_form_flows_through_the_target(on_tables, trained, logits, labels):
    method = Bootstrap("soft")
    nets, batch = on_tables(method, [logits], labels)
    _, (grad,) = trained(method, nets, batch)
    torch.testing.assert_close(grad[0], torch.tensor([-0.054655, 0.044085, 0.010570]), atol=1e-5, rtol=0)


def test_mistakes_are_named(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(Bootstrap(), [torch.zeros(3, 1)], torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="kind is one of hard, soft"):
        Bootstrap("medium")
    with pytest.raises(HoldfastError, match=r"\[0, 1\], not 2"):
        Bootstrap(share=2)
