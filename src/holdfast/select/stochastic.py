"""Facility location by stochastic greedy selection."""

from __future__ import annotations

import math

import numpy as np
import torch

from holdfast.errors import HoldfastError
from holdfast.progress import Progress
from holdfast.select.cover import Cover, Rows32, nearest_rows, selection
from holdfast.select.points import Points, checked_points, count_of
from holdfast.select.selection import Selection, in_kind

NEIGHBOURS = 8192
_DRAWS = 1_000_000  # random numbers held at once


def stochastic_greedy(
    points: Points,
    k: float,
    *,
    epsilon: float = 0.1,
    neighbours: int | None = NEIGHBOURS,
    reference: int | None = None,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Greedy medoids of very many points: each choice is the best of a random sample of candidates.

    A step tries (n/k)·log(1/epsilon) points that are not chosen yet and takes the one of largest gain
    sum_i max(0, d(i, S) - d_ij), ties to the lowest index. Where the gains run over all points, the expected value of
    F(S) = sum_i max_{j in S} (d0 - d_ij) is at least 1 - 1/e - epsilon of the best. The exact engine is both faster
    and better on a class of a few thousand points: this one is for hundreds of thousands and more.

    Two settings bound the work. From the second choice on, a point serves only the ``neighbours`` points in the cells
    nearest to it: the guarantee is then one for F_N(S) = sum_i max over those j in S that look at i, which is never
    above F. With a ``reference``, gains run over that many random points, and the guarantee is one for the sampled
    F. Up to 2·``neighbours`` points all are looked at. ``objective``, ``gain``, ``weight`` and ``assignment`` are those
    on all points, whatever the choice looked at.

    Parameters
    ----------
    points: finite floats, on any device.
    k: from 1 to n, or a share of them in (0, 1).
    epsilon: between 0 and 1; smaller tries more candidates.
    neighbours: at least 1; None looks at all points.
    reference: at least 1; None, or n and more, is all points. Some 50 a choice lose nothing, 10 about 2 %.
    generator: draws candidates and reference; None is a generator of seed 0.
    progress: is called with the choices made.

    Shapes
    ------
    points (n, d) -> Selection of k; ``objective`` is sum_i d(i, nearest chosen), ``gain`` what each choice took off
    it, the first counted from n times twice the largest distance to the mean. Memory is O(n·d).

    Differs from the paper: choices serve near points only, as above; a candidate whose gain was already too small
    when it was last tried is not tried again, which changes no choice.

    Reference: Mirzasoleiman, Badanidiyuru, Karbasi, Vondrák and Krause, "Lazier Than Lazy Greedy", AAAI 2015. Gains
    over near points only: Lindgren, Wu and Dimakis, "Leveraging Sparsity for Efficient Submodular Data
    Summarization", NeurIPS 2016.

    >>> stochastic_greedy(torch.tensor([[0.0], [1.0], [9.0]]), 2, epsilon=0.01).index.tolist()
    [1, 2]
    """
    checked = checked_points(points)
    n = len(checked)
    k = count_of(k, n)
    if not 0 < epsilon < 1:
        raise HoldfastError(f"epsilon must lie between 0 and 1, not {epsilon:g}")
    for name, value in (("neighbours", neighbours), ("reference", reference)):
        if value is not None and value < 1:
            raise HoldfastError(f"{name} must be at least 1, not {value}")
    from holdfast.select.blocks import sampled_steps  # numba takes a while to import

    generator = generator or torch.Generator().manual_seed(0)
    rows = Rows32(checked)
    known = rows.values
    if reference is not None and reference < n:
        known = known[torch.randperm(n, generator=generator)[:reference].sort().values.numpy()]
    cover = Cover(known, rows.width())
    home = cover.cell if known is rows.values else nearest_rows(rows.values, cover.pivots)[0]
    every = cover.near(len(known))
    near = every if neighbours is None or len(known) <= 2 * neighbours else cover.near(neighbours)
    sample = min(n, math.ceil(n / k * math.log(1 / epsilon)))
    steps = max(1, min(64, _DRAWS // sample))
    left = np.arange(n)
    bound = np.full(n, np.inf)
    index = np.empty(k, np.int64)
    done = 0
    while done < k:
        # Before the first choice nothing is near or far, and gains of the empty set bound nothing after it.
        part = index[done : done + (steps if done else 1)]
        draws = torch.randint(2**62, (len(part), sample), generator=generator).numpy()
        seen = near if done else every
        sampled_steps(*cover.arrays, rows.values, home, seen, left[: n - done], bound, draws, part)
        if done == 0:
            bound[:] = np.inf
        done += len(part)
        if progress is not None:
            progress.at(done, k)
    return in_kind(selection(rows, index), points)
