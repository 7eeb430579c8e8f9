"""How labels go wrong: the matrix that makes the given labels likeliest, by expectation maximisation.

Rows are gone through label by label, since a label asks of all rows that have it the same column of the matrix. Where
all classes are kept of each row, a round is two products of a matrix with a vector, or with as many as there are
bootstrap draws; where only a few are, it goes over the pairs of given and true class that occur.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.kept import Kept, Probabilities, numbers_of

ROUNDS, MANY_ROUNDS = 30, 100
"""Of expectation maximisation at most, started from few wrong labels: where all classes are kept, and where few are."""
STILL, FEW_STILL = 1e-7, 1e-5
"""Rounds end where no cell of the matrix moves by more: where all classes are kept, and where few are."""
PRIOR = (0.1, 1.0)
"""Rows that each cell of the transition matrix, and each cell of its diagonal, is taken to have had before."""
START = 0.7
"""The diagonal of the matrix that the rounds start from; the rest is spread over the row."""
PIECE = 1 << 14
"""Rows that are worked through at once: they fit in a processor's cache."""
AT_ONCE = 1 << 17
"""Numbers up to which all labels are gone through at once: there are fewer calls to wait for."""
NEGLIGIBLE = 1e-7
"""Evidence up to which a pair of classes has not occurred."""


class Cells(ABC):
    """Evidence about rows, arranged for expectation maximisation. Tables are (C, C) matrices, or have a number for each
    pair of classes that occurs; true class first."""

    @abstractmethod
    def raised(self, power: float) -> Cells:
        """The same rows, their evidence raised to a power."""

    @abstractmethod
    def raise_(self, power: float) -> None:
        """Raise the evidence in its place: of very many rows there is no room for another."""

    @abstractmethod
    def fit(self, start: Tensor | None = None, weight: Tensor | None = None, rounds: int | None = None) -> Tensor:
        """The table under which the given labels are likeliest; ``weight`` (N,) says how often each row counts."""

    @abstractmethod
    def take(self, rows: Tensor) -> Cells:
        """Some of the rows; tables stay what they are."""

    @abstractmethod
    def drawn(self, start: Tensor, weight: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        """(D, C) how many labels of each given class are wrong in draws (D, N) of rows, by a table that is fitted to
        each from the one given; and these tables, where all classes are kept."""

    @abstractmethod
    def posterior(self, table: Tensor, part: float = 1.0, more: Tensor | None = None) -> Tensor:
        """A part of the probability of each true class, added to more of it where there is such; ``in_rows`` puts it in
        the order of the rows."""

    @abstractmethod
    def in_rows(self, posterior: Tensor) -> Probabilities:
        """(N, C) probabilities of each true class."""

    @abstractmethod
    def likelihood(self, table: Tensor) -> float:
        """Mean log probability of the given labels."""

    @abstractmethod
    def counted(self) -> Tensor:
        """(C, C) how often each label is given to each true class, if the evidence is the probability of the latter."""

    @abstractmethod
    def matrix(self, table: Tensor) -> Tensor:
        """(C, C) the table as a matrix; sparse where only pairs that occur have a number."""


def cells_of(evidence: Probabilities, y: Tensor) -> Cells:
    """Arrange evidence (N, C) about rows with the labels y (N,)."""
    return Pairs.of(evidence, y) if isinstance(evidence, Kept) else Columns.of(evidence, y)


def by_label(y: Tensor, classes: int) -> Tensor:
    """(N,) the rows in the order of their labels; numbers of 16 bits are sorted several times as fast as others."""
    if numbers_of(classes) is torch.int16:
        y = y.to(torch.int16)
    return torch.from_numpy(y.numpy().argsort(kind="stable"))


def flips_from(pairs: Tensor) -> Tensor:
    """(..., C, C) how often each label is given to each true class, from how many rows each pair should have."""
    own = torch.eye(pairs.shape[-1], dtype=pairs.dtype, device=pairs.device)
    pairs = pairs + PRIOR[0] + PRIOR[1] * own
    return pairs / pairs.sum(-1, keepdim=True)


class Columns(Cells):
    """All classes of each row: a line for each class, rows in the order of their labels."""

    def __init__(self, lines: Tensor, order: Tensor, pieces: list[tuple[int, int, int]]) -> None:
        self._lines = lines
        self._order = order
        self._pieces = pieces

    @classmethod
    def of(cls, evidence: Tensor, y: Tensor) -> Columns:
        order = by_label(y, evidence.shape[1])
        pieces, start = [], 0
        for label, end in enumerate(torch.bincount(y, minlength=evidence.shape[1]).cumsum(0).tolist()):
            pieces += [(label, at, min(at + PIECE, end)) for at in range(start, end, PIECE)]
            start = end
        # Rows lie together in memory: to pick them first, and then turn them, is faster than to pick each line.
        return cls(evidence.index_select(0, order).T.contiguous(), order, pieces)

    def raised(self, power: float) -> Columns:
        return self if power == 1 else Columns(self._lines**power, self._order, self._pieces)

    def raise_(self, power: float) -> None:
        if power != 1:
            self._lines.pow_(power)

    def fit(self, start: Tensor | None = None, weight: Tensor | None = None, rounds: int | None = None) -> Tensor:
        lines, classes = self._lines, len(self._lines)
        own = torch.eye(classes, dtype=torch.float64, device=lines.device)
        table = START * own + (1 - START) / classes if start is None else start.double()
        weight = None if weight is None else weight[..., self._order].to(lines.dtype)
        at_once = lines.numel() <= AT_ONCE and table.dim() == 2
        given = torch.nn.functional.one_hot(self._labels(), classes).to(lines.dtype) if at_once else None
        for _ in range(ROUNDS if rounds is None else rounds):
            pairs = self._pairs(table, weight) if given is None else self._pairs_at_once(table, weight, given)
            table, before = flips_from(pairs), table
            if float((table - before).abs().amax()) < STILL:
                break
        return table

    def _pairs(self, table: Tensor, weight: Tensor | None) -> Tensor:
        """(..., C, C) how many rows of each pair of classes there should be, by a table."""
        lines, pairs = self._lines, torch.zeros_like(table)
        columns = table.transpose(-1, -2).to(lines.dtype)
        for label, start, end in self._pieces:
            block, flips = lines[:, start:end], columns[..., label, :]
            share = (flips @ block).reciprocal_()
            if weight is not None:
                share *= weight[..., start:end]
            pairs[..., label] += flips * (share @ block.T)
        return pairs

    def _pairs_at_once(self, table: Tensor, weight: Tensor | None, given: Tensor) -> Tensor:
        """The same of one table, with (N, C) the given classes as zeros and ones."""
        joint = (table.to(given.dtype) @ given.T).mul_(self._lines)
        share = joint.sum(0).reciprocal_()
        if weight is not None:
            share *= weight
        return (joint.mul_(share) @ given).to(table.dtype)

    def _labels(self) -> Tensor:
        """(N,) the given labels, in order."""
        return torch.cat([torch.full((end - start,), label) for label, start, end in self._pieces])

    def take(self, rows: Tensor) -> Columns:
        place = torch.empty_like(self._order)
        place[self._order] = torch.arange(len(place))
        return Columns.of(self._lines.T[place[rows]], self._labels()[place[rows]])

    def drawn(self, start: Tensor, weight: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        lines, tables = self._lines, self.fit(start.expand(len(weight), *start.shape), weight, rounds)
        found = torch.zeros(len(weight), len(lines), dtype=torch.float64)
        weight = weight[:, self._order].to(lines.dtype)
        for label, start_at, end in self._pieces:
            block, flips = lines[:, start_at:end], tables[..., label].to(lines.dtype)
            right = flips[:, label, None] * block[label] / (flips @ block)
            found[:, label] += (weight[:, start_at:end] * (1 - right)).sum(1)
        return found, tables

    def posterior(self, table: Tensor, part: float = 1.0, more: Tensor | None = None) -> Tensor:
        lines, columns = self._lines, table.T.to(self._lines.dtype)
        found = torch.zeros_like(lines) if more is None else more
        for label, start, end in self._pieces:
            block, flips = lines[:, start:end], columns[label]
            found[:, start:end] += (block * flips[:, None]).mul_((flips @ block).reciprocal_().mul_(part))
        return found

    def in_rows(self, posterior: Tensor) -> Tensor:
        place = torch.empty_like(self._order)
        place[self._order] = torch.arange(len(place))
        return posterior.T.contiguous().index_select(0, place)

    def likelihood(self, table: Tensor) -> float:
        if self._lines.numel() <= AT_ONCE:
            chance = (table.to(self._lines.dtype).index_select(1, self._labels()) * self._lines).sum(0)
            return float(chance.log().double().mean())
        total = 0.0
        for label, start, end in self._pieces:
            total += float((table[:, label].to(self._lines.dtype) @ self._lines[:, start:end]).log().double().sum())
        return total / len(self._order)

    def counted(self) -> Tensor:
        pairs = torch.zeros(len(self._lines), len(self._lines), dtype=torch.float64)
        for label, start, end in self._pieces:
            pairs[:, label] += self._lines[:, start:end].sum(1)
        return flips_from(pairs)

    def matrix(self, table: Tensor) -> Tensor:
        return table


class Pairs(Cells):
    """A few classes of each row: for each of them the number of its pair with the label."""

    def __init__(self, value: Any, pair: Any, true: Tensor, given: Tensor, kept: Kept) -> None:
        self._value = value
        self._pair = pair
        self._true = true
        self._given = given
        self._kept = kept

    @classmethod
    def of(cls, evidence: Kept, y: Tensor) -> Pairs:
        from holdfast.functional.few_loops import number_pairs  # numba takes a while to import

        number, value = evidence.number.numpy(), evidence.value.float().numpy()
        ends = torch.bincount(y, minlength=evidence.classes).cumsum(0).numpy()
        pair = np.empty(number.shape, np.int32)
        true, given = np.empty((2, min(number.size, evidence.classes**2)), np.int32)
        order = by_label(y, evidence.classes).numpy()
        count = number_pairs(number, value, order, ends, NEGLIGIBLE, pair, true, given)
        first, second = (torch.from_numpy(each[:count].astype(np.int64)) for each in (true, given))
        return cls(value, pair, first, second, evidence)

    def raised(self, power: float) -> Pairs:
        return self if power == 1 else Pairs(self._value**power, self._pair, self._true, self._given, self._kept)

    def raise_(self, power: float) -> None:
        if power != 1:
            self._value = self._value**power

    def fit(self, start: Tensor | None = None, weight: Tensor | None = None, rounds: int | None = None) -> Tensor:
        from holdfast.functional.few_loops import count_pairs

        classes, own = self._kept.classes, (self._true == self._given).double()
        table = START * own + (1 - START) / classes if start is None else start
        counted = torch.empty(0) if weight is None else weight.float()
        for _ in range(MANY_ROUNDS if rounds is None else rounds):
            counts = torch.zeros_like(table)
            count_pairs(self._value, self._pair, table.float().numpy(), counted.numpy(), counts.numpy())
            before, table = table, self._flips(counts)
            if float((table - before).abs().amax()) < FEW_STILL:
                break
        return table

    def take(self, rows: Tensor) -> Pairs:
        chosen = rows.numpy()
        return Pairs(self._value[chosen], self._pair[chosen], self._true, self._given, self._kept.take(rows))

    def drawn(self, start: Tensor, weight: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        from holdfast.functional.few_loops import count_pairs

        found = torch.zeros(len(weight), self._kept.classes, dtype=torch.float64)
        off = self._true != self._given
        for line, counted in zip(found, weight.float(), strict=True):
            counts, table = torch.zeros(len(start), dtype=torch.float64), self.fit(start, counted, rounds)
            count_pairs(self._value, self._pair, table.float().numpy(), counted.numpy(), counts.numpy())
            line.index_add_(0, self._given[off], counts[off])
        return found, torch.empty(0)

    def posterior(self, table: Tensor, part: float = 1.0, more: Tensor | None = None) -> Tensor:
        from holdfast.functional.few_loops import add_posteriors

        found = torch.zeros(self._value.shape) if more is None else more
        add_posteriors(self._value, self._pair, table.float().numpy(), part, found.numpy())
        return found

    def in_rows(self, posterior: Tensor) -> Kept:
        return self._kept.with_values(posterior)

    def likelihood(self, table: Tensor) -> float:
        from holdfast.functional.few_loops import add_posteriors

        spare = np.zeros(self._value.shape, np.float32)
        return float(add_posteriors(self._value, self._pair, table.float().numpy(), 1.0, spare)) / len(spare)

    def counted(self) -> Tensor:
        counts, occurs = torch.zeros(len(self._true), dtype=torch.float64), torch.from_numpy(self._pair) >= 0
        counts.index_add_(0, torch.from_numpy(self._pair)[occurs], torch.from_numpy(self._value)[occurs].double())
        return self.matrix(self._flips(counts))

    def _flips(self, counts: Tensor) -> Tensor:
        """How often each label of a pair is given to its true class."""
        total = torch.full((self._kept.classes,), self._kept.classes * PRIOR[0] + PRIOR[1], dtype=torch.float64)
        total.index_add_(0, self._true, counts)
        return (counts + PRIOR[0] + PRIOR[1] * (self._true == self._given)) / total[self._true]

    def matrix(self, table: Tensor) -> Tensor:
        place = torch.stack([self._true, self._given])
        shape = self._kept.classes, self._kept.classes
        return torch.sparse_coo_tensor(place, table, shape, check_invariants=True).coalesce()
