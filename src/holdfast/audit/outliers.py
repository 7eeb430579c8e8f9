"""Rows far from all others, or from all others of their label."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from holdfast.audit.finding import Finding, nothing
from holdfast.audit.subject import NEIGHBOURS, Subject

KIND = "outlier"
FEWEST = 30
"""Rows, of all or of a class, below which nothing is usual."""
FAR = 5.0
"""Robust standard deviations of the logarithm of the distance above its median, where chance hardly ever goes."""
TIMES = 2.0
"""An outlier is also at least so many times as far from its neighbours as half of all rows are."""


def find_outliers(subject: Subject) -> list[Finding]:
    """Rows whose mean distance to their nearest ten is far above the usual one."""
    if len(subject) < FEWEST:
        return [nothing(KIND, f"{len(subject)} rows are too few to say what is usual")]
    near = subject.near
    times, far = _above(near.distance.mean(1))
    own_times, own_far = torch.zeros_like(times), torch.zeros_like(far)
    for label in subject.groups.unique():
        rows = (subject.groups == label).nonzero()[:, 0]
        distance = near.own[rows].mean(1)
        if len(rows) >= FEWEST and bool(distance.isfinite().all()):
            own_times[rows], own_far[rows] = _above(distance)
    # Texts are all of one length, so that one which shares no word with others is far from none of them.
    strange = ~subject.points.any(1) if subject.texts is not None else torch.zeros_like(far)
    found = np.flatnonzero((far | own_far | strange).numpy())
    why = []
    for row in found.tolist():
        if strange[row]:
            why.append("shares no word with other rows")
        elif far[row]:
            why.append(f"{times[row]:.1f} times as far from its nearest rows as is usual")
        else:
            why.append(f"{own_times[row]:.1f} times as far from the nearest rows of its label as is usual")
    score = 1 - 1 / torch.maximum(times, own_times).clamp_min(1)
    score[strange] = 1.0
    sentence = f"{len(found):,} far from all other rows, or from all others of their label" if len(found) else "none"
    return [Finding(KIND, found, score.numpy()[found], np.ones(len(found), dtype=bool), why, sentence)]


def _above(distance: Tensor) -> tuple[Tensor, Tensor]:
    """How many times the usual distance each is, and whether that is far above."""
    positive = distance[distance > 0]
    if len(positive) < NEIGHBOURS:
        return torch.zeros_like(distance), torch.zeros(len(distance), dtype=torch.bool)
    usual = positive.median()
    logs = positive.log()
    # The upper half alone: rows that nearly coincide with others make a long tail below.
    above = logs[logs >= usual.log()] - usual.log()
    spread = 1.4826 * above.median().clamp_min(1e-3)
    times = distance / usual
    return times, (times.clamp_min(1e-12).log() > FAR * spread) & (times > TIMES)
