"""Shared by all tests: one thread, small data, and the shared fixture of the specification."""

from __future__ import annotations

import os

import pytest
import torch

from holdfast import Rows

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def cache_of_features(tmp_path_factory):
    """No test reads or writes the features of whoever runs it, or asks the net for a model."""
    os.environ["HOLDFAST_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.tensor([[2.0, 0.5, -1.0], [0.0, 1.0, 0.5], [-0.5, 0.2, 1.5], [1.2, 1.0, -0.3]])


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.tensor([0, 2, 2, 1])


@pytest.fixture(scope="session")
def blobs() -> Rows:
    """Three classes of points in the plane, one label in five wrong, the truth beside them."""
    source = torch.Generator().manual_seed(3)
    truth = torch.arange(240) % 3
    centres = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    x = centres[truth] + 0.5 * torch.randn(240, 2, generator=source)
    wrong = torch.rand(240, generator=source) < 0.2
    return Rows(x, torch.where(wrong, (truth + 1) % 3, truth), ("a", "b", "c"), truth=truth)


@pytest.fixture(scope="session")
def line() -> Rows:
    """A linear function with two targets, one row in ten far off."""
    source = torch.Generator().manual_seed(4)
    x = torch.randn(200, 3, generator=source)
    y = x @ torch.tensor([[1.0, 0.0], [-2.0, 1.0], [0.5, 3.0]])
    y[::10] += 20
    return Rows(x, y)
