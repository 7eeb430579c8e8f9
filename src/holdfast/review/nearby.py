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
LOOKED_AT = 256
"""Rows, or rows of the class that is sought, that are compared with each other one by one."""


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
            [
                np.zeros(0, np.int64),
                *((features[part] @ centres).argmax(1).numpy() for part in own.split(8192) if len(part)),
            ]
        )
        named = np.zeros(len(chosen), dtype=np.int64) if label is None else label[chosen].astype(np.int64)
        self._classes = int(named.max(initial=0)) + 1
        box = cell * self._classes + named
        by_box = np.argsort(box, kind="stable")
        self.rows: Array = chosen[by_box]
        self._points: Array = features[torch.from_numpy(self.rows)].numpy()
        # Where the candidates of each cell and class begin.
        self._start: Array = np.searchsorted(box[by_box], np.arange(cells * self._classes + 1))

    def around(self, row: int) -> Around:
        """What there is to find around a row."""
        point: Array = self._features[row].numpy()
        return Around(self, row, point, np.argsort(-(self._centres @ point)))

    def find(self, row: int, point: Array, cells: Array, most: int, label: int | None) -> Array:
        """(at most ``most``,) candidates near a point and other than its row; ``cells``: all, the nearest first."""
        if not len(self.rows) or (label is not None and not 0 <= label < self._classes):
            return self.rows[:0]
        box = cells * self._classes
        low, high = (
            (self._start[box], self._start[box + self._classes])
            if label is None
            else (self._start[box + label], self._start[box + label + 1])
        )
        total = np.cumsum(high - low)
        enough = int(np.searchsorted(total, LOOKED_AT)) + 1
        low, size, total = low[:enough], (high - low)[:enough], total[:enough]
        # The places low, low + 1, ..., high - 1 of each box, one after the other.
        places = np.arange(int(total[-1])) + np.repeat(low - total + size, size)
        likeness, rows = self._points[places] @ point, self.rows[places]
        likeness[rows == row] = -np.inf
        best = np.argpartition(-likeness, most)[:most] if len(rows) > most else np.arange(len(rows))
        best = best[np.argsort(-likeness[best], kind="stable")]
        found: Array = rows[best[likeness[best] > -np.inf]]
        return found


class Around(NamedTuple):
    """The surroundings of a row: cells in the order in which they are near are found once for all questions."""

    nearby: Nearby
    row: int
    point: Array
    cells: Array

    def nearest(self, most: int, label: int | None = None) -> list[int]:
        """Near candidates other than the row itself, of any class or of one, the nearest first."""
        found: list[int] = self.nearby.find(self.row, self.point, self.cells, most, label).tolist()
        return found
