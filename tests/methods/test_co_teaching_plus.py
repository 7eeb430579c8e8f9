import pytest
import torch
from torch.nn.functional import cross_entropy

from holdfast import HoldfastError
from holdfast.contract import check_method
from holdfast.methods import CoTeachingPlus


@pytest.mark.parametrize(
    "method",
    [CoTeachingPlus(), CoTeachingPlus(0.45, ramp=0), CoTeachingPlus(0.2, warmup=1), CoTeachingPlus(0.2, official=True)],
    ids=repr,
)
def test_the_contract_holds(method):
    check_method(method, neutral=CoTeachingPlus(0.0, warmup=2))


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


def test_the_authors_code_takes_probabilities_for_logits(on_tables, logits, second, labels):
    method = CoTeachingPlus(0.5, official=True)
    nets, batch = on_tables(method, [logits, second], labels)
    losses = [cross_entropy(table.softmax(1), labels, reduction="none") for table in (logits, second)]
    # Of the two rows without agreement the first network picks row 0 and the second row 1.
    expected = losses[0][1] + losses[1][0]
    assert method.loss(nets, batch).loss.item() == pytest.approx(expected.item(), abs=1e-6)


def test_the_authors_code_keeps_all_where_less_than_one_would_stay(on_tables, logits, second, labels):
    picked = []
    for official in (False, True):
        method = CoTeachingPlus(0.75, ramp=0, official=official)
        nets, batch = on_tables(method, [logits, second], labels)
        picked.append(method.loss(nets, batch).weight.tolist())
    assert picked == [[0.5, 0.5, 0, 0], [1, 1, 0, 0]]


def test_regression_is_refused(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(CoTeachingPlus(0.2), [torch.zeros(3, 1)] * 2, torch.zeros(3, 1))
