"""Facility location in the manner of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from holdfast.select.facility import facility_location
from holdfast.select.points import Metric

Array = np.ndarray[Any, Any]


class FacilityLocation(BaseEstimator):
    """Rows that stand for all rows: ``FacilityLocation(100).fit(X).transform(X)`` returns them.

    Parameters
    ----------
    k, metric, memory, threads, progress: as in ``facility_location``; labels given to ``fit`` are its groups.

    Attributes
    ----------
    index_ (k,), weight_ (k,), gain_ (k,), assignment_ (n,), objective_: as in ``Selection``.

    >>> FacilityLocation(2).fit_transform(np.array([[0.0], [1.0], [9.0]])).tolist()
    [[1.0], [9.0]]
    """

    def __init__(
        self,
        k: float | Sequence[float] = 0.1,
        *,
        metric: Metric = "euclidean",
        memory: str | int | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> None:
        self.k = k
        self.metric = metric
        self.memory = memory
        self.threads = threads
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Select from the rows of X, inside each class of y where it is given."""
        groups = None if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
        found = facility_location(
            np.asarray(
                X, dtype=None if getattr(np.asarray(X), "dtype", None) in (np.float32, np.float64) else np.float64
            ),
            self.k,
            metric=self.metric,
            groups=groups,
            memory=self.memory,
            threads=self.threads,
            progress=self.progress,
        )
        self.index_, self.weight_, self.gain_, self.assignment_, self.objective_ = found
        return self

    def transform(self, X: Any) -> Any:
        """The selected rows of X, which has the rows that were fitted."""
        check_is_fitted(self)
        return np.asarray(X)[self.index_]

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Select, and return the selected rows."""
        return self.fit(X, y).transform(X)
