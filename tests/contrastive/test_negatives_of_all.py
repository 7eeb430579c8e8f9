"""SimCLR, DACL's loss and SwAV in two real processes: the negatives are those of the whole batch."""

import pytest
import torch
import torch.distributed as dist
from in_two import job_for_two, train_all
from torch import nn
from torch.optim import SGD

from holdfast import fit
from holdfast.contrastive import MoCo, SimCLR, SwAV
from holdfast.launch import launch
from holdfast.progress import Silent

pytestmark = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")

METHODS = {"simclr": SimCLR, "swav": lambda: SwAV(5, small=0, frozen=0, queue=0), "moco": lambda: MoCo(32, groups=1)}


def first(x, generator):
    """A view without chance, as each process draws its own."""
    return x * torch.tensor([1.0, 1.2])


def second(x, generator):
    return x + 0.1


def steep(parameters):
    return SGD(parameters, lr=0.2)


def settings():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 4))
    # An odd batch, of which one process has more than the other; after an epoch each has drawn a seed of its own for
    # its views, and the order of rows differs.
    return net, {"augment": [first, second], "epochs": 1, "batch_size": 41, "device": "cpu", "optimizer": steep}


@pytest.fixture(scope="module")
def in_two(blobs):
    jobs = {}
    for name, make in METHODS.items():
        net, named = settings()
        jobs[name] = job_for_two(blobs.without_labels(), make(), net, **named)
    return launch(train_all, jobs, 2, "cpu", Silent())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_two_processes_contrast_what_one_contrasts(blobs, in_two, name):
    net, named = settings()
    run = fit(blobs.without_labels(), METHODS[name](), net, **named)
    weights, _, _, losses = in_two[name]
    for key, value in run.net.state_dict().items():
        torch.testing.assert_close(weights[key], value, rtol=1e-3, atol=1e-4, msg=key)
    assert losses == pytest.approx(run.history["loss"].tolist(), rel=1e-3, abs=1e-4)
