"""Classes with hardly any rows."""

from __future__ import annotations

import numpy as np
import torch

from holdfast.audit.finding import Finding, nothing
from holdfast.audit.subject import Subject

KIND = "rare class"
SHARE = 0.1
"""A class is rare if it has less than this part of an even share of the rows."""
FEWEST = 5


def find_rare_classes(subject: Subject) -> list[Finding]:
    """Classes with under a tenth of an even share of the rows, or with fewer than five."""
    names = subject.rows.classes
    if names is None:
        return []
    count = torch.bincount(subject.rows.y, minlength=len(names)).numpy()
    even = len(subject) / len(names)
    rare = np.flatnonzero((count < SHARE * even) | (count < FEWEST))
    if not len(rare):
        return [nothing(KIND, f"none; the smallest of {len(names)} classes has {int(count.min()):,} rows")]
    why = [f"{int(count[k]):,} of {len(subject):,} rows; an even share would be {even:,.0f}" for k in rare]
    score = 1 - np.minimum(count[rare] / even, 1)
    sentence = f"{len(rare)} of {len(names)} classes have hardly any rows"
    return [
        Finding(
            KIND, np.full(len(rare), -1), score, np.ones(len(rare), dtype=bool), why, sentence, [names[k] for k in rare]
        )
    ]
