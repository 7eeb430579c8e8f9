"""k-medoids: greedy facility location, then swaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from holdfast.errors import HoldfastError
from holdfast.select.facility import facility_location
from holdfast.select.frame import along_axes, frame
from holdfast.select.points import Metric, Points, check_metric, checked_points, directions
from holdfast.select.selection import Selection, cluster_sizes, in_kind

Array = np.ndarray[Any, Any]


def k_medoids(
    points: Points, k: float, *, metric: Metric = "euclidean", passes: int = 100, memory: str | int | None = None
) -> Selection:
    """Medoids of small summed distance: greedy facility location, then swaps until none lowers it.

    A swap gives up a medoid for another point. Greedy alone is within a percent or two of where swaps end.

    Parameters
    ----------
    points: finite floats (n, d), NumPy or torch.
    k: from 1 to n, or a share of them in (0, 1).
    metric: not "precomputed".
    passes: at most so many times over all points, at least 0; swaps nearly always end sooner.
    memory: as in ``facility_location``.

    Shapes
    ------
    points (n, d) -> Selection; ``gain`` is what the loss would rise by without each medoid, and the order of ``index``
    that of the greedy choices which the medoids replaced.

    Differs from the paper: only points that lie nearer to a candidate than to their second medoid are looked at, found
    by screening blocks; no matrix of distances is held.

    Reference: Schubert and Rousseeuw, "Fast and eager k-medoids clustering: O(k) runtime improvement of the PAM, CLARA,
    and CLARANS algorithms", Information Systems 2021.

    >>> k_medoids(torch.tensor([[0.0], [0.1], [0.2], [0.3], [5.0], [5.2], [9.0]]), 3).objective < 0.61
    True
    """
    check_metric(metric)
    if metric == "precomputed":
        raise HoldfastError("k_medoids takes points; facility_location takes precomputed distances")
    checked = checked_points(points)
    start = facility_location(checked, k, metric=metric, memory=memory)
    count = len(start.index)
    if count == 1 or count == len(checked) or passes < 1:
        return in_kind(start, points)
    from holdfast.select.swaps import swap_medoids  # numba takes a while to import

    squared = metric != "euclidean"
    array = (directions(checked) if metric == "cosine" else checked).numpy()
    laid = frame(array, along_axes(array), squared)
    place = np.empty(len(array), np.int64)
    place[laid.name] = np.arange(len(array))
    medoid, worth, near, best = swap_medoids(
        laid.points, laid.rows, laid.tiles, laid.centre, laid.away, laid.slack,
        place[start.index.numpy()], squared, passes,
    )  # fmt: skip
    assignment = torch.empty(len(array), dtype=torch.int64)
    assignment[torch.from_numpy(laid.name)] = torch.from_numpy(near.astype(np.int64))
    index = torch.from_numpy(laid.name[medoid])
    assignment[index] = torch.arange(count)
    scale = 0.5 if metric == "cosine" else 1.0
    return in_kind(
        Selection(
            index,
            cluster_sizes(assignment, count),
            torch.from_numpy(worth) * scale,
            assignment,
            float(best.sum(dtype=np.float64)) * scale,
        ),
        points,
    )
