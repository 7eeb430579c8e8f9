"""Every method in two real processes: they train what one process trains."""

import pytest
import torch
import torch.distributed as dist
from early_methods import early
from in_two import job_for_two, train_all
from torch import nn
from torch.optim import SGD

from holdfast import fit
from holdfast.launch import launch
from holdfast.methods import METHODS, Crust, Decoupling, ELRPlus
from holdfast.progress import Silent

pytestmark = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")


FURTHER = {
    "decoupling, at least a tenth": lambda: Decoupling(least=0.1, warmup=1),
    "crust, stochastic": lambda: Crust(warmup=1, select="stochastic", every=2),
    "crust, distributed": lambda: Crust(warmup=1, select="distributed", partners=0),
    "crust, whole gradients": lambda: Crust(warmup=1, proxy="gradients"),
    "elr-plus, unmixed": lambda: ELRPlus(alpha=0, average=0.9),
}
METHODS_IN_PAIRS = dict.fromkeys(METHODS) | FURTHER
QUICK = {
    "standard", "second-opinion", "co-teaching", "crust", "decoupling", "elr", "ema-refinement", "forward", "prl-l"
}  # fmt: skip
"""One of each family; the others are slow in number, not each."""


def steep(parameters):
    return SGD(parameters, lr=0.3)


def made(name):
    return early(name, METHODS_IN_PAIRS[name])


def job(rows, name):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
    return job_for_two(rows, made(name), net, epochs=4, batch_size=49, device="cpu", optimizer=steep)


@pytest.fixture(scope="module")
def in_two(blobs, request):
    """Those that are asked for, in one launch."""
    here = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    asked = {item.callspec.params["name"] for item in here if hasattr(item, "callspec")} | {"standard", "decoupling"}
    jobs = {name: job(blobs, name) for name in METHODS_IN_PAIRS if name in asked}
    return launch(train_all, jobs, 2, "cpu", Silent())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in METHODS_IN_PAIRS]
)
def test_two_processes_train_what_one_trains(blobs, in_two, name):
    method = made(name)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
    run = fit(blobs, method, net, epochs=4, batch_size=49, device="cpu", optimizer=steep)
    weights, trained, ledger, losses = in_two[name]
    state = trained.state_dict()
    for key, value in run.net.state_dict().items():
        torch.testing.assert_close(weights[key], value, rtol=1e-3, atol=1e-4, msg=key)
    assert state.keys() == method.state_dict().keys()
    for key, value in method.state_dict().items():
        torch.testing.assert_close(state[key], value, rtol=1e-3, atol=1e-4, equal_nan=True, msg=key)
    assert losses == pytest.approx(run.history["loss"].tolist(), rel=1e-3, abs=1e-4)
    assert ledger["trained"].tolist() == run.ledger["trained"].tolist()


def test_a_mean_over_the_part_of_one_process_would_be_noticed(blobs, in_two):
    """The comparison is sharp enough: another method ends elsewhere."""
    weights, *_ = in_two["decoupling"]
    ordinary, *_ = in_two["standard"]
    assert max(float((weights[key] - ordinary[key]).abs().max()) for key in weights) > 0.01
