"""Corruption of regression targets: the five kinds by which the PRL paper measures.

Each takes exactly ``floor(rate * N)`` rows at random and leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.noise.maps import check_rate

Array = np.ndarray[Any, Any]


class TargetNoise(NamedTuple):
    """Targets made wrong on purpose.

    Shapes
    ------
    labels: (N, q) float32, as a method sees them.
    mask: (N,) bool, the rows that were changed.
    """

    labels: Tensor
    mask: Tensor


def linadv(x: Tensor, y: Tensor, rate: float, *, ratio: float = 15.0, seed: int = 0) -> TargetNoise:
    """Targets replaced by one random wrong linear function of the inputs.

    ``y_i' = W^T x_i + b`` with standard normal W, one for all rows, each target then scaled to ``ratio`` times the
    spread of the clean one, around the same mean.

    Parameters
    ----------
    x: inputs; bytes are scaled to [0, 1], anything is flattened.
    y: clean targets.
    rate: in [0, 1].
    ratio: spread of the wrong targets over that of the clean ones, above 0.
    seed: of the rows and of W.

    Shapes
    ------
    x (N, ...), y (N, q) -> TargetNoise.

    Differs from the paper: it does not tell the scale; 15 is what its scores of ordinary training imply.

    Reference: "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", section 6.
    """
    rows, rng = _drawn(y, rate, seed)
    return _noise(y, rows, _linear(x, y, rows, ratio, rng))


def signflip(y: Tensor, rate: float, *, seed: int = 0) -> TargetNoise:
    """Targets mirrored at their mean: ``y_i' = -y_i`` where targets are standardised, as in the paper.

    Shapes
    ------
    y (N, q) -> TargetNoise.

    >>> signflip(torch.tensor([[1.0], [-1.0]]), 1.0).labels.tolist()
    [[-1.0], [1.0]]
    """
    rows, _ = _drawn(y, rate, seed)
    return _noise(y, rows, _mirrored(y, rows))


def uninoise(y: Tensor, rate: float, *, seed: int = 0) -> TargetNoise:
    """Targets drawn uniformly between the smallest and the largest clean value of each.

    Shapes
    ------
    y (N, q) -> TargetNoise.
    """
    rows, rng = _drawn(y, rate, seed)
    return _noise(y, rows, _uniform(y, rows, rng))


def target_pairflip(y: Tensor, rate: float, *, planes: int | None = None, seed: int = 0) -> TargetNoise:
    """Targets taken for one another: each takes the value of the next, the last that of the first.

    Parameters
    ----------
    y: clean targets.
    rate: in [0, 1].
    planes: into how many blocks of equal length the targets fall, values moving inside each: 2 for landmarks given as
        all x and then all y, so that points move whole. None is 2 for an even number of more than two targets, else 1.
    seed: of the rows.

    Shapes
    ------
    y (N, q) with q >= 2 -> TargetNoise.

    >>> target_pairflip(torch.tensor([[1.0, 2.0, 30.0, 40.0]]), 1.0).labels.tolist()
    [[2.0, 1.0, 40.0, 30.0]]
    """
    rows, _ = _drawn(y, rate, seed)
    return _noise(y, rows, _next(y, rows, planes))


def mixture(x: Tensor, y: Tensor, rate: float, *, ratio: float = 15.0, seed: int = 0) -> TargetNoise:
    """The rows to corrupt split into equal parts at random, one for each of the four other kinds.

    Parameters
    ----------
    x, y, rate, seed: as ``linadv`` takes them.
    ratio: spread of the adversarial targets over that of the clean ones, above 0.

    Shapes
    ------
    x (N, ...), y (N, q) with q >= 2 -> TargetNoise.
    """
    rows, rng = _drawn(y, rate, seed)
    parts = [torch.from_numpy(part) for part in np.array_split(rows.numpy(), 4)]
    wrong = (
        _linear(x, y, parts[0], ratio, rng),
        _mirrored(y, parts[1]),
        _uniform(y, parts[2], rng),
        _next(y, parts[3], None),
    )
    return _noise(y, torch.cat(parts), torch.cat(wrong))


def _of_targets(plant: Callable[..., TargetNoise]) -> Callable[..., TargetNoise]:
    """A kind of noise that does not look at inputs, under the signature of those that do."""

    @wraps(plant)
    def planted(x: Tensor, y: Tensor, rate: float, seed: int, **settings: Any) -> TargetNoise:
        return plant(y, rate, seed=seed, **settings)

    return planted


def _of_inputs(plant: Callable[..., TargetNoise]) -> Callable[..., TargetNoise]:
    @wraps(plant)
    def planted(x: Tensor, y: Tensor, rate: float, seed: int, **settings: Any) -> TargetNoise:
        return plant(x, y, rate, seed=seed, **settings)

    return planted


TARGET_KINDS: Mapping[str, Callable[..., TargetNoise]] = MappingProxyType(
    {
        "linadv": _of_inputs(linadv),
        "signflip": _of_targets(signflip),
        "uninoise": _of_targets(uninoise),
        "pairflip": _of_targets(target_pairflip),
        "mixture": _of_inputs(mixture),
    }
)
"""Corruption of targets by its name on the command line: a function of inputs, targets, rate, seed and the settings of
the kind."""


def _drawn(y: Tensor, rate: float, seed: int) -> tuple[Tensor, np.random.Generator]:
    check_rate(rate)
    if y.dim() != 2 or not y.is_floating_point():
        raise HoldfastError(f"targets must be floats of shape (N, q), not {y.dtype} {tuple(y.shape)}")
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.permutation(len(y))[: int(rate * len(y) + 1e-9)]), rng


def _noise(y: Tensor, rows: Tensor, wrong: Tensor) -> TargetNoise:
    labels = y.detach().cpu().float().clone()
    mask = torch.zeros(len(y), dtype=torch.bool)
    mask[rows] = True
    labels[rows] = wrong.float()
    return TargetNoise(labels, mask)


def _linear(x: Tensor, y: Tensor, rows: Tensor, ratio: float, rng: np.random.Generator) -> Tensor:
    if not ratio > 0:
        raise HoldfastError(f"the spread of adversarial targets must be positive, not {ratio:g}")
    if len(x) != len(y):
        raise HoldfastError(f"{len(x)} inputs but {len(y)} targets; each row needs one of both")
    inputs = x.detach().cpu().float().flatten(1) / (255 if x.dtype == torch.uint8 else 1)
    weights = torch.from_numpy(rng.standard_normal((inputs.shape[1], y.shape[1]), dtype=np.float32))
    values = inputs @ weights
    spread = values.std(0, correction=0)
    unit = (values - values.mean(0)) / torch.where(spread > 0, spread, torch.ones_like(spread))
    clean = y.detach().cpu().float()
    return (clean.mean(0) + ratio * clean.std(0, correction=0) * unit)[rows]


def _mirrored(y: Tensor, rows: Tensor) -> Tensor:
    clean = y.detach().cpu()
    return 2 * clean.mean(0) - clean[rows]


def _uniform(y: Tensor, rows: Tensor, rng: np.random.Generator) -> Tensor:
    clean = y.detach().cpu()
    low, high = clean.amin(0), clean.amax(0)
    return low + (high - low) * torch.from_numpy(rng.random((len(rows), y.shape[1]), dtype=np.float32))


def _next(y: Tensor, rows: Tensor, planes: int | None) -> Tensor:
    q = y.shape[1]
    if planes is None:
        planes = 2 if q > 2 and q % 2 == 0 else 1
    if planes < 1 or q % planes or q // planes < 2:
        raise HoldfastError(f"{q} target(s) in {planes} block(s) leave nothing to take for one another")
    return y.detach().cpu()[rows].reshape(len(rows), planes, q // planes).roll(-1, 2).flatten(1)
