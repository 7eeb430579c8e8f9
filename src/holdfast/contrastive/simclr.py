"""SimCLR: each view must find the other view of its example in the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.contrastive.base import Contrastive, mean_of_all, unit, with_others
from holdfast.contrastive.moco import check_temperature
from holdfast.types import Batch, Nets, Step


class SimCLR(Contrastive):
    """Normalised temperature-scaled cross entropy (NT-Xent) over the 2B views of a batch.

    ``L_i = -log(exp(z_i z_j / tau) / sum_{k != i} exp(z_i z_k / tau))``, j the other view of the same example; no
    second network, no queue. In several processes the batch is that of all.

    Parameters
    ----------
    temperature: tau, positive; 0.5 for CIFAR-10.

    Shapes
    ------
    Two views (B, ...) -> embeddings (2B, h) -> losses (2B,).

    Differs from the authors' code: SGD of the loop in place of LARS; the three-layer head of SANE.

    Reference: Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020.

    >>> SimCLR(0.2)
    SimCLR(temperature=0.2)
    """

    name = "simclr"

    def __init__(self, temperature: float = 0.5) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature = temperature

    def loss(self, nets: Nets, batch: Batch) -> Step:
        z = torch.cat([with_others(unit(nets[0](x))) for x in batch.x])
        losses = nt_xent(z, self.temperature)
        return Step(mean_of_all(losses, with_others(batch.weight).repeat(2)), batch.weight)


def nt_xent(z: Tensor, temperature: float) -> Tensor:
    """The loss of each view; row i and row i + B are views of one example.

    Shape: (2B, h), of length one -> (2B,).
    """
    logits = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
    other = torch.arange(len(z), device=z.device).roll(len(z) // 2)
    return torch.nn.functional.cross_entropy(logits, other, reduction="none")
