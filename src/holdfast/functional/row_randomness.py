"""Randomness that belongs to rows and an epoch, whatever batch, order or process a row turns up in.

Being functions of seed and epoch alone, such draws need no state to be saved and take nothing from other generators.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from holdfast.ranks import get_ranks


def row_uniforms(count: int, seed: int, epoch: int) -> Tensor:
    """A number in [0, 1) for each row, another in each epoch.

    Shape: (count,) in double precision, so that hardly two are equal.

    >>> torch.equal(row_uniforms(4, 0, 1), row_uniforms(4, 0, 1))
    True
    """
    source = torch.Generator().manual_seed(((seed + 1) * 1_000_003 + epoch) % 2**63)
    return torch.rand(count, generator=source, dtype=torch.float64)


def epoch_generator(seed: int, epoch: int, number: int) -> torch.Generator:
    """A generator for one piece of work of an epoch, such as the selection in one class.

    >>> epoch_generator(0, 1, 2).initial_seed() == epoch_generator(0, 1, 3).initial_seed()
    False
    """
    drawn = np.random.SeedSequence([seed, epoch, number]).generate_state(1, np.uint32)
    return torch.Generator().manual_seed(int(drawn[0]))


def cyclic_partners(uniforms: Tensor) -> Tensor:
    """A partner for each example: the one whose number is the next larger, for the largest the smallest.

    Each is the partner of one, and none its own unless it is alone. Where several processes share a batch, these are
    positions in all of it.

    Shape: (B,) -> (B,) positions.

    >>> cyclic_partners(torch.tensor([0.5, 0.1, 0.9]))
    tensor([2, 0, 1])
    """
    ranks = get_ranks()
    order = ranks.gather(uniforms).argsort(stable=True)
    partner = torch.empty_like(order)
    partner[order] = order.roll(-1)
    start = sum(ranks.objects(len(uniforms))[: ranks.rank])
    return partner[start : start + len(uniforms)]


def mixed_with(values: Tensor, partner: Tensor, share: float) -> Tensor:
    """``share`` of each example and the rest of its partner, which may be another process's.

    Shape: values (B, ...), partner (B,) from ``cyclic_partners`` -> (B, ...).
    """
    return share * values + (1 - share) * get_ranks().gather(values)[partner]


def batch_beta(alpha: float, rows: Tensor, seed: int, epoch: int, number: int = 0) -> float:
    """One draw ``max(n, 1 - n)``, ``n ~ Beta(alpha, alpha)``, for a batch: the same in all processes that share it.

    Shape: rows (B,) of the batch; ``number`` tells several draws apart.

    >>> 0.5 <= batch_beta(1.0, torch.tensor([4, 2]), 0, 3) <= 1
    True
    """
    least = min(get_ranks().objects(int(rows.min())))
    drawn = float(np.random.default_rng([seed, epoch, least, number]).beta(alpha, alpha))
    return max(drawn, 1 - drawn)
