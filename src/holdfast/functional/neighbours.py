"""Votes of neighbours: which labels the rows nearest to a row were given."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.functional.few import few
from holdfast.kept import Probabilities, together

NEIGHBOURS = 20
"""Rows whose labels count as votes for a row."""
VOTERS = 10_000
"""Rows among which neighbours are sought, drawn at random where there are more: the cost grows with the rows, not with
their square."""
BLOCK = 1024


def neighbour_votes(
    x: Tensor, y: Tensor, classes: int, voters: Tensor | None = None, k: int = NEIGHBOURS
) -> Probabilities:
    """(N, C) shares of the labels among the nearest rows by cosine, a row's own label left out.

    Features that were made without labels cannot have memorised any, so the votes are out of sample by nature. One vote
    is that of all rows, so that no class is impossible.

    Parameters
    ----------
    voters: the rows that vote; drawn at random if not given.
    k: neighbours of each row.

    Shape: x (N, d) features, y (N,), voters (M,) -> (N, C).

    >>> x = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3)
    >>> neighbour_votes(x, torch.tensor([0, 0, 1, 1, 1, 0]), 2, k=2)[2].argmax()
    tensor(0)
    """
    if voters is None:
        voters = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:VOTERS].to(x.device)
    among = F.normalize(x[voters].float(), dim=1)
    labels = y[voters]
    everywhere = torch.bincount(y, minlength=classes).to(among) / len(y)
    k = min(k, len(voters) - 1)
    place = torch.full((len(x),), -1, device=x.device)
    place[voters] = torch.arange(len(voters), device=x.device)
    votes: list[Probabilities] = []
    for rows in torch.arange(len(x), device=x.device).split(BLOCK):
        near = F.normalize(x[rows].float(), dim=1) @ among.T
        own = place[rows]
        near[own >= 0, own[own >= 0]] = -torch.inf
        nearest = labels[near.topk(k, 1).indices]
        counts = near.new_zeros(len(rows), classes).scatter_add_(1, nearest, near.new_ones(1, 1).expand(nearest.shape))
        votes.append(few((counts + everywhere) / (k + 1), y[rows]))
    return together(votes)
