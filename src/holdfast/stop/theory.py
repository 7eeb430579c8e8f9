"""TheoryStop: stop when Theorem 2.2 says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.method import Epoch, Nets, Verdict
from holdfast.methods.rated import Rate
from holdfast.methods.staged import held_rows
from holdfast.stop.share import WrongShare
from holdfast.task import require_classes
from holdfast.theory.covariance import class_directions, relu_slopes, separation

if TYPE_CHECKING:
    from holdfast.feed import Feed


SAMPLE = 10_000
"""Rows whose mean directions stand for the centres of the classes."""


class TheoryStop(WrongShare):
    """Stop when the learning rates of all steps add up to ``c K log(sqrt(n log K) / rho) / (lambda ||x||^2)``.

    The theorem is about gradient descent on one hidden layer and inputs in tight clusters. Here each class is a
    cluster, its centre the mean direction of its rows by their given labels, lambda the smallest eigenvalue of their
    covariance Sigma(C) for ReLU, and a step of rate r on the mean loss is r long on the clock of gradient flow. Real
    data are wider than the theorem allows and constants are not known, so take it as a yardstick: a training with Adam
    or a small rate never comes to that time, and says so in the history (``clock``, the share of it that has passed).

    Parameters
    ----------
    rate: rho, the share of wrong labels, or "auto": estimated from the outputs of the first epochs.
    constant: c.

    Reference: Li, Soltanolkotabi and Oymak, AISTATS 2020, Theorems 2.2 and 6.13.
    """

    stiffness: Tensor

    def __init__(self, rate: Rate = "auto", *, constant: float = 1.0) -> None:
        super().__init__(rate)
        if not constant > 0:
            raise HoldfastError(f"the constant of a stopping time must be positive, not {constant:g}")
        self.constant = constant

    def begin(self, nets: Nets, data: Feed) -> None:
        require_classes(data.task, "TheoryStop takes each class for a cluster")
        super().begin(nets, data)
        least, size = class_separation(data)
        self.register_buffer("stiffness", torch.tensor(least * size, dtype=torch.float64))

    def judge(self, epoch: Epoch) -> Verdict:
        classes, n = self.task.outputs, len(epoch.data)
        wrong = max(self.wrong(epoch), 1 / n)
        needed = self.constant * classes * math.log(math.sqrt(n * math.log(max(2, classes))) / wrong)
        share = epoch.time * float(self.stiffness) / needed
        stop = "" if share < 1 else f"the time of Theorem 2.2 is over ({share:.3g} of it): the last epoch is kept"
        return Verdict(best=True, stop=stop, measured={"clock": share})


def class_separation(data: Feed) -> tuple[float, float]:
    """lambda of the mean directions of the classes by given labels, and the mean squared length of an input; of at
    most some thousand rows."""
    rows = held_rows(SAMPLE, data).nonzero()[:, 0]
    x = torch.cat([part.flatten(1).cpu() for _, part in data.chunks(rows)])
    centre = class_directions(x, data.y[rows].cpu(), data.task.outputs)
    return max(0.0, separation(centre, relu_slopes).least), float(x.double().square().sum(1).mean())
