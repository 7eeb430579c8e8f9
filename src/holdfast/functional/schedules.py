"""Learning-rate schedules as functions of the share of training done.

A plan changes the number of steps in an epoch, so a schedule never counts steps: it maps a share in [0, 1]
to a factor on the base rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Schedule = Callable[[float], float]


@dataclass(frozen=True)
class Constant:
    """The base rate throughout."""

    def __call__(self, share: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Steps:
    """Multiply by ``factor`` at each share of ``at``; the CRUST paper: x0.1 at 80 and 100 of 120 epochs."""

    at: tuple[float, ...] = (80 / 120, 100 / 120)
    factor: float = 0.1

    def __call__(self, share: float) -> float:
        # A share is a rounded quotient: epoch 80 of 120 must count as reached.
        return self.factor ** sum(share >= point - 1e-9 for point in self.at)


@dataclass(frozen=True)
class HoldThenLinear:
    """Constant until ``hold``, then linearly to zero; the Co-teaching and PRL recipe: 80 of 200 epochs."""

    hold: float = 0.4

    def __call__(self, share: float) -> float:
        return 1.0 if share < self.hold else max(0.0, (1 - share) / (1 - self.hold))


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the base rate to zero."""

    def __call__(self, share: float) -> float:
        return 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


@dataclass(frozen=True)
class OneCycle:
    """Linear rise over the share ``rise``, then linear fall to zero."""

    rise: float = 0.1

    def __call__(self, share: float) -> float:
        return share / self.rise if share < self.rise else max(0.0, (1 - share) / (1 - self.rise))
