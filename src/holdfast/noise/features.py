"""Corruption of inputs, labels left as they are: the other half of what the PRL paper calls general corruption.

Each takes exactly ``floor(rate * N)`` rows at random and leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.noise.maps import check_rate


class FeatureNoise(NamedTuple):
    """Inputs made wrong on purpose.

    Shapes
    ------
    x: (N, ...) of the type they had.
    mask: (N,) bool, the rows that were changed.
    """

    x: Tensor
    mask: Tensor


def corrupt_features(kind: str, x: Tensor, rate: float, *, seed: int = 0) -> FeatureNoise:
    """Wrong inputs of a named kind.

    Parameters
    ----------
    kind: "swapped" takes those of other corrupted rows, "uniform" draws each feature between its smallest and its
        largest clean value, "far" puts them all at one random point, ten spreads from the mean.
    x: inputs, clean; of "far" floats.
    rate: in [0, 1].
    seed: of the rows and of what they become.

    Shapes
    ------
    x (N, ...) -> FeatureNoise.

    Reference: "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", section 3.2,
    which gives the model (features, supervision or both, by an adversary) and no kinds.

    >>> corrupt_features("swapped", torch.arange(4.0)[:, None], 0.5).mask.sum()
    tensor(2)
    """
    check_rate(rate)
    if kind not in FEATURE_KINDS:
        close = get_close_matches(kind, FEATURE_KINDS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        listed = ", ".join(FEATURE_KINDS)
        raise HoldfastError(f"no corruption of features is called {kind!r} (there are {listed}){hint}")
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.permutation(len(x))[: int(rate * len(x) + 1e-9)])
    mask = torch.zeros(len(x), dtype=torch.bool)
    mask[rows] = True
    wrong = x.detach().cpu().clone()
    wrong[rows] = FEATURE_KINDS[kind](wrong, rows, rng)
    return FeatureNoise(wrong, mask)


def _swapped(x: Tensor, rows: Tensor, rng: np.random.Generator) -> Tensor:
    return x[rows.roll(1)]


def _uniform(x: Tensor, rows: Tensor, rng: np.random.Generator) -> Tensor:
    low, high = x.amin(0), x.amax(0)
    share = torch.from_numpy(rng.random((len(rows), *x.shape[1:]), dtype=np.float32))
    return (low + (high - low) * share).to(x.dtype)


def _far(x: Tensor, rows: Tensor, rng: np.random.Generator) -> Tensor:
    if not x.is_floating_point():
        raise HoldfastError(f"inputs of type {x.dtype} cannot be put far away; pass floats")
    way = torch.from_numpy(rng.standard_normal(tuple(x.shape[1:]), dtype=np.float32)).to(x.dtype)
    point = x.mean(0) + 10 * x.std(0) * way / way.square().mean().sqrt()
    return point.expand(len(rows), *x.shape[1:])


FEATURE_KINDS: Mapping[str, Callable[[Tensor, Tensor, np.random.Generator], Tensor]] = MappingProxyType(
    {"swapped": _swapped, "uniform": _uniform, "far": _far}
)
"""Corruption of inputs by its name: of all inputs, the rows to corrupt and a source of chance, what they become."""
