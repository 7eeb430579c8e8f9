"""Self-labelling refinery: given labels refined by the network's own prediction for another view."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.reduce import weighted_mean
from holdfast.methods.training_progress import WithProgress
from holdfast.types import Batch, Nets, Step


class SelfLabelRefinery(WithProgress):
    """Train towards ``(1 - alpha_t) y_i + alpha_t f(x~_i)``, where ``x~`` is another view of the example.

    The label refinery of SANE (equation 5 with beta = 0) on given labels, the setting that its Theorem 2 analyses:
    where few labels are wrong and views of one example are close, refined labels recover all true ones. The trust
    ``alpha_t`` rises along half a cosine, as nothing can be refined by a network that has learnt nothing. For classes
    ``f`` is a probability, for targets a value; no gradient flows through it.

    Parameters
    ----------
    trust: the last value of alpha, in [0, 1].
    ramp: the share of the training over which it rises, in [0, 1]; 0 has it from the start.

    Shapes
    ------
    Two views (B, ...), labels (B,) or (B, q) -> losses (B,).

    Differs from the paper, which has scalar labels, squared loss and full batches in its analysis: any task, any batch.
    Without augmentation both views are the input itself.

    Reference: Zhou et al., "A Theory-Driven Self-Labeling Refinement Method for Contrastive Representation Learning",
    NeurIPS 2021, section 3.1.

    >>> SelfLabelRefinery(0.9)
    SelfLabelRefinery(trust=0.9)
    """

    name = "self-label-refinery"
    views = 2

    def __init__(self, trust: float = 0.7, *, ramp: float = 0.5) -> None:
        super().__init__()
        if not 0 <= trust <= 1 or not 0 <= ramp <= 1:
            raise HoldfastError(f"trust and ramp must lie in [0, 1], not {trust:g} and {ramp:g}")
        self.trust = trust
        self.ramp = ramp

    def loss(self, nets: Nets, batch: Batch) -> Step:
        x, other = batch.x
        output = nets[0](x)
        alpha = trust_at(self.share, self.trust, self.ramp)
        # Labels as they were given, where nothing is refined: the same to the last bit as ordinary training.
        target = self.refined(nets, other, batch.y, alpha) if alpha > 0 else batch.y
        losses = self.task.losses(output, target)
        return Step(weighted_mean(losses, batch.weight), batch.weight, output.detach())

    @torch.no_grad()
    def refined(self, nets: Nets, x: Tensor, y: Tensor, alpha: float) -> Tensor:
        """(B, q) labels and what the network expects of a view of their examples, by a share of trust."""
        return torch.lerp(self.task.encode(y), self.task.expected(nets[0](x)), alpha)


def trust_at(share: float, trust: float, ramp: float) -> float:
    """``alpha_t``: half a cosine from 0 to ``trust`` over the share ``ramp`` of the training.

    >>> round(trust_at(0.25, 0.8, 0.5), 6), trust_at(0.7, 0.8, 0.5)
    (0.4, 0.8)
    """
    done = 1.0 if ramp == 0 else min(1.0, share / ramp)
    return trust * (1 - math.cos(math.pi * done)) / 2
