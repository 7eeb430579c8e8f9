"""ELR: hold on to what was predicted early, before wrong labels are memorised."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.method import Method
from holdfast.ranks import get_ranks
from holdfast.task import Classification
from holdfast.types import Batch, Nets

CLIP = 1e-4
"""Probabilities enter the memory no nearer to zero or one than this."""


class ELR(Method):
    """Early-learning regularisation: cross entropy, and a pull towards the average of a row's own predictions.

    ``L_i = l_i + s log(1 - <p_i, t_i>)``, with ``t_i <- b t_i + (1 - b) p_i`` at each visit, before the loss and
    without a gradient. A wrong label pulls one way, the memory of what the network had predicted before the other.

    Parameters
    ----------
    strength: s, at least 0: 3 for CIFAR-10 in the paper (1 for asymmetric noise), 7 for CIFAR-100.
    memory: b, in [0, 1]: 0.7 for CIFAR-10 in the paper, 0.9 for asymmetric noise and CIFAR-100.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> losses (B,), which may be negative; the memory is (N, C).

    Differs from the authors' code: probabilities are clipped where they enter the memory, not in the product with it.

    Reference: Liu et al., "Early-Learning Regularization Prevents Memorization of Noisy Labels", NeurIPS 2020.

    >>> ELR(7, memory=0.9)
    ELR(strength=7, memory=0.9)
    """

    name = "elr"
    requires = Classification
    ema: Tensor

    def __init__(self, strength: float = 3.0, memory: float = 0.7) -> None:
        super().__init__()
        check_regulariser(strength, memory)
        self.strength = strength
        self.memory = memory

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.forget(len(data), data.task.outputs, data.device)

    def forget(self, rows: int, classes: int, device: torch.device | str = "cpu") -> None:
        """Begin to remember so many rows."""
        self.register_buffer("ema", torch.zeros(rows, classes, device=device))

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        remember(self.ema, batch.index, output, self.memory)
        return self.task.losses(output, batch.y) + self.strength * early_pull(output, self.ema[batch.index])


def check_regulariser(strength: float, memory: float) -> None:
    """The two settings that ELR and ELR+ share."""
    if strength < 0:
        raise HoldfastError(f"the strength of the regulariser must be at least 0, not {strength:g}")
    if not 0 <= memory <= 1:
        raise HoldfastError(f"memory must lie in [0, 1], not {memory:g}")


@torch.no_grad()
def remember(ema: Tensor, index: Tensor, output: Tensor, memory: float) -> None:
    """Move the EMA probabilities of rows towards what a network predicts, in place and alike in all processes.

    Shape: ema (N, C), index (B,), output (B, C).
    """
    p = output.float().softmax(1).clamp(CLIP, 1 - CLIP)
    rows, p = get_ranks().gather(index), get_ranks().gather(p / p.sum(1, keepdim=True))
    ema[rows] = memory * ema[rows] + (1 - memory) * p


def early_pull(output: Tensor, target: Tensor) -> Tensor:
    """``log(1 - <p_i, t_i>)``: the smaller the nearer the prediction is to the target, which is a constant.

    Shape: output (B, C), target (B, C) -> (B,).
    """
    return torch.log1p(-(output.softmax(1) * target).sum(1))
