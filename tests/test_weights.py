"""Weights of rows: every loss counts them, and nothing else does."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim import SGD

from holdfast import HoldfastError, Method, Rows, fit
from holdfast.feed import Feed
from holdfast.methods import METHODS
from holdfast.types import Evidence, Plan


def linear(outputs=3):
    torch.manual_seed(0)
    return nn.Linear(2, outputs)


def test_a_step_is_that_of_the_weighted_mean(blobs):
    """One full batch of gradient descent, against the gradient written by hand."""
    weight = torch.rand(len(blobs), generator=torch.Generator().manual_seed(1)) * 7
    net, expected = linear(), linear()
    fit(
        replace(blobs, weight=weight), Method(), net, epochs=1, batch_size=len(blobs), schedule=lambda share: 1.0,
        optimizer=lambda p: SGD(p, lr=0.5),
    )  # fmt: skip
    losses = nn.functional.cross_entropy(expected(blobs.x), blobs.y, reduction="none")
    ((losses * weight).sum() / weight.sum()).backward()
    with torch.no_grad():
        for own, parameter in zip(net.parameters(), expected.parameters(), strict=True):
            assert torch.allclose(own, parameter - 0.5 * parameter.grad, atol=1e-6)


def test_a_light_batch_makes_a_short_step(blobs):
    """The steps of an epoch add up to that of the weighted mean, however the weights fall into batches."""
    weight = torch.where(torch.arange(len(blobs)) < 200, 0.01, 3.0)
    feed = Feed(replace(blobs, weight=weight), batch_size=24)
    light = next(iter(feed.batches(Plan(torch.arange(24)))))
    heavy = next(iter(feed.batches(Plan(torch.arange(210, 234)))))
    assert feed.weight.mean() == pytest.approx(1)
    assert float(feed.weight_of(heavy) / feed.weight_of(light)) == pytest.approx(300)
    assert Feed(blobs).weight_of(light) is None


def test_the_steps_of_an_epoch_add_up_to_the_weighted_gradient(blobs):
    weight = torch.where(torch.arange(len(blobs)) % 12 == 0, 9.0, 0.01)
    net, start, rate = linear(), linear(), 1e-4
    fit(
        replace(blobs, weight=weight), Method(), net, epochs=1, batch_size=6, schedule=lambda share: 1.0,
        optimizer=lambda p: SGD(p, lr=rate),
    )  # fmt: skip
    losses = nn.functional.cross_entropy(start(blobs.x), blobs.y, reduction="none")
    ((losses * weight).sum() / weight.sum()).backward()
    with torch.no_grad():
        for own, parameter in zip(net.parameters(), start.parameters(), strict=True):
            assert torch.allclose((parameter - own) / (rate * 40), parameter.grad, atol=0.02)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "standard"])
def test_every_method_counts_weights(blobs, name):
    """Rows of no weight reach no loss, whatever else a method makes of weights."""
    wrong = torch.arange(len(blobs)) % 2 == 0
    rows = replace(blobs, weight=(~wrong).float())
    method = METHODS[name]()
    torch.manual_seed(0)
    nets = [nn.Linear(2, 3) for _ in range(method.networks)]
    feed = Feed(rows, batch_size=24)
    if method.uses_evidence:
        opinion = torch.nn.functional.one_hot(rows.y, 3).float() * 0.7 + 0.1
        feed.evidence = Evidence(opinion, opinion)
    method.begin(nets, feed)
    optimizer = SGD([*(p for net in nets for p in net.parameters()), *method.parameters()], lr=0.1)
    for batch in method.batches(nets, feed, optimizer, 0, 20):
        light = wrong[batch.index]
        assert not batch.weight[light].any()
        step = method.step(nets, batch, optimizer)
        if step.weight is not None:
            assert not step.weight[light].any()


def test_trust_is_told_without_the_weights(blobs):
    run = fit(replace(blobs, weight=torch.linspace(0, 9, len(blobs))), "standard", linear(), epochs=2)
    assert run.ledger["trust"].iloc[1:].to_numpy() == pytest.approx(1, abs=1e-5)
    assert run.ledger["trust"].iloc[0] == 0


def test_other_weights_are_another_run(blobs, tmp_path):
    settings = {"epochs": 1, "out": tmp_path / "run"}
    fit(replace(blobs, weight=torch.linspace(1, 9, len(blobs))), "standard", linear(), **settings)
    with pytest.raises(HoldfastError, match="other data"):
        fit(blobs, "standard", linear(), **settings, resume=True)


def test_second_opinions_do_not_depend_on_weights(blobs):
    plain = fit(blobs, net="mlp", epochs=3)
    weighted = fit(replace(blobs, weight=torch.linspace(0, 9, len(blobs))), net="mlp", epochs=3)
    assert plain.issues().equals(weighted.issues())
    assert not torch.equal(plain.outputs(blobs), weighted.outputs(blobs))


def test_weights_stay_with_their_rows(blobs):
    rows = replace(blobs, weight=torch.arange(240.0))
    taken = rows.take(torch.tensor([5, 3]))
    assert taken.weight.tolist() == [5, 3]
    assert taken.followed_by(taken).weight.tolist() == [5, 3, 5, 3]
    assert taken.followed_by(replace(taken, weight=None)).weight is None


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (torch.ones(3), "weights of shape"),
        (-torch.ones(240), "a weight below 0"),
        (torch.full((240,), torch.nan), "NaN"),
        (torch.zeros(240), "nothing to learn from"),
    ],
)
def test_weights_that_mean_nothing(blobs, weight, words):
    with pytest.raises(HoldfastError, match=words):
        Rows(blobs.x, blobs.y, blobs.classes, weight=weight)
