import pytest
import torch
from torch import nn
from torch.optim import SGD

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.functional import robust_mean
from holdfast.methods import PRLG
from holdfast.nets import CNN4, replace_batchnorm


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("method", [PRLG(), PRLG(0.45, ramp=0), PRLG(0.2, ramp=0)], ids=repr)
def test_the_contract_holds(method, regression):
    check_method(method, neutral=PRLG(0.0), regression=regression)


def test_numbers_of_the_specification():
    gradients = torch.tensor([[3, 4], [0.6, 0.8], [1, 0], [0, -0.5]])
    torch.testing.assert_close(robust_mean(gradients, 0.25), torch.tensor([0.533333, 0.1]), atol=1e-5, rtol=0)
    torch.testing.assert_close(robust_mean(gradients, 0.0), torch.tensor([1.15, 1.075]))
    for wrong in (torch.zeros(3), torch.zeros(0, 2)):
        with pytest.raises(HoldfastError, match="one gradient a row"):
            robust_mean(wrong, 0.1)
    with pytest.raises(HoldfastError, match=r"\[0, 1\)"):
        robust_mean(gradients, 1.0)


def test_a_line_through_the_origin():
    x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    y = torch.tensor([[1.5], [2.0], [6.0], [3.0]])
    net = nn.Linear(1, 1, bias=False)
    nn.init.ones_(net.weight)
    for forwards in ("one", "two"):
        method = PRLG(0.25, ramp=0, forwards=forwards)
        feed = Feed(Rows(x, y), batch_size=4)
        method.begin([net], feed)
        net.zero_grad()
        step = method.loss([net], next(iter(feed.batches())))
        step.loss.backward()
        assert net.weight.grad.item() == pytest.approx(2.333333, abs=1e-5)
        assert step.weight.sum() == 3


@pytest.mark.parametrize("forwards", ["one", "two"])
def test_a_step_is_that_of_algorithm_2(blobs, forwards):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
    rows = []
    for i in range(240):
        loss = nn.functional.cross_entropy(net(blobs.x[i : i + 1]), blobs.y[i : i + 1])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))]))
    order = sorted(range(240), key=lambda i: rows[i].norm().item())[:132]
    mean = sum(rows[i] for i in order) / 132
    start = torch.cat([p.detach().flatten() for p in net.parameters()])
    fit(blobs, PRLG(0.45, ramp=0, forwards=forwards), net, epochs=1, batch_size=240, optimizer=lambda p: SGD(p, 0.1))
    moved = torch.cat([p.detach().flatten() for p in net.parameters()]) - start
    torch.testing.assert_close(moved, -0.1 * mean, atol=1e-6, rtol=1e-4)


def test_batch_norm_is_refused_with_a_way_out():
    x = torch.rand(8, 1, 8, 8)
    rows = Rows(x, torch.arange(8) % 2, ("a", "b"))
    net = CNN4(1, 2, width=(4, 4, 4, 4))
    with pytest.raises(HoldfastError, match=r"BatchNorm in training \(layer 'body.2'\); train holdfast.nets.replace_"):
        fit(rows, PRLG(0.2), net, epochs=1, batch_size=8)
    run = fit(rows, PRLG(0.2), replace_batchnorm(net), epochs=1, batch_size=8)
    assert run.history["loss"].notna().all()


def test_gross_outliers_do_not_move_it(line):
    source = torch.Generator().manual_seed(1)
    x = torch.randn(100, 3, generator=source)
    test = Rows(x, x @ torch.tensor([[1.0, 0.0], [-2.0, 1.0], [0.5, 3.0]]))
    scores = {}
    for method in (Method(), PRLG(0.15, ramp=0)):
        run = fit(line, method, nn.Linear(3, 2), test=test, epochs=60, batch_size=20, optimizer=lambda p: SGD(p, 0.05))
        scores[type(method).__name__] = run.last
    assert scores["PRLG"] > 0.99 > 0.8 > scores["Method"]
