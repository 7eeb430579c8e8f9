"""Probabilities of the few classes that matter for each row: what stands for (N, C) numbers where classes are many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

KEPT = 32
"""Classes that are kept for each row, its given one among them. Up to so many all are, and nothing is left out."""
PIECE = 1 << 13
"""Rows whose classes are held against each other at once."""


@dataclass(frozen=True)
class Kept:
    """The largest probabilities of each row, and that of its given label.

    Attributes
    ----------
    value: (N, K) probabilities, those that are left out being next to nothing; zero where fewer than K are kept.
    number: (N, K) of which class each is.
    classes: how many there are.
    """

    value: Tensor
    number: Tensor
    classes: int

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        """(M, C) probabilities of some rows, written out."""
        value, number = self.value[rows], self.number[rows]
        whole = torch.zeros(len(value), self.classes, device=value.device)
        return whole.scatter_add_(1, number.long(), value.float())

    @property
    def device(self) -> torch.device:
        return self.value.device

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.value), self.classes

    def take(self, rows: Tensor | slice) -> Kept:
        return Kept(self.value[rows], self.number[rows], self.classes)

    def with_values(self, value: Tensor) -> Kept:
        """Other numbers for the same classes."""
        return Kept(value, self.number, self.classes)

    def to(self, device: torch.device) -> Kept:
        return Kept(self.value.to(device), self.number.to(device), self.classes)

    def cpu(self) -> Kept:
        return self.to(torch.device("cpu"))

    def rounded(self) -> Kept:
        """As a file has it: probabilities in 16 bits, and numbers of classes where that is enough."""
        return Kept(self.value.half(), self.number.to(numbers_of(self.classes)), self.classes)

    def largest(self) -> Tensor:
        """(N,) the likeliest class."""
        return self.number.gather(1, self.value.argmax(1, keepdim=True))[:, 0].long()

    def of(self, y: Tensor) -> Tensor:
        """(N,) the probability of one class of each row."""
        return torch.where(self.number == y[:, None], self.value.float(), 0.0).sum(1)

    def place_of(self, y: Tensor) -> Tensor:
        """(N, K) marks of the place of one class of each row; an empty place has the number of the label too, but
        stands behind it."""
        own = self.number == y[:, None]
        return own & (own.cumsum(1) == 1)


Probabilities = Tensor | Kept
"""(N, C) numbers: written out, or the few that matter for each row."""


def largest(probabilities: Probabilities) -> Tensor:
    """(N,) the likeliest class."""
    return probabilities.largest() if isinstance(probabilities, Kept) else probabilities.argmax(1)


def of_labels(probabilities: Probabilities, y: Tensor) -> Tensor:
    """(N,) the probability of the given label."""
    return probabilities.of(y) if isinstance(probabilities, Kept) else probabilities.gather(1, y[:, None])[:, 0]


def rows_of(probabilities: Probabilities, rows: Tensor | slice) -> Probabilities:
    """Some of the rows."""
    return probabilities.take(rows) if isinstance(probabilities, Kept) else probabilities[rows]


def written_out(probabilities: Probabilities) -> Tensor:
    """(N, C) all numbers."""
    return probabilities[slice(None)] if isinstance(probabilities, Kept) else probabilities


def rounded(probabilities: Probabilities) -> Probabilities:
    """As a file has them; numbers that are written out stay."""
    return probabilities.rounded() if isinstance(probabilities, Kept) else probabilities


def mixed(first: Kept, second: Kept, share: float) -> Kept:
    """A share of the second, and the rest of the first: all classes that either has, each in one place."""
    values, beyond = [], []
    for part in torch.arange(len(first)).split(PIECE):
        one, other = first.take(part), second.take(part)
        same = (one.number[:, :, None] == other.number[:, None]) & (one.value > 0)[:, :, None]
        more = share * other.value.float()
        values.append((1 - share) * one.value.float() + (same * more[:, None]).sum(2))
        beyond.append(torch.where(same.any(1), 0.0, more))
    value = torch.cat([torch.cat(values), torch.cat(beyond)], dim=1)
    return Kept(value, torch.cat([first.number, second.number.to(first.number)], dim=1), first.classes)


def latest(now: Probabilities, before: Probabilities, share: float) -> Probabilities:
    """The mean over the last of some times, from the mean ``now`` over all of them and that over the share before.

    >>> latest(torch.tensor([[0.4, 0.6]]), torch.tensor([[0.6, 0.4]]), 0.5)
    tensor([[0.2000, 0.8000]])
    """
    back = -share / (1 - share)
    if isinstance(now, Kept) and isinstance(before, Kept):
        whole = mixed(now, before, back)
        value = whole.value.clamp_min(0)
        return whole.with_values(value / value.sum(1, keepdim=True))
    value = torch.lerp(written_out(now), written_out(before), back).clamp_min(0)
    return value / value.sum(1, keepdim=True)


def with_class(probabilities: Kept, y: Tensor, rows: Tensor, share: float = 1.0) -> Kept:
    """In some rows (N,) a share for one class, which is among those that are kept, and the rest for what there was."""
    own = probabilities.place_of(y).to(probabilities.value)
    changed = torch.lerp(probabilities.value, own, share)
    return probabilities.with_values(torch.where(rows[:, None], changed, probabilities.value))


def together(parts: Sequence[Probabilities]) -> Probabilities:
    """The rows of some probabilities after each other."""
    first, tensors = parts[0], [each for each in parts if isinstance(each, Tensor)]
    if isinstance(first, Tensor):
        return first if len(tensors) == 1 else torch.cat(tensors)
    kept = [each for each in parts if isinstance(each, Kept)]
    value, number = torch.cat([each.value for each in kept]), torch.cat([each.number for each in kept])
    return Kept(value, number, first.classes)


def packed(arrays: Mapping[str, Probabilities]) -> dict[str, Tensor]:
    """As tensors alone, for a file; class numbers go beside their values, in 16 bits each where that is enough.

    >>> kept = Kept(torch.ones(1, 2), torch.tensor([[3, 40]]), 50)
    >>> sorted(packed({"evidence": kept})), unpacked(packed({"evidence": kept}), 50)["evidence"].of(torch.tensor([40]))
    (['evidence', 'evidence_class'], tensor([1.]))
    """
    return {name: part for name, each in arrays.items() for name, part in _parts(name, each)}


def _parts(name: str, each: Probabilities) -> Iterator[tuple[str, Tensor]]:
    if isinstance(each, Kept):
        kept = each.rounded()
        yield name, kept.value
        yield f"{name}_class", kept.number
    else:
        yield name, each


def unpacked(tensors: Mapping[str, Tensor], classes: int) -> dict[str, Probabilities]:
    """What ``packed`` has made tensors of."""
    found: dict[str, Probabilities] = {}
    for name, each in tensors.items():
        if f"{name}_class" in tensors:
            found[name] = Kept(each, tensors[f"{name}_class"], classes)
        elif name.removesuffix("_class") not in tensors or not name.endswith("_class"):
            found[name] = each
    return found


def numbers_of(classes: int) -> torch.dtype:
    """The smallest kind of integer that numbers so many classes."""
    return torch.int16 if classes <= torch.iinfo(torch.int16).max else torch.int32
