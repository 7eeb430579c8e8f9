"""Reviewed labels in a training of two real processes: they train what one process trains."""

import dataclasses

import pytest
import torch
import torch.distributed as dist
from in_two import job_for_two, train_all
from torch import nn
from torch.optim import SGD

from holdfast import Method, Stack, fit
from holdfast.launch import launch
from holdfast.methods import ELR, PRLL, CoTeaching, NormClip, SecondOpinion
from holdfast.progress import Silent
from holdfast.reviewed import take_over

pytestmark = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="torch has no gloo here")

METHODS = {
    "standard": Method,
    "prl-l": lambda: PRLL(0.3),
    "co-teaching": lambda: CoTeaching(0.3),
    "elr": ELR,
    "second-opinion": SecondOpinion,
    "stack": lambda: Stack(PRLL(0.2), NormClip(1.0)),
}
SHARES = {"a third": 3, "a few": 40, "nearly all": 0}
"""Of the rows that are reviewed: some batches have none of them, or hardly any other."""


def steep(parameters):
    return SGD(parameters, lr=0.3)


def with_reviewed_rows(rows, each):
    marks = torch.arange(len(rows)) % each == 0 if each else torch.arange(len(rows)) > 4
    return dataclasses.replace(rows, reviewed=marks)


def arguments(rows, method, batch_norm=False):
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(16) if batch_norm else nn.Tanh()
    net = nn.Sequential(nn.Linear(2, 16), middle, nn.Linear(16, 3))
    return (rows, method, net), {"epochs": 3, "batch_size": 49, "device": "cpu", "optimizer": steep}


def job(*settings):
    given, named = arguments(*settings)
    return job_for_two(*given, **named)


CASES = [(name, "a third") for name in METHODS] + [("prl-l", "a few")]


@pytest.fixture(scope="module")
def in_two(blobs):
    jobs = {case: job(with_reviewed_rows(blobs, SHARES[case[1]]), METHODS[case[0]]()) for case in CASES}
    jobs["normalised"] = job(with_reviewed_rows(blobs, 3), PRLL(0.3), True)
    jobs["nearly all"] = job(with_reviewed_rows(blobs, 0), PRLL(0.3))
    return launch(train_all, jobs, 2, "cpu", Silent())


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_two_processes_train_what_one_trains(blobs, in_two, case):
    rows = with_reviewed_rows(blobs, SHARES[case[1]])
    given, named = arguments(rows, METHODS[case[0]]())
    run = fit(*given, **named)
    weights, _, ledger, losses = in_two[case]
    for key, value in run.net.state_dict().items():
        torch.testing.assert_close(weights[key], value, rtol=1e-3, atol=1e-4, msg=key)
    assert losses == pytest.approx(run.history["loss"].tolist(), rel=1e-3, abs=1e-4)
    assert ledger["selected"].tolist() == run.ledger["selected"].tolist()
    assert (ledger["selected"] == ledger["trained"])[rows.reviewed.numpy()].all()


def test_batches_are_normalised_by_reviewed_rows_too(in_two, blobs):
    ledger = in_two["normalised"][2]
    assert (ledger["selected"] == 3)[torch.arange(len(blobs)).numpy() % 3 == 0].all()


def test_too_few_other_rows_to_share_do_not_hold_up_the_reviewed_ones(in_two, blobs):
    _, _, ledger, losses = in_two["nearly all"]
    assert (ledger["selected"] == 3)[torch.arange(len(blobs)).numpy() > 4].all()
    assert losses[-1] < losses[0]


def test_what_a_method_has_learnt_comes_back_to_who_made_it(blobs, in_two):
    own = METHODS["elr"]()
    outer = job(with_reviewed_rows(blobs, 3), own).method
    take_over(outer, in_two["elr", "a third"][1])
    assert outer.parts()[0] is own
    assert {key: value.tolist() for key, value in own.state_dict().items()} == {
        key.removeprefix("members.0."): value.tolist()
        for key, value in in_two["elr", "a third"][1].state_dict().items()
        if key.startswith("members.0.")
    }
