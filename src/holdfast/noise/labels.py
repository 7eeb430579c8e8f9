"""Label noise that depends on the class alone.

Rates above the limit of learnability (1 - 1/C for symmetric noise without the true class, 0.5 for noise in
pairs) are allowed: beyond it a wrong class is more frequent than the right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.noise.maps import check_classes, check_rate, checked_map, next_class

Array = np.ndarray[Any, Any]


class Noise(NamedTuple):
    """Labels made wrong on purpose.

    Shapes
    ------
    labels: (N,) int64, as a method sees them.
    mask: (N,) bool, where they differ from the clean ones.
    transition: (C, C) float64, realised transition matrix, true class (row) to observed class (column); the row
        of a class without examples is that of the identity.
    """

    labels: Tensor
    mask: Tensor
    transition: Tensor


def symmetric(
    y: Tensor, rate: float, classes: int, *, including: bool = False, exact: bool = False, seed: int = 0
) -> Noise:
    """Labels redrawn uniformly over the classes, each with probability ``rate``.

    Parameters
    ----------
    y: clean labels, 0 to classes - 1.
    rate: in [0, 1]. Learnable below 1 - 1/C without the true class; higher rates are not refused.
    classes: C, at least 2.
    including: draw over all classes, so that a redrawn label may be the true one and only rate (1 - 1/C) of
        the labels become wrong (DivideMix, ELR); otherwise over the others (Forward, Co-teaching, CRUST).
    exact: redraw exactly int(rate * N) labels at random rows (DivideMix, ELR).
    seed: of the draws.

    Shapes
    ------
    y (N,) -> Noise.

    Differs from the authors' code: an exact count is not lowered by one where rate * N falls short of an
    integer by rounding alone (0.29 * 100).

    >>> int(symmetric(torch.zeros(10, dtype=torch.long), 0.5, 3, exact=True).mask.sum())
    5
    """
    check_rate(rate)
    clean = checked_labels(y, classes)
    rng = np.random.default_rng(seed)
    if exact:
        redrawn = np.zeros(len(clean), dtype=bool)
        redrawn[rng.permutation(len(clean))[: int(rate * len(clean) + 1e-9)]] = True
    else:
        redrawn = rng.random(len(clean)) < rate
    shift = rng.integers(0 if including else 1, classes, size=len(clean))
    return noise_of(clean, np.where(redrawn, (clean + shift) % classes, clean), classes)


def asymmetric(y: Tensor, rate: float, mapping: Mapping[int, int], *, classes: int, seed: int = 0) -> Noise:
    """Labels of some classes mistaken for one similar class, each with probability ``rate``.

    Parameters
    ----------
    y: clean labels, 0 to classes - 1.
    rate: in [0, 1]. Learnable below 0.5; higher rates are not refused.
    mapping: true class to wrong class, such as ``CIFAR10_PAIRS``; classes it lacks stay clean, so that the
        overall noise rate is lower than ``rate`` (half of it on CIFAR-10).
    classes: C, at least 2.
    seed: of the draws.

    Shapes
    ------
    y (N,) -> Noise.

    Reference: Patrini et al., "Making Deep Neural Networks Robust to Label Noise: a Loss Correction
    Approach", CVPR 2017.
    """
    check_rate(rate)
    clean = checked_labels(y, classes)
    return _flipped(clean, rate, mapping, classes, np.random.default_rng(seed))


def pairflip(y: Tensor, rate: float, classes: int, *, seed: int = 0) -> Noise:
    """Each class mistaken for the next one, c -> c + 1, the last for the first, with probability ``rate``.

    Parameters
    ----------
    y: clean labels, 0 to classes - 1.
    rate: in [0, 1]. Learnable below 0.5 (0.45 is the usual extreme); higher rates are not refused.
    classes: C, at least 2.
    seed: of the draws.

    Shapes
    ------
    y (N,) -> Noise.

    Reference: Han et al., "Co-teaching", NeurIPS 2018.
    """
    return asymmetric(y, rate, next_class(classes), classes=classes, seed=seed)


def derangement(y: Tensor, rate: float, classes: int, *, seed: int = 0) -> Noise:
    """Each class mistaken for pi(c) != c with probability ``rate``, pi one random permutation of the classes.

    Parameters
    ----------
    y: clean labels, 0 to classes - 1.
    rate: in [0, 1]. Learnable below 0.5; higher rates are not refused.
    classes: C, at least 2.
    seed: of the permutation and the draws.

    Shapes
    ------
    y (N,) -> Noise.

    Differs from the paper: this is what the authors' code of CRUST calls asymmetric; the paper names the
    protocol of Co-teaching, which is ``pairflip``.

    Reference: Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy
    Labels", NeurIPS 2020.
    """
    check_rate(rate)
    clean = checked_labels(y, classes)
    rng = np.random.default_rng(seed)
    identity = np.arange(classes)
    wrong = identity
    while (wrong == identity).any():
        wrong = rng.permutation(classes)
    return _flipped(clean, rate, dict(enumerate(wrong.tolist())), classes, rng)


def realised_transition(clean: Tensor, noisy: Tensor, classes: int) -> Tensor:
    """Realised transition matrix: share of each observed class (column) among the examples of each true class (row).

    Parameters
    ----------
    clean, noisy: labels of the same rows, 0 to classes - 1.
    classes: C, at least 2.

    Shapes
    ------
    (N,), (N,) -> (C, C) float64; the row of a class without examples is that of the identity.
    """
    if clean.shape != noisy.shape:
        raise HoldfastError(f"{len(clean)} clean labels beside {len(noisy)} noisy ones; every row needs both")
    return _transition(checked_labels(clean, classes), checked_labels(noisy, classes), classes)


def checked_labels(y: Tensor, classes: int) -> Array:
    """Labels as an int64 array, known to lie within the classes."""
    check_classes(classes)
    if y.ndim != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise HoldfastError(f"labels must be integers of shape (N,), not {y.dtype} {tuple(y.shape)}")
    labels: Array = y.detach().cpu().long().numpy()
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        raise HoldfastError(f"row {bad[0]} has label {labels[bad[0]]}, outside the {classes} classes")
    return labels


def noise_of(clean: Array, noisy: Array, classes: int) -> Noise:
    """The three things known of labels before and after."""
    return Noise(torch.from_numpy(noisy), torch.from_numpy(noisy != clean), _transition(clean, noisy, classes))


def _flipped(clean: Array, rate: float, mapping: Mapping[int, int], classes: int, rng: np.random.Generator) -> Noise:
    wrong = np.arange(classes)
    for source, target in checked_map(mapping, classes).items():
        wrong[source] = target
    return noise_of(clean, np.where(rng.random(len(clean)) < rate, wrong[clean], clean), classes)


def _transition(clean: Array, noisy: Array, classes: int) -> Tensor:
    pairs = np.bincount(clean * classes + noisy, minlength=classes * classes)
    counts = torch.from_numpy(pairs).double().reshape(classes, classes)
    absent = counts.sum(1) == 0
    counts[absent, absent] = 1
    return counts / counts.sum(1, keepdim=True)
