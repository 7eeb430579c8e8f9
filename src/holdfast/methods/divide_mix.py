"""DivideMix: divide rows by their loss, and go on as if the labels of one part were missing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, evaluate
from holdfast.functional.mixture import small_component
from holdfast.functional.reduce import weighted_mean
from holdfast.functional.row_randomness import batch_beta, cyclic_partners, mixed_with, row_uniforms
from holdfast.method import Method
from holdfast.nets.mean import MeanOf
from holdfast.ranks import get_ranks
from holdfast.task import Classification
from holdfast.types import Batch, Nets, Plan, Step

CLEAN = 0.5
"""The probability of a right label above which a row counts as labelled."""


class DivideMix(Method):
    """Two networks divide the rows for one another into labelled and unlabelled ones, and learn from both kinds.

    Before each epoch a mixture of two normal distributions is fitted to the losses of all rows to each network; ``w_i``
    is the probability of the component of smaller mean to the *other* network, and a row is labelled where
    ``w_i > 0.5``. Its target is ``w_i y_i + (1 - w_i) p_i`` with ``p_i`` the network's mean prediction over two views;
    that of an unlabelled row is the mean prediction of both networks over both. Targets are sharpened,
    ``t^(1/T) / sum t^(1/T)``, views and targets are mixed in pairs, ``m = max(n, 1 - n)`` with ``n ~ Beta(a, a)``, and

    ``L = L_x + u(e) L_u + sum_c 1/C log((1/C) / mean_i p_ic)``

    with ``L_x`` the cross entropy of labelled rows, ``L_u`` the squared error of unlabelled ones averaged over rows and
    classes, and ``u(e)`` rising to u over the epochs after the warm-up.

    Parameters
    ----------
    strength: u, at least 0; the authors take 0 to 150, more for more classes and more noise.
    warmup: epochs of ordinary training of both networks first: 10 for CIFAR-10, 30 for CIFAR-100.
    confident: False adds ``sum_c p_c log p_c`` to the loss of the warm-up, which keeps predictions from becoming
        sure; for asymmetric noise, where the losses of wrong labels would soon be as small as the others.
    temperature: T, above 0.
    alpha: a, above 0.
    ramp: epochs over which u(e) rises, at least 1.

    Shapes
    ------
    Two views (B, ...), labels (B,) -> four passes without a gradient and one of 2 B rows with it, for each network.

    Attributes
    ----------
    clean: (2, N) the probability of a right label by the losses to each network, from the last epoch.

    Differs from the authors' code: a batch holds rows of both kinds as they come, where theirs has 64 of each, and both
    networks take a step on each batch, where theirs train in turns; u rises from epoch to epoch, not from step to
    step; losses are not averaged over five epochs for noise of 90 %. Both networks predict
    together, by the mean of their outputs, as theirs do. Without augmentation both views are the same.

    Reference: Li, Socher and Hoi, "DivideMix: Learning with Noisy Labels as Semi-supervised Learning", ICLR 2020,
    Algorithm 1.

    >>> DivideMix(0, confident=False)
    DivideMix(strength=0, confident=False)
    """

    name = "divide-mix"
    requires = Classification
    networks = 2
    views = 2
    clean: Tensor

    def __init__(
        self,
        strength: float = 25.0,
        *,
        warmup: int = 10,
        confident: bool = True,
        temperature: float = 0.5,
        alpha: float = 4.0,
        ramp: int = 16,
    ) -> None:
        super().__init__()
        if strength < 0 or warmup < 0:
            raise HoldfastError(f"strength and warmup must be at least 0, not {strength:g} and {warmup}")
        if not (temperature > 0 and alpha > 0):
            raise HoldfastError(f"temperature and alpha must be above 0, not {temperature:g} and {alpha:g}")
        if ramp < 1:
            raise HoldfastError(f"the ramp needs at least one epoch, not {ramp}")
        self.strength = strength
        self.warmup = warmup
        self.confident = confident
        self.temperature = temperature
        self.alpha = alpha
        self.ramp = ramp
        self._epoch = 0

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.register_buffer("clean", torch.ones(2, len(data), device=data.device))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._epoch, self._seed = epoch, data.generator.initial_seed()
        # Each view of a row has a number of its own.
        self._uniforms = row_uniforms(2 * len(data), self._seed, epoch).reshape(2, len(data)).to(data.device)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        if self._epoch < self.warmup:
            return None
        outputs = [data.outputs(net) for net in nets]
        for clean, output in zip(self.clean, outputs, strict=True):
            clean.copy_(small_component(self.task.losses(output, data.y)))
        return Plan(torch.arange(len(data), device=data.device), output=torch.stack(outputs).mean(0))

    def loss(self, nets: Nets, batch: Batch) -> Step:
        return self._ordinary(nets, batch) if self._epoch < self.warmup else self._divided(nets, batch)

    def predictor(self, nets: Nets) -> nn.Module:
        return MeanOf(nets)

    def unlabelled_strength(self) -> float:
        """u(e) of this epoch."""
        return self.strength * min(1.0, max(0.0, (self._epoch - self.warmup) / self.ramp))

    def _ordinary(self, nets: Nets, batch: Batch) -> Step:
        outputs = [net(batch.x[0]) for net in nets]
        parts = []
        for output in outputs:
            losses = self.task.losses(output, batch.y)
            if not self.confident:
                log = output.log_softmax(1)
                losses = losses + (log.exp() * log).sum(1)
            parts.append(weighted_mean(losses, batch.weight))
        return Step(torch.stack(parts).sum(), batch.weight, torch.stack(outputs).detach().mean(0))

    def _divided(self, nets: Nets, batch: Batch) -> Step:
        given = self.task.encode(batch.y)
        trust: list[Tensor] = []
        seen: list[Tensor] = []
        parts: list[Tensor] = []
        for own, other, clean in zip(nets, reversed(nets), self.clean.flip(0), strict=True):
            right = clean[batch.index]
            labelled = right > CLEAN
            with torch.no_grad():
                outputs = torch.stack([own(x) for x in batch.x])
                own_guess = outputs.softmax(2).mean(0)
                both = (own_guess + torch.stack([_evaluated(other, x) for x in batch.x]).softmax(2).mean(0)) / 2
                refined = torch.lerp(own_guess, given, right[:, None])
                target = sharpen(torch.where(labelled[:, None], refined, both), self.temperature)
            parts.append(self._mixed(own, batch, target, labelled, len(parts)))
            trust.append(labelled * batch.weight)
            seen.append(outputs.mean(0))
        return Step(torch.stack(parts).sum(), torch.stack(trust).mean(0), torch.stack(seen).mean(0))

    def _mixed(self, net: nn.Module, batch: Batch, target: Tensor, labelled: Tensor, number: int) -> Tensor:
        """The loss of one network on both views of a batch, mixed in pairs."""
        partner = cyclic_partners(self._uniforms[:, batch.index].flatten())
        share = batch_beta(self.alpha, batch.index, self._seed, self._epoch, number)
        output = net(mixed_with(torch.cat(batch.x), partner, share))
        target = mixed_with(target.repeat(2, 1), partner, share)
        strength = self.unlabelled_strength()
        return semi_supervised(output, target, labelled.repeat(2), batch.weight.repeat(2), strength)


def semi_supervised(output: Tensor, target: Tensor, labelled: Tensor, weight: Tensor, strength: float) -> Tensor:
    """``L_x + u L_u`` and the divergence of the mean prediction from equal shares of all classes.

    Shape: output (B, C), target (B, C), labelled (B,) of booleans, weight (B,) -> ().
    """
    log = output.log_softmax(1)
    p = log.exp()
    known = weighted_mean(-(target * log).sum(1), weight * labelled)
    guessed = weighted_mean((p - target).square().mean(1), weight * ~labelled)
    return known + strength * guessed + _unequal(p, weight)


def _unequal(p: Tensor, weight: Tensor) -> Tensor:
    """``sum_c 1/C log((1/C) / mean_i p_ic)``, of the whole batch where several processes share it."""
    ranks, classes = get_ranks(), p.shape[1]
    mean = torch.stack([weighted_mean(column, weight) for column in p.unbind(1)])
    if ranks.count > 1:
        # A logarithm of parts would not add up: the value is that of all, the gradient that of this part.
        mean = mean - mean.detach() + ranks.total(mean.detach()) / ranks.count
    # Where nothing counts the mean is zero, and there is nothing to hold equal.
    return -(torch.where(mean > 0, mean, 1 / classes) * classes).log().mean()


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """``p^(1/T)``, scaled to sum to one in each row.

    >>> sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)
    tensor([[0.6579, 0.2368, 0.1053]])
    """
    sharp = p ** (1 / temperature)
    return sharp / sharp.sum(1, keepdim=True)


def _evaluated(net: nn.Module, x: Tensor) -> Tensor:
    return evaluate(net, iter([x]))
