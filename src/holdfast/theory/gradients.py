"""How far a filtered mean gradient may be from the clean one.

Li et al., "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", ICML 2021 (PRL).
Numbers of statements are theirs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.errors import HoldfastError


def _check(rate: float) -> None:
    if not 0 <= rate < 0.5:
        raise HoldfastError(f"the bounds hold for a corruption rate in [0, 0.5), not {rate:g}")


def dropped_at_random(rate: float, clean: float, corrupted: float, operator: float = 1.0) -> float:
    """Lemma 1: the error when any share ``rate`` is dropped,
    ``C k (3 e - 4 e^2) / (1 - e) + C v e / (1 - e)``.

    Parameters
    ----------
    clean: k, the largest clean gradient at the loss layer.
    corrupted: v, the largest corrupted one that is kept; nothing bounds it but what is dropped.
    operator: C, the largest operator norm of the layers before the loss.
    """
    _check(rate)
    return operator * (clean * (3 * rate - 4 * rate**2) + corrupted * rate) / (1 - rate)


def dropped_by_norm(rate: float, clean: float, operator: float = 1.0) -> float:
    """Theorem 3: the error of PRL(L), which drops the largest gradients at the loss layer, so that none is kept that is
    larger than a clean one: ``4 e C k``; k grows with the square root of the label's dimension at most."""
    _check(rate)
    return 4 * rate * operator * clean


def dropped_by_gradient(rate: float, clean: float) -> float:
    """Theorem 2: the error of PRL(G), which drops the largest gradients of all: ``4 e L``, L the largest clean one.

    The proof prints ``4 L - 2 L e / (1 - e)``, which does not vanish with e; its last step but one loses a sign. With
    ``x = (1 - 2 e) m`` in ``2 L - x L (2 - 2 e) / n`` it is ``4 e L``, as in Theorem 3.
    """
    return dropped_by_norm(rate, clean)


class BiasedDescent(NamedTuple):
    """Theorem 4, of which Theorem 1 is the informal form: SGD whose gradients have an error that does not average out.

    The proof's last line is ``1 / (2 T) sum ||grad||^2 <= F / (T gamma) + zeta^2 / 2 + gamma L sigma / 2``, so the
    smallest squared gradient is at most twice that. The printed step size ``sqrt(L F / (sigma T))`` has not the unit of
    ``1 / L``; the one here makes the bound smallest, and gives the same orders.
    """

    smooth: float
    """L of the objective's gradient."""
    start: float
    """F: how far the objective is above its least value where training begins."""
    noise: float
    """sigma: bounds the expected square of the noise."""
    bias: float
    """zeta: bounds the error that does not average out."""

    def rate(self, steps: int) -> float:
        """The step size: ``min(1 / L, sqrt(2 F / (L sigma T)))``."""
        largest = 1 / self.smooth
        return min(largest, math.sqrt(2 * self.start / (self.smooth * self.noise * steps))) if self.noise else largest

    def bound(self, steps: int, rate: float | None = None) -> float:
        """The smallest squared gradient of so many steps, at most; ``rate`` up to ``1 / L``."""
        rate = self.rate(steps) if rate is None else rate
        if not 0 < rate <= 1 / self.smooth * (1 + 1e-12):
            raise HoldfastError(f"the bound holds for step sizes up to 1 / L = {1 / self.smooth:g}, not {rate:g}")
        return 2 * self.start / (steps * rate) + self.bias**2 + rate * self.smooth * self.noise

    def steps(self, accuracy: float) -> int:
        """``T = O(1 / k + sigma / k^2)`` steps after which the bound is at most ``k + zeta^2``."""
        scale = self.start * self.smooth
        return math.ceil(4 * scale / accuracy + 32 * scale * self.noise / accuracy**2)


def filtered_descent(rate: float, clean: float) -> float:
    """Corollary 1: the smallest gradient that SGD on filtered gradients reaches, ``sqrt(2) 4 e L`` with enough steps.

    Theorem 2's error is the bias of Theorem 4, and its accuracy k the square of it. L is the largest clean gradient;
    where only its entries are bounded, by b, it is ``b sqrt(d)``, the corollary's second statement.
    """
    return math.sqrt(2) * dropped_by_gradient(rate, clean)


def ranks_differ(first: Tensor, second: Tensor, label: Tensor) -> Tensor:
    """Lemma 2: whether a prediction of the smaller cross entropy has the larger gradient at the loss layer.

    ``Var_{i != k}(a) - Var_{i != k}(b) >= q / (q - 1)^2 (a_k - b_k) (2 - a_k - b_k)`` for ``a_k >= b_k``: then losses
    and gradients rank the two examples in opposite order. The lemma says sufficient; by its proof the condition is
    necessary too.

    Shapes
    ------
    first, second (n, q) probabilities, label (n,) -> (n,) bool; pairs in which the first has the larger loss are false.

    >>> a, b = torch.tensor([[0.45, 0.55, 0.0]]), torch.tensor([[0.44, 0.28, 0.28]])
    >>> ranks_differ(a, b, torch.tensor([0]))
    tensor([True])
    """
    q = first.shape[1]
    one, two = (p.gather(1, label[:, None])[:, 0] for p in (first, second))
    spread = _variance_of_others(first, label) - _variance_of_others(second, label)
    return (one >= two) & (spread >= q / (q - 1) ** 2 * (one - two) * (2 - one - two))


def _variance_of_others(p: Tensor, label: Tensor) -> Tensor:
    others = torch.ones_like(p, dtype=torch.bool).scatter_(1, label[:, None], False)
    return p[others].reshape(len(p), -1).var(1, correction=0)
