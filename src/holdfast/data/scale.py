"""Targets in units in which a network learns well, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.rows import Rows

ROUNDINGS = 8
"""Roundings of float32 that a target may go through: scaled, scaled back, written and read."""

Array = NDArray[Any]


def scaled_targets(rows: Rows, like: Rows | None = None) -> Rows:
    """Rows whose targets are centred on the median, in units of the middle half; the recipe tells how.

    The middle half sets the scale, since wrong targets may lie anywhere. ``like`` are scaled rows to follow.
    """
    if rows.classes is not None:
        return rows
    if like is None:
        low, centre, high = np.percentile(rows.y.double().numpy(), (25, 50, 75), axis=0)
        spread = np.where(high > low, high - low, rows.y.double().numpy().std(0))
        scale = {"centre": centre.tolist(), "spread": np.where(spread > 0, spread, 1.0).tolist()}
    else:
        scale = like.recipe["targets"]
    truth = None if rows.truth is None else _scaled(rows.truth, scale)
    return replace(rows, y=_scaled(rows.y, scale), truth=truth, recipe={**rows.recipe, "targets": scale})


def lost_in_scaling(targets: Array) -> Array:
    """How far targets may be off that were scaled, scaled back and written: (N, q) of them -> (N, q).

    A run has its targets as float32 around their median, in units of the middle half: near zero a target is as coarse
    as one of the size of that median.
    """
    middle = np.abs(np.percentile(targets.astype(np.float64), (25, 50, 75), axis=0)).max(0)
    lost: Array = ROUNDINGS * float(np.finfo(np.float32).eps) * (np.abs(targets.astype(np.float64)) + middle)
    return lost


def unscaled(values: Tensor, recipe: Mapping[str, Any]) -> Tensor:
    """Values in the units of the file that a recipe was made for."""
    scale = recipe.get("targets")
    if scale is None:
        return values
    back = values.double() * torch.tensor(scale["spread"]) + torch.tensor(scale["centre"])
    return back.to(values.dtype)


def _scaled(values: Tensor, scale: Mapping[str, Any]) -> Tensor:
    scaled = (values.double() - torch.tensor(scale["centre"])) / torch.tensor(scale["spread"])
    return scaled.to(values.dtype)
