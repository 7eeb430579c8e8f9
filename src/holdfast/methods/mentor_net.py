"""MentorNet: weight the examples of a batch by a curriculum, fixed in advance or learned from reviewed rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, evaluate
from holdfast.functional.reduce import keep_smallest, weighted_mean
from holdfast.functional.row_randomness import row_uniforms
from holdfast.methods.sample_selection import WithNoiseRate
from holdfast.noise_model import Rate
from holdfast.ranks import get_ranks
from holdfast.task import Classification
from holdfast.types import Batch, Nets, Step

LINEAR = 90
"""Per cent of training after which the curriculum set beforehand weighs gradually."""
DROPOUT = (17, 0.5, 0.05)
"""Example dropout: the share that is left out in the first so many per cent of training, and afterwards."""
PERCENTILES = (0.4, 0.5, 0.6, 0.75, 0.8, 0.9)
"""Of the losses, from which the mentor learns distances."""
STEPS, BATCH, DECAYS = 600, 256, 30
"""How the mentor is trained."""


class MentorNet(WithNoiseRate):
    """Each example counts as much as a curriculum lets it: ``L = sum_i v_i l_i / B``, not divided by the sum of ``v``.

    ``v`` depends on how far the loss lies above a bar, ``m <- g m + (1 - g) Q_p(l)``, the moving average of the
    p-percentile of the losses of a batch with ``p = 1 - rate``. In the burn-in ``v_i = 1``. Afterwards, set
    beforehand: ``v_i = 1[l_i <= m]``, and in the last tenth of training ``clip(1 - (l_i - m), 0, 1)``. Learnt: a small
    network maps ``(l_i, l_i - m)`` and the time to ``v_i``. It is trained at the end of the burn-in, on the losses that
    reviewed rows had in it, to tell whether their given label is right, and then frozen.

    Parameters
    ----------
    rate: see ``WithNoiseRate``.
    reviewed: rows of the training set and their true labels, which somebody has reviewed; None takes the curriculum set
        beforehand.
    burn_in: share of training, in [0, 1], in which all examples count alike.
    momentum: g, in [0, 1].
    dropout: leave out half of each batch at random in the first 17 per cent of training, and 5 % afterwards.

    Shapes
    ------
    Outputs (B, C), labels (B,) -> weights (B,) in [0, 1].

    Differs from the authors' code: weight decay is not scaled by the mean weight; the mentor learns from the run that
    it is to weigh, in 600 steps of 256 rows where theirs has 30,000 of 32, and without an embedding of a label that is
    always zero; at least one example of a batch survives the dropout.

    Reference: Jiang et al., "MentorNet: Learning Data-Driven Curriculum for Very Deep Neural Networks on Corrupted
    Labels", ICML 2018.

    >>> MentorNet(0.4, dropout=True)
    MentorNet(rate=0.4, dropout=True)
    """

    name = "mentor-net"
    requires = Classification
    bar: Tensor
    log: Tensor
    taught: Tensor

    def __init__(
        self,
        rate: Rate = "auto",
        *,
        reviewed: tuple[Sequence[int] | Tensor, Sequence[int] | Tensor] | None = None,
        burn_in: float = 0.18,
        momentum: float = 0.5,
        dropout: bool = False,
    ) -> None:
        super().__init__(rate, ramp=0, forwards="one")
        if not (0 <= burn_in <= 1 and 0 <= momentum <= 1):
            raise HoldfastError(f"burn_in and momentum must lie in [0, 1], not {burn_in:g} and {momentum:g}")
        if reviewed is not None and len(reviewed[0]) != len(reviewed[1]):
            raise HoldfastError(f"{len(reviewed[0])} reviewed rows but {len(reviewed[1])} labels; each needs one")
        self.reviewed = reviewed
        self.burn_in = burn_in
        self.momentum = momentum
        self.dropout = dropout
        self._percent = 0

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        self.register_buffer("bar", torch.zeros((), device=data.device))
        self.mentor: Mentor | None = None
        if self.reviewed is not None:
            self._rows, self._right = _review(self.reviewed, data)
            self.register_buffer("log", torch.full((self._burnt() + 1, len(self._rows)), torch.nan, device=data.device))
            self.register_buffer("taught", torch.zeros((), dtype=torch.bool))
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(data.generator.initial_seed())
                self.mentor = Mentor()
            self.mentor.to(data.device).requires_grad_(False)

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        super().before_epoch(nets, data, epoch, epochs)
        self._percent = 100 * epoch // epochs
        if self.dropout:
            self._uniforms = row_uniforms(len(data), data.generator.initial_seed(), epoch).to(data.device)
        if self.mentor is None or bool(self.taught) or epoch == 0:
            return
        self._write(nets[0], data)
        if self._percent > self._burnt():
            teach(self.mentor, self.log, self._right, data.generator.initial_seed())
            self.taught.fill_(True)

    def loss(self, nets: Nets, batch: Batch) -> Step:
        output = nets[0](batch.x)
        losses = self.task.losses(output, batch.y)
        with torch.no_grad():
            ranks = get_ranks()
            index = ranks.gather(batch.index)
            self.observe(batch.index, output.detach())
            percentile = ranks.gather(losses.detach()).float().quantile(1 - self.estimate.rate, interpolation="nearest")
            self.bar.mul_(self.momentum).add_((1 - self.momentum) * percentile)
            weight = self._weigh(losses.detach().float())
            if self.dropout:
                kept = keep_smallest(self._uniforms[index], DROPOUT[1] if self._percent < DROPOUT[0] else DROPOUT[2])
                weight = weight * kept[ranks.share(len(kept))].to(weight)
        return Step(weighted_mean(weight * losses, batch.weight), weight * batch.weight, output.detach())

    def _weigh(self, losses: Tensor) -> Tensor:
        if self._percent <= self._burnt():
            return torch.ones_like(losses)
        excess = losses - self.bar
        if self.mentor is None:
            return curriculum(excess, gradual=self._percent >= LINEAR)
        return torch.sigmoid(self.mentor(losses, excess, torch.full_like(losses, self._burnt()).long()))

    def _burnt(self) -> int:
        """The last per cent of training that belongs to the burn-in; the mentor's clock stops there."""
        return min(99, round(100 * self.burn_in))

    def _write(self, net: nn.Module, data: Feed) -> None:
        """Note the losses of the reviewed rows."""
        output = evaluate(net, (x for _, x in data.chunks(self._rows))).float()
        losses = self.task.losses(output, data.y[self._rows])
        data.ranks.average([losses])  # else rounding might teach each process a mentor of its own
        self.log[min(self._percent, self._burnt())] = losses


def curriculum(excess: Tensor, *, gradual: bool) -> Tensor:
    """The weights of the curriculum set beforehand, from how far losses lie above the bar.

    Shape: (B,) -> (B,).

    >>> curriculum(torch.tensor([-0.8, -0.4, 0.4, 2.0]), gradual=True)
    tensor([1.0000, 1.0000, 0.6000, 0.0000])
    """
    return (1 - excess).clamp(0, 1) if gradual else (excess <= 0).to(excess)


class Mentor(nn.Module):
    """From a loss, its distance from the bar and the time to the logit of a weight.

    The state of an LSTM of one unit in each direction after its only step, which its input and its candidate gate
    alone decide; 20 hidden units. The embedding of the time, one vector a per cent of training, is random and stays so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(2, 2)
        self.candidate = nn.Linear(2, 2)
        self.time = nn.Embedding(100, 5)
        self.hidden = nn.Linear(7, 20)
        self.out = nn.Linear(20, 1)

    def forward(self, losses: Tensor, excess: Tensor, percent: Tensor) -> Tensor:
        """Shape: (B,), (B,), (B,) whole numbers below 100 -> (B,)."""
        x = torch.stack([losses, excess], 1)
        features = torch.cat([self.gate(x).sigmoid() * self.candidate(x).tanh(), self.time(percent)], 1)
        logits: Tensor = self.out(self.hidden(features).tanh())[:, 0]
        return logits


def teach(mentor: Mentor, log: Tensor, right: Tensor, seed: int) -> None:
    """Train a mentor to tell right labels by what was noted of losses, and freeze it.

    Shape: log (E, R) losses by per cent of training, NaN where nothing was noted; right (R,) of zeros and ones.
    """
    noted = (~log.isnan().any(1)).nonzero()[:, 0]
    losses = log[noted]
    quantiles = torch.tensor(PERCENTILES, device=log.device, dtype=log.dtype)
    bars = losses.quantile(quantiles, dim=1, interpolation="nearest")  # (P, E)
    shape = len(quantiles), *losses.shape
    rows = [
        part.expand(shape).flatten()
        for part in (losses, losses - bars[:, :, None], noted[:, None].expand_as(losses), right)
    ]
    source = torch.Generator().manual_seed(seed)
    mentor.requires_grad_(True).time.requires_grad_(False)
    learning = [parameter for parameter in mentor.parameters() if parameter.requires_grad]
    optimizer = Adam(learning, lr=0.1)
    for step in range(STEPS):
        if step and step % (STEPS // DECAYS) == 0:
            optimizer.param_groups[0]["lr"] *= 0.9
        pick = torch.randint(len(rows[0]), (BATCH,), generator=source).to(log.device)
        loss, excess, percent, target = (part[pick] for part in rows)
        wrong = F.binary_cross_entropy_with_logits(mentor(loss, excess, percent), target)
        optimizer.zero_grad()
        wrong.backward()
        clip_grad_norm_(learning, 5.0)
        optimizer.step()
    mentor.requires_grad_(False)


def _review(reviewed: tuple[Any, Any], data: Feed) -> tuple[Tensor, Tensor]:
    """Rows that were reviewed, and one where the label that they were given is right."""
    rows, labels = (torch.as_tensor(part).to(data.device).long() for part in reviewed)
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(data):
        raise HoldfastError(f"reviewed rows must lie in 0 to {len(data) - 1}, as the training set has {len(data)}")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < data.task.outputs:
        raise HoldfastError(f"reviewed labels are numbers of classes, 0 to {data.task.outputs - 1}")
    right = (data.y[rows] == labels).float()
    if not 0 < float(right.sum()) < len(right):
        raise HoldfastError(
            f"of {len(right)} reviewed labels {int(right.sum())} are as given; the mentor learns from right and wrong "
            "ones, so review more rows, or leave reviewed out"
        )
    return rows, right
