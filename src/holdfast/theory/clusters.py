"""Data of which the theory speaks: inputs in clusters on the unit sphere, labels by cluster, some of them wrong."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.errors import HoldfastError


class Clustered(NamedTuple):
    """A clusterable data set, corrupted or not."""

    x: Tensor
    """(n, d) inputs of unit norm."""
    y: Tensor
    """(n,) labels as given."""
    truth: Tensor
    """(n,) labels of the clusters."""
    cluster: Tensor
    """(n,) which cluster."""
    centre: Tensor
    """(K, d) centres of unit norm."""


def clusterable(
    n: int, d: int, clusters: int, *, labels: Tensor, radius: float = 0.0, apart: float = 0.5, seed: int = 0
) -> Clustered:
    """Points of unit norm within ``radius`` of centres of unit norm: Definition 1.1.

    ``x = cos(a) c + sin(a) w`` with w of unit norm, orthogonal to the centre c, and ``2 sin(a / 2) <= radius``.
    Clusters are of equal size as far as n allows.

    Parameters
    ----------
    labels: (K,) the label of each cluster, in [-1, 1].
    radius: epsilon_0, in [0, 2).
    apart: the least distance between two centres.

    Reference: Li, Soltanolkotabi and Oymak, "Gradient Descent with Early Stopping is Provably Robust to Label Noise for
    Overparameterized Neural Networks", AISTATS 2020.
    """
    if n < clusters or d < 2 or not 0 <= radius < 2:
        raise HoldfastError(f"{clusters} clusters need as many points, two dimensions and a radius in [0, 2)")
    if labels.shape != (clusters,) or float(labels.abs().max()) > 1:
        raise HoldfastError(f"each of {clusters} clusters has one label in [-1, 1]")
    source = torch.Generator().manual_seed(seed)
    centre = _apart(clusters, d, apart, source)
    cluster = torch.arange(n) % clusters
    about = centre[cluster]
    side = torch.randn(n, d, generator=source, dtype=torch.float64)
    side = side - (side * about).sum(1, keepdim=True) * about
    side = side / side.norm(dim=1, keepdim=True)
    angle = 2 * torch.asin(radius / 2 * torch.rand(n, 1, generator=source, dtype=torch.float64))
    truth = labels.double()[cluster]
    return Clustered(angle.cos() * about + angle.sin() * side, truth, truth, cluster, centre)


def _apart(count: int, d: int, apart: float, source: torch.Generator) -> Tensor:
    """(count, d) unit vectors, drawn one by one until each keeps its distance."""
    kept: list[Tensor] = []
    for _ in range(1000 * count):
        new = torch.randn(d, generator=source, dtype=torch.float64)
        new = new / new.norm()
        if all(float((new - other).norm()) >= apart for other in kept):
            kept.append(new)
        if len(kept) == count:
            return torch.stack(kept)
    raise HoldfastError(
        f"{count} centres do not fit {apart:g} apart in {d} dimensions; take fewer or a smaller distance"
    )


def corrupted_clusters(data: Clustered, rate: float, *, seed: int = 0) -> Clustered:
    """Noise of this rate in each cluster: so many labels, rounded down, are replaced by another one: Definition 1.2."""
    if not 0 <= rate <= 1:
        raise HoldfastError(f"a share of wrong labels lies in [0, 1], not {rate:g}")
    values = data.truth.unique()
    source = torch.Generator().manual_seed(seed)
    y = data.truth.clone()
    for number in range(len(data.centre)):
        rows = (data.cluster == number).nonzero()[:, 0]
        wrong = rows[torch.randperm(len(rows), generator=source)[: int(rate * len(rows) + 1e-9)]]
        for row in wrong:
            others = values[values != data.truth[row]]
            y[row] = others[torch.randint(len(others), (), generator=source)]
    return data._replace(y=y)


def nearest_labels(output: Tensor, values: Tensor) -> Tensor:
    """(n,) of some label values the one nearest to each output."""
    return values[(output[:, None] - values).abs().argmin(1)]


class SignalSpace:
    """S_+, the vectors that are constant on each cluster, and what lies outside of it.

    Shapes
    ------
    cluster (n,) -> projections of (n,) vectors.

    >>> space = SignalSpace(torch.tensor([0, 0, 1]))
    >>> space.inside(torch.tensor([1.0, 0.0, 2.0]))
    tensor([0.5000, 0.5000, 2.0000])
    """

    def __init__(self, cluster: Tensor) -> None:
        self.cluster = cluster
        self.size = torch.bincount(cluster)

    def inside(self, v: Tensor) -> Tensor:
        """Pi_+ v: the mean over each cluster."""
        total = torch.zeros(len(self.size), dtype=v.dtype).index_add_(0, self.cluster, v)
        mean: Tensor = (total / self.size)[self.cluster]
        return mean

    def outside(self, v: Tensor) -> Tensor:
        """Pi_- v."""
        return v - self.inside(v)

    @property
    def diffusedness(self) -> float:
        """gamma: n over the size of the smallest cluster; no unit vector of S_+ has an entry above sqrt(gamma / n)."""
        return len(self.cluster) / float(self.size.min())
