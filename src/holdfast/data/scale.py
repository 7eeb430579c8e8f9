"""Targets in units in which a network learns well, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.data.rows import Rows


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
