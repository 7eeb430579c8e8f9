"""Held-out opinions: what models say of rows whose labels they have never seen, each as simple as those labels ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PATIENCE = 2
"""Steps without a better held-out loss after which all folds stop."""
LEAST = 1e-6

Array = NDArray[Any]


class Learner(Protocol):
    """A model that is first simple and becomes less so step by step."""

    def advance(self, x: Any, y: Array) -> None:
        """Fit rows with a little less restraint than before."""

    def expected(self, x: Any) -> Array:
        """(M, C) probabilities of the classes, or (M, q) values."""


class HeldOut(NamedTuple):
    """What the folds say together."""

    expected: Tensor
    """(N, C) probabilities, or (N, q) values, each from models that have not seen the row's label."""
    loss: float
    """Of the given labels: mean negative log probability, or median absolute miss."""
    steps: int
    """How far the models went."""


def stratified_folds(y: Tensor, folds: int, seed: int = 0) -> Tensor:
    """(N,) fold numbers, each class spread evenly over the folds; targets (N, q) at random.

    >>> stratified_folds(torch.tensor([0, 0, 1, 1]), 2).reshape(2, 2).sum(1)
    tensor([1, 1])
    """
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    if not y.is_floating_point():
        order = order[y[order].argsort(stable=True)]
    fold = torch.empty(len(y), dtype=torch.int64)
    fold[order] = torch.arange(len(y)) % folds
    return fold


def held_out(make: Callable[[], Learner], x: Any, y: Tensor, fold: Tensor, most: int) -> HeldOut:
    """Advance a model for each fold by turns until the *given* labels of held-out rows no longer become likelier.

    A model that memorises wrong labels memorises those of its own rows and loses on these, so neither a clean label nor
    the noise rate is needed to stop in time.

    Parameters
    ----------
    make: a fresh model of one fold.
    x: (N, d) an array, or a sparse matrix.
    most: steps at most.

    Shape: y (N,) classes or (N, q) targets, fold (N,) numbers -> expected (N, C) or (N, q).
    """
    given, number = y.numpy(), fold.numpy()
    parts = [(make(), np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in np.unique(number)]
    best, since = HeldOut(torch.empty(0), np.inf, 0), 0
    for step in range(1, most + 1):
        found: list[tuple[Array, Array]] = []
        for model, own, others in parts:
            model.advance(x[own], given[own])
            found.append((others, model.expected(x[others])))
        expected = np.empty((len(y), found[0][1].shape[1]))
        for rows, values in found:
            expected[rows] = values
        loss = held_out_loss(expected, given)
        since = 0 if loss < best.loss else since + 1
        if since == 0:
            best = HeldOut(torch.from_numpy(expected), loss, step)
        if since >= PATIENCE:
            break
    return best


def held_out_loss(expected: Array, given: Array) -> float:
    """Mean negative log probability of given classes; of targets the median miss, since a wrong one has no bound."""
    if given.dtype.kind == "f":
        return float(np.median(np.abs(expected - given)))
    return float(-np.log(np.maximum(expected[np.arange(len(given)), given], LEAST)).mean())


def spread_over(probabilities: Array, found: Array, classes: int) -> Array:
    """(M, classes) probabilities of the classes that a model was shown, and zero for the others."""
    if probabilities.shape[1] == classes:
        return probabilities
    whole = np.zeros((len(probabilities), classes))
    whole[:, found] = probabilities
    return whole
