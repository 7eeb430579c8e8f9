import math

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.functional import batch_beta, cyclic_partners, row_uniforms
from holdfast.methods import ELRPlus


@pytest.mark.parametrize("method", [ELRPlus(), ELRPlus(7, memory=0.9, alpha=0.2, average=0.5, ramp=4)], ids=repr)
def test_the_contract_holds(method):
    check_method(method, neutral=ELRPlus(0, alpha=0, average=0))


def test_unmixed_each_network_is_held_to_the_other(on_tables, trained, logits, second, labels):
    method = ELRPlus(alpha=0)
    nets, batch = on_tables(method, [logits, second], labels)
    step, grads = trained(method, nets, batch)
    p = [logits.softmax(1), second.softmax(1)]
    total = 0.0
    for k in (0, 1):
        target = 0.3 * p[1 - k]
        torch.testing.assert_close(method.ema[k], target)
        table = [logits, second][k].clone().requires_grad_()
        inner = (table.softmax(1) * target).sum(1)
        loss = (nn.functional.cross_entropy(table, labels, reduction="none") + 3 * (1 - inner).log()).mean()
        loss.backward()
        torch.testing.assert_close(grads[k], table.grad)
        total += loss.item()
    assert step.loss.item() == pytest.approx(total, abs=1e-5)


def test_inputs_labels_and_targets_are_mixed_alike(blobs):
    torch.manual_seed(0)
    nets, feed = [nn.Linear(2, 3), nn.Linear(2, 3)], Feed(blobs, batch_size=30, seed=4)
    method = ELRPlus(2.0, memory=0.5)
    method.begin(nets, feed)
    method.before_epoch(nets, feed, 3, 10)
    batch = next(iter(feed.batches()))
    step = method.loss(nets, batch)
    m = batch_beta(1.0, batch.index, 4, 3)
    j = cyclic_partners(row_uniforms(240, 4, 3)[batch.index])
    x = m * batch.x + (1 - m) * batch.x[j]
    y = torch.eye(3)[batch.y]
    y = m * y + (1 - m) * y[j]
    total = 0.0
    for k in (0, 1):
        t = 0.5 * nets[1 - k](batch.x).softmax(1)
        t = m * t + (1 - m) * t[j]
        log = nets[k](x).log_softmax(1)
        total += (-(y * log).sum(1) + 2 * (1 - (log.exp() * t).sum(1)).log()).mean().item()
    assert m < 0.99
    assert step.loss.item() == pytest.approx(total, abs=1e-5)


def test_the_average_follows_the_network_slowly(blobs):
    torch.manual_seed(0)
    nets = [nn.Linear(2, 3), nn.Linear(2, 3)]
    method = ELRPlus(average=0.9)
    method.begin(nets, Feed(blobs))
    mean = None
    for step in range(1, 40):
        for net in nets:
            nn.init.normal_(net.weight)
        method.after_step(nets)
        share = max(0.1, 1 / step)
        mean = nets[0].weight.clone() if mean is None else (1 - share) * mean + share * nets[0].weight
        torch.testing.assert_close(method.averages[0].weight, mean)
    x = torch.randn(5, 2)
    torch.testing.assert_close(method.predictor(nets)(x), (method.averages[0](x) + method.averages[1](x)) / 2)
    assert not method.averages[0].training
    assert not any(parameter.requires_grad for parameter in method.parameters())


def test_the_strength_rises_along_the_ramp(on_tables, logits, second, labels):
    for epoch, share in ((0, 0.0), (5, 0.5), (10, 1.0), (20, 1.0)):
        method = ELRPlus(2.0, ramp=10)
        on_tables(method, [logits, second], labels, epoch=epoch)
        assert method._strength() == pytest.approx(2 * math.exp(-5 * (1 - share) ** 2))


def test_the_state_survives_a_checkpoint(resumes, blobs):
    resumes(lambda: ELRPlus(ramp=3), blobs)


def test_wrong_labels_are_not_memorised(blobs):
    method = ELRPlus(average=0.95)
    run = fit(blobs, method, "mlp", epochs=20, batch_size=24)
    assert (run.net(blobs.x).argmax(1) == blobs.truth).float().mean() > 0.95


def test_mistakes_are_named(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(ELRPlus(), [torch.zeros(3, 1)] * 2, torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="alpha and ramp must be at least 0, not -1 and 0"):
        ELRPlus(alpha=-1)
    with pytest.raises(HoldfastError, match=r"average must lie in \[0, 1\), not 1"):
        ELRPlus(average=1)
    with pytest.raises(HoldfastError, match=r"memory must lie"):
        ELRPlus(memory=-1)
