"""Greedy facility location on the device of the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]

WIDE = 256
"""Candidates whose gains are renewed together."""


def device_greedy(points: Tensor, k: int, squared: bool) -> tuple[Array, Array, Array, float]:
    """Picks, gains, position of the nearest pick for each point, and the loss: as the kernels on the CPU have them.

    Lazy greedy with many candidates renewed at once: those of the largest bounds, until one that is renewed has the
    largest of all. Distances are made when they are needed; memory is a block of them.

    Shape: points (n, d) -> (k,), (k,), (n,).
    """
    n = len(points)
    points64 = points.double()
    loss = points64.new_zeros(n)
    widest = 0.0
    for rows in torch.arange(n, device=points.device).split(WIDE):
        d = _distances(points64, rows, squared)
        loss[rows] = d.sum(1, dtype=torch.float64)
        widest = max(widest, float(d.max()))
    first = int(loss.argmin())
    best = _distances(points64, torch.tensor([first], device=points.device), squared)[0]
    owner = torch.zeros(n, dtype=torch.int64, device=points.device)
    picked, gain = [first], [n * widest - float(loss[first])]
    bound = torch.full((n,), torch.inf, dtype=torch.float64, device=points.device)
    bound[first] = -1
    fresh = torch.zeros(n, dtype=torch.int64, device=points.device)
    for step in range(1, k):
        while True:
            # Of equal bounds the first one: argmax alone does not promise which.
            top = int((bound == bound.max()).nonzero()[0])
            if int(fresh[top]) == step:
                break
            stale = torch.where(fresh == step, -torch.inf, bound)
            rows = stale.topk(min(WIDE, n)).indices
            rows = rows[stale[rows] >= 0]
            d = _distances(points64, rows, squared)
            bound[rows] = (best.double() - d.double()).clamp_min(0).sum(1)
            fresh[rows] = step
        d = _distances(points64, torch.tensor([top], device=points.device), squared)[0]
        picked.append(top)
        gain.append(float(bound[top]))
        bound[top] = -1
        owner[d < best] = step
        best = torch.minimum(best, d)
    return np.array(picked), np.array(gain), owner.cpu().numpy(), float(best.double().sum())


def _distances(points: Tensor, rows: Tensor, squared: bool) -> Tensor:
    """(m, n) float32, from float64."""
    d = torch.cdist(points[rows], points, compute_mode="donot_use_mm_for_euclid_dist")
    return (d.square() if squared else d).float()
