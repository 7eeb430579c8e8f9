"""MoCo v2: queries against keys of a momentum encoder, most of them from a queue of earlier batches."""

from __future__ import annotations

import copy
from typing import TypedDict

import torch
from torch import Tensor, nn

from holdfast.contrastive.base import Contrastive, embedding_width, unit
from holdfast.contrastive.momentum import check_momentum, follow, keys_of
from holdfast.contrastive.queue import KeyQueue
from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch, Nets, Step


class MoCoSettings(TypedDict, total=False):
    """Settings that the methods built on momentum contrast have in common; see ``MoCo``."""

    queue: int
    momentum: float
    temperature: float
    groups: int


class MoCo(Contrastive):
    """Each query must find the key of its own example among those of a queue.

    ``L_i = -log(exp(q_i k_i / tau) / (exp(q_i k_i / tau) + sum_j exp(q_i b_j / tau)))``: ``q = f(x)`` of the network,
    ``k = g(x~)`` of another view and of the momentum encoder ``g``, the EMA of ``f`` (``xi <- m xi + (1 - m) w``
    after each step), and ``b`` keys of earlier batches. All are rows of length one.

    Parameters
    ----------
    queue: how many keys are kept, at least 1, and never more than there are rows; 65,536 for ImageNet.
    momentum: m, in [0, 1); 0.999 in long trainings.
    temperature: tau, positive.
    groups: parts of a batch that the momentum encoder normalises on their own, at least 1 (shuffled BatchNorm).

    Shapes
    ------
    Two views (B, ...) -> queries (B, h), keys (B, h), queue (b, h) -> losses (B,).

    Differs from the authors' code: batches are shuffled and split for BatchNorm inside one process, not over GPUs; the
    queue takes batches of any size; the head is that of SANE, of three layers.

    Reference: He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", CVPR 2020; Chen et al.,
    "Improved Baselines with Momentum Contrastive Learning", 2020.

    >>> MoCo(momentum=0.999)
    MoCo(momentum=0.999)
    """

    name = "moco"

    def __init__(self, queue: int = 4096, momentum: float = 0.99, temperature: float = 0.2, *, groups: int = 4) -> None:
        super().__init__()
        if queue < 1 or groups < 1:
            raise HoldfastError(f"queue and groups must be at least 1, not {queue} and {groups}")
        check_momentum(momentum)
        check_temperature(temperature)
        self.queue = queue
        self.momentum = momentum
        self.temperature = temperature
        self.groups = groups

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.target = copy.deepcopy(nets[0]).requires_grad_(False)
        self.bank = KeyQueue(min(self.queue, len(data)), embedding_width(nets[0], data), data.generator).to(data.device)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        key = keys_of(self.target, batch.x[1], self.groups)
        loss = self.contrast(nets[0], batch, key)
        self._fresh = key
        return Step(loss, batch.weight)

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        """The loss of a batch, given the keys of its second views."""
        query = unit(net(batch.x[0]))
        return weighted_mean(moco_losses(query, key, self.bank.keys, self.temperature), batch.weight)

    def after_step(self, nets: Nets) -> None:
        super().after_step(nets)
        follow(self.target, nets[0], self.momentum)
        self.bank.push(self._fresh)


def moco_losses(query: Tensor, key: Tensor, bank: Tensor, temperature: float) -> Tensor:
    """InfoNCE of each query: its own key against those of the queue.

    Shape: (B, h), (B, h), (b, h) -> (B,).
    """
    own = (query * key).sum(1, keepdim=True)
    logits = torch.cat([own, query @ bank.T], 1) / temperature
    return -logits.log_softmax(1)[:, 0]


def check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise HoldfastError(f"a temperature must be positive, not {temperature:g}")
