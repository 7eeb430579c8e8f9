"""Confident learning: which labels to prune, from out-of-sample probabilities."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.noise_rate import confident_classes, confident_joint

Prune = Literal["class", "noise_rate", "both", "confident"]


def confident_suspects(expected: Tensor, y: Tensor, by: Prune = "both") -> Tensor:
    """(N,) booleans: rows whose label is likely wrong by the confident joint Q (given x true).

    "class": of each given class a, the ``N sum_{j != a} Q[a, j]`` rows of least ``p_a``. "noise_rate": of each pair,
    the ``N Q[a, j]`` rows labelled a of largest ``p_j - p_a``. "both": what the two agree on. "confident": rows that
    count in Q outside of its diagonal.

    Shapes
    ------
    expected (N, C) out-of-sample probabilities, y (N,) -> (N,).

    Reference: Northcutt, Jiang and Chuang, "Confident Learning", JAIR 2021, section 3.2.

    >>> confident_suspects(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.9, 0.1]]), torch.tensor([0, 0, 1, 1]))
    tensor([False, False, False,  True])
    """
    if by not in get_args(Prune):
        raise HoldfastError(f"prune is one of {', '.join(get_args(Prune))}, not {by!r}")
    if by == "confident":
        best, sure = confident_classes(expected, y)
        return sure & (best != y)
    if by == "both":
        return confident_suspects(expected, y, "class") & confident_suspects(expected, y, "noise_rate")
    joint = confident_joint(expected, y) * len(y)
    suspect = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    for given in range(expected.shape[1]):
        rows = (y == given).nonzero()[:, 0]
        own = expected[rows, given]
        wrong = joint[given].clone()
        wrong[given] = 0
        if by == "class":
            suspect[rows[own.argsort(stable=True)[: round(float(wrong.sum()))]]] = True
            continue
        for true, count in enumerate(wrong.tolist()):
            lead = expected[rows, true] - own
            suspect[rows[lead.argsort(descending=True, stable=True)[: round(count)]]] = True
    return suspect
