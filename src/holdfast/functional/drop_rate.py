"""How the share that is dropped grows over the first epochs: a network learns clean patterns first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import HoldfastError

DropRate = Callable[[float, int], float]
"""(rate, epoch from 0) -> the share to drop in this epoch."""


@dataclass(frozen=True)
class Ramp:
    """``rate min(T^c / T_k, 1)`` in epoch T, as the Co-teaching paper writes it (R(T) is one less this).

    Parameters
    ----------
    epochs: T_k, at least 0; 0 drops the full share from the start.
    power: c, above 0; the paper tries 0.5, 1 and 2.

    Reference: Han et al., "Co-teaching", NeurIPS 2018, section 3; Algorithm 4 of the PRL paper with c = 1.

    >>> [round(1 - Ramp(10)(0.45, epoch), 3) for epoch in (0, 1, 2, 3, 10)]
    [1.0, 0.955, 0.91, 0.865, 0.55]
    """

    epochs: int = 10
    power: float = 1.0

    def __post_init__(self) -> None:
        if self.epochs < 0 or not self.power > 0:
            raise HoldfastError(f"a ramp needs epochs of at least 0 and a positive power, not {self}")

    def __call__(self, rate: float, epoch: int) -> float:
        return rate if self.epochs == 0 else rate * min(epoch**self.power / self.epochs, 1.0)


@dataclass(frozen=True)
class AuthorsRamp:
    """``linspace(0, rate^c, T_k)`` in the first T_k epochs, then ``rate``: what Co-teaching's released code does.

    The power acts on the rate instead of the epoch, so that for c other than 1 the share jumps at T_k, and with c = 1
    the full rate is reached one epoch earlier than in the paper.

    >>> [round(AuthorsRamp(10)(0.45, epoch), 3) for epoch in (0, 1, 2, 3, 9)]
    [0.0, 0.05, 0.1, 0.15, 0.45]
    """

    epochs: int = 10
    power: float = 1.0

    def __post_init__(self) -> None:
        if self.epochs < 2 or not self.power > 0:
            raise HoldfastError(f"the authors' ramp needs at least 2 epochs and a positive power, not {self}")

    def __call__(self, rate: float, epoch: int) -> float:
        return rate if epoch >= self.epochs else float(rate**self.power) * epoch / (self.epochs - 1)


def as_ramp(given: int | DropRate) -> DropRate:
    """A number of epochs is the ramp of the paper over as many."""
    return Ramp(given) if isinstance(given, int) else given
