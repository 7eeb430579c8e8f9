"""Stop rules: what they decide, what they keep, and that they decide well without a clean label."""

import copy
from functools import partial

import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim import SGD, Adam

from holdfast import HoldfastError, Method, Rows, Run, Stack, fit
from holdfast.compare import corrupted
from holdfast.feed import Feed
from holdfast.functional import Constant, label_noise_rate
from holdfast.methods import PRLL, EMARefinement
from holdfast.stop import STOPS, DistanceStop, NoisyValidationStop, StopRule, TheoryStop, TrainAccuracyStop
from holdfast.types import Epoch, Plan

RULES = [
    DistanceStop(),
    NoisyValidationStop(0.2, patience=2),
    TrainAccuracyStop(0.2),
    TrainAccuracyStop(),
    TheoryStop(),
]


@pytest.fixture(scope="module")
def digits() -> tuple[Rows, Rows]:
    x, y = load_digits(return_X_y=True)
    rows = Rows(torch.from_numpy(x / 16).float(), torch.from_numpy(y), tuple("0123456789"))
    train, test = rows.split(0.3, 0)
    return corrupted(train, "symmetric", 0.4, 0), test


def net_for(rows: Rows, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(rows.x[0].numel(), 256), nn.ReLU(), nn.Linear(256, len(rows.classes)))


def begun(rule: StopRule, rows: Rows) -> tuple[Feed, nn.Module]:
    feed, net = Feed(rows), net_for(rows)
    rule.begin(feed)
    return feed, net


def judged(rule: StopRule, rows: Rows, seen: list[tuple[float, float]]) -> list[tuple[bool, bool]]:
    feed, net = begun(rule, rows)
    verdicts = [rule.judge(Epoch(k, 30, far, agrees, 0.0), net, feed) for k, (far, agrees) in enumerate(seen)]
    return [(verdict.best, bool(verdict.stop)) for verdict in verdicts]


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("method", [Method(), EMARefinement(warmup=1), PRLL()], ids=repr)
def test_every_rule_works_with_every_method(blobs, rule, method, tmp_path):
    settings = {"epochs": 4, "batch_size": 40, "out": tmp_path / "run"}
    run = fit(blobs, copy.deepcopy(method), net_for(blobs), stop=copy.deepcopy(rule), **settings)
    assert 1 <= len(run.history) <= 4
    assert set(run.history["best"].unique()) <= {0.0, 1.0}
    assert run.config.stop["name"] == type(rule).__name__


def test_distance_keeps_the_epoch_of_the_least_gain(blobs):
    # Gains of .4, .1, .05, .06, .2, .3: the least in the fourth epoch.
    seen = [(1.0, 0.2), (2.0, 0.6), (3.0, 0.7), (4.0, 0.75), (5.0, 0.81), (6.0, 1.01), (7.0, 1.31)]
    verdicts = judged(DistanceStop(3), blobs, seen)
    assert [best for best, _ in verdicts] == [True, True, True, True, False, False, False]
    assert [stop for _, stop in verdicts] == [False] * 6 + [True]
    # A network that is set back begins anew.
    verdicts = judged(DistanceStop(1), blobs, [(1.0, 0.2), (2.0, 0.3), (0.5, 0.2), (1.5, 0.4), (2.5, 0.5)])
    assert verdicts == [(True, False)] * 5


def test_accuracy_keeps_the_epoch_nearest_to_the_share_of_right_labels(blobs):
    assert judged(TrainAccuracyStop(0.4), blobs, [(1, 0.3), (1, 0.55), (1, 0.62), (1, 0.8)]) == [
        (True, False),
        (True, False),
        (True, True),
        (False, True),
    ]
    verdicts = judged(TrainAccuracyStop(0.4), blobs, [(1, 0.58), (1, 0.7)])
    assert verdicts == [(True, False), (False, True)]


def test_a_network_that_changes_its_mind_is_judged_by_labels_on_unlikely_classes_alone(digits):
    train, _ = digits
    rule = TrainAccuracyStop()
    feed, net = begun(rule, train)
    found, predictions = [], []
    for epoch in range(4):
        if epoch < 3:  # from the third to the fourth nothing changes
            net = net_for(train, seed=epoch)
        found.append(rule.noise_rate(Epoch(epoch, 30, 1.0, 0.1, 0.0), net, feed))
        predictions.append(feed.task.expected(feed.outputs(net)))
    assert found[0] == pytest.approx(label_noise_rate(predictions[0], train.y)[0])
    assert found[1:3] == pytest.approx([label_noise_rate(now, train.y, stability=0.0)[0] for now in predictions[1:3]])
    assert found[2] != pytest.approx(label_noise_rate(predictions[2], train.y)[0])
    assert found[3] == found[2]
    assert not rule.probing


def test_the_kept_epoch_is_what_the_run_returns(digits, tmp_path):
    rows, test = digits
    run = fit(
        rows, Method(), net_for(rows), stop=DistanceStop(), test=test, epochs=40, batch_size=64, schedule=Constant(),
        device="cpu", out=tmp_path / "run",
    )  # fmt: skip
    assert len(run.history) < 40
    assert run.best_epoch == len(run.history) - 4
    assert "given labels" in run.stopped
    right = (run.predict(test.x) == [str(int(k)) for k in test.y]).mean()
    assert right == pytest.approx(run.score)
    assert f"accuracy {right:.4f}" in repr(run)
    assert abs(right - run.last) > 1e-3  # which is what the last ten epochs have on average
    assert right == pytest.approx(float(run.history["test"][run.best_epoch]))
    again = Run.load(tmp_path / "run", net_for(rows))
    assert (again.stopped, again.best_epoch) == (run.stopped, run.best_epoch)
    torch.testing.assert_close(again.outputs(test.x), run.outputs(test.x), rtol=0, atol=0)


@pytest.mark.parametrize("rule", [DistanceStop(), NoisyValidationStop(), TrainAccuracyStop()], ids=repr)
def test_rules_stop_near_the_best_epoch_where_ordinary_training_goes_on_to_lose(digits, rule):
    rows, test = digits
    blind = Rows(rows.x, rows.y, rows.classes)  # no true label for any rule to read
    settings = {"test": test, "epochs": 60, "batch_size": 64, "schedule": Constant(), "device": "cpu"}
    settings["optimizer"] = partial(Adam, lr=0.003)
    ordinary = fit(blind, Method(), net_for(rows), **settings)
    run = fit(blind, Method(), net_for(rows), stop=copy.deepcopy(rule), **settings)
    assert ordinary.last < ordinary.best - 0.1
    assert run.score > ordinary.best - 0.03
    assert run.stopped


def test_all_right_labels_are_not_cut_short(digits):
    rows, test = digits
    clean = Rows(rows.x, rows.truth, rows.classes)
    run = fit(clean, Method(), net_for(rows), stop=DistanceStop(), test=test, epochs=30, batch_size=64, device="cpu")
    assert run.score > run.best - 0.02


def test_resumed_in_the_middle_it_ends_the_same(digits, tmp_path):
    rows, test = digits
    settings = {"test": test, "epochs": 40, "batch_size": 64, "schedule": Constant(), "device": "cpu"}

    def train(net: nn.Module, folder: str, **more: object) -> Run:
        return fit(rows, PRLL(0.2), net, stop=DistanceStop(2), out=tmp_path / folder, **settings, **more)

    whole = train(net_for(rows), "whole")

    class Stopped(Exception):
        pass

    def watch(epoch: int, net: nn.Module) -> dict[str, float]:
        if epoch == whole.best_epoch + 1:
            raise Stopped
        return {}

    with pytest.raises(Stopped):
        train(net_for(rows), "part", watch=watch)
    other = net_for(rows)
    with torch.no_grad():
        other[1].weight.zero_()  # another start than the one from which the distance counts
    part = train(other, "part", resume=True)
    columns = [c for c in whole.history if "seconds" not in c]
    pd.testing.assert_frame_equal(part.history[columns], whole.history[columns])
    torch.testing.assert_close(part.outputs(test.x), whole.outputs(test.x), rtol=0, atol=0)
    assert part.stopped == whole.stopped
    # Taken up once more there is nothing left to do, and the kept network is still the one returned.
    again = train(net_for(rows), "part", resume=True)
    torch.testing.assert_close(again.outputs(test.x), whole.outputs(test.x), rtol=0, atol=0)


@pytest.mark.parametrize("method", [Method(), EMARefinement(warmup=1)], ids=repr)
def test_withheld_rows_are_never_trained_on(blobs, method):
    rule = NoisyValidationStop(0.25, patience=30)
    run = fit(blobs, method, net_for(blobs), stop=rule, epochs=4, batch_size=32, device="cpu")
    assert int(rule.rows.sum()) == 60
    trained = torch.tensor(run.ledger["trained"])
    assert (trained[rule.rows] == 0).all()
    assert (trained[~rule.rows] > 0).double().mean() > 0.9


def test_a_withheld_partner_is_replaced_by_the_row_itself():
    withheld = torch.tensor([False, True, False, False])
    plan = Plan(torch.tensor([3, 1, 0]), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 0, 2]), torch.ones(3) / 3)
    left = plan.without(withheld)
    assert left.index.tolist() == [3, 0]
    assert left.partner.tolist() == [3, 2]
    assert left.weight.tolist() == pytest.approx([0.1, 0.3])
    assert len(left.share) == 2


def test_theory_stops_at_its_time(blobs):
    def train(rate: float) -> Run:
        return fit(
            blobs, Method(), net_for(blobs), stop=TheoryStop(0.2), epochs=6, batch_size=60, schedule=Constant(),
            device="cpu", optimizer=lambda p: SGD(p, lr=rate),
        )  # fmt: skip

    slow = train(0.01)
    assert not slow.stopped
    assert len(slow.history) == 6
    clock = slow.history["clock"]
    assert clock.diff()[1:].tolist() == pytest.approx([clock[0]] * 5)  # the same rate in each epoch
    fast = train(0.01 / clock[0] / 2.5)
    assert "Theorem 2.2" in fast.stopped
    assert len(fast.history) == 3


def test_mistakes_are_named(blobs, line):
    with pytest.raises(HoldfastError, match="a stop rule goes to fit"):
        Stack(Method(), TrainAccuracyStop())
    with pytest.raises(HoldfastError, match="at least one epoch"):
        DistanceStop(0)
    with pytest.raises(HoldfastError, match="between 0 and 1"):
        NoisyValidationStop(1.0)
    with pytest.raises(HoldfastError, match="must be positive"):
        TheoryStop(constant=0)
    with pytest.raises(HoldfastError, match="numbers to predict"):
        fit(line, Method(), stop=TrainAccuracyStop(), epochs=1)
    assert set(STOPS) == {"distance", "validation", "accuracy", "theory"}


@pytest.mark.parametrize("rule", [DistanceStop(2), NoisyValidationStop(0.2, patience=2)], ids=repr)
def test_rules_are_for_numbers_too(line, rule):
    run = fit(line, PRLL(0.1), nn.Linear(3, 2), stop=rule, epochs=25, batch_size=20, device="cpu")
    # The kept epoch is the one that the rule's own number says, and the network is that epoch's.
    judged = run.history["withheld"] if "withheld" in run.history else -run.history["gain"]
    assert run.best_epoch == int(judged.idxmax())
    assert run.history["train"].iloc[0] < run.history["train"].iloc[-1] < 1
