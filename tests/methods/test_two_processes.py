"""Every method in two real processes: they train what one process trains.

All trainings share one launch, as starting processes takes longer than training.
"""

import sys

import pytest
import torch
import torch.distributed as dist
from early_methods import early
from torch import nn
from torch.optim import SGD

from holdfast import fit
from holdfast.fit import _fit_as_rank
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


def steep(parameters):
    return SGD(parameters, lr=0.3)


def made(name):
    return early(name, METHODS_IN_PAIRS[name])


def job(rows, name):
    """The job that fit would hand to two processes."""
    caught = []

    def catching(job, *_):
        caught.append(job)
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["holdfast.fit"], "_fit_in_several", catching)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
        settings = {"epochs": 4, "batch_size": 49, "device": "cpu", "optimizer": steep}
        with pytest.raises(InterruptedError):
            fit(rows, made(name), net, devices=2, **settings)
    caught[0].random = torch.get_rng_state()
    return caught[0]


def train_all(jobs, progress):
    """In each of two processes: one training after the other."""
    done = {}
    for name, each in jobs.items():
        found = _fit_as_rank(each, Silent())
        if found is not None:
            run, _, method = found
            done[name] = (run.net.state_dict(), method.state_dict(), run.ledger, run.history["loss"].tolist())
    return done or None


@pytest.fixture(scope="module")
def in_two(blobs):
    return launch(train_all, {name: job(blobs, name) for name in METHODS_IN_PAIRS}, 2, "cpu", Silent())


@pytest.mark.parametrize("name", METHODS_IN_PAIRS)
def test_two_processes_train_what_one_trains(blobs, in_two, name):
    method = made(name)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
    run = fit(blobs, method, net, epochs=4, batch_size=49, device="cpu", optimizer=steep)
    weights, state, ledger, losses = in_two[name]
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
