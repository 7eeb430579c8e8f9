"""Noise by name, for data in rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.noise.labels import Noise, asymmetric, derangement, pairflip, symmetric
from holdfast.noise.maps import CIFAR10_PAIRS, CIFAR100_NEXT, MNIST_PAIRS, next_class
from holdfast.noise.part_dependent import instance
from holdfast.noise.targets import TARGET_KINDS, TargetNoise
from holdfast.settings import checked_settings


def corrupt(kind: str, rows: Rows, rate: float, seed: int, **settings: Any) -> Noise | TargetNoise:
    """Noise of a named kind in the labels of rows, which are taken to be clean.

    Parameters
    ----------
    kind: one of ``KINDS``: symmetric (over the other classes), asymmetric, pairflip, derangement, instance.
        Asymmetric takes the published map of what the data looks like: 10 classes of 28x28 images in one
        channel that of MNIST, 10 classes of images in three channels that of CIFAR-10, 100 classes that of
        CIFAR-100, anything else c -> c + 1. For targets one of ``TARGET_KINDS``: linadv, signflip, uninoise, pairflip,
        mixture.
    rows: a classification or a regression.
    rate: in [0, 1].
    seed: of all draws.
    settings: of the kind, such as ``exact=True`` of symmetric noise.
    """
    kinds = TARGET_KINDS if rows.classes is None else KINDS
    if kind not in kinds:
        close = get_close_matches(kind, kinds, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        what = "noise in targets" if rows.classes is None else "noise"
        raise HoldfastError(f"no kind of {what} is called {kind!r} (there are {', '.join(kinds)}){hint}")
    checked_settings(kind, kinds[kind], settings)
    if rows.classes is None:
        x = rows.x if isinstance(rows.x, Tensor) else _stacked(rows)
        return TARGET_KINDS[kind](x, rows.y, rate, seed, **settings)
    return KINDS[kind](rows, rate, seed, **settings)


@wraps(symmetric)
def _symmetric(rows: Rows, rate: float, seed: int, **settings: Any) -> Noise:
    return symmetric(rows.y, rate, _classes(rows), seed=seed, **settings)


@wraps(derangement)
def _derangement(rows: Rows, rate: float, seed: int) -> Noise:
    return derangement(rows.y, rate, _classes(rows), seed=seed)


@wraps(asymmetric)
def _asymmetric(rows: Rows, rate: float, seed: int) -> Noise:
    classes = _classes(rows)
    shape = tuple(_input(rows.x, 0).shape)
    return asymmetric(rows.y, rate, _published_map(classes, shape), classes=classes, seed=seed)


@wraps(pairflip)
def _pairflip(rows: Rows, rate: float, seed: int) -> Noise:
    return pairflip(rows.y, rate, _classes(rows), seed=seed)


@wraps(instance)
def _instance(rows: Rows, rate: float, seed: int) -> Noise:
    x = rows.x if isinstance(rows.x, Tensor) else _stacked(rows)
    return instance(x, rows.y, rate, _classes(rows), seed=seed)


KINDS: Mapping[str, Callable[..., Noise]] = MappingProxyType(
    {
        "symmetric": _symmetric,
        "asymmetric": _asymmetric,
        "pairflip": _pairflip,
        "derangement": _derangement,
        "instance": _instance,
    }
)
"""Noise by its name on the command line: a function of rows, rate, seed and the settings of the kind."""


def _published_map(classes: int, shape: tuple[int, ...]) -> Mapping[int, int]:
    if classes == 100:
        return CIFAR100_NEXT
    if classes == 10 and shape in {(28, 28), (1, 28, 28)}:
        return MNIST_PAIRS
    if classes == 10 and len(shape) == 3 and shape[0] == 3:
        return CIFAR10_PAIRS
    return next_class(classes)


def _classes(rows: Rows) -> int:
    if rows.classes is None:
        raise HoldfastError("label noise needs classes, but these rows are a regression")
    return len(rows.classes)


def _input(x: Any, row: int) -> Tensor:
    """The input of one row, of a tensor or of a dataset that may yield more beside it."""
    item = x[row]
    if isinstance(item, tuple | list):
        item = item[0]
    return item if isinstance(item, Tensor) else torch.as_tensor(np.asarray(item))


def _stacked(rows: Rows) -> Tensor:
    inputs = [_input(rows.x, i) for i in range(len(rows))]
    odd = next((i for i, x in enumerate(inputs) if x.shape != inputs[0].shape), None)
    if odd is not None:
        raise HoldfastError(
            f"row {odd} has an input of shape {tuple(inputs[odd].shape)}, row 0 one of "
            f"{tuple(inputs[0].shape)}; instance noise needs inputs of one shape"
        )
    return torch.stack(inputs)
