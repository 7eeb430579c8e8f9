"""Facility location by exact greedy selection."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from os import cpu_count
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.select.budget import bytes_of, dense_bytes, forecast, format_bytes
from holdfast.select.device import device_greedy
from holdfast.select.frame import along_axes, distance_matrix, frame
from holdfast.select.points import Metric, Points, check_metric, checked_matrix, checked_points, count_of, directions
from holdfast.select.selection import Selection, cluster_sizes, in_kind

Array = np.ndarray[Any, Any]
Solved = tuple[Array, Array, Array, float]
"""Picks, gains, position of the nearest pick for each point, and the loss."""

FEW = 700
"""Up to so many points a matrix of distances is faster than lists."""
MANY_AXES = 64
"""From so many axes on it is as well, where it fits."""


class Part(NamedTuple):
    """A group: its rows, and how many to choose."""

    rows: Tensor
    k: int


def facility_location(
    points: Points,
    k: float | Sequence[float],
    *,
    metric: Metric = "euclidean",
    groups: Points | None = None,
    memory: str | int | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Selection:
    """Greedy medoids: each choice is the point that takes most off the summed distance to the nearest chosen one.

    Equivalently it adds most to F(S) = sum_i max_{j in S} (d0 - d_ij), d0 the largest distance, whose value is at least
    1 - 1/e of the best one. Distances are computed in float64 and rounded to float32, gains are summed in float64: no
    choice falls short of the best by more than 1e-6 of its gain. Ties go to the lowest index, and the number of threads
    changes nothing.

    Parameters
    ----------
    points: finite floats (n, d), NumPy or torch on any device; or (n, n) distances for ``metric="precomputed"``.
        A tensor on an accelerator is selected from there.
    k: how many, from 1 to n, or a share of them in (0, 1); with groups the same for each, or one for each in the
        order of the sorted groups.
    metric: "cosine" is 1 - cos, and refuses a zero vector.
    groups: (n,) integers; selects inside each.
    memory: budget such as "4GB" or a number of bytes; by default half of what the machine has free. It decides whether
        a matrix may be held, and what cannot fit is refused before it starts.
    threads: groups are shared out among them; by default one for each core.
    progress: show a forecast and a bar.

    Shapes
    ------
    points (n, d), groups (n,) -> Selection. A chosen point is assigned to itself; other ties go to the point chosen
    first. With groups, selections follow one another in the order of the sorted groups.

    Differs from the paper: none of the picks does. Work grows with n² for any k, and memory with n.

    References
    ----------
    Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy Labels",
    NeurIPS 2020, Algorithm 1. Minoux, "Accelerated greedy algorithms for maximizing submodular set
    functions", 1978.

    >>> facility_location(torch.tensor([[0.0], [1.0], [9.0]]), 2).index.tolist()
    [1, 2]
    """
    check_metric(metric)
    checked = checked_points(points)
    if metric == "precomputed":
        checked = checked_matrix(checked)
    elif metric == "cosine":
        checked = directions(checked)
    parts = _parts(len(checked), k, groups)
    room = bytes_of(memory)
    device = points.device if isinstance(points, Tensor) else torch.device("cpu")
    if threads is not None and threads < 1:
        raise HoldfastError(f"a selection needs at least one thread, not {threads}")
    workers = min(len(parts), threads or cpu_count() or 1)
    cost = forecast([len(part.rows) for part in parts], checked.shape[1], workers)
    if metric != "precomputed" and cost.bytes > room:
        raise HoldfastError(
            f"exact selection from {len(checked):,} points would take about {format_bytes(cost.bytes)}, more than the "
            f"{format_bytes(room)} allowed; allow more memory, select inside groups, "
            "or use stochastic_greedy, stream or distributed"
        )
    picks = np.zeros((len(parts), 1), np.int64)

    def solve(number: int) -> Solved:
        rows, count = parts[number]
        if metric == "precomputed":
            return _matrix(checked[rows][:, rows].numpy(), count, picks[number])
        here = checked[rows]
        if device.type != "cpu":
            return device_greedy(here.to(device), count, metric != "euclidean")
        return _points(here.numpy(), count, metric != "euclidean", room // workers, picks[number])

    order = sorted(range(len(parts)), key=lambda number: -len(parts[number].rows))
    with ThreadPoolExecutor(workers) as pool:
        running = {number: pool.submit(solve, number) for number in order}
        if progress:
            message = f"{len(checked):,} points: about {cost.seconds:.0f} s, {format_bytes(cost.bytes)}"
            _watch(message, list(running.values()), picks, sum(part.k for part in parts))
        found = [running[number].result() for number in range(len(parts))]
    scale = 0.5 if metric == "cosine" else 1.0
    return in_kind(_joined(len(checked), parts, found, scale), points)


def _parts(n: int, k: float | Sequence[float], groups: Points | None) -> list[Part]:
    if groups is None:
        if not isinstance(k, (int, float)):
            raise HoldfastError("one k for each group needs groups")
        return [Part(torch.arange(n), count_of(k, n))]
    label = torch.as_tensor(groups).cpu()
    if label.shape != (n,) or label.is_floating_point():
        raise HoldfastError(f"groups must be {n} integers, one for each point, not {label.dtype} {tuple(label.shape)}")
    order = label.argsort(stable=True)
    names, sizes = label.unique(return_counts=True)
    each = [k] * len(names) if isinstance(k, (int, float)) else list(k)
    if len(each) != len(names):
        raise HoldfastError(f"{len(names)} groups need as many numbers to select, not {len(each)}")
    parts = []
    for name, rows, count in zip(names.tolist(), order.split(sizes.tolist()), each, strict=True):
        try:
            parts.append(Part(rows, count_of(count, len(rows))))
        except HoldfastError as error:
            raise HoldfastError(f"group {name}: {error}") from None
    return parts


def _points(points: Array, k: int, squared: bool, room: int, done: Array) -> Solved:
    """Exact greedy over one set, by a matrix of distances or by lists, whichever is faster and fits."""
    n = len(points)
    fits = dense_bytes(n) <= room
    if fits and n <= FEW:
        return _matrix(distance_matrix(points, squared), k, done)
    rows = along_axes(points)
    if fits and rows.shape[1] > MANY_AXES:
        return _matrix(distance_matrix(points, squared), k, done)
    from holdfast.select.lazy_greedy import lazy_lists  # numba takes a while to import, and most runs never come here

    laid = frame(points, rows, squared)
    picked, gain, owner, best = lazy_lists(*laid, k, squared, done)
    back = np.empty(n, np.int64)
    back[laid.name] = owner
    return laid.name[picked], gain, back, float(best.sum(dtype=np.float64))


def _matrix(distances: Array, k: int, done: Array) -> Solved:
    from holdfast.select.lazy_greedy import lazy_matrix

    picked, gain, owner, best = lazy_matrix(distances, k, done)
    return picked, gain, owner, float(best.sum(dtype=np.float64))


def _joined(n: int, parts: list[Part], found: list[Solved], scale: float) -> Selection:
    """The selections of all parts as one of all points."""
    assignment = torch.empty(n, dtype=torch.int64)
    index, gain, loss, before = [], [], 0.0, 0
    for (rows, k), (picked, gains, owner, rest) in zip(parts, found, strict=True):
        position = torch.from_numpy(owner)
        position[torch.from_numpy(picked)] = torch.arange(k)
        assignment[rows] = position + before
        index.append(rows[torch.from_numpy(picked)])
        gain.append(torch.from_numpy(gains) * scale)
        loss += rest * scale
        before += k
    return Selection(torch.cat(index), cluster_sizes(assignment, before), torch.cat(gain), assignment, loss)


def _watch(message: str, running: list[Future[Solved]], picks: Array, total: int) -> None:
    """A bar over the picks of all parts, until all have ended."""
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(message, total=total)
        while wait(running, timeout=0.2).not_done:
            bar.update(task, completed=int(picks.sum()))
        bar.update(task, completed=total)
