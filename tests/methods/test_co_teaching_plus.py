import pytest
import torch

from holdfast import CoTeachingPlus, HoldfastError, check_method


@pytest.mark.parametrize(
    "method", [CoTeachingPlus(), CoTeachingPlus(0.45, ramp=0), CoTeachingPlus(0.2, warmup=1)], ids=repr
)
def test_the_contract_holds(method):
    check_method(method)


def test_numbers_of_the_specification(on_tables, logits, second, labels):
    method = CoTeachingPlus(0.5)
    nets, batch = on_tables(method, [logits, second], labels)
    assert method.loss(nets, batch).loss.item() == pytest.approx(1.180270 + 1.104131, abs=2e-5)


def test_the_warm_up_is_co_teaching_and_agreement_skips_the_batch(on_tables, logits, second, labels):
    method = CoTeachingPlus(0.25, ramp=0, warmup=3)
    nets, batch = on_tables(method, [logits, second], labels, epoch=2)
    assert method.loss(nets, batch).loss.item() == pytest.approx(0.587886 + 1.411748, abs=2e-5)
    nets, batch = on_tables(method, [logits, logits], labels, epoch=3)
    step = method.loss(nets, batch)
    step.loss.backward()
    assert step.loss.item() == 0
    assert not nets[0].table.grad.any()


def test_regression_is_refused(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(CoTeachingPlus(0.2), [torch.zeros(3, 1)] * 2, torch.zeros(3, 1))
