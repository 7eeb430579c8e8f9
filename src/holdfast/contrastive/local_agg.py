"""LocalAgg: embeddings draw near those of their clusters, among all that are near."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from holdfast.contrastive.inst_disc import InstDisc
from holdfast.contrastive.memory import MemorySettings
from holdfast.contrastive.pcl import k_means
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.types import Nets


class LocalAgg(InstDisc):
    """``L_i = -log(sum_{C_i and B_i} exp(v_j f_i / tau) / sum_{B_i} exp(v_j f_i / tau))`` over the memory bank:
    ``B_i`` the rows nearest to the embedding ``f_i``, ``C_i`` those that share a cluster with row i in any of several
    clusterings.

    Clusters are found by k-means of the bank at the start of each epoch after the warm-up, which is ``InstDisc``.

    Parameters
    ----------
    neighbours: how many rows are near, at least 2, and never more than there are; 4,096 for ImageNet.
    clusters: how many in each clustering, at least 2; never more than half of the rows. Ten times 30,000 for ImageNet.
    warmup: the share of the training without clusters, in [0, 1]; 10 epochs in the paper.
    negatives, momentum, temperature: see ``InstDisc``.

    Shapes
    ------
    One view (B, ...) -> embeddings (B, h), similarities to near rows (B, k), which of them are close (B, k) -> (B,).

    Differs from the authors' code: k-means of scikit-learn with one start; the own row is always near and close, so
    that no set is empty.

    Reference: Zhuang et al., "Local Aggregation for Unsupervised Learning of Visual Embeddings", ICCV 2019.

    >>> LocalAgg(256, (50, 100))
    LocalAgg(neighbours=256, clusters=(50, 100))
    """

    name = "local-agg"
    ready: Tensor

    def __init__(
        self,
        neighbours: int = 512,
        clusters: tuple[int, ...] = (500, 500, 500),
        *,
        warmup: float = 0.1,
        **memory: Unpack[MemorySettings],
    ) -> None:
        super().__init__(**memory)
        if neighbours < 2 or not clusters or min(clusters) < 2:
            raise HoldfastError(f"LocalAgg needs two neighbours and clusters or more, not {neighbours} and {clusters}")
        if not 0 <= warmup <= 1:
            raise HoldfastError(f"the warm-up is a share of the training, not {warmup:g}")
        self.neighbours = neighbours
        self.clusters = clusters
        self.warmup = warmup

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        cluster = torch.zeros(len(self.clusters), len(data), dtype=torch.int64, device=data.device)
        self.register_buffer("cluster", cluster)
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        super().before_epoch(nets, data, epoch, epochs)
        if epoch < self.warmup * epochs:
            return
        cluster = self.get_buffer("cluster")
        for m, size in enumerate(self.clusters):
            seed = int(torch.randint(2**31, (), generator=data.generator))
            cluster[m] = k_means(self.memory.kept, max(1, min(size, len(data) // 2)), seed)[1]
        self.ready.fill_(True)

    def discriminate(self, found: Tensor, rows: Tensor) -> Tensor:
        if not self.ready:
            return super().discriminate(found, rows)
        similarity = found @ self.memory.kept.T
        near = similarity.detach().topk(min(self.neighbours, similarity.shape[1])).indices
        own = rows.to(near.device)[:, None]
        # Where its own row is not among them, it takes the place of the farthest.
        near[:, -1:] = torch.where((near == own).any(1, keepdim=True), near[:, -1:], own)
        cluster = self.get_buffer("cluster")
        close = (cluster[:, near] == cluster[:, own]).any(0) | (near == own)
        return local_losses(similarity.gather(1, near) / self.temperature, close)


def local_losses(scores: Tensor, close: Tensor) -> Tensor:
    """How improbable it is that a near row is a close one.

    Shape: scores of near rows (B, k), which are close (B, k) -> (B,).
    """
    return scores.logsumexp(1) - scores.masked_fill(~close, -torch.inf).logsumexp(1)
