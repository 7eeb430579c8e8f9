"""Noise by name, for data in rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.noise.labels import Noise, asymmetric, derangement, pairflip, symmetric
from holdfast.noise.maps import CIFAR10_PAIRS, CIFAR100_NEXT, MNIST_PAIRS, next_class, published_pairs
from holdfast.noise.part_dependent import instance
from holdfast.noise.targets import TARGET_KINDS, TargetNoise
from holdfast.settings import checked_settings

Pairs = Literal["mnist", "cifar10", "cifar100", "next"]
MAPS: Mapping[str, Mapping[int, int]] = MappingProxyType(
    {"mnist": MNIST_PAIRS, "cifar10": CIFAR10_PAIRS, "cifar100": CIFAR100_NEXT}
)
"""Published maps by their data set."""


def corrupt(kind: str, rows: Rows, rate: float, seed: int, /, **settings: Any) -> Noise | TargetNoise:
    """Noise of a named kind in the labels of rows, which are taken to be clean.

    Parameters
    ----------
    kind: one of ``KINDS``: symmetric (over the other classes), asymmetric, pairflip, derangement, instance.
        Asymmetric takes the published map of CIFAR-10 or CIFAR-100 where the classes have their names, else c -> c + 1;
        ``pairs="mnist"`` and so on take another one. For targets one of ``TARGET_KINDS``: linadv, signflip, uninoise,
        pairflip, mixture.
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


def _asymmetric(rows: Rows, rate: float, seed: int, *, pairs: Pairs | None = None) -> Noise:
    """Labels of some classes mistaken for one similar class.

    Parameters
    ----------
    pairs: which class is mistaken for which: as published for a data set, or the next one; by default as the names of
        the classes tell.
    """
    names = _names(rows)
    mapping = published_pairs(names) if pairs is None else next_class(len(names)) if pairs == "next" else MAPS[pairs]
    return asymmetric(rows.y, rate, mapping, classes=len(names), seed=seed)


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


def _names(rows: Rows) -> tuple[str, ...]:
    if rows.classes is None:
        raise HoldfastError("label noise needs classes, but these rows are a regression")
    return rows.classes


def _classes(rows: Rows) -> int:
    return len(_names(rows))


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
