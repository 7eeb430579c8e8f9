"""Ranks: which of the processes of a training this one is, its share of the work, and what it gets from the others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Ranks:
    """The processes that train together, as one of them sees them.

    Alone (one process, the usual case) each share is the whole and each call hands back what it was given. With
    others, every call that gathers or sums must be made by all of them, in the same order.

    >>> Ranks(1, 2).share(5), Ranks(1, 2).assign([4, 9, 4])
    (slice(2, 5, None), [1, 0, 1])
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        self.count = count

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def share(self, size: int) -> slice:
        """This rank's part of ``size`` rows in order; parts differ by one row at most."""
        return slice(size * self.rank // self.count, size * (self.rank + 1) // self.count)

    @property
    def mirrored(self) -> Ranks:
        """The same with the last rank first: where it has the larger share the other has the smaller."""
        return Ranks(self.count - 1 - self.rank, self.count)

    def assign(self, sizes: Sequence[int]) -> list[int]:
        """The rank to which each piece of work is assigned: the largest first, each to whoever has least so far."""
        loads, owners = [0] * self.count, [0] * len(sizes)
        for piece in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
            owners[piece] = loads.index(min(loads))
            loads[owners[piece]] += sizes[piece]
        return owners

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks, those of rank 0 first; each rank may have its own number of them.

        Shape: (n, ...) -> (sum of n, ...).
        """
        if self.count == 1:
            return rows
        sizes = [int(size) for size in self.objects(len(rows))]
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def total(self, value: Tensor) -> Tensor:
        """The sum over the ranks."""
        if self.count == 1:
            return value
        whole = value.detach().clone()
        dist.all_reduce(whole)
        return whole

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace floats by their mean over the ranks, in place."""
        if self.count == 1 or not tensors:
            return
        flat = self.total(torch.cat([tensor.detach().flatten() for tensor in tensors])) / self.count
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.detach().copy_(part.reshape(tensor.shape))

    def merge(self, own: Tensor, *tensors: Tensor) -> None:
        """Take each row from the one rank that calls it its own, in place.

        Shape: own (N,) of booleans, true for each row on one rank; tensors (N, ...).
        """
        if self.count == 1:
            return
        for tensor in tensors:
            whole = tensor.long() if tensor.dtype == torch.bool else tensor.clone()
            whole[~own] = 0
            dist.all_reduce(whole)
            tensor.copy_(whole)

    def objects(self, value: Any) -> list[Any]:
        """A plain value of each rank."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def alike(self, *tensors: Tensor | None) -> bool:
        """Whether all ranks hold the same numbers."""
        if self.count == 1:
            return True
        digest = hashlib.blake2b()
        for tensor in tensors:
            digest.update(b"-" if tensor is None else tensor.cpu().contiguous().numpy().tobytes())
        return len(set(self.objects(digest.hexdigest()))) == 1

    def __repr__(self) -> str:
        return f"Ranks({self.rank}, {self.count})"


_here = Ranks()


def get_ranks() -> Ranks:
    """The ranks of this process. A process belongs to one training for all its life, so this never changes in it."""
    return _here


def set_ranks(rank: int, count: int) -> None:
    """Make this process one rank of several; called once, before anything is trained in it."""
    global _here
    _here = Ranks(rank, count)
