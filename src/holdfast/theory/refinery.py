"""What wrong labels cost generalisation, and labels refined by a network's own predictions: SANE's Theorems 1 and 2.

Zhou et al., "A Theory-Driven Self-Labeling Refinement Method for Contrastive Representation Learning", NeurIPS 2021.
Numbers of statements are theirs; absolute constants are set to one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.theory.clusters import Clustered, clusterable, corrupted_clusters
from holdfast.theory.early import Condition, Setting, step_size
from holdfast.theory.shallow import Shallow, step


class Generalisation(NamedTuple):
    """Theorem 1: what bounds ``|Q - Q~|``, the risk under true labels against the empirical one under given labels."""

    labels: float
    """``L_y E ||y - y*||``: what wrong labels cost, however many examples there are."""
    variance: float
    """``sqrt(2 (a_2 - a_1)^2 V_D ln(2 |F| / nu) / n)``."""
    range: float
    """``7 (a_2 - a_1)^2 ln(2 |F| / nu) / (3 (n - 1))``."""

    @property
    def bound(self) -> float:
        return self.labels + self.variance + self.range


def generalisation(
    output: Tensor, y: Tensor, truth: Tensor, *, hypotheses: float = 1.0, failure: float = 0.05
) -> Generalisation:
    """Theorem 1 for a network's outputs over a key set, by the cross entropy towards soft labels.

    The cross entropy ``-sum_k y_k log h_k`` is linear in y, so that its Lipschitz constant L_y is the largest length of
    ``log h`` that occurs; its range is that of the losses that occur.

    Parameters
    ----------
    output: logits over the keys.
    y, truth: labels as given (one-hot, or refined), and as classes would give them.
    hypotheses: |F|, the covering number of the class of networks; one: a network that was fixed before the data.
    failure: nu, in (0, 1).

    Shapes
    ------
    output, y, truth (n, keys).
    """
    log, n = output.double().log_softmax(1), len(output)
    losses = -(truth.double() * log).sum(1)
    given = -(y.double() * log).sum(1)
    low, high = float(torch.cat([losses, given]).min()), float(torch.cat([losses, given]).max())
    logs = math.log(2 * hypotheses / failure)
    return Generalisation(
        float(log.norm(dim=1).max() * (y - truth).double().norm(dim=1).mean()),
        math.sqrt(2 * (high - low) ** 2 * float(losses.var()) * logs / n),
        7 * (high - low) ** 2 * logs / (3 * (n - 1)),
    )


def risk_gap(output: Tensor, y: Tensor, truth: Tensor) -> float:
    """``|Q - Q~|`` over the same rows: the mean cross entropy towards true labels against that towards given ones.

    Shapes
    ------
    output, y, truth (n, keys).
    """
    log = output.double().log_softmax(1)
    return abs(float(((truth - y).double() * log).sum(1).mean()))


def corrupted_crops(
    samples: int, crops: int, d: int, *, labels: Tensor, radius: float, wrong: float, seed: int = 0
) -> tuple[Clustered, Tensor]:
    """Definition 1: so many crops of each vanilla sample, the noise rate ``wrong`` among their labels, and of each crop
    a positive: another crop of its sample.

    Samples keep a distance of at least twice the radius.

    Shapes
    ------
    labels (samples,) -> data with x (samples crops, d), positive (samples crops, d).
    """
    apart = max(0.5, 2 * radius)
    n = samples * crops
    data = clusterable(n, d, samples, labels=labels, radius=radius, apart=apart, seed=seed)
    source = torch.Generator().manual_seed(seed + 1)
    positive = torch.empty_like(data.x)
    for sample in range(samples):
        rows = (data.cluster == sample).nonzero()[:, 0]
        turn = int(torch.randint(1, max(2, len(rows)), (), generator=source))
        positive[rows] = data.x[rows.roll(turn)]
    return corrupted_clusters(data, wrong, seed=seed), positive


class Refined(NamedTuple):
    """What training on refined labels left behind."""

    labels: Tensor
    """(n,) the refined labels of the last step."""
    outputs: Tensor
    """(n,) what the network says of the crops."""


@torch.no_grad()
def refine(
    net: Shallow, x: Tensor, positive: Tensor, y: Tensor, *, rate: float, steps: int, trust: float = 0.9, ramp: int = 1
) -> Refined:
    """Gradient descent on labels ``(1 - alpha_t) y + alpha_t f(W_t, positive)``: equations 5 and 7 with beta = 0.

    Parameters
    ----------
    trust: alpha, what the network's own prediction counts in the end.
    ramp: steps over which alpha grows from zero to that.
    """
    for number in range(steps):
        alpha = trust * min(1.0, number / max(1, ramp))
        step(net, x, (1 - alpha) * y + alpha * net(positive), rate)
    return Refined((1 - trust) * y + trust * net(positive), net(x))


class Refinement(NamedTuple):
    """Theorem 2."""

    rate: float
    """The largest step size."""
    iterations: float
    """t_0, from which on the bounds hold."""
    error: float
    """zeta: bounds the root mean squared error of the network against the truth."""
    conditions: list[Condition]

    def label_error(self, trust: float, given: float) -> float:
        """The bound on the error of refined labels: ``(1 - alpha) given + alpha zeta``, root mean squares both."""
        return (1 - trust) * given + trust * self.error


def refinement(at: Setting, trust: float, ramp: float = 0.0) -> Refinement:
    """Theorem 2: what refined labels need to recover all true ones, with ``trust`` = alpha_max and ``ramp`` =
    psi_1 / 2 + sqrt(psi_2), which bounds how fast alpha may change (Assumption 2)."""
    rho, least, clusters = max(at.wrong, 1e-300), max(at.separation.least, 1e-300), at.clusters
    logs = math.sqrt(math.log(max(2, clusters)))
    xi = math.log(at.slope * math.sqrt(at.n) * math.log(max(2, clusters)) / rho)
    rate = step_size(at)
    iterations = clusters / (rate * at.n * least)
    iterations *= math.log(at.slope * math.sqrt(at.n) * math.log(max(2, clusters)) / ((1 - trust) * rho))
    grown = 1 + ramp
    error = 4 * at.wrong + at.radius * grown * clusters * at.slope**3 * xi * logs / least
    close = min(least / (clusters * at.slope**2 * xi**6), rho / trust)
    width = clusters**2 * at.slope**10 * xi**6 * at.separation.norm**4 / (trust**2 * least**4)
    exact = at.gap * min(least**2 / (grown * at.slope**5 * clusters**2 * xi**3), 1 / (at.slope * math.sqrt(at.d)))
    return Refinement(
        rate,
        iterations,
        error,
        [
            Condition("hidden units, at least", width, at.k, at.k >= width),
            Condition("radius of the crops, at most", close, at.radius, at.radius <= close),
            Condition("radius for all labels to be recovered, at most", exact, at.radius, at.radius <= exact),
            Condition("share of wrong labels, at most", at.gap / 32, at.wrong, at.wrong <= at.gap / 32),
            Condition("trust in predictions, at least", 1 - 0.75 * at.gap, trust, trust >= 1 - 0.75 * at.gap),
        ],
    )
