"""SwAV: predict from one view to which prototypes another view is assigned."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from holdfast.augment import Augment
from holdfast.contrastive.base import Contrastive, Recipe, embedding_width, unit
from holdfast.contrastive.moco import check_temperature
from holdfast.contrastive.queue import KeyQueue
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Step

LARGE, SMALL = (0.14, 1.0), (0.05, 0.14)
"""Shares of the image in a large and in a small crop."""


class SwAV(Contrastive):
    """Views of an example are assigned to prototypes, evenly over the batch, and each predicts the others' assignment.

    ``L = mean_a mean_{v != a} -sum_k Q^a_ik log softmax(z^v_i C / tau)_k``: ``C`` the prototypes, of length one and
    trained, ``Q^a`` the assignment of the large crop ``a`` by Sinkhorn iterations of ``exp(z^a C / eps)``.

    Parameters
    ----------
    prototypes: at least 2; 3,000 for ImageNet.
    small: how many small crops there are beside two large ones, at least 0.
    small_size: their side as a share of the full one, in (0, 1].
    queue: embeddings of earlier batches that join the assignment, from ``queue_from`` on; 0: none. For batches that are
        small beside the number of prototypes.
    queue_from: the share of training after which they do, in [0, 1].
    temperature, epsilon: tau and eps, positive.
    frozen: steps in which prototypes stay as they are, at least 0; 313 in the paper.

    Shapes
    ------
    2 + small views -> scores (B, K) each; assignments (B, K), rows of sum one.

    Differs from the authors' code: SGD of the loop in place of LARS, the head of SANE; the queue starts by a share of
    the training and holds embeddings of both large crops in turn. In several processes each assigns its own batch.

    Reference: Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", NeurIPS
    2020.

    >>> SwAV(100, small=0)
    SwAV(prototypes=100, small=0)
    """

    name = "swav"
    steps: Tensor

    def __init__(
        self,
        prototypes: int = 300,
        *,
        small: int = 6,
        small_size: float = 0.5,
        queue: int = 0,
        queue_from: float = 0.1,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        frozen: int = 0,
    ) -> None:
        super().__init__()
        if prototypes < 2 or min(small, queue, frozen) < 0:
            raise HoldfastError("SwAV needs two prototypes or more, and counts of at least 0")
        if not 0 < small_size <= 1 or not 0 <= queue_from <= 1:
            raise HoldfastError(f"small_size and queue_from are shares, not {small_size:g} and {queue_from:g}")
        check_temperature(temperature)
        check_temperature(epsilon)
        self.prototypes = prototypes
        self.small = small
        self.small_size = small_size
        self.queue = queue
        self.queue_from = queue_from
        self.temperature = temperature
        self.epsilon = epsilon
        self.frozen = frozen
        self.views = 2 + small

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        little = (recipe.weak(self.small_size, SMALL) for _ in range(self.small))
        return (recipe.weak(1.0, LARGE), recipe.weak(1.0, LARGE), *little)

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        width = embedding_width(nets[0], data)
        drawn = unit(torch.randn(self.prototypes, width, generator=data.generator))
        self.centres = nn.Parameter(drawn.to(data.device))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.banks = nn.ModuleList(
            KeyQueue(min(self.queue, len(data)), width, data.generator).to(data.device)
            for _ in range(2 if self.queue else 0)
        )

    def loss(self, nets: Nets, batch: Batch) -> Step:
        z = [unit(nets[0](x)) for x in batch.x]
        scores = [each @ self.centres.T for each in z]
        losses = swav_losses(scores, [self._assign(k, scores[k]) for k in range(2)], self.temperature)
        self._fresh = [each.detach() for each in z[:2]]
        return Step(weighted_mean(losses, batch.weight), batch.weight)

    @torch.no_grad()
    def _assign(self, view: int, scores: Tensor) -> Tensor:
        ranks = get_ranks()
        scores = ranks.gather(scores)
        count = len(scores)
        if len(self.banks) and self.share >= self.queue_from:
            kept = self.banks[view].keys @ self.centres.T  # type: ignore[operator]
            scores = torch.cat([kept, scores])
        return sinkhorn(scores, self.epsilon)[-count:][ranks.share(count)]

    def after_backward(self, nets: Nets) -> None:
        if self.steps < self.frozen and self.centres.grad is not None:
            self.centres.grad.zero_()

    def after_step(self, nets: Nets) -> None:
        super().after_step(nets)
        self.steps += 1
        with torch.no_grad():
            self.centres.copy_(unit(self.centres))
        for bank, fresh in zip(self.banks, self._fresh, strict=False):
            bank.push(fresh)  # type: ignore[operator]


def swav_losses(scores: list[Tensor], assigned: list[Tensor], temperature: float) -> Tensor:
    """The mean over assigned views, and over all other views, of the cross entropy towards the assignment.

    Shape: V times (B, K), A times (B, K), A <= V -> (B,).
    """
    logs = [(score / temperature).log_softmax(1) for score in scores]
    parts = [
        torch.stack([-(target * log).sum(1) for v, log in enumerate(logs) if v != a]).mean(0)
        for a, target in enumerate(assigned)
    ]
    return torch.stack(parts).mean(0)


def sinkhorn(scores: Tensor, epsilon: float, iterations: int = 3) -> Tensor:
    """Assignments of rows to prototypes that use all prototypes alike.

    ``exp(scores / eps)``, then by turns columns of equal sum and rows of equal sum; rows end with the sum one. All of
    it in logarithms, so that no epsilon is too small.

    Shape: (B, K) -> (B, K).
    """
    log, (rows, columns) = scores / epsilon, scores.shape
    for _ in range(iterations):
        log = log - log.logsumexp(0) - math.log(columns)
        log = log - log.logsumexp(1, keepdim=True) - math.log(rows)
    return (log + math.log(rows)).exp()
