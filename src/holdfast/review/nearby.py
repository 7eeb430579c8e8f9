"""Near rows whose label is trusted, found among tens of thousands in a fraction of a millisecond."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

CANDIDATES = 50_000
"""Rows among which neighbours are sought."""
LOOKED_AT = 512
"""Rows, or rows of the class that is sought, that are compared with each other one by one."""


class Near(NamedTuple):
    """Near rows, the nearest first, and how like they are."""

    rows: Array
    likeness: Array


class Nearby:
    """An index of rows by their features.

    Candidates lie in cells, each around one of some random rows; those of the nearest cells are compared with the row
    that is asked about. Inside of a cell they lie by class, so that the nearest of a class are found as fast.

    Parameters
    ----------
    features: (N, d) of unit length.
    candidates: (M,) rows that may be found.
    label: (N,) class of each row as a number from 0; None where there is none.
    """

    def __init__(self, features: Tensor, candidates: Array, label: Array | None, seed: int = 0) -> None:
        source = np.random.default_rng(seed)
        chosen = np.sort(source.permutation(candidates)[:CANDIDATES])
        self._features = features
        cells = max(1, round(len(chosen) ** 0.5))
        own = torch.from_numpy(chosen)
        self._centres: Array = features[torch.from_numpy(source.permutation(chosen)[:cells])].numpy()
        centres = torch.from_numpy(self._centres).T
        cell = np.concatenate(
            [np.zeros(0, np.int64), *((features[part] @ centres).argmax(1).numpy() for part in own.split(8192))]
        )
        named = np.zeros(len(chosen), dtype=np.int64) if label is None else label[chosen].astype(np.int64)
        self._classes = int(named.max(initial=0)) + 1
        box = cell * self._classes + named
        by_box = np.argsort(box, kind="stable")
        self.rows: Array = chosen[by_box]
        self._points: Array = features[torch.from_numpy(self.rows)].numpy()
        # Where the candidates of each cell and class begin.
        self._start: Array = np.searchsorted(box[by_box], np.arange(cells * self._classes + 1))

    def nearest(self, row: int, most: int, label: int | None = None) -> Near:
        """Near candidates other than the row itself, of any class or of one.

        Shape: at most ``most`` rows; fewer where there are not so many.
        """
        if not len(self.rows) or (label is not None and not 0 <= label < self._classes):
            return Near(np.zeros(0, np.int64), np.zeros(0))
        point = self._features[row].numpy()
        order = np.argsort(-(self._centres @ point))
        if label is None:
            low, high = self._start[order * self._classes], self._start[(order + 1) * self._classes]
        else:
            box = order * self._classes + label
            low, high = self._start[box], self._start[box + 1]
        size = high - low
        enough = int(np.searchsorted(np.cumsum(size), LOOKED_AT)) + 1
        full = np.flatnonzero(size[:enough])
        if not len(full):
            return Near(np.zeros(0, np.int64), np.zeros(0))
        parts = [slice(a, b) for a, b in zip(low[full].tolist(), high[full].tolist(), strict=True)]
        likeness = np.concatenate([self._points[part] @ point for part in parts])
        rows = np.concatenate([self.rows[part] for part in parts])
        likeness[rows == row] = -np.inf
        if len(rows) > most + 1:
            best = np.argpartition(-likeness, most)[: most + 1]
            rows, likeness = rows[best], likeness[best]
        by_likeness = np.argsort(-likeness, kind="stable")[:most]
        by_likeness = by_likeness[likeness[by_likeness] > -np.inf]
        return Near(rows[by_likeness], likeness[by_likeness])
