"""The few classes that matter for each row, found among many, and freed of the noise that networks take over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from holdfast.kept import KEPT, Kept, Probabilities, numbers_of

BLOCK = 1 << 18
"""Numbers that are worked through at once: they fit in a processor's cache."""
FLOOR = 1e-4
"""Probabilities up to which a class that is not given is left out: what is freed of noise is no surer than that."""
AMONG_MANY = 0.1
"""Where classes are so many that each has little: parts of an even share of them in its place."""
ANCHORS, LEAST_ANCHORS = 0.1, 10
"""The share of the rows of a predicted class of which a network is surest, and how many they are at least."""
SWEEPS = 20
"""Through the equations of a row, which end where no probability moves by more than the floor."""


def floor_of(classes: int) -> float:
    """Probabilities up to which a class that is not given is left out."""
    return min(FLOOR, AMONG_MANY / classes)


def blocks_of(rows: int, classes: int) -> Iterator[slice]:
    """Parts of (N, C) numbers that fit in memory many times."""
    size = max(1, BLOCK // classes)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


class Summed:
    """What is expected of rows, summed over the times that they are asked: all of it, or of many classes those that
    matter for each row, the given one first.

    Attributes
    ----------
    value: (N, q) sums, or (N, 32) of the classes that are kept.
    number: (N, 32) of which class each is; of no rows where all are kept.
    """

    def __init__(self, y: Tensor, width: int) -> None:
        self._width = width
        self.value, self.number = torch.zeros(len(y), width, device=y.device), torch.zeros(0)
        if width > KEPT and not y.is_floating_point():
            self.value = torch.zeros(len(y), KEPT)
            self.number = y.cpu().to(numbers_of(width))[:, None].repeat(1, KEPT)

    def add(self, index: Tensor, expected: Probabilities) -> None:
        """Shape: index (M,) rows, expected (M, q)."""
        if isinstance(expected, Kept):
            for part in blocks_of(*expected.shape):
                self.add(index[part], expected[part])
            return
        if not len(self.number):
            self.value.index_add_(0, index, expected)
            return
        from holdfast.functional.few_loops import add_outputs  # numba takes a while to import

        rows, whole = index.cpu().numpy(), expected.cpu().contiguous().numpy()
        add_outputs(rows, whole, floor_of(self._width), self.value.numpy(), self.number.numpy())

    def mean(self, count: Tensor | float) -> Probabilities:
        """A copy, over how often rows were asked: a number, or (N, 1)."""
        value = self.value / (count.to(self.value.device) if isinstance(count, Tensor) else count)
        return Kept(value, self.number.clone(), self._width) if len(self.number) else value


def few(expected: Probabilities, y: Tensor) -> Probabilities:
    """The classes that matter for each row: all of them up to a few, of many the likeliest and the given one."""
    if isinstance(expected, Kept) or expected.shape[1] <= KEPT:
        return expected
    return few_of(expected.cpu(), y.cpu(), torch.inf)[0]


def few_of(whole: Any, y: Tensor, off: float = 0.01) -> tuple[Kept, int]:
    """The largest probabilities of each row and that of its label, and the first row that holds none, or whose sum is
    further from one than may be, or -1.

    Shape: whole (N, C), an array or a tensor that may lie in a file, y (N,).
    """
    from holdfast.functional.few_loops import keep_largest  # numba takes a while to import

    rows, classes = whole.shape
    number = np.empty((rows, KEPT), np.int16 if numbers_of(classes) is torch.int16 else np.int32)
    value, labels = np.empty((rows, KEPT), np.float32), y.numpy()
    for part in blocks_of(rows, classes):
        block = np.ascontiguousarray(np.asarray(whole[part]), dtype=np.float32)
        wrong = ~((block.min(1) >= 0) & (abs(block.sum(1) - 1) < off))
        if wrong.any():
            return Kept(torch.empty(0, KEPT), torch.empty(0, KEPT), classes), part.start + int(wrong.argmax())
        keep_largest(block, labels[part], _bars(block), value[part], number[part])
    return Kept(torch.from_numpy(value), torch.from_numpy(number), classes), -1


def _bars(whole: Any) -> Any:
    """(N,) what a probability of each row has to lie above to be kept: just below as many of the largest as there is
    room for, which numpy finds faster than a loop, and not below the floor."""
    place, floor = whole.shape[1] - KEPT, np.float32(floor_of(whole.shape[1]))
    return np.maximum(np.nextafter(np.partition(whole, place, axis=1)[:, place], np.float32(0)), floor)


def denoised(expected: Kept, stays: float) -> Kept:
    """Probabilities of true classes: as ``posterior.denoised_posterior``, over the classes that are kept of each row;
    of each probability that looks like noise taken over a part stays."""
    from holdfast.functional.few_loops import take_out_noise

    says = _taken_over(expected)
    value = expected.value.float().clone()
    take_out_noise(
        value.numpy(), expected.number.numpy(), says.indptr, says.indices, says.data,
        floor_of(expected.classes), stays, SWEEPS,
    )  # fmt: skip
    return expected.with_values(value)


def _taken_over(expected: Kept) -> Any:
    """(C, C) sparse: what is expected of the rows of each predicted class of which the network is surest; of a class
    with too few of them, itself."""
    classes, predicted = expected.classes, expected.largest().numpy()
    sure = expected.value.amax(1).numpy()
    order = np.lexsort((-sure, predicted))
    count = np.bincount(predicted, minlength=classes)
    place = np.arange(len(order)) - np.repeat(count.cumsum() - count, count)
    anchors = np.where(count < LEAST_ANCHORS, 0, np.maximum(LEAST_ANCHORS, (ANCHORS * count).astype(np.int64)))
    chosen = order[place < anchors[predicted[order]]]
    value, number = expected.value[chosen].float().numpy(), expected.number[chosen].numpy()
    true = np.repeat(predicted[chosen], value.shape[1])
    none = np.flatnonzero(anchors == 0)
    parts = np.concatenate([value.ravel() / anchors[true], np.ones(len(none))])
    where = np.concatenate([true, none]), np.concatenate([number.ravel(), none])
    whole = csr_array((parts, where), shape=(classes, classes))
    whole.sum_duplicates()
    whole.data[whole.data < floor_of(classes)] = 0
    whole.eliminate_zeros()
    return whole
