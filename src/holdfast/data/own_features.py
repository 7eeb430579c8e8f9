"""Features of one's own: an array with a row for each row of the data, in its order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.encode import fit_block, scaled
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError, unreadable

Array = NDArray[np.float32]


def load(path: Path, count: int, data: Path) -> Array:
    """The (N, d) numbers of a .npy file, checked against the rows of the data."""
    if not path.exists():
        raise HoldfastError(f"{path} does not exist")
    with unreadable(path, "is no .npy file of plain numbers"):
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind not in "iuf" or not found.shape[1]:
        shown = f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else "several arrays"
        raise HoldfastError(f"{path} holds {shown}; features are numbers of shape (rows, features)")
    if len(found) != count:
        raise HoldfastError(f"{path} has {len(found)} rows of features, but {data} has {count} rows")
    with np.errstate(over="ignore"):
        values: Array = np.array(found, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(1))
    if len(bad):
        raise HoldfastError(f"{path} holds NaN or infinite features (row {bad[0]}); fill them in or drop those rows")
    return values


def in_place_of_inputs(rows: Rows, path: Path, data: Path) -> Rows:
    """The rows with the features of a file for inputs; the recipe tells how they are scaled."""
    values = load(path, len(rows), data)
    spec = {"size": values.shape[1], **fit_block(values)}
    return replace(rows, x=torch.from_numpy(scaled(values, spec)), recipe={**rows.recipe, "features": spec})


def further(path: Path | None, spec: dict[str, Any], count: int, data: Path) -> Tensor:
    """Features of further rows, scaled as those of the training were."""
    if path is None:
        raise HoldfastError(f"the model learned from features of a file; pass --features with those of {data}")
    values = load(path, count, data)
    if values.shape[1] != spec["size"]:
        raise HoldfastError(f"{path} has {values.shape[1]} features a row, but the model was fitted on {spec['size']}")
    return torch.from_numpy(scaled(values, spec))
