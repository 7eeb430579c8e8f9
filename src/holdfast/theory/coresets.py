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
    """Singular values of a coreset's Jacobian over S_+, its rows weighted by the square roots of the cluster sizes."""

    values: Tensor
    """(K,) falling; (k,) where each element is a main cluster of its own."""
    alpha: float
    """``sqrt(r_min) sigma_min(J_S, S_+)``, of equation 7."""
    beta: float
    """``||J|| + epsilon``, of Theorem 4.1."""
    epsilon: float
    """``|sqrt(r_max) ||J_S|| - ||J|| |``: by how much the coreset misses the largest singular value."""


def weighted_jacobian(
    jacobian: Tensor, coreset: Tensor, weight: Tensor, cluster: Tensor | None = None
) -> WeightedJacobian:
    """Equation 7: the Jacobian of a weighted coreset beside that of all rows, over S_+ of equation 12.

    S_+ are the vectors that are constant on each main cluster; ``sigma(J, S_+)`` are the singular values of ``B^T J``,
    the extremes of ``||J^T v||`` over unit vectors of S_+, B the clusters' indicators over the roots of their sizes.

    The text weights rows by r and its bounds by the square root of r; with square roots in both, which is what a loss
    weighted by r amounts to, equation 7 holds where weights are the same inside each main cluster, and so they are
    here. Where they differ, ``sqrt(r) v`` leaves S_+, and a singular value may lie below the bound.

    Parameters
    ----------
    cluster: the main cluster of each element of the coreset (``main_clusters``); None: each is one of its own, and S_+
        is everything.

    Shapes
    ------
    jacobian (n, m), coreset (k,) rows of it, weight (k,), cluster (k,).
    """
    part = jacobian[coreset].double()
    basis = _constant_on(torch.arange(len(coreset)) if cluster is None else cluster)
    root = weight.double().sqrt()
    values = _singular_values(basis.T @ (root[:, None] * part))
    inside = _singular_values(basis.T @ part)
    count = min(basis.shape[1], jacobian.shape[1])
    whole = float(_singular_values(jacobian.double())[0])
    epsilon = abs(float(root.max()) * float(_singular_values(part)[0]) - whole)
    return WeightedJacobian(values, float(root.min()) * float(inside[count - 1]), whole + epsilon, epsilon)


def main_clusters(points: Tensor, coreset: Tensor, group: Tensor) -> Tensor:
    """Equation 12: of each element of a coreset the main cluster, by the nearest of the central elements.

    These are what was selected first in each group: the elements selected earlier are the medoids of the main clusters.

    Shapes
    ------
    points (n, q) gradients at the logits, coreset (k,) in the order of selection, group (n,) -> (k,) numbers from 0.

    >>> main_clusters(torch.tensor([[0.0], [0.1], [5.0]]), torch.tensor([0, 1, 2]), torch.tensor([4, 4, 7])).tolist()
    [0, 0, 1]
    """
    label = group[coreset].tolist()
    central = torch.tensor([label.index(number) for number in dict.fromkeys(label)])
    chosen = points[coreset].double()
    return torch.cdist(chosen, chosen[central]).argmin(1)


def _constant_on(cluster: Tensor) -> Tensor:
    """(k, K) an orthonormal basis of the vectors that are constant on each cluster."""
    members = torch.nn.functional.one_hot(cluster.unique(return_inverse=True)[1]).double()
    return members / members.sum(0).sqrt()


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


class Extremes(NamedTuple):
    """alpha and beta over a whole training, in which the coreset changes (section 4.3)."""

    alpha: float = math.inf
    """``min_t sqrt(r_min^t) sigma_min(J(W^t, X_S^t))``."""
    beta: float = 0.0
    """``max_t sqrt(r_max^t) ||J(W^t, X_S^t)||``."""

    def with_coreset(self, jacobian: Tensor, weight: Tensor) -> Extremes:
        """The same after one more coreset.

        Shapes
        ------
        jacobian (k, m) of the coreset alone, weight (k,).
        """
        values, root = _singular_values(jacobian.double()), weight.double().sqrt()
        last = min(jacobian.shape) - 1
        return Extremes(
            min(self.alpha, float(root.min() * values[last])), max(self.beta, float(root.max() * values[0]))
        )


def extreme_training(found: Extremes, *, size: int, wrong: float, gap: float, smooth: float) -> CoresetTraining:
    """Corollary A.3: step size ``1 / (2 beta^2) min(1, alpha beta / (L sqrt(2 k)))`` and, by equation 14, iterations
    ``5 / (eta alpha^2) log(sqrt(2 k) / (2 rho))``, for coresets of ``size`` elements of which a share is wrong."""
    alpha, rho = max(found.alpha, 1e-300), max(wrong, 1e-300)
    rate = min(1.0, alpha * found.beta / max(smooth * math.sqrt(2 * size), 1e-300)) / (2 * found.beta**2)
    return CoresetTraining(
        rate,
        5 / (rate * alpha**2) * math.log(math.sqrt(2 * size) / (2 * rho)),
        [Condition("share of wrong labels in the coreset, at most", gap / 8, wrong, wrong <= gap / 8)],
    )
