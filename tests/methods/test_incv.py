import pytest
import torch

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.methods import INCV
from holdfast.methods.incv import rate_from_agreement


def test_the_contract_holds():
    check_method(INCV(), neutral=INCV(rounds=0))


def test_rates_of_the_specification():
    assert rate_from_agreement(0.655, 10) == 0.194
    assert rate_from_agreement(1.0, 10) == 0
    assert rate_from_agreement(0.05, 10) == pytest.approx(0.9)
    method = INCV(rounds=0, ramp=0)
    method.noise = torch.tensor(0.2)
    for symmetric, expected in ((True, 0.006897), (False, 0.058824)):
        method.symmetric = symmetric
        method._task = type("Ten", (), {"outputs": 10})()
        assert method.drop_rate() == pytest.approx(expected, abs=1e-6)


def test_rows_that_agree_are_trusted(flipped):
    rows, method = flipped(1500, wrong=0.3), INCV(rounds=2, each=5, symmetric=False)
    run = fit(rows, method, "mlp", epochs=20, batch_size=40)
    right = rows.y == rows.truth
    # Networks that predict better than the labels they saw agree with more of them than the equation has it.
    assert 0.15 < float(method.noise) < 0.35
    assert right[method.trusted].double().mean() > 0.95
    assert method.trusted.double().mean() > 0.55
    assert not (method.trusted & method.open).any()
    assert run.history["coverage"].iloc[0] == 1
    assert run.history["coverage"].iloc[10] == pytest.approx(float(method.trusted.double().mean()), abs=1e-6)
    # Candidates join in the last half of Co-teaching.
    assert run.history["coverage"].iloc[-1] > run.history["coverage"].iloc[10]


def test_each_network_trains_on_its_own_half(on_tables, trained, logits, second, labels):
    method = INCV(rounds=1, each=20)
    nets, batch = on_tables(method, [logits, second], labels, epoch=0)
    with torch.no_grad():
        method.side.copy_(torch.tensor([True, True, False, False]))
    _, (first, other) = trained(method, nets, batch)
    assert (first.abs().sum(1) > 0).tolist() == [False, False, True, True]
    assert (other.abs().sum(1) > 0).tolist() == [True, True, False, False]


def test_mistakes_are_named():
    with pytest.raises(HoldfastError, match="rounds"):
        INCV(rounds=-1)
