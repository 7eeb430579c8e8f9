"""PCL: momentum contrast, and queries against the centres of clusters found anew in each epoch."""

from __future__ import annotations

import warnings
from typing import Unpack

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import unit
from holdfast.contrastive.moco import MoCo, MoCoSettings, moco_losses
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch, Nets


class PCL(MoCo):
    """``L = L_moco + mean_m L_proto^m``: for each of several clusterings a query must find the centre of its cluster,
    ``logits_ic = q_i c_c / phi_c``, among the centres of the batch and some others.

    Clusters are found by k-means of the momentum encoder's embeddings at the start of each epoch after the warm-up;
    the concentration ``phi`` of a cluster is small where its rows are many and close.

    Parameters
    ----------
    clusters: how many in each clustering, at least 2; never more than half of the rows. 25,000, 50,000 and 100,000
        for ImageNet.
    negatives: other centres in each comparison, at least 0; 16,384 in the paper.
    warmup: the share of the training that has momentum contrast alone, in [0, 1]; 0.1 in the paper.
    queue, momentum, temperature, groups: see ``MoCo``.

    Shapes
    ------
    Queries (B, h), centres (K, h), concentrations (K,) -> losses (B,).

    Differs from the authors' code: k-means of scikit-learn with one start in place of five; centres of the batch are
    taken once each, so that two queries of one cluster do not count as each other's negatives.

    Reference: Li et al., "Prototypical Contrastive Learning of Unsupervised Representations", ICLR 2021.

    >>> PCL((50, 100))
    PCL(clusters=(50, 100))
    """

    name = "pcl"
    ready: Tensor

    def __init__(
        self,
        clusters: tuple[int, ...] = (250, 500, 1000),
        negatives: int = 1024,
        *,
        warmup: float = 0.1,
        **moco: Unpack[MoCoSettings],
    ) -> None:
        super().__init__(**moco)
        if not clusters or min(clusters) < 2 or negatives < 0:
            raise HoldfastError(f"PCL needs clusterings of two or more and negatives of at least 0, not {clusters}")
        if not 0 <= warmup <= 1:
            raise HoldfastError(f"the warm-up is a share of the training, not {warmup:g}")
        self.clusters = clusters
        self.negatives = negatives
        self.warmup = warmup

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width = self.bank.keys.shape[1]
        self._sizes = [max(1, min(count, len(data) // 2)) for count in self.clusters]
        for m, size in enumerate(self._sizes):
            self.register_buffer(f"centres{m}", torch.zeros(size, width, device=data.device))
            self.register_buffer(f"concentration{m}", torch.ones(size, device=data.device))
            self.register_buffer(f"cluster{m}", torch.zeros(len(data), dtype=torch.int64, device=data.device))
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        super().before_epoch(nets, data, epoch, epochs)
        if epoch < self.warmup * epochs:
            return
        features = unit(data.outputs(self.target))
        for m, size in enumerate(self._sizes):
            seed = int(torch.randint(2**31, (), generator=data.generator))
            centres, cluster = k_means(features, size, seed)
            distance = (features - centres[cluster]).norm(dim=1)
            self.get_buffer(f"centres{m}").copy_(unit(centres))
            self.get_buffer(f"concentration{m}").copy_(concentration(distance, cluster, size, self.temperature))
            self.get_buffer(f"cluster{m}").copy_(cluster)
        self.ready.fill_(True)

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        query = unit(net(batch.x[0]))
        losses = moco_losses(query, key, self.bank.keys, self.temperature)
        if self.ready:
            parts = [self._proto(m, query, batch.index) for m in range(len(self._sizes))]
            losses = losses + torch.stack(parts).mean(0)
        return weighted_mean(losses, batch.weight)

    def _proto(self, m: int, query: Tensor, rows: Tensor) -> Tensor:
        cluster = self.get_buffer(f"cluster{m}")[rows]
        taken, own = cluster.unique(return_inverse=True)
        free = torch.ones(self._sizes[m], dtype=torch.bool, device=query.device)
        free[taken] = False
        other = free.nonzero()[:, 0]
        other = other[torch.randperm(len(other))[: self.negatives].to(other.device)]
        picked = torch.cat([taken, other])
        return proto_losses(
            query, self.get_buffer(f"centres{m}")[picked], self.get_buffer(f"concentration{m}")[picked], own
        )


def proto_losses(query: Tensor, centres: Tensor, phi: Tensor, own: Tensor) -> Tensor:
    """ProtoNCE of each query.

    Shape: (B, h), (K, h), (K,), own (B,) the centre of each -> (B,).
    """
    return nn.functional.cross_entropy(query @ centres.T / phi, own, reduction="none")


def concentration(distance: Tensor, cluster: Tensor, count: int, temperature: float) -> Tensor:
    """``phi_c``: mean distance over ``log(n_c + 10)``, clipped to its 10th to 90th percentile, of mean tau.

    A cluster of one row, whose distance says nothing, gets the largest.

    Shape: distance (N,), cluster (N,) -> (count,).
    """
    size = torch.bincount(cluster, minlength=count)
    total = torch.zeros(count, dtype=distance.dtype, device=distance.device).index_add_(0, cluster, distance)
    phi = total / size.clamp_min(1) / (size + 10.0).log()
    phi = torch.where(size > 1, phi, phi[size > 1].max() if bool((size > 1).any()) else 1.0)
    low, high = phi.quantile(torch.tensor([0.1, 0.9], dtype=phi.dtype, device=phi.device))
    phi = phi.clamp(low, high)
    # Clusters of equal rows have no spread at all, and a logit is divided by this.
    return (temperature * phi / phi.mean().clamp_min(1e-12)).clamp_min(0.01 * temperature)


def k_means(points: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(count, d) centres and (N,) the cluster of each point."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct points than clusters leaves clusters empty, which does no harm.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(count, n_init=1, max_iter=20, random_state=seed).fit(points.cpu().numpy())
    centres = torch.from_numpy(found.cluster_centers_).to(points)
    return centres, torch.from_numpy(found.labels_).long().to(points.device)
