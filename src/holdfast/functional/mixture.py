"""A mixture of two normal distributions in one dimension: what tells small losses from large ones."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Mixture(NamedTuple):
    """Two components, the one of smaller mean first; each field is (2,) in double precision."""

    weight: Tensor
    mean: Tensor
    variance: Tensor

    def posterior(self, values: Tensor) -> Tensor:
        """The probability of the first component for each value.

        Shape: (N,) -> (N,).
        """
        return self._joint(values).softmax(0)[0]

    def _joint(self, values: Tensor) -> Tensor:
        """(2, N) log density of each value and component together, less a constant."""
        far = (values.double() - self.mean[:, None]).square() / self.variance[:, None]
        return self.weight.log()[:, None] - 0.5 * (far + self.variance.log()[:, None])


def fit_mixture(values: Tensor, *, rounds: int = 10, least: float = 5e-4, tolerance: float = 1e-2) -> Mixture:
    """Two components by expectation maximisation, started at the split of least squared error.

    Parameters
    ----------
    values: (N,), of which at least two differ.
    rounds: of expectation and maximisation at most.
    least: added to each variance, so that none vanishes.
    tolerance: smallest gain in mean log likelihood for which to go on.
    """
    values = values.double()
    share = _lower(values)
    found, before = _maximise(values, share, least), -torch.inf
    for _ in range(rounds):
        joint = found._joint(values)
        likelihood = float(joint.logsumexp(0).mean())
        found = _maximise(values, joint.softmax(0)[0], least)
        if abs(likelihood - before) < tolerance:
            break
        before = likelihood
    order = found.mean.argsort(stable=True)
    return Mixture(*(field[order] for field in found))


def small_component(values: Tensor) -> Tensor:
    """The probability that a value belongs to the small ones, of two kinds; one for all where all are equal.

    Values are scaled to [0, 1] first.

    Shape: (N,) -> (N,) in double precision.

    Reference: Li, Socher and Hoi, "DivideMix", ICLR 2020, section 3.1; its constants are those of the authors' code.
    """
    values = values.double()
    low, high = values.aminmax()
    if low == high:
        return torch.ones_like(values)
    scaled = (values - low) / (high - low)
    return fit_mixture(scaled).posterior(scaled)


def _lower(values: Tensor) -> Tensor:
    """(N,) one for the lower part of the split in two that leaves the least squared error: k-means, solved exactly."""
    order = values.sort().values
    count = torch.arange(1, len(values), dtype=torch.float64, device=values.device)
    head = order.cumsum(0)[:-1]
    rest = order.sum() - head
    gain = head.square() / count + rest.square() / (len(values) - count)
    return (values <= order[gain.argmax()]).double()


def _maximise(values: Tensor, first: Tensor, least: float) -> Mixture:
    shares = torch.stack([first, 1 - first])
    size = shares.sum(1).clamp_min(1e-12)
    mean = (shares @ values) / size
    variance = (shares * (values - mean[:, None]).square()).sum(1) / size + least
    return Mixture(size / size.sum(), mean, variance)
