"""How far a filtered mean gradient may be from the clean one.

Li et al., "Provable Robust Learning for Deep Neural Networks under Agnostic Corrupted Supervision", ICML 2021 (PRL).
Numbers of statements are theirs.
"""

from __future__ import annotations

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
