"""INCV: cross-validation on noisy labels finds rows to trust, and Co-teaching trains on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, outputs_on
from holdfast.functional.drop_rate import Ramp
from holdfast.functional.reduce import keep_smallest, weighted_mean
from holdfast.functional.row_randomness import row_uniforms
from holdfast.methods.multi_stage import MultiStage, even_stages
from holdfast.nets.copies import move_towards
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Plan, Stage, Step


class INCV(MultiStage):
    """Two networks trained on halves of the rows judge the other half; what agrees is trusted, then Co-teaching.

    In each round the candidates are split in two. Network A trains on one half and all trusted rows, B on the other;
    rows of the half that a network has not seen are trusted if it predicts their label, and as many of the largest
    losses as the noise rate asks for are given up. The rate e comes from the first round, in which the share
    ``(1 - e)^2 + e^2 / (C - 1)`` agrees. Then both networks start anew and teach each other on the trusted rows, joined
    by candidates later on.

    Parameters
    ----------
    rounds: of cross-validation; 0 trusts all rows.
    each: epochs of a round, of those asked for; None shares a half of all among the rounds.
    symmetric: whether wrong labels fall on all other classes; else on one, which changes the equations and keeps the
        rows of largest loss.
    ramp: epochs over which Co-teaching comes to drop its full share.

    Shapes
    ------
    Outputs (N, C), labels (N,) -> trusted rows.

    Differs from the authors' code: both halves of a round train at once, a network each, with batches that hold rows of
    both; the weights of the last epoch judge, not those of the best; candidates join in the last half of Co-teaching.

    Reference: Chen et al., "Understanding and Utilizing Deep Neural Networks Trained with Noisy Labels", ICML 2019.

    >>> INCV(rounds=2)
    INCV(rounds=2)
    """

    name = "incv"
    networks = 2
    trusted: Tensor
    open: Tensor
    side: Tensor
    noise: Tensor

    def __init__(self, *, rounds: int = 4, each: int | None = None, symmetric: bool = True, ramp: int = 10) -> None:
        super().__init__()
        if rounds < 0 or ramp < 0 or (each is not None and each < 1):
            raise HoldfastError(f"rounds and ramp must be at least 0 and each at least 1, not {rounds}, {ramp}, {each}")
        self.rounds = rounds
        self.each = each
        self.symmetric = symmetric
        self.ramp = ramp
        self._teaching = 0
        self._joining = False

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        n = len(data)
        self.register_buffer("trusted", torch.full((n,), self.rounds == 0, device=data.device))
        self.register_buffer("open", torch.full((n,), self.rounds > 0, device=data.device))
        self.register_buffer("side", torch.zeros(n, dtype=torch.bool, device=data.device))
        self.register_buffer("noise", torch.zeros((), dtype=torch.float64))

    def length(self, epochs: int) -> int:
        """Epochs of a round."""
        return self.each if self.each is not None else max(1, epochs // (2 * self.rounds)) if self.rounds else 0

    def stages(self, epochs: int) -> Sequence[Stage]:
        return even_stages(self.rounds, self.length(epochs), epochs)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        length = self.length(epochs)
        start = self.rounds * length
        self._teaching = epoch - start
        self._joining = 2 * (epoch - start) >= epochs - start
        if not self.rounds or epoch > start or epoch % length:
            return
        if epoch:
            self._settle(nets, data)
        if epoch == start:
            self.restart(nets)
            return
        for net in nets:
            move_towards(net, self.initial[0], 1.0)
        self.side.copy_(row_uniforms(len(data), data.generator.initial_seed(), epoch) < 0.5)

    def _settle(self, nets: Nets, data: Feed) -> None:
        """Trust what agrees, and give up what looks worst."""
        agree = torch.zeros_like(self.open)
        worst = []
        for half, net in ((True, nets[0]), (False, nets[1])):
            rows = (self.open & (self.side == half)).nonzero()[:, 0]
            if not len(rows):
                continue
            output, y = outputs_on(net, data, rows), data.y[rows]
            agree[rows] = output.argmax(1) == y
            worst.append((rows[self.task.losses(output, y).argsort(descending=True, stable=True)], rows))
        if self.noise == 0 and bool(self.open.any()):
            share = float(agree[self.open].double().mean())
            self.noise.fill_(rate_from_agreement(share, self.task.outputs if self.symmetric else 2))
        self.trusted |= agree
        self.open &= ~agree
        for order, rows in worst if self.symmetric else ():
            rate = float(self.noise)
            count = int(min(2.0, rate / max(1e-9, 1 - rate)) * int(agree[rows].sum()))
            self.open[order[:count]] = False

    def drop_rate(self) -> float:
        """The share that Co-teaching drops in this epoch."""
        others = self.task.outputs - 1 if self.symmetric else 1
        rate = float(self.noise)
        wrong = rate**2 / (rate**2 + others * (1 - rate) ** 2) if rate else 0.0
        share = Ramp(self.ramp)(wrong, self._teaching)
        return share if not self._joining else 1 - (1 - share) / (1 + self._guests())

    def _guests(self) -> float:
        """Candidates that join, as a share of the trusted rows: at most a half."""
        return min(0.5, float(self.open.sum()) / max(1.0, float(self.trusted.sum())))

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        if self._teaching < 0:
            rows = self.trusted | self.open
        else:
            rows = self.trusted.clone()
            if self._joining and bool(self.open.any()):
                guests = self.open.nonzero()[:, 0]
                count = min(len(guests), math.ceil(self._guests() * int(rows.sum())))
                rows[guests[torch.randperm(len(guests), generator=data.generator)[:count].to(guests.device)]] = True
        return None if bool(rows.all()) or not bool(rows.any()) else Plan(rows.nonzero()[:, 0])

    def loss(self, nets: Nets, batch: Batch) -> Step:
        outputs = [net(batch.x) for net in nets]
        detached = [output.detach() for output in outputs]
        if self._teaching < 0:
            side, trusted = self.side[batch.index], self.trusted[batch.index]
            # A network trains on the half that the other judges.
            weights = [(trusted | ~side).float(), (trusted | side).float()]
        else:
            losses = [get_ranks().gather(self.task.losses(output, batch.y)) for output in detached]
            first, second = (keep_smallest(loss, self.drop_rate())[get_ranks().share(len(loss))] for loss in losses)
            weights = [second, first]
        weights = [weight * batch.weight for weight in weights]
        parts = [
            weighted_mean(self.task.losses(output, batch.y), weight)
            for output, weight in zip(outputs, weights, strict=True)
        ]
        return Step(torch.stack(parts).sum(), torch.stack(weights).mean(0), torch.stack(detached).mean(0))


def rate_from_agreement(share: float, classes: int) -> float:
    """The least noise rate e, in steps of 0.001, at which two labels of one row agree in no more than this share.

    ``(1 - e)^2 + e^2 / (C - 1)`` falls until ``e = 1 - 1 / C``; a lower share is taken for that.

    >>> rate_from_agreement(0.655, 10)
    0.194
    """
    for step in range(1001):
        rate = step / 1000
        if (1 - rate) ** 2 + rate**2 / (classes - 1) <= share or rate >= 1 - 1 / classes:
            return rate
    return 1.0
