import math

import pytest
import torch

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.methods import GCE


@pytest.mark.parametrize("method", [GCE(), GCE(1.0), GCE(truncate=0.3, start=0, every=1)], ids=repr)
def test_the_contract_holds(method):
    check_method(method, neutral=GCE(0))


def test_numbers_of_the_specification(on_tables, logits, labels):
    method = GCE()
    nets, batch = on_tables(method, [logits], labels)
    for i, loss in enumerate([0.222031, 0.803265, 0.304203, 0.675073]):
        only = batch._replace(weight=torch.eye(4)[i])
        assert method.loss(nets, only).loss.item() == pytest.approx(loss, abs=1e-5)
    assert method.loss(nets, batch).loss.item() == pytest.approx(0.501143, abs=1e-5)


def test_truncated_numbers_of_the_specification(on_tables, trained, blobs, logits, labels):
    method = GCE(truncate=0.5, start=20)
    nets, batch = on_tables(method, [logits], labels, epoch=20)
    feed = Feed(blobs.__class__(batch.x, labels, tuple("abc")), batch_size=4)
    method.plan(nets, feed)
    step, (grad,) = trained(method, nets, batch)
    assert method.kept.tolist() == [True, False, True, False]
    assert step.weight.tolist() == [1, 0, 1, 0]
    assert step.loss.item() == pytest.approx(0.406150, abs=1e-5)
    # The form that the paper minimises by turns is the same less the constant.
    assert step.loss.item() - (1 - 0.5**0.7) / 0.7 == pytest.approx(-0.143033, abs=1e-5)
    assert grad.norm(dim=1).nonzero()[:, 0].tolist() == [0, 2]


def test_the_gradient_is_that_of_cross_entropy_times_a_power(on_tables, trained, logits, labels):
    method = GCE(0.7)
    nets, batch = on_tables(method, [logits], labels)
    _, (grad,) = trained(method, nets, batch)
    p = logits.softmax(1)
    own = p[torch.arange(4), labels]
    expected = own[:, None] ** 0.7 * (p - torch.eye(3)[labels]) / 4
    torch.testing.assert_close(grad, expected)


def test_rows_are_looked_up_at_the_start_and_then_from_time_to_time(blobs):
    torch.manual_seed(0)
    net, feed = torch.nn.Linear(2, 3), Feed(blobs, batch_size=40)
    method = GCE(truncate=0.4, start=3, every=2)
    method.begin([net], feed)
    for epoch in range(8):
        method.before_epoch([net], feed, epoch, 10)
        plan = method.plan([net], feed)
        assert (plan is not None) == (epoch in (3, 5, 7))
        if plan is None:
            continue
        p = plan.output.softmax(1)[torch.arange(240), blobs.y]
        torch.testing.assert_close(plan.output, net(blobs.x).detach())
        assert method.kept.tolist() == (p > 0.4).tolist()
        with torch.no_grad():
            net.weight += 0.3
    assert 0 < method.kept.sum() < 240


def test_a_network_that_is_unsure_of_all_rows_keeps_them(blobs):
    net, feed = torch.nn.Linear(2, 3), Feed(blobs, batch_size=40)
    torch.nn.init.zeros_(net.weight)
    torch.nn.init.zeros_(net.bias)
    method = GCE(truncate=0.9, start=0)
    method.begin([net], feed)
    method.before_epoch([net], feed, 0, 10)
    method.plan([net], feed)
    assert method.kept.all()


def test_pruned_rows_survive_a_checkpoint(resumes, blobs):
    method = resumes(lambda: GCE(truncate=0.5, start=1, every=4), blobs)
    assert not method.kept.all()


def test_what_is_pruned_is_mostly_wrong(blobs):
    method = GCE(truncate=0.5, start=6, every=2)
    fit(blobs, method, "mlp", epochs=10, batch_size=24)
    wrong = blobs.y != blobs.truth
    assert wrong[~method.kept].float().mean() > 0.8
    assert method.kept[~wrong].float().mean() > 0.9


def test_mistakes_are_named(on_tables, blobs):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(GCE(), [torch.zeros(3, 1)], torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match=r"q must lie in \[0, 1\], not 2"):
        GCE(2)
    with pytest.raises(HoldfastError, match=r"\(0, 1\) or None, not 1"):
        GCE(truncate=1)
    with pytest.raises(HoldfastError, match="every at least 1, not 0 and 0"):
        GCE(start=0, every=0)
    with pytest.raises(HoldfastError, match="from epoch 40 on, and training ends after 3"):
        fit(blobs, GCE(truncate=0.5), "mlp", epochs=3)


def test_a_probability_of_zero_costs_no_more_than_one_over_q(on_tables):
    method = GCE(0.5)
    nets, batch = on_tables(method, [torch.tensor([[200.0, 0.0]])], torch.tensor([1]))
    loss = method.loss(nets, batch).loss
    assert loss.item() == pytest.approx(2.0)
    assert math.isfinite(loss.item())
