import math

import pytest
import torch
from torch import nn

from holdfast import HoldfastError, Rows, fit
from holdfast.contract import check_method
from holdfast.feed import Feed
from holdfast.methods import MentorNet, mentor_net
from holdfast.methods.mentor_net import Mentor, curriculum, teach

LOSSES = [0.2, 0.6, 1.4, 3.0]


def review(rows, count=60):
    """The first rows, with the labels that are true."""
    return torch.arange(count), rows.truth[:count]


@pytest.fixture
def hurried(monkeypatch):
    """A mentor that is taught in a tenth of its steps, where it need not have learnt much."""
    monkeypatch.setattr(mentor_net, "STEPS", 60)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    "method",
    [
        MentorNet(),
        MentorNet(0.3, burn_in=0, momentum=0),
        MentorNet(0.2, dropout=True),
        MentorNet(reviewed=(list(range(12)), [0, 1, 2] * 4)),
    ],
    ids=["auto", "told", "dropout", "reviewed"],
)
def test_the_contract_holds(method):
    check_method(method, neutral=MentorNet(burn_in=1.0))


@pytest.fixture
def four(on_tables):
    """A method at a given epoch of 30, and a batch with the losses of the specification."""

    def make(method, epoch):
        table = torch.tensor([[-loss, math.log1p(-math.exp(-loss))] for loss in LOSSES])
        return on_tables(method, [table], torch.zeros(4, dtype=torch.int64), epoch=epoch)

    return make


@pytest.mark.parametrize(
    ("epoch", "weights", "loss"),
    [(5, [1, 1, 1, 1], 1.3), (20, [1, 1, 0, 0], 0.2), (27, [1, 1, 0.6, 0], 0.41)],
)
def test_numbers_of_the_specification(four, trained, epoch, weights, loss):
    method = MentorNet(0.25, momentum=1.0)
    nets, batch = four(method, epoch)
    method.bar.fill_(1.0)
    step, (grad,) = trained(method, nets, batch)
    assert step.weight.tolist() == pytest.approx(weights, abs=1e-6)
    assert step.loss.item() == pytest.approx(loss, abs=1e-6)
    p = torch.tensor([math.exp(-value) for value in LOSSES])
    # The weights are constants for the gradient, and the mean is over all four.
    torch.testing.assert_close(grad[:, 0], -(1 - p) * torch.tensor(weights) / 4, atol=1e-6, rtol=0)


def test_the_bar_is_a_moving_average_of_the_nearest_percentile(four):
    method = MentorNet(0.25, momentum=0.5)
    nets, batch = four(method, 20)
    for bar in (0.7, 1.05, 1.225):
        method.loss(nets, batch)
        assert float(method.bar) == pytest.approx(bar, abs=1e-6)


def test_weights_in_the_plan_count(four):
    method = MentorNet(0.25, momentum=1.0)
    nets, batch = four(method, 20)
    method.bar.fill_(1.0)
    step = method.loss(nets, batch._replace(weight=torch.tensor([1.0, 3.0, 2.0, 2.0])))
    assert step.loss.item() == pytest.approx((0.2 + 3 * 0.6) / 8, abs=1e-6)
    assert step.weight.tolist() == [1, 3, 0, 0]


@pytest.mark.parametrize(("epochs", "free"), [(100, 19), (50, 10), (10, 2), (3, 1)])
def test_the_burn_in_is_a_share_of_training(blobs, epochs, free):
    method, nets = MentorNet(0.2), [nn.Linear(2, 3)]
    feed = Feed(blobs, batch_size=40)
    method.begin(nets, feed)
    counted = 0
    for epoch in range(epochs):
        method.before_epoch(nets, feed, epoch, epochs)
        counted += bool((method._weigh(torch.tensor([9.0])) == 1).all())
    assert counted == free


def test_dropout_keeps_random_rows_whatever_their_order(blobs):
    method, nets = MentorNet(0.2, dropout=True), [nn.Linear(2, 3)]
    feed = Feed(blobs, batch_size=40)
    method.begin(nets, feed)
    kept = []
    for epoch, count in ((0, 20), (1, 20), (18, 38)):
        method.before_epoch(nets, feed, epoch, 100)
        batch = next(iter(feed.batches()))
        weight = method.loss(nets, batch).weight
        assert weight.sum() == count
        turned = type(batch)(*(part.flip(0) for part in batch))
        assert torch.equal(method.loss(nets, turned).weight.flip(0), weight)
        kept.append(set(batch.index[weight > 0].tolist()))
    assert kept[0] != kept[1]


def test_a_mentor_learns_a_bar():
    source = torch.Generator().manual_seed(0)
    right = (torch.rand(300, generator=source) < 0.6).float()
    losses = torch.where(right > 0, 0.3, 1.5) + 0.4 * torch.rand(300, generator=source)
    log = torch.full((19, 300), torch.nan)
    log[10], log[18] = 1.2 * losses, losses
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mentor = Mentor()
    teach(mentor, log, right, 0)
    bar = losses.quantile(0.6, interpolation="nearest")
    chosen = mentor(losses, losses - bar, torch.full((300,), 18)) > 0
    assert (chosen == (right > 0)).float().mean() > 0.97
    assert not any(parameter.requires_grad for parameter in mentor.parameters())


def test_reviewed_rows_teach_whom_to_trust(blobs):
    method = MentorNet(reviewed=review(blobs))
    run = fit(blobs, method, "mlp", epochs=25, batch_size=24)
    assert method.taught
    noted = (~method.log.isnan().any(1)).nonzero()[:, 0].tolist()
    assert noted == [4, 8, 12, 16, 18]
    assert (run.net(blobs.x).argmax(1) == blobs.truth).float().mean() > 0.95
    losses = nn.functional.cross_entropy(run.net(blobs.x), blobs.y, reduction="none").detach()
    right = blobs.y == blobs.truth
    weight = method._weigh(losses)
    assert weight[right].mean() > 0.8
    assert weight[~right].mean() < 0.2


def test_what_is_noted_are_losses_against_given_labels(blobs):
    method, nets = MentorNet(reviewed=review(blobs, 30)), [nn.Linear(2, 3)]
    feed = Feed(blobs, batch_size=16)
    method.begin(nets, feed)
    method.before_epoch(nets, feed, 0, 100)
    assert method.log.isnan().all()
    method.before_epoch(nets, feed, 7, 100)
    expected = nn.functional.cross_entropy(nets[0](blobs.x[:30]), blobs.y[:30], reduction="none").detach()
    torch.testing.assert_close(method.log[7], expected)
    assert not method.taught


def test_reviewing_draws_nothing_from_others(blobs):
    method, nets, feed = MentorNet(reviewed=review(blobs)), [nn.Linear(2, 3)], Feed(blobs)
    before = torch.get_rng_state(), feed.generator.get_state()
    method.begin(nets, feed)
    method.before_epoch(nets, feed, 1, 3)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(feed.generator.get_state(), before[1])


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("broken", [2, 5])
def test_mentor_and_bar_survive_a_checkpoint(resumes, blobs, broken):
    method = resumes(lambda: MentorNet(reviewed=review(blobs), burn_in=0.4, dropout=True), blobs, 8, broken)
    assert method.taught
    assert "mentor.gate.weight" in method.state_dict()


def test_the_predefined_curriculum_resumes_too(resumes, blobs):
    assert resumes(MentorNet, blobs).bar > 0


def test_curriculum_of_the_specification():
    excess = torch.tensor(LOSSES) - 1
    assert curriculum(excess, gradual=False).tolist() == [1, 1, 0, 0]
    assert curriculum(excess, gradual=True).tolist() == pytest.approx([1, 1, 0.6, 0])


def test_wrong_labels_weigh_less(blobs):
    run = fit(blobs, MentorNet(), "mlp", epochs=25, batch_size=24)
    right = blobs.y == blobs.truth
    trust = torch.tensor(run.ledger["trust"].to_numpy())
    assert trust[right].mean() > trust[~right].mean() + 0.4
    assert (run.net(blobs.x).argmax(1) == blobs.truth).float().mean() > 0.95


def test_mistakes_are_named(on_tables, blobs):
    def begun(reviewed):
        MentorNet(reviewed=reviewed).begin([nn.Linear(2, 3)], Feed(blobs))

    with pytest.raises(HoldfastError, match="numbers to predict"):
        on_tables(MentorNet(), [torch.zeros(3, 1)], torch.zeros(3, 1))
    with pytest.raises(HoldfastError, match=r"must lie in \[0, 1\], not 2 and 0.5"):
        MentorNet(burn_in=2)
    with pytest.raises(HoldfastError, match="3 reviewed rows but 2 labels"):
        MentorNet(reviewed=([1, 2, 3], [0, 0]))
    with pytest.raises(HoldfastError, match="must lie in 0 to 239"):
        begun(([240], [0]))
    with pytest.raises(HoldfastError, match="numbers of classes, 0 to 2"):
        begun(([3], [3]))
    with pytest.raises(HoldfastError, match="of 20 reviewed labels 20 are as given"):
        begun((range(20), blobs.y[:20]))
    with pytest.raises(HoldfastError, match="of 0 reviewed labels"):
        begun(([], []))


def test_rows_of_one_batch_alone_are_enough(blobs):
    small = Rows(blobs.x[:12], blobs.y[:12], ("a", "b", "c"))
    fit(small, MentorNet(0.2), "mlp", epochs=6, batch_size=4)
