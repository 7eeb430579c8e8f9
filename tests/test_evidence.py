"""Evidence of networks that have never seen a label, and what becomes of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.optim import Adam

from holdfast import HoldfastError, Method, Rows, Run, checkpoint, fit
from holdfast import evidence as module
from holdfast.contract import check_method
from holdfast.evidence import FOLDS, asks_trees, caveats, cross_fit, most_epochs
from holdfast.feed import Feed, usual_batch
from holdfast.functional.held_out import stratified_folds
from holdfast.functional.label_trust import joined_evidence, label_trust, trust_in
from holdfast.functional.trees import tree_opinions
from holdfast.methods import SecondOpinion
from holdfast.noise import symmetric
from holdfast.noise_model import noise_model
from holdfast.progress import Silent
from holdfast.run_folder import RunFolder
from holdfast.types import Evidence


@pytest.mark.parametrize("regression", [False, True])
def test_the_contract_holds(regression):
    check_method(SecondOpinion(), regression=regression)


def clusters(n=1200, rate=0.3, classes=4, seed=0):
    source = torch.Generator().manual_seed(seed)
    truth = torch.arange(n) % classes
    x = 0.6 * torch.randn(classes, 20, generator=source)[truth] + torch.randn(n, 20, generator=source)
    return Rows(x, symmetric(truth, rate, classes, seed=1).labels, tuple("abcd"[:classes]), truth=truth)


def small_net(outputs=4):
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, outputs))


class Recorder(nn.Module):
    """Remembers the inputs that it was trained on."""

    def __init__(self):
        super().__init__()
        self.net = small_net()
        self.trained = []

    def forward(self, x):
        if self.training:
            self.trained.append(x[:, 0].detach().clone())
        return self.net(x)


def test_no_network_speaks_of_a_row_that_it_was_trained_on():
    rows = clusters(400)
    feed, nets = Feed(rows, batch_size=20, seed=3), [Recorder() for _ in range(FOLDS)]
    seen = []

    class Watched(type(feed)):
        def chunks(self, index):
            seen.append(index)
            return super().chunks(index)

    feed.__class__ = Watched
    cross_fit(feed, nets, lambda p: Adam(p, 1e-2), 2, Silent())
    fold = stratified_folds(rows.y, FOLDS, 3)
    for number, net in enumerate(nets):
        asked = seen[number]
        assert sorted(asked.tolist()) == (fold == number).nonzero()[:, 0].tolist()
        assert not set(torch.cat(net.trained).tolist()) & set(rows.x[asked, 0].tolist())
        assert len(set(torch.cat(net.trained).tolist())) == 300
    # Beside them the first rows, to see whether they are features and how many; these lie in memory.
    assert len([index for index in seen if not torch.equal(index, torch.arange(len(index)))]) == 2 * FOLDS


def test_folds_stop_when_held_out_labels_become_less_likely():
    rows = clusters(600, rate=0.4)
    feed, epochs = Feed(rows, batch_size=16), []

    class Counted(Silent):
        def at(self, done, of):
            epochs.append(done)

    nets = [nn.Sequential(nn.Linear(20, 512), nn.ReLU(), nn.Linear(512, 4)) for _ in range(FOLDS)]
    evidence = cross_fit(feed, nets, lambda p: Adam(p, 3e-3), 40, Counted())
    assert 3 <= max(epochs) < 20
    assert (evidence.held_out.argmax(1) == rows.truth).double().mean() > 0.75
    torch.testing.assert_close(evidence.held_out.sum(1), torch.ones(600))
    assert not torch.equal(evidence.joined, evidence.held_out)


def test_a_loss_that_swings_does_not_stop_folds_that_memorise_nothing(monkeypatch):
    """Dropout and a high learning rate: rows that are trained on are fitted worse than those that are held out."""
    torch.manual_seed(2)
    courses, unfinished = [], module._unfinished
    monkeypatch.setattr(
        module, "_unfinished", lambda course, *rest: courses.append(course) or unfinished(course, *rest)
    )
    nets = [nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.8), nn.Linear(64, 4)) for _ in range(FOLDS)]
    cross_fit(Feed(clusters(400, rate=0.5), batch_size=16), nets, lambda p: Adam(p, 0.03), 20, Silent())
    (course,) = courses
    grown = [k for k in range(2, len(course)) if course[k] > course[k - 1] > course[k - 2]]
    assert len(course) > grown[0] + 1


def test_the_folds_cost_little_more_than_a_training():
    assert [most_epochs(epochs) for epochs in (1, 10, 30, 100)] == [1, 5, 13, 44]
    assert most_epochs(30) * (FOLDS - 1) <= 1.3 * 30
    assert [most_epochs(epochs, trees=True) for epochs in (1, 10, 30, 100)] == [1, 4, 10, 34]


def test_trees_are_asked_where_they_cost_little_or_are_named():
    """Of narrow tables, 20 features of 4 classes and not 100; of no table of fewer than 40 rows, and of no pictures."""
    table = clusters(600)
    wide = replace(table, x=table.x.repeat(1, 5))
    assert asks_trees(Feed(table))
    assert not asks_trees(Feed(wide))
    assert asks_trees(Feed(wide), "scikit-learn")
    assert not asks_trees(Feed(table.take(torch.arange(39)), batch_size=16), "scikit-learn")
    assert not asks_trees(Feed(replace(table, x=table.x.reshape(-1, 1, 4, 5))))


def test_given_labels_keep_a_part_where_folds_were_still_learning():
    """At a low rate the folds are halfway when their epochs are over; at a high one they have stopped before."""
    rows = clusters(600, 0.2)
    shares = []
    for rate in (1e-3, 1e-2):
        feed = Feed(rows, batch_size=25, seed=0)
        nets = [small_net() for _ in range(FOLDS)]
        evidence = cross_fit(feed, nets, lambda p, rate=rate: Adam(p, rate), 6, Silent())
        model = noise_model(feed.task)
        whole = model.refined(evidence._replace(unfinished=None), rows.y)
        mixed = model.refined(evidence, rows.y)
        given = torch.nn.functional.one_hot(rows.y, 4).float()
        unsure = whole[:, 0] < 0.9
        shares.append(float(((mixed - whole) / (given - whole))[unsure].median()))
    assert shares[0] > 0.1
    assert shares[1] == 0


def test_the_network_in_training_is_heard_too():
    """Where others know little, targets follow what it has expected so far, and fewer given labels stay in them."""
    torch.manual_seed(0)
    rows = clusters(1200, 0.4)
    given, truth = (torch.nn.functional.one_hot(labels, 4).float() for labels in (rows.y, rows.truth))
    weak = (truth + torch.randn(1200, 4)).softmax(1)
    own = (3 * truth + given + torch.randn(1200, 4)).softmax(1)
    model = noise_model(Feed(rows).task)
    for unfinished in (0.0, 0.2):
        evidence = Evidence(weak, weak, unfinished=torch.tensor(unfinished))
        before, after = model.refined(evidence, rows.y), model.refined(evidence, rows.y, own=own)
        right = [float((target.argmax(1) == rows.truth).double().mean()) for target in (before, after)]
        assert right[1] > right[0] + 0.02
        unlikely = (own.argmax(1) == rows.truth) & (rows.y != rows.truth)
        stays = [float((target * given)[unlikely].sum(1).mean()) for target in (before, after)]
        assert stays[1] < stays[0] - 0.05


def test_it_is_heard_four_times_and_only_where_there_is_time():
    """Each time with what it has expected since the time before."""

    def asked(epochs):
        rows, times, seen = clusters(120), [], {}

        class Watched(SecondOpinion):
            def before_epoch(self, nets, data, epoch, epochs):
                before = self._own
                super().before_epoch(nets, data, epoch, epochs)
                seen[epoch] = epoch * data.learning(data.evidence.held_out)
                if self._own is not before:
                    since = seen[epoch] - seen[epoch - epochs // 6]
                    torch.testing.assert_close(self._own, since / since.sum(1, keepdim=True), rtol=0, atol=1e-5)
                    times.append(epoch)

        fit(rows, Watched(), small_net(), epochs=epochs, batch_size=60)
        return times

    assert asked(12) == [4, 6, 8, 10]
    assert asked(5) == []


def test_it_can_train_on_other_rows_after():
    method, rows = SecondOpinion(), clusters(200)
    fit(clusters(120), method, small_net(), epochs=6, batch_size=60)
    again = fit(rows, method, small_net(), epochs=6, batch_size=60)
    assert len(again.ledger) == 200
    assert len(method._own) == len(method._target) == 200


def test_what_folds_learnt_late_does_not_depend_on_the_noise():
    late = []
    for noise in (0.0, 0.4):
        torch.manual_seed(0)
        feed = Feed(clusters(2000, noise), batch_size=25, seed=0)
        evidence = cross_fit(feed, [small_net() for _ in range(FOLDS)], lambda p: Adam(p, 3e-4), 6, Silent())
        late.append(float(evidence.unfinished))
    assert late[0] > 0.1
    assert late[1] == pytest.approx(late[0], rel=0.35)


@pytest.mark.parametrize(("rate", "finished"), [(1e-4, False), (1e-2, True)])
def test_where_folds_ended_too_early_the_training_itself_judges(tmp_path, rate, finished):
    rows = clusters(800, 0.2)
    run = fit(rows, net=small_net(), epochs=18, optimizer=lambda p: Adam(p, rate), out=tmp_path, device="cpu")
    assert RunFolder(tmp_path).evidence().finished == finished
    assert ("evidence_0" in run.ledger) == finished
    assert len(run.issue_table()) == 800


@pytest.mark.parametrize(
    ("rate", "gain", "least"), [pytest.param(0.1, -0.01, 0.7, marks=pytest.mark.slow), (0.4, 0.02, 0.85)]
)
def test_the_default_finds_wrong_labels_and_learns_the_right_ones(rate, gain, least):
    rows = clusters(1600, rate)
    test = clusters(1600, 0.0)
    wrong = (rows.y != rows.truth).numpy()
    opinion = fit(Rows(rows.x, rows.y, rows.classes), SecondOpinion(), small_net(), test=test, epochs=30, batch_size=25)
    ordinary = fit(rows, Method(), small_net(), test=test, epochs=30, batch_size=25)
    assert opinion.history["test"].iloc[-1] > ordinary.history["test"].iloc[-1] + gain
    flag = opinion.issue_table()["flag"].to_numpy()
    f1 = 2 * (flag & wrong).sum() / (flag.sum() + wrong.sum())
    assert f1 > least
    assert opinion.noise().rate[0] == pytest.approx(wrong.mean(), abs=0.04)


def test_a_method_that_is_not_given_is_the_second_opinion():
    """Python and the command line train alike where nothing is said: the same method, batches and weights."""
    rows = clusters(300)
    run, said = fit(rows, net="mlp", epochs=3), fit(rows, SecondOpinion(), "mlp", epochs=3, batch_size=usual_batch(300))
    assert run.config.call == "SecondOpinion()"
    assert run.config == said.config
    assert run.config.batch_size == 16
    for name, value in run.net.state_dict().items():
        assert torch.equal(value, said.net.state_dict()[name])
    assert run.history["coverage"].iloc[-1] < 1
    assert fit(rows, Method(), "mlp", epochs=1).history["coverage"].tolist() == [1.0]


def test_numbers_far_from_what_others_expect_are_replaced():
    source = torch.Generator().manual_seed(0)
    x = torch.randn(600, 5, generator=source)
    truth = (x @ torch.tensor([1.0, -1.0, 0.5, 0.0, 0.2]))[:, None]
    y = truth.clone()
    y[::7] += 15
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    run = fit(Rows(x, y), SecondOpinion(), net, epochs=30, batch_size=16, optimizer=lambda p: Adam(p, 3e-3))
    assert np.abs(run.predict(x) - truth.numpy()).mean() < 0.3
    table = run.issue_table()
    assert table["flag"][::7].mean() > 0.95
    assert table["flag"].mean() < 0.25


def test_wrong_numbers_hardly_pull_what_others_expect():
    """All of them too large: with a limit of one the expectation rises, near the absolute error it hardly does."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(800, 5, generator=source)
    truth = (x @ torch.tensor([1.0, -1.0, 0.5, 0.0, 0.2]))[:, None]
    y = truth + 6.0 * (torch.arange(800) % 10 < 3)[:, None]
    nets = [nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(FOLDS)]
    found = cross_fit(Feed(Rows(x, y), batch_size=16), nets, lambda p: Adam(p, 3e-3), 12, Silent())
    assert float((found.held_out - truth).mean()) < 0.45


def test_any_method_can_be_given_evidence(tmp_path):
    rows = clusters(400)
    run = fit(rows, Method(), small_net(), evidence=True, epochs=4, batch_size=20, out=tmp_path / "run")
    plain = fit(rows, Method(), small_net(), epochs=4, batch_size=20)
    assert "evidence_0" in run.ledger
    assert "evidence_0" not in plain.ledger
    assert not run.issue_table()["trust"].equals(plain.issue_table()["trust"])
    loaded = Run.records(tmp_path / "run")
    assert loaded.issue_table()["trust"].tolist() == run.issue_table()["trust"].tolist()
    first = loaded.issues().iloc[0]
    assert first["why"].startswith(f"networks that never saw the label expect {first['suggested']}")
    # Asking others leaves no trace in the training itself.
    torch.manual_seed(0)
    one = fit(rows, Method(), "mlp", epochs=2, batch_size=20, evidence=True)
    two = fit(rows, Method(), "mlp", epochs=2, batch_size=20)
    for name, value in one.net.state_dict().items():
        assert torch.equal(value, two.net.state_dict()[name])


class Stopped(Exception):
    pass


@pytest.mark.parametrize("moment", ["asking", "training"])
def test_a_run_that_was_stopped_ends_the_same(tmp_path, monkeypatch, moment):
    """Also after the network in training was asked what it expects."""
    monkeypatch.setattr(checkpoint, "SHARE", torch.inf)  # so that every epoch is kept
    rows = clusters(300)

    def train(folder, **more):
        settings = {"epochs": 8, "batch_size": 20, "seed": 2, "out": tmp_path / folder, **more}
        return fit(rows, SecondOpinion(), "mlp", **settings)

    class Breaking(Silent):
        def at(self, done, of):
            if done > 1:
                raise Stopped

    def breaking(epoch, net):
        if epoch == 6:
            raise Stopped
        return {}

    whole = train("whole")
    with pytest.raises(Stopped):
        train("part", **({"progress": Breaking()} if moment == "asking" else {"watch": breaking}))
    part = train("part", resume=True)
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, part.net.state_dict()[name])
    assert whole.ledger.equals(part.ledger)


def test_a_loop_of_ones_own_must_ask_first(blobs):
    with pytest.raises(HoldfastError, match="needs the evidence of other networks"):
        SecondOpinion().begin([nn.Linear(2, 3)], Feed(blobs))


def opinions():
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(3000) % 3
    y = symmetric(truth, 0.3, 3, seed=2).labels
    held_out = (2 * torch.eye(3)[truth] + torch.randn(3000, 3, generator=source)).softmax(1)
    return truth, y, held_out, (held_out + 0.2 * torch.eye(3)[y]) / 1.2


def test_joined_evidence_has_the_rate_of_what_is_held_out():
    _, y, held_out, learning = opinions()
    joined = joined_evidence(held_out, [learning], y)
    alone = label_trust(held_out, y).right(y)
    assert float(trust_in(joined, y).right(y).mean()) == pytest.approx(float(alone.mean()), abs=0.01)
    unmatched = label_trust((held_out + learning) / 2, y).right(y)
    assert float(unmatched.mean()) > float(alone.mean()) + 0.01


def test_a_source_that_knows_something_helps_and_one_that_knows_little_is_left_out():
    truth, y, held_out, learning = opinions()
    wrong, source = (y != truth).numpy(), torch.Generator().manual_seed(1)

    def ranking(*others):
        return roc_auc_score(wrong, -trust_in(joined_evidence(held_out, others, y), y).right(y).numpy())

    another = (2 * torch.eye(3)[truth] + torch.randn(3000, 3, generator=source)).softmax(1)
    assert ranking(learning, another) > ranking(learning) + 0.02
    guess = torch.rand(3000, 3, generator=source)
    assert ranking(learning, guess / guess.sum(1, keepdim=True)) == ranking(learning)


def test_neighbours_have_their_say_of_features_and_not_of_pixels():
    """Features whose nearest rows all agree; networks that are hardly trained know little without them."""
    source = torch.Generator().manual_seed(0)
    truth = torch.arange(600) % 4
    x = torch.randn(4, 100, generator=source)[truth] + 0.8 * torch.randn(600, 100, generator=source)
    y = symmetric(truth, 0.2, 4, seed=1).labels

    def asked(x):
        torch.manual_seed(0)
        nets = [nn.Sequential(nn.Flatten(), nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 4)) for _ in range(FOLDS)]
        return cross_fit(Feed(Rows(x, y, tuple("abcd")), batch_size=100), nets, lambda p: Adam(p, 1e-3), 1, Silent())

    def right(opinion):
        return (opinion.argmax(1) == truth).float().mean()

    features, pixels = asked(x), asked(x.reshape(600, 1, 10, 10))
    assert torch.equal(features.held_out, pixels.held_out)
    assert right(features.joined) > max(right(features.held_out), right(pixels.joined)) + 0.02


def test_trees_have_their_say_where_they_predict_better():
    """A table of thresholds is theirs; what is linear is the networks'."""
    source = torch.Generator().manual_seed(0)
    x = torch.rand(1500, 6, generator=source) - 0.5
    stripes = (x[:, 0] * 8).floor().long() % 2
    linear = (x.sum(1) > 0).long()

    def asked(truth):
        torch.manual_seed(0)
        rows = Rows(x, symmetric(truth, 0.2, 2, seed=1).labels, ("a", "b"))
        nets = [nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(FOLDS)]
        found = cross_fit(Feed(rows, batch_size=50), nets, lambda p: Adam(p, 3e-3), 6, Silent())
        return (found.held_out.argmax(1) == truth).float().mean(), found.held_out, rows

    assert asked(stripes)[0] > 0.8
    right, held_out, rows = asked(linear)
    assert right > 0.9
    with_trees = tree_opinions(x, rows.y, torch.arange(1500) % FOLDS, 2)
    assert (with_trees.argmax(1) == linear).float().mean() < right
    assert held_out.gather(1, rows.y[:, None]).log().mean() > with_trees.gather(1, rows.y[:, None]).log().mean()


def test_one_hot_columns_do_not_make_a_table_too_wide_for_trees():
    source = torch.Generator().manual_seed(0)
    y = torch.randint(2, (500,), generator=source)
    numbers = torch.rand(500, 300, generator=source)
    categories = torch.cat([F.one_hot(torch.randint(100, (500,), generator=source), 100) for _ in range(3)], 1).float()
    assert not asks_trees(Feed(Rows(numbers, y, ("a", "b"))))
    assert asks_trees(Feed(Rows(categories, y, ("a", "b"))))
    assert not asks_trees(Feed(Rows(categories.roll(1, 0) + 0.1 * numbers, y, ("a", "b"))))
    assert asks_trees(Feed(Rows(numbers, y, ("a", "b"))), "scikit-learn")


def told(evidence, y):
    return caveats(Evidence(evidence, evidence), y)


def test_inputs_that_tell_nothing_are_said_to():
    """Also where all that is learnt is which class is the larger one."""
    torch.manual_seed(0)
    y = (torch.rand(2000) < 0.1).long()
    shares = torch.tensor([0.9, 0.1]).expand(2000, 2)
    assert "no better than by guessing" in told(shares + 0.01 * torch.randn(2000, 1) * torch.tensor([1, -1]), y)[0]
    assert told(0.8 * shares + 0.2 * torch.nn.functional.one_hot(y, 2), y) == []
    target = torch.randn(500, 1)
    assert "targets of rows" in told(torch.zeros(500, 1), target)[0]
    assert told(0.5 * target, target) == []


def test_networks_that_ended_too_early_are_said_to():
    y = torch.tensor([0, 1] * 50)
    sure = torch.nn.functional.one_hot(y, 2).float().clamp(0.1, 0.9)
    late = Evidence(sure, sure, unfinished=torch.tensor(0.2))
    assert "still learning" in caveats(late, y)[0]
    assert caveats(late._replace(unfinished=torch.tensor(0.01)), y) == []
