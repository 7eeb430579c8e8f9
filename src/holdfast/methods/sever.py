"""Sever: remove the examples that stretch the gradients of a fitted model the most."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.persample import gradient_matrix
from holdfast.functional.reduce import keep_count, smallest
from holdfast.methods.sample_selection import WithNoiseRate
from holdfast.noise_model import Rate
from holdfast.types import Batch, Nets, Plan, Step


class Sever(WithNoiseRate):
    """Fit, look for the direction in which gradients vary most, drop what lies farthest along it, and again.

    With gradients ``g_i`` of the fitted model, centred rows ``G_c`` and their first right singular vector ``v``, each
    round drops the share ``rate / 2`` of largest ``|G_c v|``. Its error is O(sqrt(rate)) in any dimension and for
    corrupted inputs too, the strongest guarantee here, but it holds all gradients at once.

    Parameters
    ----------
    rate: share of wrong rows, in [0, 1), or "auto".
    rounds: how often to drop, at least 1; training is split into as many parts and one more.
    most: largest product of rows and parameters, 50 million by default (200 MB); above it the method refuses.

    Shapes
    ------
    Gradients (N, D) -> rows that stay.

    Differs from the paper: each part of training stands for a fit to stationarity; a fixed share goes in each round,
    as in the authors' code, where the theory draws a threshold at random.

    Reference: Diakonikolas et al., "Sever: A Robust Meta-Algorithm for Stochastic Optimization", ICML 2019.

    >>> Sever(0.1, rounds=2)
    Sever(rate=0.1, rounds=2)
    """

    name = "sever"
    active: Tensor
    done: Tensor

    def __init__(self, rate: Rate = "auto", *, rounds: int = 4, most: int = 50_000_000) -> None:
        super().__init__(rate, ramp=0, forwards="one")
        if rounds < 1:
            raise HoldfastError(f"Sever needs at least one round, not {rounds}")
        self.rounds = rounds
        self.most = most

    def begin(self, nets: Nets, data: Feed) -> None:
        size = len(data) * sum(p.numel() for p in nets[0].parameters() if p.requires_grad)
        if size > self.most:
            raise HoldfastError(
                f"Sever holds the gradient of every row, {size:,} numbers here and at most {self.most:,}; take a "
                "smaller network or fewer rows, or PRLG or PRLL, which hold none"
            )
        super().begin(nets, data)
        self.register_buffer("active", torch.ones(len(data), dtype=torch.bool, device=data.device))
        self.register_buffer("done", torch.zeros((), dtype=torch.int64))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        super().before_epoch(nets, data, epoch, epochs)
        due = min(self.rounds, epoch * (self.rounds + 1) // epochs)
        if self.rate != 0 and due > int(self.done):
            self._drop(nets[0], data)
            self.done.fill_(due)

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        return None if bool(self.active.all()) else Plan(self.active.nonzero()[:, 0])

    def loss(self, nets: Nets, batch: Batch) -> Step:
        step = super().loss(nets, batch)
        if step.output is not None:
            self.observe(batch.index, step.output)
        return step

    def _drop(self, net: nn.Module, data: Feed) -> None:
        rows = self.active.nonzero()[:, 0]
        training = net.training
        net.eval()
        try:
            gradients = torch.cat(
                [gradient_matrix(net, self.task.losses, x, data.y[part]) for part, x in data.chunks(rows)]
            )
        finally:
            net.train(training)
        far = scores(gradients).sqrt()
        self.active.fill_(False)
        self.active[rows[smallest(far, keep_count(self.estimate.rate / 2, len(rows)))]] = True


def scores(gradients: Tensor) -> Tensor:
    """(N,) squared length of each centred gradient along the direction in which they vary most.

    Shape: (N, D) -> (N,).
    """
    centred = gradients.double() - gradients.double().mean(0)
    # The smaller of the two Gram matrices has the same leading value.
    if centred.shape[0] < centred.shape[1]:
        values, vectors = torch.linalg.eigh(centred @ centred.T)
        return torch.mul(vectors[:, -1].square(), values[-1])
    _, vectors = torch.linalg.eigh(centred.T @ centred)
    return torch.mv(centred, vectors[:, -1]).square()
