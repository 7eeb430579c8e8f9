"""What the theorems on early stopping ask for and promise, as numbers; absolute constants are set to one.

Li, Soltanolkotabi and Oymak, "Gradient Descent with Early Stopping is Provably Robust to Label Noise for
Overparameterized Neural Networks", AISTATS 2020. Numbers of statements are theirs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.theory.clusters import SignalSpace
from holdfast.theory.covariance import Separation


class Setting(NamedTuple):
    """All that the statements are about."""

    n: int
    """Points."""
    d: int
    """Inputs."""
    k: int
    """Hidden units."""
    clusters: int
    """K."""
    separation: Separation
    """Of the centres."""
    low: float = 1.0
    """c_low: no cluster is smaller than c_low n / K."""
    high: float = 1.0
    """c_up: none is larger than c_up n / K."""
    slope: float = 1.0
    """Gamma: bounds the activation's value at zero and its first two derivatives."""
    radius: float = 0.0
    """epsilon_0."""
    wrong: float = 0.0
    """rho: the noise rate in each cluster."""
    gap: float = 2.0
    """delta: the least difference between two labels."""


class Condition(NamedTuple):
    """A condition of a statement: what it asks for and what is there."""

    what: str
    required: float
    found: float
    holds: bool

    @property
    def factor(self) -> float:
        """By what it is met: above one there is room, below one it fails by this."""
        return self.found / self.required if self.what.endswith("least") else self.required / max(self.found, 1e-300)


def step_size(at: Setting) -> float:
    """``eta = K / (2 c_up n Gamma^2 ||C||^2) = 1 / (2 beta^2)``, of Theorem 2.2."""
    return at.clusters / (2 * at.high * at.n * at.slope**2 * at.separation.norm**2)


def jacobian_bounds(at: Setting) -> tuple[float, float, float]:
    """alpha, beta and the Lipschitz constant L of the Jacobian near the start (Section 6).

    ``beta = sqrt(c_up n / K) Gamma ||C||``; ``alpha = 1/2 sqrt(c_low n lambda / (2 K))``;
    ``L = Gamma sqrt(c_up n / (k K)) ||C||``.
    """
    beta = math.sqrt(at.high * at.n / at.clusters) * at.slope * at.separation.norm
    alpha = 0.5 * math.sqrt(at.low * at.n * max(0.0, at.separation.least) / (2 * at.clusters))
    smooth = at.slope * math.sqrt(at.high * at.n / (at.k * at.clusters)) * at.separation.norm
    return alpha, beta, smooth


def stop_after(at: Setting) -> float:
    """Theorem 2.2: iterations ``tau_0 = ||C||^2 / lambda log(1 / rho)`` after which to stop."""
    return at.separation.norm**2 / at.separation.least * math.log(1 / max(at.wrong, 1e-300))


def drift(at: Setting, iterations: float) -> float:
    """Theorem 2.2: ``||W_t - W_0||_F <= sqrt(K) + K^2 / ||C||^2 t epsilon_0``."""
    return math.sqrt(at.clusters) + at.clusters**2 / at.separation.norm**2 * iterations * at.radius


def conditions(at: Setting) -> list[Condition]:
    """What Theorem 2.2 asks for: width, radius of the clusters, noise rate."""
    c, least = at.separation.norm, max(at.separation.least, 1e-300)
    width = at.clusters**2 * c**4 / least**4
    radius = 1 / at.clusters**2
    return [
        Condition("hidden units, at least", width, at.k, at.k >= width),
        Condition("radius of the clusters, at most", radius, at.radius, at.radius <= radius),
        Condition("share of wrong labels, at most", at.gap / 8, at.wrong, at.wrong <= at.gap / 8),
    ]


def log_factor(at: Setting) -> float:
    """``Lg = log(Gamma sqrt(n log K) / rho)`` of Theorems 2.3 and 6.13."""
    return math.log(at.slope * math.sqrt(at.n * math.log(max(2, at.clusters))) / max(at.wrong, 1e-300))


def perfect_iterations(at: Setting) -> float:
    """Theorem 2.3, clusters of radius zero: iterations ``K / (eta n lambda) Lg``, from which on every output lies
    within 4 rho of the truth."""
    return at.clusters / (step_size(at) * at.n * at.separation.least) * log_factor(at)


def perfect_drift(at: Setting) -> float:
    """Theorem 2.3: ``||W_t - W_0||_F <= Gamma sqrt(K log K / lambda)``, however long."""
    return at.slope * math.sqrt(at.clusters * math.log(max(2, at.clusters)) / at.separation.least)


def perfect_conditions(at: Setting) -> list[Condition]:
    """What Theorem 2.3 asks for: ``k d >= Gamma^4 kappa^2 K^2``, clusters of radius zero, and ``rho <= delta / 8`` for
    an error of 4 rho to leave every label where it belongs."""
    width = at.slope**4 * at.separation.condition**2 * at.clusters**2
    return [
        Condition("hidden weights, at least", width, at.k * at.d, at.k * at.d >= width),
        Condition("radius of the clusters, at most", 0.0, at.radius, at.radius == 0),
        Condition("share of wrong labels, at most", at.gap / 8, at.wrong, at.wrong <= at.gap / 8),
    ]


def precise_conditions(at: Setting) -> list[Condition]:
    """What Theorem 6.13 asks for, logarithms and all: ``k >= Gamma^10 K^2 ||C||^4 / lambda^4 Lg^6`` and
    ``epsilon_0 <= lambda / (Gamma^2 K Lg)``; and ``epsilon_0 <= delta lambda^2 / (Gamma^5 K^2 Lg^3)`` for an error of
    zero."""
    log, least = log_factor(at), max(at.separation.least, 1e-300)
    width = at.slope**10 * at.clusters**2 * at.separation.norm**4 / least**4 * log**6
    radius = least / (at.slope**2 * at.clusters * log)
    exact = at.gap * least**2 / (at.slope**5 * at.clusters**2 * log**3)
    return [
        Condition("hidden units, at least", width, at.k, at.k >= width),
        Condition("radius of the clusters, at most", radius, at.radius, at.radius <= radius),
        Condition("radius for all labels to be right, at most", exact, at.radius, at.radius <= exact),
    ]


def error_share(at: Setting) -> float:
    """Theorem 6.13: the share of points with a wrong label after training, at most
    ``epsilon_0 K Gamma^3 sqrt(log K) / (delta lambda) Lg``."""
    wide = at.radius * at.clusters * at.slope**3 * math.sqrt(math.log(max(2, at.clusters)))
    return wide / (at.gap * at.separation.least) * log_factor(at)


def error_bound(at: Setting) -> float:
    """Theorem 6.13: the root mean squared error against the truth, at most
    ``4 rho + epsilon_0 Gamma^3 K sqrt(log K) / lambda Lg``."""
    wide = at.radius * at.slope**3 * at.clusters * math.sqrt(math.log(max(2, at.clusters)))
    return 4 * at.wrong + wide / at.separation.least * log_factor(at)


def precise_drift(at: Setting, iterations: float) -> float:
    """Theorem 6.13, equation 6.75: ``||W_t - W_0||_F <= Gamma sqrt(K log K / lambda) + t eta epsilon_0 Gamma^4 K n /
    lambda Lg^2``; the first part is that of Theorem 2.3."""
    away = at.slope**4 * at.clusters * at.n / at.separation.least * log_factor(at) ** 2
    return perfect_drift(at) + iterations * step_size(at) * at.radius * away


def noise_distance(gap: float, radius: float, slope: float = 1.0, slack: float = 0.0) -> float:
    """Theorem 2.4: ``delta / (Gamma epsilon_0) - t / 1000``, the distance to fit two points so near with labels so far
    apart, with a probability that grows with the slack t."""
    return gap / (slope * radius) - slack / 1000


def pairs_distance(pairs: int, gap: float, radius: float, slope: float = 1.0) -> float:
    """Lemma 2.5: ``||W||_F >= sqrt(s) delta / (5 Gamma epsilon_0)`` for a network that fits s such pairs."""
    return math.sqrt(pairs) * gap / (5 * slope * radius)


class LowRank(NamedTuple):
    """Theorem 3.2 for a Jacobian of low rank."""

    rate: float
    """The largest step size: ``1 / (2 beta^2) min(1, alpha beta / (L ||r_0||))``."""
    radius: float
    """How far the weights may go: ``4 ||r_0|| / alpha``."""
    iterations: float
    """``5 / (eta alpha^2) log(||r_0|| / nu)``, after which the error is at most 2 nu."""


def low_rank(alpha: float, beta: float, smooth: float, residual: float, noise: float) -> LowRank:
    """Theorem 3.2: from the Jacobian's bounds, the first residual's norm and ``nu >= ||Pi_+ e||_inf``."""
    rate = min(1.0, alpha * beta / max(smooth * residual, 1e-300)) / (2 * beta**2)
    return LowRank(rate, 4 * residual / alpha, 5 / (rate * alpha**2) * math.log(max(1.0, residual / noise)))


def diffused_bound(space: SignalSpace, error: Tensor) -> float:
    """Theorem 3.2: ``||Pi_+ e||_inf <= gamma sqrt(s) / n ||e||_2`` for an error with s entries.

    The final error is at most twice that; the printed statement leaves the two out.
    """
    entries = int((error != 0).sum())
    return space.diffusedness * math.sqrt(entries) / len(error) * float(error.norm())


def fit_distance(space: SignalSpace, residual: Tensor, beta: float, noise: float) -> float:
    """Theorem 3.3: any solution of zero loss has ``||theta - theta_0|| >= max(E_+ / beta, E_- / epsilon)``.

    ``E_+`` and ``E_-`` are the norms of the first residual inside and outside of the signal space, ``noise`` the
    largest ``||J^T v||`` of unit vectors outside of it.
    """
    inside, outside = float(space.inside(residual).norm()), float(space.outside(residual).norm())
    return max(inside / beta, outside / noise if noise > 0 else math.inf)


def margins(truth: Tensor) -> float:
    """delta: the least difference between two label values.

    >>> margins(torch.tensor([-1.0, 0.5, -1.0]))
    1.5
    """
    return float(torch.unique(truth).diff().min())
