"""D2L: trust labels until the features of a network begin to spread into more dimensions."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, evaluate
from holdfast.functional.capture import penultimate
from holdfast.functional.dimension import local_dimension
from holdfast.functional.reduce import weighted_mean
from holdfast.functional.row_randomness import row_uniforms
from holdfast.method import Method
from holdfast.methods.bootstrap import own_losses
from holdfast.nets.copies import move_towards
from holdfast.task import Classification
from holdfast.types import Batch, Nets, Step

ROWS, CHUNK = 1280, 128
"""Random rows of which the dimension is measured, and among how many of them neighbours are looked for."""


class D2L(Method):
    """Dimensionality-driven learning: as wrong labels are memorised, features spread; labels give way then.

    At the start of each epoch the local intrinsic dimension ``D_e`` of the input of the output layer is measured. The
    turning point is where ``D_e`` exceeds the mean of the epochs in a window before it by more than two of their
    standard deviations. The weights of the epoch before are restored then, and from there on

    ``L_i = - sum_c [a y_ic + (1 - a) 1(c = argmax p_i)] log p_ic`` with ``a = exp(-(e / E) D_e / min_j D_j)``

    anew in each epoch e of E. Before the turning point ``a = 1``, which is cross entropy.

    Parameters
    ----------
    start: epochs before the window: 5 for MNIST in the paper, 20 for SVHN, 40 for CIFAR-10, 60 for CIFAR-100.
    window: epochs in the window, at least 2.
    neighbours: k, at least 2.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> losses (B,).

    Attributes
    ----------
    alpha: a, of the last epoch.
    turned: whether the turning point was passed.

    Differs from the paper: the smallest dimension so far includes that of the epoch itself, as in the authors' code.
    Differs from the authors' code: before the turning point the loss is cross entropy, where its current form has SCE.
    As there, a dimension that cannot be measured counts as that of the epoch before.

    Reference: Ma et al., "Dimensionality-Driven Learning with Noisy Labels", ICML 2018.

    >>> D2L(start=20)
    D2L(start=20)
    """

    name = "d2l"
    requires = Classification
    recent: Tensor
    least: Tensor
    alpha: Tensor
    seen: Tensor
    turned: Tensor

    def __init__(self, start: int = 5, window: int = 5, neighbours: int = 20) -> None:
        super().__init__()
        if start < 0 or window < 2 or neighbours < 2:
            raise HoldfastError(
                f"start must be at least 0, window and neighbours at least 2, not {start}, {window} and {neighbours}"
            )
        self.start = start
        self.window = window
        self.neighbours = neighbours

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.register_buffer("recent", torch.zeros(self.window, dtype=torch.float64))
        self.register_buffer("least", torch.full((), torch.inf, dtype=torch.float64))
        self.register_buffer("alpha", torch.ones((), dtype=torch.float64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("turned", torch.zeros((), dtype=torch.bool))
        self.previous = copy.deepcopy(nets[0]).requires_grad_(False)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self.follow(self.measure(nets[0], data, epoch), nets[0], epoch / epochs)

    def follow(self, dimension: float, net: nn.Module, done: float) -> None:
        """Take in the dimension measured when a share ``done`` of training is over."""
        if not (math.isfinite(dimension) and dimension > 0):
            if not self.seen:
                return
            dimension = float(self.recent[-1])
        self.seen += 1
        self.least.fill_(min(float(self.least), dimension))
        if not bool(self.turned):
            if self._rises(dimension):
                self.turned.fill_(True)
                move_towards(net, self.previous, 1.0)
            move_towards(self.previous, net, 1.0)
        if bool(self.turned):
            self.alpha.fill_(math.exp(-done * dimension / float(self.least)))
        self.recent.copy_(self.recent.roll(-1))
        self.recent[-1] = dimension

    def measure(self, net: nn.Module, data: Feed, epoch: int) -> float:
        """The mean local dimension of the features of random rows; NaN where none has one."""
        rows = row_uniforms(len(data), data.generator.initial_seed(), epoch).argsort()[:ROWS]
        with penultimate(net) as caught:
            evaluate(net, (x for _, x in data.chunks(rows)))
        features = torch.cat(caught).flatten(1)
        each = torch.cat([local_dimension(part, self.neighbours) for part in features.split(CHUNK) if len(part) > 1])
        mean = each[each.isfinite()].mean()
        data.ranks.average([mean])  # else rounding might turn one process and not another
        return float(mean)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        output = nets[0](batch.x)
        given, own = self.task.losses(output, batch.y), own_losses(output, "hard")
        alpha = float(self.alpha)
        return Step(
            weighted_mean(alpha * given + (1 - alpha) * own, batch.weight), alpha * batch.weight, output.detach()
        )

    def _rises(self, dimension: float) -> bool:
        if int(self.seen) <= self.start + self.window:
            return False
        return dimension - float(self.recent.mean()) > 2 * float(self.recent.std(correction=0))
