"""Methods with a memory of rows or a bar over batches, in two real processes: they train what one trains."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.optim import SGD

from holdfast import AUM, D2L, ELR, GCE, INCV, LDMI, PRLG, SPL, DivideMix, ELRPlus, JoCoR, MentorNet, fit
from holdfast.methods.divide_mix import semi_supervised

pytestmark = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")


class Unmixed(DivideMix):
    """Without partners, which each process looks for in its own part of a batch."""

    def _mixed(self, net, batch, target, labelled):
        output = net(torch.cat(batch.x))
        parts = target.repeat(2, 1), labelled.repeat(2), batch.weight.repeat(2)
        return semi_supervised(output, *parts, self.unlabelled_strength())


class Turning(D2L):
    """Turns before the last epoch."""

    def measure(self, net, data, epoch):
        return super().measure(net, data, epoch) + 10 * (epoch == 3)


def steep(parameters):
    return SGD(parameters, lr=0.3)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: GCE(truncate=0.4, start=1, every=2),
        lambda rows: ELR(),
        lambda rows: ELRPlus(alpha=0, average=0.9),
        lambda rows: JoCoR(ramp=1),
        lambda rows: Unmixed(warmup=1, ramp=1),
        lambda rows: MentorNet(reviewed=(range(60), rows.truth[:60]), burn_in=0.3, dropout=True),
        lambda rows: MentorNet(burn_in=0.3),
        lambda rows: Turning(0, 2, neighbours=5),
        lambda rows: SPL(ramp=1),
        lambda rows: PRLG(0.2, ramp=1),
        lambda rows: INCV(rounds=1, each=2, ramp=0),
        lambda rows: LDMI(warmup=2, pace=0.1),
        lambda rows: AUM(each=1),
    ],
    ids=[
        "gce",
        "elr",
        "elr-plus",
        "jocor",
        "divide-mix",
        "mentor-net",
        "mentor-net set",
        "d2l",
        "spl",
        "prl-g",
        "incv",
        "l-dmi",
        "aum",
    ],
)
def test_two_processes_train_what_one_trains(blobs, make):
    runs, methods = [], []
    for devices in (1, 2):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
        methods.append(make(blobs))
        settings = {"epochs": 4, "batch_size": 49, "device": "cpu", "optimizer": steep}
        runs.append(fit(blobs, methods[-1], net, devices=devices, **settings))
    one, two = runs
    for name, value in one.net.state_dict().items():
        torch.testing.assert_close(two.net.state_dict()[name], value, rtol=1e-3, atol=1e-4)
    states = [method.state_dict() for method in methods]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-3, atol=1e-4, equal_nan=True, msg=name)


@pytest.mark.parametrize("method", [ELRPlus(), DivideMix(warmup=1)], ids=repr)
def test_mixed_batches_train_in_two_processes(blobs, method):
    run = fit(blobs, method, "mlp", epochs=4, batch_size=48, devices=2, device="cpu", optimizer=steep)
    assert (run.net(blobs.x).argmax(1) == blobs.truth).float().mean() > 0.9
