"""What is checked: rows, the table behind them, and the numbers in which near rows are near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from holdfast.audit.pictures import described, usual_spread
from holdfast.audit.reading import NOTHING, Reading
from holdfast.audit.table_text import text_columns
from holdfast.data.native import encoded_width
from holdfast.data.rows import Rows
from holdfast.data.scale import unscaled
from holdfast.feed import inputs_of
from holdfast.functional.nearest import Nearest, nearest

NEIGHBOURS = 10
"""Rows that say how far apart rows usually are."""
WIDEST = 256
"""Features beyond which they are reduced to their main directions."""
DIRECTIONS = 128
SPARSE = 0.1
"""Share of features other than zero below which they are kept as a sparse matrix."""
NORMAL_HALF = 1.349
"""Standard deviations that the middle half of a normal distribution spans."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Subject:
    """Rows to check, and rows to test on where there are any.

    Attributes
    ----------
    rows, test: as ``holdfast.read`` makes them, targets scaled.
    frame, test_frame: the tables behind them, a line for each row; None where they come from no table.
    reading: what a pre-trained network makes of them.
    """

    rows: Rows
    test: Rows | None = None
    frame: pd.DataFrame | None = None
    test_frame: pd.DataFrame | None = None
    reading: Reading = NOTHING

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def pictures(self) -> bool:
        return len(self.rows.shape) == 3

    @property
    def is_table(self) -> bool:
        return self.rows.recipe.get("kind") == "table"

    @cached_property
    def numbers(self) -> Array:
        """(N,) the number of each row among those that were read."""
        index = self.rows.source_index
        return np.arange(len(self)) if index is None else index.numpy()

    def labels(self, rows: Array) -> list[str]:
        """Given labels of some rows in words; empty where the row is none."""
        known = np.maximum(rows, 0)
        if self.rows.classes is not None:
            names = np.asarray(self.rows.classes, dtype=object)[self.rows.y.numpy()[known]]
        else:
            values = unscaled(self.rows.y[torch.from_numpy(known)], self.rows.recipe).numpy()
            names = np.array([", ".join(f"{v:.5g}" for v in line) for line in values], dtype=object)
        return list(np.where(rows >= 0, names, "")) if len(rows) else []

    @cached_property
    def groups(self) -> Tensor:
        """(N,) classes; targets by quarters."""
        if self.rows.classes is not None:
            return self.rows.y
        edges = torch.tensor(np.percentile(self.rows.y[:, 0].numpy(), (25, 50, 75)))
        return torch.bucketize(self.rows.y[:, 0].double(), edges)

    @cached_property
    def texts(self) -> list[str] | None:
        """The text of each row; None where the table has no column of text."""
        return None if self.frame is None else text_columns(self.frame, self.rows.recipe)

    @cached_property
    def test_texts(self) -> list[str] | None:
        return None if self.test_frame is None else text_columns(self.test_frame, self.rows.recipe)

    @cached_property
    def _space(self) -> _Space:
        flat = _flat(self.rows)
        if self.pictures:
            return _Space(flat, flat.mean(0), usual_spread(flat, self.rows), unit=False)
        if not self.is_table:
            spread = flat.std(0)
            return _Space(flat, flat.mean(0), spread.clamp_min(max(1e-9, 1e-3 * float(spread.max()))), unit=False)
        scale = _robust_scale(flat, self.rows.recipe["columns"])
        return _Space(flat, torch.zeros(flat.shape[1]), scale, unit=self.texts is not None)

    @cached_property
    def features(self) -> Any:
        """(N, d) what models read: an array, or a sparse matrix."""
        made = self.reading.features
        if made is None:
            return self._space.features
        if self.reading.alone:
            return made.numpy()
        from scipy.sparse import csr_matrix, hstack

        return hstack([csr_matrix(self._space.features), csr_matrix(made.numpy())], format="csr")

    @property
    def points(self) -> Tensor:
        """(N, d) where near rows are near."""
        return self._space.points

    @property
    def kindred(self) -> Tensor:
        """(N, d) where rows of one class are near."""
        return self.points if self.reading.features is None else self.reading.features

    @cached_property
    def test_points(self) -> Tensor | None:
        return None if self.test is None else self._space.place(_flat(self.test))

    @cached_property
    def near(self) -> Nearest:
        return nearest(self.points, self.groups, NEIGHBOURS)


def _flat(rows: Rows) -> Tensor:
    """(N, d) features; of pictures a thumbnail and its edges."""
    if len(rows.shape) == 3:
        return described(rows)
    if isinstance(rows.x, Tensor) and rows.x.dtype == torch.float32:
        return rows.x.flatten(1)
    return torch.cat([x.flatten(1) for x in inputs_of(rows.x, "cpu")])


def _robust_scale(x: Tensor, columns: Sequence[Mapping[str, Any]]) -> Tensor:
    """(d,) by what encoded numbers are divided so that the middle half, and no outlier, sets their scale."""
    scale, at = torch.ones(x.shape[1]), 0
    for spec in columns:
        if spec["as"] == "number":
            low, high = np.percentile(x[:, at].numpy(), (25, 75))
            if high > low:
                scale[at] = max(float(high - low) / NORMAL_HALF, 1e-4)
        at += encoded_width(spec)
    return scale


class _Space:
    """Features as models read them, and points: scaled, reduced where they are many.

    Parameters
    ----------
    x: (N, d) numbers.
    mean, scale: (d,) what is taken off, and what is divided by.
    unit: whether points lie on the unit sphere, as suits texts, whose length says little.
    """

    def __init__(self, x: Tensor, mean: Tensor, scale: Tensor, unit: bool) -> None:
        self._mean, self._scale, self._unit = mean, scale, unit
        self._directions: Tensor | None = None
        wide = x.shape[1] > WIDEST and len(x) > DIRECTIONS
        sparse = wide and not bool(mean.any()) and float((x != 0).float().mean()) < SPARSE
        self.features: Any = ((x - mean) / scale).numpy()
        if sparse:
            from scipy.sparse import csr_matrix

            self.features = csr_matrix(self.features)
        if wide:
            from sklearn.utils.extmath import randomized_svd  # slow to import

            _, _, found = randomized_svd(self.features, DIRECTIONS, n_iter=2, random_state=0)
            self._directions = torch.from_numpy(np.ascontiguousarray(found.T, dtype=np.float32))
        self.points = self.place(x)
        if wide and not sparse:
            self.features = self.points.numpy() / max(1e-9, float(self.points.std()))

    def place(self, x: Tensor) -> Tensor:
        """(M, d) points of further rows."""
        points = (x - self._mean) / self._scale
        if self._directions is not None:
            points = points @ self._directions
        return F.normalize(points, dim=1) if self._unit else points
