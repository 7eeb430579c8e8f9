"""GCE: a loss between cross entropy and absolute error, and its truncated form."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.feed import Feed
from holdfast.functional.reduce import weighted_mean
from holdfast.method import Method
from holdfast.task import Classification
from holdfast.types import Batch, Nets, Plan, Step


class GCE(Method):
    """Generalised cross entropy: examples that the network finds unlikely pull at it less.

    ``L_q = (1 - p_y^q) / q``, whose gradient is ``p_y^q`` times that of cross entropy: q = 0 is cross entropy, q = 1
    half the absolute error. Truncated: ``L_q(k)``, a constant without a gradient, in place of ``L_q`` for rows with
    ``p_y <= k``. These are looked up anew only from time to time, so that a row that was pruned can come back.

    Parameters
    ----------
    q: in [0, 1].
    truncate: k, in (0, 1), 0.5 in the paper; None prunes nothing.
    start: the epoch before which nothing is pruned, counted from 0.
    every: epochs between one pruning and the next, at least 1.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> losses (B,).

    Differs from the paper: rows are pruned by the network as it is, not by the best one so far, a choice that needs
    validation rows; while no row lies above k all of them stay, since a network that is left without rows never
    changes again.

    Reference: Zhang and Sabuncu, "Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels",
    NeurIPS 2018.

    >>> GCE(truncate=0.5, start=10)
    GCE(truncate=0.5, start=10)
    """

    name = "gce"
    requires = Classification
    kept: Tensor

    def __init__(self, q: float = 0.7, truncate: float | None = None, start: int = 40, every: int = 10) -> None:
        super().__init__()
        if not 0 <= q <= 1:
            raise HoldfastError(f"q must lie in [0, 1], not {q:g}")
        if truncate is not None and not 0 < truncate < 1:
            raise HoldfastError(f"truncate is a probability in (0, 1) or None, not {truncate:g}")
        if start < 0 or every < 1:
            raise HoldfastError(f"start must be at least 0 and every at least 1, not {start} and {every}")
        self.q = q
        self.truncate = truncate
        self.start = start
        self.every = every
        self._epoch = 0

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.register_buffer("kept", torch.ones(len(data), dtype=torch.bool, device=data.device))

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        if self.truncate is not None and self.start >= epochs:
            raise HoldfastError(
                f"GCE would prune from epoch {self.start} on, and training ends after {epochs}; pass a smaller start"
            )
        self._epoch = epoch

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        since = self._epoch - self.start
        if self.truncate is None or since < 0 or since % self.every:
            return None
        output = data.outputs(nets[0])
        above = self.task.losses(output, data.y) < -math.log(self.truncate)
        self.kept.copy_(above if bool(above.any()) else torch.ones_like(above))
        return Plan(torch.arange(len(data), device=data.device), output=output)

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        return self._generalised(self.task.losses(output, batch.y))

    def loss(self, nets: Nets, batch: Batch) -> Step:
        output = nets[0](batch.x)
        losses, trust = self.losses(output, batch), batch.weight
        if self.truncate is not None:
            kept = self.kept[batch.index]
            flat = self._generalised(losses.new_tensor(-math.log(self.truncate)))
            losses, trust = torch.where(kept, losses, flat), trust * kept
        return Step(weighted_mean(losses, batch.weight), trust, output.detach())

    def _generalised(self, losses: Tensor) -> Tensor:
        """``L_q`` from cross entropies: ``p_y^q = exp(-q l)``."""
        return losses if self.q == 0 else -torch.expm1(-self.q * losses) / self.q
