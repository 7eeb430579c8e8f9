"""What is checked: rows, the table behind them, and the numbers in which near rows are near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from holdfast.audit.table_text import text_columns
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
SIDE = 16
"""Pixels on the side of a thumbnail."""
SKETCH = 12
"""Pixels on the side of the grey sketch by which copies of a picture are found."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Subject:
    """Rows to check, and rows to test on where there are any.

    Attributes
    ----------
    rows, test: as ``holdfast.read`` makes them, targets scaled.
    frame, test_frame: the tables behind them, a line for each row; None where they come from no table.
    """

    rows: Rows
    test: Rows | None = None
    frame: pd.DataFrame | None = None
    test_frame: pd.DataFrame | None = None

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
        return _Space(_flat(self.rows), scaled=self.is_table, unit=self.texts is not None)

    @property
    def features(self) -> Any:
        """(N, d) what models read: an array, or a sparse matrix."""
        return self._space.features

    @property
    def points(self) -> Tensor:
        """(N, d) where near rows are near."""
        return self._space.points

    @cached_property
    def test_points(self) -> Tensor | None:
        return None if self.test is None else self._space.place(_flat(self.test))

    @cached_property
    def near(self) -> Nearest:
        return nearest(self.points, self.groups, NEIGHBOURS)

    def sketches(self, rows: Rows) -> Tensor:
        """(N, d) grey thumbnails, freed of brightness and contrast: alike for resized and recoloured copies."""
        height, width = self.rows.shape[1:]
        size = (min(SKETCH, height), min(SKETCH, width))
        chunks = [F.adaptive_avg_pool2d(x.mean(1, keepdim=True), size).flatten(1) for x in inputs_of(rows.x, "cpu")]
        grey = torch.cat(chunks)
        return F.normalize(grey - grey.mean(1, keepdim=True), dim=1)


def _flat(rows: Rows) -> Tensor:
    """(N, d) features; of pictures a thumbnail."""
    if len(rows.shape) == 3 and min(rows.shape[1:]) > SIDE:
        return torch.cat([F.adaptive_avg_pool2d(x, SIDE).flatten(1) for x in inputs_of(rows.x, "cpu")])
    if isinstance(rows.x, Tensor) and rows.x.dtype == torch.float32:
        return rows.x.flatten(1)
    return torch.cat([x.flatten(1) for x in inputs_of(rows.x, "cpu")])


class _Space:
    """Features as models read them, and points: standardised, reduced where they are many."""

    def __init__(self, x: Tensor, scaled: bool, unit: bool) -> None:
        self._unit = unit
        self._mean, self._scale = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
        if not scaled:
            self._mean = x.mean(0)
            spread = x.std(0) if len(x) > 1 else torch.zeros(x.shape[1])
            self._scale = spread.clamp_min(max(1e-9, 1e-3 * float(spread.max())))
        self._directions: Tensor | None = None
        wide = x.shape[1] > WIDEST and len(x) > DIRECTIONS
        sparse = wide and scaled and float((x != 0).float().mean()) < SPARSE
        if sparse:
            from scipy.sparse import csr_matrix

            self.features: Any = csr_matrix(x.numpy())
        else:
            self.features = ((x - self._mean) / self._scale).numpy()
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


def joined(parts: Sequence[Tensor | None]) -> Tensor:
    """Points of training rows, and after them those of test rows where there are any."""
    return torch.cat([part for part in parts if part is not None])
