"""Which class is mistaken for which: published maps, and the transition matrices of each kind of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from holdfast.errors import HoldfastError

MNIST_PAIRS: Mapping[int, int] = MappingProxyType({7: 1, 2: 7, 3: 8, 5: 6, 6: 5})
"""Digits that look alike: 7 -> 1, 2 -> 7, 3 -> 8, 5 <-> 6."""

CIFAR10_PAIRS: Mapping[int, int] = MappingProxyType({9: 1, 2: 0, 4: 7, 3: 5, 5: 3})
"""truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog."""

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""Its classes, in the order of their numbers."""

_CIFAR100_NAMES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
CIFAR100 = tuple(_CIFAR100_NAMES.split())
"""Its fine classes, in the order of their numbers."""

# fmt: off
_CIFAR100_COARSE = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7,
    6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10,
    16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16,
    12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)
# fmt: on


def _next_in_group(groups: Sequence[int]) -> dict[int, int]:
    """Each class to the next larger one of its group, the last to the first."""
    members: dict[int, list[int]] = {}
    for fine, coarse in enumerate(groups):
        members.setdefault(coarse, []).append(fine)
    return {a: b for m in members.values() for a, b in zip(m, m[1:] + m[:1], strict=True)}


CIFAR100_NEXT: Mapping[int, int] = MappingProxyType(_next_in_group(_CIFAR100_COARSE))
"""The next class inside the same super-class. Fine labels are alphabetical, so that five consecutive numbers
are no super-class; code that cycles inside such blocks makes another kind of noise."""


def published_pairs(classes: Sequence[str]) -> Mapping[int, int]:
    """The published map of a data set that its class names tell, CIFAR-10 or CIFAR-100; else c -> c + 1.

    Digits are no such names: MNIST, Fashion-MNIST and others have them alike, and so MNIST's map must be asked for.
    """
    published = {CIFAR10: CIFAR10_PAIRS, CIFAR100: CIFAR100_NEXT}
    return published.get(tuple(classes)) or next_class(len(classes))


def next_class(classes: int) -> dict[int, int]:
    """The pairflip map c -> c + 1, the last class to the first."""
    return {c: (c + 1) % classes for c in range(classes)}


def symmetric_matrix(classes: int, rate: float, including: bool = False) -> Tensor:
    """Transition matrix of symmetric noise, rows the true class.

    Excluding the true class: 1 - rate on the diagonal, rate / (C - 1) elsewhere. Including it:
    (1 - rate) I + rate / C, so that only rate (1 - 1/C) of the labels become wrong.

    Parameters
    ----------
    classes: C, at least 2.
    rate: in [0, 1].
    including: whether a redrawn label may be the true one.

    Shapes
    ------
    (C, C) float64.

    >>> symmetric_matrix(3, 0.3)[0].tolist()
    [0.7, 0.15, 0.15]
    """
    check_rate(rate)
    check_classes(classes)
    other = rate / classes if including else rate / (classes - 1)
    matrix = torch.full((classes, classes), other, dtype=torch.float64)
    return matrix.fill_diagonal_(1 - rate + other if including else 1 - rate)


def pair_matrix(classes: int, rate: float, mapping: Mapping[int, int] | None = None) -> Tensor:
    """Transition matrix of noise that mistakes each class of a map for one other; rows the true class.

    Parameters
    ----------
    classes: C, at least 2.
    rate: in [0, 1].
    mapping: true class to wrong class; classes it lacks stay clean. None is c -> c + 1.

    Shapes
    ------
    (C, C) float64.

    >>> pair_matrix(2, 0.25).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    check_rate(rate)
    check_classes(classes)
    matrix = torch.eye(classes, dtype=torch.float64)
    for source, target in checked_map(next_class(classes) if mapping is None else mapping, classes).items():
        matrix[source, source] -= rate
        matrix[source, target] += rate
    return matrix


def check_rate(rate: float) -> None:
    """A noise rate is a share of the labels."""
    if not 0 <= rate <= 1:
        raise HoldfastError(f"a noise rate must lie between 0 and 1, not {rate:g}")


def check_classes(classes: int) -> None:
    """One class leaves no wrong label to give."""
    if classes < 2:
        raise HoldfastError(f"label noise needs at least two classes, not {classes}")


def checked_map(mapping: Mapping[int, int], classes: int) -> Mapping[int, int]:
    """A map all of whose classes exist."""
    for source, target in mapping.items():
        if not (0 <= source < classes and 0 <= target < classes):
            raise HoldfastError(f"the map sends class {source} to {target}, but there are {classes} classes")
    return mapping
