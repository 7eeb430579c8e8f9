"""ELR+: early-learning regularisation with two networks, averaged weights and mixed inputs."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.functional.row_randomness import batch_beta, cyclic_partners, mixed_with, row_uniforms
from holdfast.method import Method
from holdfast.methods.elr import check_regulariser, early_pull, remember
from holdfast.nets.copies import move_towards
from holdfast.nets.mean import MeanOf
from holdfast.task import Classification
from holdfast.types import Batch, Nets, Step


class ELRPlus(Method):
    """Two networks, each held to what the averaged weights of the other have predicted.

    ``L_i = CE(p(x~_i), y~_i) + r s log(1 - <p(x~_i), t~_i>)`` for each network, where ``x~ = m x_i + (1 - m) x_j``,
    labels and targets are mixed alike, and ``m`` is one number a batch: ``max(n, 1 - n)`` with ``n ~ Beta(a, a)``. The
    memory ``t_i <- b t_i + (1 - b) q_i`` is of the predictions ``q`` of the other network's averaged weights for the
    inputs as they are.

    Parameters
    ----------
    strength: s, at least 0: 3 for CIFAR-10 in the paper, 7 for CIFAR-100.
    memory: b, in [0, 1]: 0.7 for CIFAR-10 in the paper, 0.9 for CIFAR-100.
    alpha: a, at least 0; 0 mixes nothing.
    average: how much of the averaged weights stays in a step, in [0, 1).
    ramp: epochs over which r rises to 1 along ``exp(-5 (1 - share)^2)``; 0 is the full strength from the start.

    Shapes
    ------
    Two outputs (B, C), labels (B,) -> losses (B,); the memory is (2, N, C).

    Differs from the authors' code: both networks take a step on each batch, with one mix for both, where theirs have
    batches of their own; the ramp counts epochs instead of steps (40,000 for CIFAR-100, about 100 epochs); averaged
    networks make targets in evaluation mode, with averaged statistics; with 100 classes the labels are not multiplied
    by the memory. Both averages predict together, by the mean of their outputs, as theirs do.

    Reference: Liu et al., "Early-Learning Regularization Prevents Memorization of Noisy Labels", NeurIPS 2020.

    >>> ELRPlus(7, memory=0.9, ramp=100)
    ELRPlus(strength=7, memory=0.9, ramp=100)
    """

    name = "elr-plus"
    requires = Classification
    networks = 2
    ema: Tensor
    steps: Tensor

    def __init__(
        self,
        strength: float = 3.0,
        memory: float = 0.7,
        *,
        alpha: float = 1.0,
        average: float = 0.997,
        ramp: int = 0,
    ) -> None:
        super().__init__()
        check_regulariser(strength, memory)
        if alpha < 0 or ramp < 0:
            raise HoldfastError(f"alpha and ramp must be at least 0, not {alpha:g} and {ramp}")
        if not 0 <= average < 1:
            raise HoldfastError(f"average must lie in [0, 1), not {average:g}")
        self.strength = strength
        self.memory = memory
        self.alpha = alpha
        self.average = average
        self.ramp = ramp
        self._epoch = 0

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.register_buffer("ema", torch.zeros(2, len(data), data.task.outputs, device=data.device))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.averages = nn.ModuleList(copy.deepcopy(net).requires_grad_(False).eval() for net in nets)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._epoch, self._seed = epoch, data.generator.initial_seed()
        self._uniforms = row_uniforms(len(data), self._seed, epoch).to(data.device)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        with torch.no_grad():
            expected = [average(batch.x) for average in self.averages]
            for ema, output in zip(self.ema, reversed(expected), strict=True):
                remember(ema, batch.index, output, self.memory)
        target = self.ema[:, batch.index]
        x, y = batch.x, batch.y
        if self.alpha > 0:
            partner = cyclic_partners(self._uniforms[batch.index])
            share = batch_beta(self.alpha, batch.index, self._seed, self._epoch)
            target = torch.stack([mixed_with(each, partner, share) for each in target])
            x, y = mixed_with(x, partner, share), mixed_with(self.task.encode(y), partner, share)
        parts = []
        for net, remembered in zip(nets, target, strict=True):
            output = net(x)
            losses = self.task.losses(output, y) + self._strength() * early_pull(output, remembered)
            parts.append(weighted_mean(losses, batch.weight))
        return Step(torch.stack(parts).sum(), batch.weight, torch.stack(expected).mean(0))

    def after_step(self, nets: Nets) -> None:
        self.steps += 1
        # The start is forgotten first: an average of few steps is their plain mean.
        share = max(1 - self.average, 1 / float(self.steps))
        for average, net in zip(self.averages, nets, strict=True):
            move_towards(average, net, share)

    def predictor(self, nets: Nets) -> nn.Module:
        return MeanOf(list(self.averages))

    def _strength(self) -> float:
        share = 1.0 if self.ramp == 0 else min(1.0, self._epoch / self.ramp)
        return self.strength * math.exp(-5 * (1 - share) ** 2)
