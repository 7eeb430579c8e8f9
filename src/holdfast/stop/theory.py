"""TheoryStop: stop when Theorem 2.2 says so."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, random_rows
from holdfast.noise_model import Rate
from holdfast.stop.noise_rate import NoiseRateRule
from holdfast.theory.covariance import class_directions, relu_slopes, separation
from holdfast.types import Epoch, Verdict

SAMPLE = 10_000
"""Rows whose mean directions stand for the centres of the classes."""


class TheoryStop(NoiseRateRule):
    """Stop when the learning rates of all steps add up to ``c K log(sqrt(n log K) / rho) / (lambda ||x||^2)``.

    The theorem is about gradient descent on one hidden layer and inputs in tight clusters. Here each class is a
    cluster, its centre the mean direction of its rows by their given labels, lambda the smallest eigenvalue of their
    covariance Sigma(C) for ReLU, and a step of rate r on the mean loss is r long on the clock of gradient flow. Real
    data are wider than the theorem allows and constants are not known, so take it as a yardstick: a training with Adam
    or a small rate never comes to that time, and says so in the history (``clock``, the share of it that has passed).

    Parameters
    ----------
    rate: rho, the noise rate, or "auto": estimated from the outputs of the first epochs.
    constant: c.

    Reference: Li, Soltanolkotabi and Oymak, AISTATS 2020, Theorems 2.2 and 6.13.
    """

    name = "theory"
    stiffness: Tensor

    def __init__(self, rate: Rate = "auto", *, constant: float = 1.0) -> None:
        super().__init__(rate)
        if not constant > 0:
            raise HoldfastError(f"the constant of a stopping time must be positive, not {constant:g}")
        self.constant = constant

    def begin(self, data: Feed) -> None:
        super().begin(data)
        least, size = class_separation(data)
        self.register_buffer("stiffness", torch.tensor(least * size, dtype=torch.float64))

    def judge(self, epoch: Epoch, net: nn.Module, data: Feed) -> Verdict:
        classes, n = self.task.outputs, len(data)
        wrong = max(self.noise_rate(epoch, net, data), 1 / n)
        needed = self.constant * classes * math.log(math.sqrt(n * math.log(max(2, classes))) / wrong)
        share = epoch.time * float(self.stiffness) / needed
        stop = "" if share < 1 else f"the time of Theorem 2.2 is over ({share:.3g} of it): the last epoch is kept"
        return Verdict(best=True, stop=stop, measured={"clock": share})


def class_separation(data: Feed) -> tuple[float, float]:
    """lambda of the mean directions of the classes by given labels, and the mean squared length of an input; of at
    most some thousand rows."""
    rows = random_rows(SAMPLE, data).nonzero()[:, 0]
    x = torch.cat([part.flatten(1).cpu() for _, part in data.chunks(rows)])
    centre = class_directions(x, data.y[rows].cpu(), data.task.outputs)
    return max(0.0, separation(centre, relu_slopes).least), float(x.double().square().sum(1).mean())
