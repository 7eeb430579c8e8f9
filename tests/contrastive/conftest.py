"""Shared by the tests of contrastive methods: the numbers of the specification and an encoder that does nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from contrastive.specification import BANK, K, Q, unit
from holdfast import Rows
from holdfast.feed import Feed
from holdfast.types import Batch


@pytest.fixture
def q():
    return unit(Q)


@pytest.fixture
def k():
    return unit(K)


@pytest.fixture
def bank():
    return unit(BANK)


@pytest.fixture
def begun():
    """Begin a method on an encoder that hands back its input, with the queue of the specification; net and batch."""

    def begin(method, views=(Q, K)):
        net = nn.Linear(2, 2, bias=False)
        net.weight.data.copy_(torch.eye(2))
        rows = Rows(views[0].clone(), torch.zeros(len(views[0]), 0))
        feed = Feed(rows, batch_size=len(views[0]))
        method.begin([net], feed)
        if hasattr(method, "bank"):
            method.bank.keys = unit(BANK)
        return net, Batch(tuple(views), rows.y, torch.arange(len(rows)), torch.ones(len(rows)))

    return begin


@pytest.fixture(scope="session")
def stripes():
    """Small colour images of two kinds, rows brighter at the top or at the bottom, with labels one in five wrong."""
    source = torch.Generator().manual_seed(5)
    truth = torch.arange(96) % 2
    x = torch.randint(0, 120, (96, 3, 12, 12), generator=source, dtype=torch.uint8)
    x[truth == 0, :, :5] += 130
    x[truth == 1, :, 7:] += 130
    wrong = torch.rand(96, generator=source) < 0.2
    return Rows(x, torch.where(wrong, 1 - truth, truth), ("top", "bottom"), truth=truth)
