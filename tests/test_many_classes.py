"""Training on more classes than are kept of each row: few of them stand for all, everywhere."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import Adam

from holdfast import Method, Rows, checkpoint, fit
from holdfast.adapters.class_weights import ClassWeights
from holdfast.feed import Feed
from holdfast.kept import KEPT, Kept, mixed, unpacked, written_out
from holdfast.methods import SecondOpinion
from holdfast.reviewed import ReviewedLabels
from holdfast.types import Plan

CLASSES = KEPT + 8
FAST = partial(Adam, lr=0.02)


def blobs(count=400):
    draw = torch.Generator().manual_seed(0)
    truth = torch.arange(count) % CLASSES
    x = 0.4 * torch.randn(count, 12, generator=draw) + torch.randn(CLASSES, 12, generator=draw)[truth]
    wrong = torch.rand(count, generator=draw) < 0.2
    y = torch.where(wrong, torch.randint(CLASSES, (count,), generator=draw), truth)
    return Rows(x, y, tuple(map(str, range(CLASSES))), truth=truth)


def trained(rows, epochs=3, **changed):
    torch.manual_seed(1)
    method = SecondOpinion()
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    return fit(rows, method, net, epochs=epochs, batch_size=50, optimizer=FAST, device="cpu", **changed), method


class Stopped(Exception):
    pass


def test_a_run_that_goes_on_ends_as_one_that_never_stopped(tmp_path, monkeypatch):
    """Evidence, and what the network in training has said, is as rounded where it was gathered as in the file that it
    is read from."""
    monkeypatch.setattr(checkpoint, "SHARE", torch.inf)  # so that every epoch is kept
    rows = blobs()

    def stop(epoch, net):
        if epoch == 6:
            raise Stopped
        return {}

    with pytest.raises(Stopped):
        trained(rows, 8, out=tmp_path / "run", watch=stop, test=blobs(80))
    again, _ = trained(rows, 8, out=tmp_path / "run", resume=True, test=blobs(80))
    whole, method = trained(rows, 8, test=blobs(80))
    assert isinstance(method._target, Kept)
    assert isinstance(method._own, Kept)
    for name, values in whole._ledger.items():
        torch.testing.assert_close(again._ledger[name], values, rtol=0, atol=0, equal_nan=True)
    for one, other in zip(again.net.parameters(), whole.net.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_two_processes_see_of_many_classes_what_one_sees():
    rows = blobs()
    one, two = (trained(rows, devices=devices)[0] for devices in (1, 2))
    for name in ("seen", "prediction", "changed"):
        assert (one._ledger[name] == two._ledger[name]).float().mean() > 0.99
    alone, shared = (unpacked(run._ledger, CLASSES)["expected"] for run in (one, two))
    assert (written_out(alone) - written_out(shared)).abs().sum(1).mean() < 0.05
    torch.testing.assert_close(alone.of(rows.y), shared.of(rows.y), rtol=0, atol=2e-3)


class Towards(Method):
    """Trains towards targets of a few classes."""

    def __init__(self, target):
        super().__init__()
        self._target = target

    def plan(self, nets, data):
        return Plan(torch.arange(len(data)), target=self._target)


def targets(rows):
    draw = torch.Generator().manual_seed(5)
    number = torch.stack([torch.randperm(CLASSES, generator=draw)[:6] for _ in range(len(rows))])
    value = torch.rand(len(rows), 6, generator=draw).softmax(1)
    at = (number == rows.y[:, None]).any(1)
    number[~at, 0] = rows.y[~at]
    return mixed(Kept(value, number, CLASSES), Kept(value.roll(7, 0), number.roll(7, 0), CLASSES), 0.25)


@pytest.mark.parametrize("around", ["weights", "reviewed"])
def test_targets_of_few_classes_are_changed_as_those_of_all(around):
    rows = blobs(90)
    reviewed = torch.arange(90) < 30
    few, feed = targets(rows), Feed(rows, batch_size=30)
    planned = []
    for target in (few, written_out(few)):
        inner = Towards(target)
        weight = torch.linspace(0, 2, CLASSES)
        method = ClassWeights(inner, weight) if around == "weights" else ReviewedLabels(inner, reviewed)
        net = nn.Linear(12, CLASSES)
        method.begin([net], feed)
        planned.append(method.plan([net], feed))
    one, other = planned
    torch.testing.assert_close(written_out(one.target), other.target)
    if around == "weights":
        torch.testing.assert_close(one.weight, other.weight)
    [batch, *_] = feed.batches(one)
    torch.testing.assert_close(batch.y, other.target[batch.index])
