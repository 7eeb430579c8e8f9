"""EMA refinement: its phases, its averages, and what it makes of labels."""

import pytest
import torch
from torch import nn
from torch.optim import Adam

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.functional import anchor_rows
from holdfast.methods import EMARefinement
from holdfast.methods.ema_refinement import MEMORISED, Phase
from holdfast.noise import symmetric


def begun(method, rows, epoch=10, batch_size=24):
    """A method on a network that has learnt something, at the start of an epoch."""
    torch.manual_seed(0)
    feed = Feed(rows, batch_size=batch_size)
    outputs = feed.task.outputs
    net = nn.Sequential(nn.Linear(rows.x.shape[1], 16), nn.ReLU(), nn.Linear(16, outputs))
    fit(rows, Method(), net, epochs=20, batch_size=batch_size)
    method.begin([net], feed)
    method.before_epoch([net], feed, epoch, 30)
    return net, feed


@pytest.mark.parametrize("method", [EMARefinement(warmup=0), EMARefinement(average=0, memory=0.5)], ids=repr)
@pytest.mark.parametrize("regression", [False, True])
def test_the_contract_holds(method, regression):
    check_method(method, neutral=EMARefinement(warmup=99, average=0), regression=regression)


def test_the_default_finds_the_wrong_labels_without_a_rate(blobs):
    run = fit(blobs, EMARefinement(), "mlp", test=Rows(blobs.x, blobs.truth, blobs.classes), epochs=20, batch_size=16)
    end = run.history.iloc[-1]
    right = float((blobs.y == blobs.truth).double().mean())
    assert end["purity"] > 0.95 > right
    assert abs(end["coverage"] - right) < 0.06
    assert end["test"] > 0.95


def rivals_in_loops(transition, anchors):
    """For each label, how far its best rival stands out, two standard errors down."""
    found = []
    for label in range(len(transition)):
        others = [(float(transition[c, label]), c) for c in range(len(transition)) if c != label]
        most, who = max(others)
        usual = (sum(share for share, _ in others) - most) / max(1, len(others) - 1)
        least = most - 2 * (most * (1 - most) / anchors[who]) ** 0.5
        found.append(min(1.0, max(0.0, (least - usual) / float(transition[label, label]))))
    return found


def test_a_network_that_still_learns_keeps_its_labels(blobs):
    # One class is often given the name of another, so that one label has a rival and the others have none.
    y = blobs.truth.clone()
    y[(y == 0).nonzero()[::3, 0]] = 1
    rows = Rows(blobs.x, y, blobs.classes, truth=blobs.truth)
    method = EMARefinement(average=0)
    net, feed = begun(method, rows)
    given = nn.functional.one_hot(y, 3).float()
    assert method.phase is Phase.LEARNING
    learning = method.plan([net], feed).target
    part = rivals_in_loops(method.transition, [len(found) for found in anchor_rows(method.expected())])
    posterior = method._model.posterior(method._model.denoise(method.expected()), y, method.transition)
    for i in range(240):
        mixed = (1 - part[y[i]]) * given[i] + part[y[i]] * posterior[i]
        torch.testing.assert_close(learning[i], mixed, atol=1e-5, rtol=0)
    method.stability.fill_(1.0)
    refined = method.plan([net], feed).target
    assert torch.equal(refined[method.likely], given[method.likely])
    torch.testing.assert_close(refined[~method.likely], method.expected()[~method.likely])
    right = method._model.label_probability(method._model.denoise(method.expected()), y, method.transition)
    assert torch.equal(method.likely, (method.expected().argmax(1) == y) | (right >= 0.8))


def test_rows_are_withheld_while_the_network_learns(blobs):
    method = EMARefinement(average=0)
    net, feed = begun(method, blobs, epoch=1)
    assert method.phase is Phase.WARM_UP
    assert len(method.plan([net], feed).index) == 240
    method.before_epoch([net], feed, 2, 30)
    assert method.phase is Phase.LEARNING
    plan = method.plan([net], feed)
    assert int(method.probe.sum()) == 12
    assert sorted(plan.index.tolist()) == (~method.probe).nonzero()[:, 0].tolist()
    method.stability.fill_(0.9)
    assert method.phase is Phase.REFINING
    assert len(method.plan([net], feed).index) == 240


def test_refining_begins_once_labels_are_memorised(monkeypatch):
    """Dropout keeps predictions from becoming stable while wrong labels are memorised."""
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(2000) % 10
    centres = nn.functional.normalize(torch.randn(10, 20, generator=source))
    x = 2 * centres[truth] + torch.randn(2000, 20, generator=source)
    rows = Rows(x, symmetric(truth, 0.5, 10, seed=1).labels, tuple("abcdefghij"), truth=truth)
    wrong = rows.y != truth
    fitted = {}
    for limit in (MEMORISED, 1.0):
        monkeypatch.setattr("holdfast.methods.ema_refinement.MEMORISED", limit)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))
        method = EMARefinement()
        run = fit(rows, method, net, epochs=14, batch_size=32, optimizer=lambda p: Adam(p, lr=0.01))
        assert float(method.stability) < 0.85
        assert method.phase is (Phase.REFINING if limit < 1 else Phase.LEARNING)
        fitted[limit] = float((run.outputs(x).argmax(1) == rows.y)[wrong].double().mean())
    assert fitted[MEMORISED] < 0.85 * fitted[1.0]


def test_stability_is_the_share_of_expected_predictions_in_training(blobs):
    method = EMARefinement(average=0)
    net, feed = begun(method, blobs)
    plan = method.plan([net], feed)
    before, same, seen = method.expected().argmax(1), 0, 0
    with torch.no_grad():
        net[2].bias.add_(torch.tensor([2.0, 0.0, 0.0]))
    for batch in feed.batches(plan):
        step = method.loss([net], batch)
        same += int((step.output.argmax(1) == before[batch.index]).sum())
        seen += len(batch.index)
    assert 0 < same < seen
    method.before_epoch([net], feed, 11, 30)
    assert float(method.stability) == pytest.approx(same / seen)


def test_statistics_of_normalisation_are_averaged_with_the_weights(blobs):
    method = EMARefinement(average=1)
    net = nn.Sequential(nn.Linear(blobs.x.shape[1], 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    feed = Feed(blobs, batch_size=24)
    method.begin([net], feed)
    mean = method.averaged[1].running_mean.clone()
    net[1].running_mean.fill_(1.0)
    net[1].num_batches_tracked.fill_(7)
    method.after_step([net])
    share = 1 / max(1.0, 11 / 9)
    torch.testing.assert_close(method.averaged[1].running_mean, mean + share * (1 - mean))
    assert method.averaged[1].num_batches_tracked == 7


def test_the_averaged_network_follows_the_trained_one(blobs):
    method = EMARefinement(average=0.5)
    net, _ = begun(method, blobs)
    before = method.averaged[0].weight.clone()
    with torch.no_grad():
        net[0].weight.add_(1.0)
    for _ in range(200):
        method.after_step([net])
    assert method.predictor([net]) is method.averaged
    assert (method.averaged[0].weight - before - 1).abs().max() < 1e-3
    assert not any(p.requires_grad for p in method.parameters())


@pytest.mark.parametrize(("stability", "memory"), [(1.0, 0.75), (0.5, 0.375)])
def test_memory_averages_predictions_over_epochs(blobs, stability, memory):
    method = EMARefinement(memory=0.75, average=0)
    net, feed = begun(method, blobs, epoch=1)
    method.stability.fill_(stability)
    method.plan([net], feed)
    one = method.expected().clone()
    with torch.no_grad():
        torch.testing.assert_close(one, net(blobs.x).softmax(1), atol=1e-5, rtol=0)
        net[2].bias.add_(torch.tensor([3.0, 0.0, 0.0]))
        two = net(blobs.x).softmax(1)
    method.before_epoch([net], feed, 2, 30)
    method.plan([net], feed)
    expected = (memory * (1 - memory) * one + (1 - memory) * two) / (1 - memory**2)
    torch.testing.assert_close(method.expected(), expected, atol=1e-5, rtol=0)


def test_a_run_resumes_bit_for_bit(flipped, resumes):
    resumes(EMARefinement, flipped(300), epochs=8, broken=4)


@pytest.mark.parametrize(("settings", "words"), [({"memory": 1.0}, "memory must lie"), ({"warmup": -1}, "at least 0")])
def test_settings_are_checked_when_made(settings, words):
    with pytest.raises(HoldfastError, match=words):
        EMARefinement(**settings)
