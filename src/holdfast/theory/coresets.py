"""What CRUST's statements ask for and promise, as numbers.

Mirzasoleiman, Cao and Leskovec, "Coresets for Robust Training of Neural Networks against Noisy Labels", NeurIPS 2020.
Numbers of statements are theirs; absolute constants are set to one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.theory.early import Condition, LowRank, low_rank


class WeightedJacobian(NamedTuple):
    """Singular values of a coreset's Jacobian, its rows weighted by the square roots of the cluster sizes."""

    values: Tensor
    """(k,) falling."""
    alpha: float
    """``sqrt(r_min) sigma_min(J_S)``: a lower bound of them (equation 7)."""
    beta: float
    """``||J|| + epsilon``, of Theorem 4.1."""
    epsilon: float
    """``|sqrt(r_max) ||J_S|| - ||J|| |``: by how much the coreset misses the largest singular value."""


def weighted_jacobian(jacobian: Tensor, coreset: Tensor, weight: Tensor, rank: int | None = None) -> WeightedJacobian:
    """Equation 7: the Jacobian of a weighted coreset beside that of all rows.

    The text weights rows by r and its bounds by the square root of r; with square roots in both, which is what a loss
    weighted by r amounts to, equation 7 holds, and so they are here.

    Parameters
    ----------
    rank: singular values that make up the information space S_+; None: all.

    Shapes
    ------
    jacobian (n, m), coreset (k,) rows of it, weight (k,).
    """
    part = jacobian[coreset].double()
    root = weight.double().sqrt()
    values, plain = _singular_values(root[:, None] * part), _singular_values(part)
    count = min(len(plain), rank or len(plain))
    whole = float(_singular_values(jacobian.double())[0])
    epsilon = abs(float(root.max()) * float(plain[0]) - whole)
    return WeightedJacobian(values, float(root.min()) * float(plain[count - 1]), whole + epsilon, epsilon)


def _singular_values(matrix: Tensor) -> Tensor:
    """Falling; from the smaller of the two products with its transpose."""
    rows, columns = matrix.shape
    square = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    falling: Tensor = torch.linalg.eigvalsh(square).flip(0)
    return falling.clamp_min(0).sqrt()


class CoresetTraining(NamedTuple):
    """Theorem 4.1 for a coreset."""

    rate: float
    """The step size ``1 / (2 beta^2)``."""
    iterations: float
    """``1 / (eta alpha^2) log(sqrt(n) / rho)``, after which the selected rows are classified right."""
    conditions: list[Condition]


def coreset_training(
    found: WeightedJacobian, *, n: int, size: int, wrong: float, gap: float, smooth: float
) -> CoresetTraining:
    """Theorem 4.1: step size, iterations and conditions for a coreset of ``size`` of n rows with the noise rate
    ``wrong``, labels at least ``gap`` apart, and a Jacobian of Lipschitz constant ``smooth``.

    The statement prints a bound on L that has L on both sides; its proof asks for ``L <= alpha beta / sqrt(2 k)``,
    which is what is checked.
    """
    alpha, beta, epsilon = max(found.alpha, 1e-300), found.beta, found.epsilon
    rate = 1 / (2 * beta**2)
    rho = max(wrong, 1e-300)
    allowed = gap * alpha**2 / (size * beta * max(math.log(math.sqrt(size) / rho), 1e-300))
    bend = alpha * beta / math.sqrt(2 * size)
    return CoresetTraining(
        rate,
        math.log(math.sqrt(n) / rho) / (rate * alpha**2),
        [
            Condition("share of wrong labels in the coreset, at most", gap / 8, wrong, wrong < gap / 8),
            Condition("error of the coreset's Jacobian, at most", allowed, epsilon, epsilon <= allowed),
            Condition("Lipschitz constant of the Jacobian, at most", bend, smooth, smooth <= bend),
        ],
    )


def coreset_descent(found: WeightedJacobian, smooth: float, residual: float, noise: float) -> LowRank:
    """Corollary A.1: Theorem 3.2 of early stopping for the weighted coreset: step size, distance, iterations."""
    return low_rank(found.alpha, float(found.values[0]), smooth, residual, noise)


def label_noise_inside(wrong: float) -> float:
    """Lemma A.2: ``||Pi_+ (y_S - true y_S)||_inf <= 2 rho``."""
    return 2 * wrong
