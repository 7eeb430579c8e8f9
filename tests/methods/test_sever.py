import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.functional import Constant
from holdfast.methods import Sever
from holdfast.methods.sever import scores


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("method", [Sever(0.3, rounds=2), Sever()], ids=repr)
def test_the_contract_holds(method, regression):
    check_method(method, neutral=Sever(0.0), regression=regression)


def test_numbers_of_the_specification():
    gradients = torch.tensor([[1, 0], [0.9, 0.1], [1.1, -0.1], [1, 0.1], [-3, 2]])
    expected = torch.tensor([0.815935, 0.591838, 1.075934, 0.737767, 12.736389], dtype=torch.float64)
    torch.testing.assert_close(scores(gradients), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(gradients[:4].mean(0), torch.tensor([1.0, 0.025]))
    wide = torch.cat([gradients, torch.zeros(5, 7)], 1)
    torch.testing.assert_close(scores(wide), expected, atol=1e-5, rtol=0)


def test_rounds_drop_half_the_rate_each_and_the_right_rows(line):
    source = torch.Generator().manual_seed(1)
    x = torch.randn(100, 3, generator=source)
    test = Rows(x, x @ torch.tensor([[1.0, 0.0], [-2.0, 1.0], [0.5, 3.0]]))
    method = Sever(0.2, rounds=2)
    settings = {"test": test, "epochs": 60, "batch_size": 20, "schedule": Constant()}
    settings["optimizer"] = lambda p: torch.optim.SGD(p, 0.02)
    run = fit(line, method, nn.Linear(3, 2), **settings)
    rows = (run.history["coverage"] * 200).round().astype(int)
    assert rows.iloc[[0, 19, 20, 39, 40, 59]].tolist() == [200, 200, 180, 180, 162, 162]
    wrong = torch.arange(200) % 10 == 0
    assert not (method.active & wrong).any()
    ordinary = fit(line, Method(), nn.Linear(3, 2), **settings)
    assert run.last > 0.99 > 0.8 > ordinary.last


def test_large_models_are_refused(blobs):
    with pytest.raises(HoldfastError, match=r"4,320 numbers here and at most 1,000; take a smaller network"):
        fit(blobs, Sever(0.1, most=1000), nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3, bias=False)), epochs=1)
    with pytest.raises(HoldfastError, match="at least one round"):
        Sever(rounds=0)
