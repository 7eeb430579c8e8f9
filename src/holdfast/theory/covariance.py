"""How well a wide network tells cluster centres apart: Sigma(C), lambda(C), kappa(C)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Slope = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


class Separation(NamedTuple):
    """What the covariance of the centres says."""

    covariance: Tensor
    """Sigma(C) = (C C^T) o E[phi'(C g) phi'(C g)^T], g standard normal; (K, K)."""
    least: float
    """lambda(C), its smallest eigenvalue."""
    condition: float
    """kappa(C) = sqrt(d / K) ||C|| / lambda(C)."""
    norm: float
    """||C||, the largest singular value of the centres."""


def separation(centre: Tensor, correlation: Callable[[Tensor], Tensor]) -> Separation:
    """Sigma, lambda and kappa of centres of unit norm.

    Parameters
    ----------
    correlation: ``E[phi'(s) phi'(t)]`` of two standard normal numbers by their correlation: ``relu_slopes``,
        ``softplus_slopes``, or ``by_quadrature`` of any derivative.

    Shapes
    ------
    centre (K, d).

    Reference: Li, Soltanolkotabi and Oymak, AISTATS 2020, Definition 2.1 and equation 2.1.
    """
    cosine = (centre @ centre.T).clamp(-1, 1)
    covariance = cosine * correlation(cosine)
    least = float(torch.linalg.eigvalsh(covariance)[0])
    norm = float(torch.linalg.matrix_norm(centre, 2))
    count, d = centre.shape
    condition = math.sqrt(d / count) * norm / least if least > 0 else math.inf
    return Separation(covariance, least, condition, norm)


def class_directions(x: Tensor, y: Tensor, classes: int) -> Tensor:
    """(C, d) the mean direction of the inputs of each label, of length one: what stands for a cluster's centre where
    nobody has clustered anything.

    Shape: x (n, ...), y (n,).
    """
    unit = torch.nn.functional.normalize(x.flatten(1).double(), dim=1)
    total = torch.zeros(classes, unit.shape[1], dtype=torch.float64).index_add_(0, y, unit)
    return torch.nn.functional.normalize(total, dim=1)


def relu_slopes(cosine: Tensor) -> Tensor:
    """``(pi - arccos rho) / (2 pi)``: both steps are one where two half spaces meet."""
    return (math.pi - cosine.arccos()) / (2 * math.pi)


def probit_slopes(cosine: Tensor) -> Tensor:
    """``1/4 + arcsin(rho / 2) / (2 pi)``, of the activation whose derivative is the normal distribution function."""
    return 0.25 + (cosine / 2).arcsin() / (2 * math.pi)


def softplus_slopes(cosine: Tensor) -> Tensor:
    """Of softplus, whose derivative is the logistic function; it has no closed form."""
    return by_quadrature(lambda t: 1 / (1 + np.exp(-t)))(cosine)


def by_quadrature(slope: Slope, nodes: int = 100) -> Callable[[Tensor], Tensor]:
    """The same for any derivative, by Gauss-Hermite quadrature; exact for smooth ones, rough for steps."""
    at, weight = np.polynomial.hermite.hermgauss(nodes)

    def correlation(cosine: Tensor) -> Tensor:
        rho = cosine.double().numpy()[..., None, None]
        first = slope(math.sqrt(2) * at)[:, None]
        second = slope(math.sqrt(2) * (rho * at[:, None] + np.sqrt(1 - rho**2) * at[None, :]))
        return torch.from_numpy((weight[:, None] * weight * first * second).sum((-2, -1)) / math.pi)

    return correlation
