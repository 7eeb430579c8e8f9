"""SANE: labels of contrastive learning refined by the encoder itself, and queries mixed with keys."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from holdfast.augment import Augment
from holdfast.contrastive.base import Recipe, unit
from holdfast.contrastive.mixup import Mixup, MomentumMixup, VanillaMixup, blend, draw_mix
from holdfast.contrastive.moco import MoCo, MoCoSettings, check_temperature
from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.types import Batch

MULTI = (1.0, 192 / 224, 160 / 224, 128 / 224, 96 / 224)
"""The five sizes of SANE-Multi, as shares of the full side."""
MOMENTUM_MIXUP = MomentumMixup()


class SANE(MoCo):
    """Momentum contrast with refined labels (SLR) and momentum mixup.

    ``(1 - lambda) L_c(x, e) + lambda L_c(x', y')`` (equation 9), where ``L_c`` is the cross entropy of
    ``softmax(q_i B / tau)`` over all keys ``B`` of batch and queue. The refined label (equation 5) is
    ``y_i = (1 - alpha_i - beta_i) e_i + alpha_i p_i + beta_i q_i``: ``e`` one-hot,
    ``p_i = softmax(k_i B / (tau tau'))`` what the key of the positive is similar to, ``q_i`` the same without itself,
    and ``alpha_i = mu max p_i / z_i, beta_i = mu max q_i / z_i, z_i = 1 + mu max p_i + mu max q_i``. Virtual queries
    ``x'_i = theta x_i + (1 - theta) x~_j`` and their labels are mixed alike (equation 8).

    Parameters
    ----------
    weight: lambda, in [0, 1]; 0 leaves momentum contrast over all keys.
    positive, others: whether labels take in p, and q.
    mixup: ``MomentumMixup()``, ``VanillaMixup()``, or None to train the query itself towards its refined label.
    strong: draw the key-side ingredient of the mix (without mixup: the query of the refined label) strongly augmented.
    sizes: shares of the full side at which both ingredients are drawn anew, the losses averaged: ``(96 / 224,)`` is
        SANE-Single, ``MULTI`` is SANE-Multi; None mixes the two views there are, as for CIFAR-10.
    mu: its first and last value, at least 0, along half a cosine; (0.5, 10) for ImageNet.
    sharpness: tau', positive; 1 for ImageNet.
    queue, momentum, temperature, groups: see ``MoCo``.

    Shapes
    ------
    Labels and logits (B, B + b): the keys of the batch first, then the queue.

    Differs from the paper: similarity is ``exp(+cos / tau)``, where its text has a minus sign that would drive
    positives apart; theta is drawn for each example. With ``strong``, vanilla mixup has two strong ingredients.
    No code of the authors is public.

    Reference: Zhou et al., "A Theory-Driven Self-Labeling Refinement Method for Contrastive Representation Learning",
    NeurIPS 2021.

    >>> SANE(strong=True, weight=0.25)
    SANE(weight=0.25, strong=True)
    """

    name = "sane"

    def __init__(
        self,
        weight: float = 0.5,
        *,
        positive: bool = True,
        others: bool = True,
        mixup: Mixup | None = MOMENTUM_MIXUP,
        strong: bool = False,
        sizes: tuple[float, ...] | None = None,
        mu: tuple[float, float] = (0.0, 1.0),
        sharpness: float = 0.8,
        **moco: Unpack[MoCoSettings],
    ) -> None:
        super().__init__(**moco)
        if not 0 <= weight <= 1:
            raise HoldfastError(f"the weight of refined labels must lie in [0, 1], not {weight:g}")
        if not isinstance(mixup, Mixup | None):
            raise HoldfastError(f"mixup takes MomentumMixup(), VanillaMixup() or None, not {mixup!r}")
        if min(mu) < 0:
            raise HoldfastError(f"mu must be at least 0, not {mu}")
        if sizes is not None and not all(0 < size <= 1 for size in sizes):
            raise HoldfastError(f"sizes are shares of the side in (0, 1], not {sizes}")
        check_temperature(sharpness)
        self.weight = weight
        self.positive = positive
        self.others = others
        self.mixup = mixup
        self.strong = strong
        self.sizes = sizes
        self.mu = mu
        self.sharpness = sharpness
        self.views = 2 + (int(strong) if sizes is None else 2 * len(sizes))

    def augments(self, recipe: Recipe) -> tuple[Augment, ...]:
        draw = recipe.strong if self.strong else recipe.weak
        sides = [1.0] * int(self.strong) if self.sizes is None else [s for size in self.sizes for s in (size, size)]
        return (recipe.weak(), recipe.weak(), *map(draw, sides))

    def contrast(self, net: nn.Module, batch: Batch, key: Tensor) -> Tensor:
        keys = torch.cat([key, self.bank.keys])
        again = self.mixup is not None or self.views > 2
        losses: list[Tensor] = []
        query = None
        if self.weight < 1 or not again:
            query = unit(net(batch.x[0]))
            losses.append((1 - self.weight) * own_losses(query, keys, self.temperature))
        if self.weight > 0:
            labels = self.labels(key, self.bank.keys)
            refined = [
                label_losses(unit(net(x)) if again or query is None else query, keys, y, self.temperature)
                for x, y in self._virtual(batch.x, labels)
            ]
            losses.append(self.weight * torch.stack(refined).mean(0))
        return weighted_mean(torch.stack(losses).sum(0), batch.weight)

    def labels(self, key: Tensor, bank: Tensor) -> Tensor:
        """(B, B + b) the refined labels over the keys of a batch and further ones, at this point of training."""
        return refined_labels(
            key, bank, mu=mu_at(self.share, *self.mu), temperature=self.temperature,
            sharpness=self.sharpness, positive=self.positive, others=self.others,
        )  # fmt: skip

    def _virtual(self, views: tuple[Tensor, ...], labels: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The queries of the refined labels, and their labels, one pair a size."""
        query, key, *drawn = views
        pairs = [(query, key)]
        if self.sizes is not None:
            pairs = list(zip(drawn[::2], drawn[1::2], strict=True))
        elif self.strong:
            both = self.mixup is None or isinstance(self.mixup, VanillaMixup)
            pairs = [(drawn[0] if both else query, drawn[0])]
        if self.mixup is None:
            return [(first, labels) for first, _ in pairs]
        made = []
        for pair in pairs:
            first, second = self.mixup.ingredients(*pair)
            share, partner = (drawn.to(labels.device) for drawn in draw_mix(len(labels), self.mixup.kappa))
            made.append((blend(first, second[partner], share), blend(labels, labels[partner], share)))
        return made


def own_losses(query: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """``L_c`` with one-hot labels: key i is that of query i.

    Shape: (B, h), (B + b, h) -> (B,).
    """
    return -(query @ keys.T / temperature).log_softmax(1).diagonal()


def label_losses(query: Tensor, keys: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """``L_c``: cross entropy against labels over all keys.

    Shape: (B, h), (n, h), (B, n) -> (B,).
    """
    return -(labels * (query @ keys.T / temperature).log_softmax(1)).sum(1)


@torch.no_grad()
def refined_labels(
    key: Tensor,
    bank: Tensor,
    *,
    mu: float,
    temperature: float,
    sharpness: float,
    positive: bool = True,
    others: bool = True,
) -> Tensor:
    """Equation 5: one-hot labels, what each key is similar to, and the same without itself, by their confidence.

    Shape: (B, h), (b, h) -> (B, B + b).
    """
    count = len(key)
    logits = key @ torch.cat([key, bank]).T / (temperature * sharpness)
    p = logits.softmax(1)
    q = logits.fill_diagonal_(-torch.inf).softmax(1)
    alpha, beta = mixture_weights(p, q, mu * positive, mu * others)
    labels = alpha[:, None] * p + beta[:, None] * q
    labels[:, :count].diagonal().add_(1 - alpha - beta)
    return labels


def mixture_weights(p: Tensor, q: Tensor, mu_p: float, mu_q: float) -> tuple[Tensor, Tensor]:
    """``alpha`` and ``beta`` of each row.

    Shape: (B, n), (B, n) -> (B,), (B,).
    """
    sure_p, sure_q = mu_p * p.amax(1), mu_q * q.amax(1)
    whole = 1 + sure_p + sure_q
    return sure_p / whole, sure_q / whole


def mu_at(share: float, first: float, last: float) -> float:
    """``mu`` once a share of the training is done: ``last - (last - first) (cos(pi share) + 1) / 2``.

    >>> round(mu_at(0.25, 0.0, 1.0), 6)
    0.146447
    """
    return last - (last - first) * (math.cos(math.pi * share) + 1) / 2
