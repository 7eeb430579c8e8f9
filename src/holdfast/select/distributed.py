"""Facility location in two rounds over parts of the data, here or on a Ray cluster."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.executors.on_ray import RETRIES, connected
from holdfast.progress import Progress
from holdfast.select.cover import Array, Cover, Rows32, nearest_rows, selection
from holdfast.select.facility import facility_location
from holdfast.select.points import Points, checked_points, count_of
from holdfast.select.selection import Selection, in_kind

PART = 10_000
"""Points in a part by default, about."""
REFERENCE = 50_000
"""Points that the second round is judged on by default."""


def greedi(
    points: Points,
    k: float,
    parts: int,
    seed: int = 0,
    *,
    each: int | None = None,
    reference: int | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Greedy medoids in two rounds: of each random part, then of what the parts chose.

    The points are dealt at random to the parts. Exact greedy picks ``each`` points of every part, then k of the union
    of these, by gains on all points or on a uniform sample of them; the result is the best of that and of the
    first k picks of any one part, by the summed distance on the same points. With ``each`` = k and all points, the
    value F is at least (1 - 1/e)² / min(parts, k) of the best in the worst case, and (1 - 1/e) / 2 in
    expectation as the parts are random.

    Parameters
    ----------
    points: finite floats, on any device.
    k: from 1 to n, or a share of them in (0, 1).
    parts: from 1 to n.
    seed: deals the points and draws the sample.
    each: picks in a part, at least k / parts; None is k. Fewer make a smaller union, at the cost of the guarantee.
    reference: size of the sample, at least 1; None is 50,000; n and more is all points.
    progress: is called with the parts done.

    Shapes
    ------
    points (n, d) -> Selection of k on all points; ``objective`` is sum_i d(i, nearest chosen), ``gain`` what each
    choice took off it, the first counted from n times twice the largest distance to the mean.

    Differs from the paper: the second round is judged on one uniform sample, where the paper gives every machine
    its own; single parts compete only where ``each`` is at least k.

    Reference: Mirzasoleiman, Karbasi, Sarkar and Krause, "Distributed Submodular Maximization", NIPS 2013 and JMLR
    2016. The bound in expectation: Barbosa, Ene, Nguyen and Ward, "The Power of Randomization", ICML 2015.

    >>> greedi(torch.tensor([[0.0], [1.0], [9.0]]), 2, parts=1).index.tolist()
    [1, 2]
    """
    checked = checked_points(points)
    k = count_of(k, len(checked))
    plan = _plan(len(checked), k, parts, seed, each, reference)
    chosen = []
    for done, part in enumerate(plan.parts, 1):
        chosen.append(part[pick(checked[part], plan.each)])
        if progress is not None:
            progress.at(done, parts + 1)
    found = _second_round(checked, k, plan, chosen)
    if progress is not None:
        progress.at(parts + 1, parts + 1)
    return in_kind(found, points)


def distributed(
    points: Points,
    k: float,
    *,
    parts: int | None = None,
    address: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    each: int | None = None,
    reference: int | None = None,
    progress: Progress | None = None,
) -> Selection:
    """`greedi` with its parts on Ray: the same result, on as many processes or machines as there are.

    Points travel once, through Ray's object store, from which every worker of a machine reads them in place. A part
    whose worker dies is picked again, up to five times; as a part's picks depend on nothing but its points, the
    result is that of an undisturbed run. The second round runs in this process.

    Parameters
    ----------
    points, k, seed, each, reference: those of `greedi`.
    parts: from 1 to n; None makes parts of about 10,000 points.
    address: a Ray cluster to join, "auto" for the one of this machine; None uses the Ray that this process is
        connected to, or starts one here and shuts it down again.
    workers: processes of a Ray started here; None is one for each core.
    progress: is called with the parts done.

    Shapes
    ------
    points (n, d) -> Selection of k, as of `greedi`.

    Differs from the paper: see `greedi`.

    Reference: Mirzasoleiman, Karbasi, Sarkar and Krause, "Distributed Submodular Maximization", NIPS 2013.
    """
    checked = checked_points(points)
    k = count_of(k, len(checked))
    parts = max(1, math.ceil(len(checked) / PART)) if parts is None else parts
    plan = _plan(len(checked), k, parts, seed, each, reference)
    if workers is not None and workers < 1:
        raise HoldfastError(f"cannot work with {workers} workers; choose at least 1")
    table = checked.numpy()
    with connected(address, workers, table.nbytes) as ray:
        chosen = _on_ray(ray, table, plan, progress)
    found = _second_round(checked, k, plan, chosen)
    if progress is not None:
        progress.at(parts + 1, parts + 1)
    return in_kind(found, points)


def pick(points: Tensor, k: int) -> Tensor:
    """Exact greedy inside a part; all of it where it has no more than k points."""
    return facility_location(points, min(k, len(points))).index


class _Plan(NamedTuple):
    parts: tuple[Tensor, ...]
    each: int
    sample: Tensor


def _plan(n: int, k: int, parts: int, seed: int, each: int | None, reference: int | None) -> _Plan:
    """Who gets which points, known before any work starts."""
    if not 1 <= parts <= n:
        raise HoldfastError(f"cannot deal {n} points to {parts} parts; choose from 1 to {n}")
    each = k if each is None else each
    if each * parts < k:
        raise HoldfastError(f"{parts} parts of {each} picks cannot make {k}; pick at least {-(-k // parts)} in each")
    reference = REFERENCE if reference is None else reference
    if reference < 1:
        raise HoldfastError(f"cannot judge by {reference} points; choose at least 1")
    generator = torch.Generator().manual_seed(seed)
    dealt = torch.randperm(n, generator=generator).tensor_split(parts)
    sample = torch.randperm(n, generator=generator)[:reference]
    # In their own order, so that the lowest index still wins a tie.
    return _Plan(tuple(part.sort().values for part in dealt), each, sample.sort().values)


def _second_round(points: Tensor, k: int, plan: _Plan, chosen: list[Tensor]) -> Selection:
    rows = Rows32(points)
    known = rows.values[plan.sample.numpy()]
    union = torch.cat(chosen).sort().values.numpy()
    if len(union) < k:
        # Parts smaller than ``each`` gave all they had.
        union = np.arange(len(points))
    picked = Cover(known, rows.width()).greedy(rows.values[union], k, alone=True)
    rivals: list[Array] = [union[picked]]
    if len(chosen) > 1:
        rivals += [part[:k].numpy() for part in chosen if len(part) >= k]
    loss = [float(nearest_rows(known, rows.values[rival])[1].sum(dtype=np.float64)) for rival in rivals]
    return selection(rows, rivals[int(np.argmin(loss))])


def _on_ray(ray: Any, table: Array, plan: _Plan, progress: Progress | None) -> list[Tensor]:
    shared = ray.put(table)
    run = ray.remote(max_retries=RETRIES, num_cpus=1)(_pick_rows)
    place = {
        run.options(name=f"holdfast-part-{at}").remote(shared, part.numpy(), plan.each): at
        for at, part in enumerate(plan.parts)
    }
    chosen: dict[int, Tensor] = {}
    waiting = list(place)
    while waiting:
        ready, waiting = ray.wait(waiting, num_returns=1)
        at = place[ready[0]]
        try:
            picked = torch.from_numpy(np.array(ray.get(ready[0])))
        except ray.exceptions.RayTaskError as error:
            # Ray's own wrapper carries a traceback of the worker into the message.
            raise (error.cause if isinstance(error.cause, HoldfastError) else error.as_instanceof_cause()) from None
        except ray.exceptions.RayError as error:
            raise HoldfastError(
                f"part {at} was lost {RETRIES + 1} times ({type(error).__name__}); use more parts, so that each needs "
                "less memory, or fewer workers"
            ) from None
        chosen[at] = plan.parts[at][picked]
        if progress is not None:
            progress.at(len(chosen), len(plan.parts) + 1)
    return [chosen[at] for at in range(len(chosen))]


def _pick_rows(table: Array, part: Array, k: int) -> Array:
    """A part's picks, in a worker; the table is mapped from the object store and only the part is copied."""
    torch.set_num_threads(1)
    picked: Array = pick(torch.from_numpy(table[part]), k).numpy()
    return picked
