"""ELR: hold on to what was predicted early, before wrong labels are learnt by heart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.method import Batch, Method, Nets, Step
from holdfast.ranks import here
from holdfast.task import require_classes

if TYPE_CHECKING:
    from holdfast.feed import Feed

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

    belief: Tensor

    def __init__(self, strength: float = 3.0, memory: float = 0.7) -> None:
        super().__init__()
        check_regulariser(strength, memory)
        self.strength = strength
        self.memory = memory

    def begin(self, nets: Nets, data: Feed) -> None:
        require_classes(data.task, "ELR remembers probabilities of classes")
        super().begin(nets, data)
        self.register_buffer("belief", torch.zeros(len(data), data.task.outputs, device=data.device))

    def loss(self, nets: Nets, batch: Batch) -> Step:
        output = nets[0](batch.x)
        remember(self.belief, batch.index, output, self.memory)
        pull = early_pull(output, self.belief[batch.index])
        losses = self.task.losses(output, batch.y) + self.strength * pull
        return Step(weighted_mean(losses, batch.weight), batch.weight, output.detach())


def check_regulariser(strength: float, memory: float) -> None:
    """The two settings that ELR and ELR+ share."""
    if strength < 0:
        raise HoldfastError(f"the strength of the regulariser must be at least 0, not {strength:g}")
    if not 0 <= memory <= 1:
        raise HoldfastError(f"memory must lie in [0, 1], not {memory:g}")


@torch.no_grad()
def remember(belief: Tensor, index: Tensor, output: Tensor, memory: float) -> None:
    """Move the rows of a memory towards what a network predicts, in place and alike in all processes.

    Shape: belief (N, C), index (B,), output (B, C).
    """
    p = output.float().softmax(1).clamp(CLIP, 1 - CLIP)
    rows, p = here().gather(index), here().gather(p / p.sum(1, keepdim=True))
    belief[rows] = memory * belief[rows] + (1 - memory) * p


def early_pull(output: Tensor, target: Tensor) -> Tensor:
    """``log(1 - <p_i, t_i>)``: the smaller the nearer the prediction is to the target, which is a constant.

    Shape: output (B, C), target (B, C) -> (B,).
    """
    return torch.log1p(-(output.softmax(1) * target).sum(1))
