import pytest
import torch
from torch import nn
from torch.optim import Adam

from holdfast import HoldfastError, Method, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.functional import batch_beta, cyclic_partners, row_uniforms
from holdfast.functional.mixture import small_component
from holdfast.methods import DivideMix
from holdfast.methods.divide_mix import semi_supervised, sharpen


@pytest.mark.parametrize(
    "method", [DivideMix(), DivideMix(warmup=0), DivideMix(0, warmup=1, confident=False, ramp=1)], ids=repr
)
def test_the_contract_holds(method):
    check_method(method, neutral=DivideMix(warmup=2))


def begun(method, rows, epoch, batch_size=30):
    torch.manual_seed(0)
    nets = [nn.Linear(2, 3), nn.Linear(2, 3)]
    for net, epochs in zip(nets, (4, 6), strict=True):
        fit(rows, Method(), net, epochs=epochs, batch_size=24, optimizer=lambda parameters: Adam(parameters, lr=0.03))
    feed = Feed(rows, batch_size=batch_size, seed=4, augment=lambda x, g: x + 0.1 * torch.randn(x.shape, generator=g))
    method.begin(nets, feed)
    method.before_epoch(nets, feed, epoch, 40)
    return nets, next(iter(feed.batches(method.plan(nets, feed), 2)))


def test_numbers_of_the_specification(logits):
    torch.testing.assert_close(
        sharpen(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.06, 0.84]]), 0.5),
        torch.tensor([[0.657895, 0.236842, 0.105263], [0.013904, 0.005006, 0.981090]]),
        atol=1e-5,
        rtol=0,
    )
    target = torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])
    labelled = torch.tensor([True, True, False, False])
    for strength, total in ((0, 0.760790 + 0.007438), (10, 0.833655)):
        got = semi_supervised(logits, target, labelled, torch.ones(4), strength)
        assert got.item() == pytest.approx(total, abs=1e-5)


def test_the_strength_of_the_specification(on_tables, logits, second, labels):
    method = DivideMix(25, warmup=10)
    for epoch, strength in ((10, 0), (14, 6.25), (26, 25), (40, 25)):
        on_tables(method, [logits, second], labels, epoch=epoch)
        assert method.unlabelled_strength() == pytest.approx(strength)


def test_each_network_divides_for_the_other(blobs):
    method = DivideMix(warmup=3)
    nets, _ = begun(method, blobs, 3)
    for net, clean in zip(nets, method.clean, strict=True):
        losses = nn.functional.cross_entropy(net(blobs.x), blobs.y, reduction="none").detach()
        torch.testing.assert_close(clean, small_component(losses).float())
    assert not torch.equal(*method.clean)
    wrong = blobs.y != blobs.truth
    assert ((method.clean[0] <= 0.5) == wrong).float().mean() > 0.9


def test_a_batch_against_a_loop(blobs):
    method = DivideMix(8.0, warmup=3, ramp=4)
    nets, batch = begun(method, blobs, 5)
    assert not torch.equal(*batch.x)
    step = method.loss(nets, batch)
    b, total, trust = len(batch.y), 0.0, torch.zeros(len(batch.y))
    uniforms = row_uniforms(480, 4, 5)
    partner = cyclic_partners(torch.cat([uniforms[batch.index], uniforms[240 + batch.index]]))
    for k in (0, 1):
        w = method.clean[1 - k][batch.index]
        p = [[net(x).softmax(1) for x in batch.x] for net in (nets[k], nets[1 - k])]
        targets = []
        for i in range(b):
            if w[i] > 0.5:
                t = w[i] * torch.eye(3)[batch.y[i]] + (1 - w[i]) * (p[0][0][i] + p[0][1][i]) / 2
            else:
                t = (p[0][0][i] + p[0][1][i] + p[1][0][i] + p[1][1][i]) / 4
            targets.append(t**2 / (t**2).sum())
        targets, x = torch.stack(targets * 2).detach(), torch.cat(batch.x)
        m = batch_beta(4.0, batch.index, 4, 5, k)
        log = nets[k](m * x + (1 - m) * x[partner]).log_softmax(1)
        mixed = m * targets + (1 - m) * targets[partner]
        known = torch.cat([w, w]) > 0.5
        assert 0 < known.sum() < 2 * b
        lx = -(mixed * log).sum(1)[known].mean()
        lu = (log.exp() - mixed).square()[~known].mean()
        lreg = (1 / 3 * (1 / 3 / log.exp().mean(0)).log()).sum()
        total += (lx + 4.0 * lu + lreg).item()
        trust += (w > 0.5).float() / 2
    assert step.loss.item() == pytest.approx(total, abs=1e-5)
    assert torch.equal(step.weight, trust)


def test_the_other_network_guesses_in_evaluation_mode(blobs):
    class Seen(nn.Linear):
        def __init__(self):
            super().__init__(2, 3)
            self.modes = []

        def forward(self, x):
            self.modes.append((self.training, torch.is_grad_enabled(), len(x)))
            return super().forward(x)

    method, nets, feed = DivideMix(warmup=0), [Seen(), Seen()], Feed(blobs, batch_size=30)
    method.begin(nets, feed)
    method.before_epoch(nets, feed, 0, 10)
    batch = next(iter(feed.batches(method.plan(nets, feed), 2)))
    for net in nets:
        net.modes.clear()
    method.loss(nets, batch)
    for net in nets:
        assert net.training
        assert sorted(net.modes) == [(False, False, 30)] * 2 + [(True, False, 30)] * 2 + [(True, True, 60)]


def test_the_warm_up_may_keep_predictions_unsure(on_tables, logits, second, labels):
    sure, unsure = DivideMix(), DivideMix(confident=False)
    nets, batch = on_tables(sure, [logits, second], labels, epoch=0)
    on_tables(unsure, [logits, second], labels, epoch=0)
    batch = batch._replace(x=(batch.x, batch.x))
    entropy = sum(-(p * p.log()).sum(1).mean() for p in (logits.softmax(1), second.softmax(1)))
    difference = sure.loss(nets, batch).loss - unsure.loss(nets, batch).loss
    assert difference.item() == pytest.approx(entropy.item(), abs=1e-5)


def test_a_batch_without_labelled_rows_still_trains(blobs):
    method = DivideMix(warmup=0)
    nets, batch = begun(method, blobs, 0)
    method.clean.zero_()
    loss = method.loss(nets, batch).loss
    loss.backward()
    assert torch.isfinite(loss)
    assert all(net.weight.grad.any() for net in nets)


def test_the_state_survives_a_checkpoint(resumes, blobs):
    resumes(lambda: DivideMix(warmup=1, ramp=2), blobs)


def test_wrong_labels_are_found(blobs):
    method = DivideMix(warmup=4)
    run = fit(blobs, method, "mlp", epochs=12, batch_size=24)
    wrong = blobs.y != blobs.truth
    assert ((method.clean.mean(0) <= 0.5) == wrong).float().mean() > 0.95
    assert (run.net(blobs.x).argmax(1) == blobs.truth).float().mean() > 0.95


def test_mistakes_are_named(on_tables):
    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(DivideMix(), [torch.zeros(3, 1)] * 2, torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match="strength and warmup must be at least 0, not -1 and 10"):
        DivideMix(-1)
    with pytest.raises(HoldfastError, match="temperature and alpha must be above 0, not 0 and 4"):
        DivideMix(temperature=0)
    with pytest.raises(HoldfastError, match="at least one epoch, not 0"):
        DivideMix(ramp=0)
