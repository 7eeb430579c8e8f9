"""The label scores of the field, as small functions on arrays: (N,) numbers, larger where a label is likelier right.

They rank rows; none says how many labels are wrong. `holdfast.issues.label_trust` does both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.few import blocks_of, few_of
from holdfast.functional.noise_rate import confident_joint as joint_of
from holdfast.kept import KEPT, Probabilities

Array = NDArray[Any]


def probabilities(labels: ArrayLike, pred_probs: ArrayLike) -> tuple[Tensor, Probabilities]:
    """Class numbers (N,) and probabilities (N, C), or an error that says what is wrong with them.

    They are read a part at a time, from a file where they lie in one. Of many classes those are kept that matter for
    each row.
    """
    whole = pred_probs if isinstance(pred_probs, (np.ndarray, Tensor)) else np.asarray(pred_probs, dtype=np.float64)
    given = np.asarray(labels)
    if whole.ndim != 2 or whole.shape[1] < 2:
        raise HoldfastError(
            f"pred_probs needs a row for each example and a column for each class, not {tuple(whole.shape)}"
        )
    rows, classes = whole.shape
    if given.shape != (rows,):
        raise HoldfastError(f"labels of shape {given.shape} beside pred_probs of {rows} rows; each row needs one")
    if given.dtype.kind not in "iu" and not (given.dtype.kind == "f" and bool((given % 1 == 0).all())):
        raise HoldfastError("labels must be class numbers from 0, the columns of pred_probs")
    outside = np.flatnonzero((given < 0) | (given >= classes))
    if len(outside):
        row = int(outside[0])
        raise HoldfastError(f"row {row} has the label {given[row]}, but pred_probs has {classes} columns")
    y = torch.from_numpy(given.astype(np.int64))
    found: Probabilities
    if classes > KEPT:
        found, off = few_of(whole, y)
    else:
        found, off = _checked_few(whole)
    if off >= 0:
        raise HoldfastError(f"row {off} of pred_probs holds no probabilities: they are not negative and sum to 1")
    return y, found


def _checked_few(whole: NDArray[Any] | Tensor) -> tuple[Tensor, int]:
    """Probabilities of few classes, and the first row that holds none, or -1."""
    # torch warns of memory that it may not write to.
    found = torch.as_tensor(whole if isinstance(whole, Tensor) else np.require(whole, requirements="W"))
    found = found if found.dtype == torch.float64 else found.float()
    for part in blocks_of(*found.shape):
        # NaN fails every comparison, so this finds it too.
        bad = ((found[part].amin(1) >= 0) & ((found[part].sum(1) - 1).abs() < 0.01)).logical_not_()
        if bool(bad.any()):
            return found, part.start + int(bad.nonzero()[0])
    return found, -1


def checked(labels: ArrayLike, pred_probs: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Class numbers (N,) and all probabilities (N, C), or an error that says what is wrong with them."""
    whole = np.asarray(pred_probs, dtype=np.float64)
    return probabilities(labels, whole)[0].numpy(), whole


def self_confidence(labels: ArrayLike, pred_probs: ArrayLike) -> Array:
    """The probability of the given label.

    >>> self_confidence([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    array([0.9, 0.2])
    """
    given, probs = checked(labels, pred_probs)
    own: Array = probs[np.arange(len(given)), given]
    return own


def probability_margin(labels: ArrayLike, pred_probs: ArrayLike) -> Array:
    """The probability of the given label less that of the best other one.

    >>> probability_margin([0, 1], [[0.75, 0.25], [1.0, 0.0]])
    array([ 0.5, -1. ])
    """
    given, probs = checked(labels, pred_probs)
    others = probs.copy()
    others[np.arange(len(given)), given] = -np.inf
    margin: Array = self_confidence(given, probs) - others.max(1)
    return margin


def gradient_norm(labels: ArrayLike, pred_probs: ArrayLike) -> Array:
    """Less the norm of the loss-layer gradient ``p - y``: wrong labels pull hard.

    >>> gradient_norm([0], [[1.0, 0.0]])
    array([-0.])
    """
    given, probs = checked(labels, pred_probs)
    gradient = probs.copy()
    gradient[np.arange(len(given)), given] -= 1
    pull: Array = -np.linalg.norm(gradient, axis=1)
    return pull


def area_under_margin(margins: ArrayLike) -> Array:
    """AUM: the margin of each row averaged over training (Pleiss et al., NeurIPS 2020).

    Shape: (epochs, N) ``z_y - max_{c != y} z_c`` -> (N,).

    >>> area_under_margin([[1.5, -0.5], [2.0, -1.8]])
    array([ 1.75, -1.15])
    """
    area: Array = np.asarray(margins, dtype=np.float64).mean(0)
    return area


def selection_frequency(selected: ArrayLike, trained: ArrayLike) -> Array:
    """The share of a row's batches in which its label was trained on; 0 for a row that was in none.

    >>> selection_frequency([3, 0, 0], [4, 2, 0])
    array([0.75, 0.  , 0.  ])
    """
    share: Array = np.asarray(selected, dtype=np.float64) / np.maximum(np.asarray(trained), 1)
    return share


def confident_joint(labels: ArrayLike, pred_probs: ArrayLike) -> Array:
    """(C, C) share of rows by given (row) and true class (column), counted where the network is confident.

    Reference: Northcutt, Jiang and Chuang, "Confident Learning", JAIR 2021.
    """
    given, probs = checked(labels, pred_probs)
    joint: Array = joint_of(torch.from_numpy(probs), torch.from_numpy(given)).numpy()
    return joint


def neighbour_vote(features: ArrayLike, labels: ArrayLike, k: int = 10) -> Array:
    """The share of the k nearest other rows, by cosine, that have the same label: SimiFeat's vote.

    Distances are worked through in blocks, so that memory holds a block of rows by all and never all by all.

    Reference: Zhu, Dong and Liu, "Detecting Corrupted Labels Without Training a Model to Predict", ICML 2022.

    >>> neighbour_vote([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], [0, 0, 1, 0], k=1)
    array([1., 1., 0., 0.])
    """
    given = torch.as_tensor(np.asarray(labels))
    points = torch.nn.functional.normalize(torch.as_tensor(np.asarray(features, dtype=np.float32)).flatten(1), dim=1)
    if len(given) != len(points):
        raise HoldfastError(f"{len(points)} features but {len(given)} labels; each row needs one of both")
    if not 1 <= k < len(points):
        raise HoldfastError(f"a vote of neighbours needs k from 1 to {len(points) - 1}, not {k}")
    votes = []
    for rows in torch.arange(len(points)).split(max(1, 2**24 // len(points))):
        near = points[rows] @ points.T
        near[torch.arange(len(rows)), rows] = -torch.inf
        votes.append((given[near.topk(k, dim=1).indices] == given[rows, None]).double().mean(1))
    share: Array = torch.cat(votes).numpy()
    return share
