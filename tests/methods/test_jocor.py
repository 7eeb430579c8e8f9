import pytest
import torch

from holdfast import HoldfastError, fit
from holdfast.contract import check_method
from holdfast.functional import divergence
from holdfast.methods import JoCoR


@pytest.mark.parametrize("method", [JoCoR(), JoCoR(0.45, ramp=0), JoCoR(0.2, agreement=0.1, ramp=0)], ids=repr)
def test_the_contract_holds(method):
    check_method(method, neutral=JoCoR(0.0, agreement=0))


NUMBERS = {
    0.1: ([1.301717, 1.410739, 0.765481, 3.289166], {0.25: 1.159313, 0.5: 1.033599}),
    0.9: ([0.951921, 1.064606, 0.319890, 1.075538], {0.25: 0.778806, 0.5: 0.635905}),
}


@pytest.mark.parametrize("agreement", NUMBERS)
@pytest.mark.parametrize("forwards", ["one", "two"])
def test_numbers_of_the_specification(on_tables, logits, second, labels, agreement, forwards):
    joint, means = NUMBERS[agreement]
    for rate, mean in means.items():
        method = JoCoR(rate, agreement=agreement, forwards=forwards)
        nets, batch = on_tables(method, [logits, second], labels)
        got = method.joint_losses([logits, second], labels)
        torch.testing.assert_close(got, torch.tensor(joint), atol=1e-5, rtol=0)
        assert method.loss(nets, batch).loss.item() == pytest.approx(mean, abs=1e-5)


def test_divergence_is_that_of_both_directions(logits, second):
    p, q = logits.softmax(1), second.softmax(1)
    one, two = (p * (p / q).log()).sum(1), (q * (q / p).log()).sum(1)
    torch.testing.assert_close(one, torch.tensor([0.4340, 0.5512, 0.1185, 0.4697]), atol=5e-5, rtol=0)
    torch.testing.assert_close(divergence(logits, second), one + two)


@pytest.mark.parametrize("forwards", ["one", "two"])
def test_the_gradient_flows_through_both_networks(on_tables, trained, logits, second, labels, forwards):
    method = JoCoR(0.5, agreement=0.5, forwards=forwards)
    nets, batch = on_tables(method, [logits, second], labels)
    step, grads = trained(method, nets, batch)
    tables = [logits.clone().requires_grad_(), second.clone().requires_grad_()]
    p, q = (table.softmax(1) for table in tables)
    own = [-table.log_softmax(1)[torch.arange(4), labels] for table in tables]
    kl = (p * (p / q).log()).sum(1) + (q * (q / p).log()).sum(1)
    joint = 0.5 * (own[0] + own[1]) + 0.5 * kl
    kept = joint.argsort()[:2]
    joint[kept].mean().backward()
    assert step.weight.nonzero()[:, 0].tolist() == sorted(kept.tolist())
    for got, table in zip(grads, tables, strict=True):
        torch.testing.assert_close(got, table.grad)


def test_the_estimate_survives_a_checkpoint(resumes, blobs):
    method = resumes(lambda: JoCoR(ramp=2), blobs)
    assert method.estimate.rate > 0.1


def test_what_is_dropped_is_mostly_wrong(blobs):
    run = fit(blobs, JoCoR(0.2, ramp=4), "mlp", epochs=16, batch_size=24)
    assert (run.net(blobs.x).argmax(1) == blobs.truth).float().mean() > 0.95


def test_mistakes_are_named(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(JoCoR(), [torch.zeros(3, 1)] * 2, torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match=r"agreement in the loss must lie in \[0, 1\], not 2"):
        JoCoR(agreement=2)
