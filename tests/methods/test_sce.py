import pytest
import torch

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.methods import SCE


@pytest.mark.parametrize("method", [SCE(), SCE(6, 0.1), SCE(0, 1)], ids=repr)
def test_the_contract_holds(method):
    check_method(method, neutral=SCE(1, 0))


@pytest.mark.parametrize(("ce", "rce", "mean"), [(0.1, 1.0, 4.202242), (6, 0.1, 4.429808)])
def test_numbers_of_the_specification(on_tables, logits, labels, ce, rce, mean):
    method = SCE(ce, rce)
    nets, batch = on_tables(method, [logits], labels)
    assert method.loss(nets, batch).loss.item() == pytest.approx(mean, abs=1e-5)


def test_the_gradient_against_a_formula(on_tables, trained, logits, labels):
    method = SCE(0.5, 2.0, floor=1e-2)
    nets, batch = on_tables(method, [logits], labels)
    _, (grad,) = trained(method, nets, batch)
    p, y = logits.softmax(1), torch.eye(3)[labels]
    own = p[torch.arange(4), labels][:, None]
    # d(-log(f) (1 - p_y)) / dz_c = log(f) p_y (y_c - p_c)
    expected = (0.5 * (p - y) + 2.0 * torch.tensor(1e-2).log() * own * (y - p)) / 4
    torch.testing.assert_close(grad, expected)


def test_mixed_labels_are_taken_as_they_are(on_tables, logits, labels):
    method = SCE(0, 1)
    nets, batch = on_tables(method, [logits], labels)
    soft = torch.tensor([[0.7, 0.3, 0.0]] * 4)
    got = method.loss(nets, batch._replace(y=soft)).loss
    expected = -(logits.softmax(1) * soft.clamp(1e-4, 1).log()).sum(1).mean()
    torch.testing.assert_close(got.detach(), expected)


def test_mistakes_are_named(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(SCE(), [torch.zeros(3, 1)], torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="not both 0, not 0 and 0"):
        SCE(0, 0)
    with pytest.raises(HoldfastError, match=r"floor must lie in \(0, 1\), not 0"):
        SCE(floor=0)
