"""EMA refinement: keep the labels that agree with averaged predictions, and refine the others by these."""

from __future__ import annotations

import copy
from enum import Enum, auto

import torch
from torch import Tensor, nn

from holdfast.errors import HoldfastError
from holdfast.feed import Feed, withheld_rows
from holdfast.functional.memorisation import memorised_fraction
from holdfast.method import Method
from holdfast.nets.copies import move_towards
from holdfast.noise_model import noise_model
from holdfast.ranks import get_ranks
from holdfast.types import Batch, Nets, Plan, Step

SURE = 0.8
"""The probability of being right that lets in a label with which the network disagrees."""
STABLE = (0.85, 0.92)
"""Prediction stability up to which a network is still learning, and from which on it has learnt what it can."""
PROBE = (0.05, 500)
"""Share of the rows, and their number at most, that are withheld while a network is learning."""
MEMORISED = 0.25
"""Memorised fraction of the fitted labels from which on a network is not let learn further labels as given."""


class Phase(Enum):
    """Where a training stands."""

    WARM_UP = auto()
    """The first epochs: ordinary training."""
    LEARNING = auto()
    """Predictions still change: labels stay, but for those with a likely rival, and a few rows are withheld."""
    REFINING = auto()
    """Predictions are stable, or labels are being memorised: labels that are not likely are refined."""


class EMARefinement(Method):
    """Train likely labels as given and all others towards the EMA of the network's predictions.

    In each epoch the predictions for all rows enter an EMA. A label is likely where it agrees with that, or is right
    with a probability of at least 0.8 by Bayes' rule with a transition matrix read off the most confident rows. There
    are three phases, see ``Phase``; between the stability of 0.85 and 0.92 targets pass over from those of learning to
    those of refining.

    Parameters
    ----------
    memory: how much of the EMA probabilities stays from epoch to epoch once predictions are stable, in [0, 1); before
        it is half as much.
    average: over how many epochs the weights of the predicting network are averaged; 0 does not.
    warmup: epochs of ordinary training first.

    Shapes
    ------
    EMA probabilities (N, q), labels (N,) or (N, q) -> targets (N, q).

    Attributes
    ----------
    likely: (N,) labels that are trained as given.

    Not from a paper; it is not given the noise rate. docs/experiments/ema-refinement.md says what was tried.

    >>> EMARefinement(memory=0.8)
    EMARefinement(memory=0.8)
    """

    name = "ema-refinement"
    ema: Tensor
    ema_norm: Tensor
    likely: Tensor
    steps: Tensor
    stability: Tensor
    counted: Tensor
    transition: Tensor
    probe: Tensor
    memorising: Tensor

    def __init__(self, *, memory: float = 0.9, average: float = 2.0, warmup: int = 2) -> None:
        super().__init__()
        if not 0 <= memory < 1:
            raise HoldfastError(f"memory must lie in [0, 1), not {memory:g}")
        if warmup < 0 or average < 0:
            raise HoldfastError(f"warmup and average must be at least 0, not {warmup} and {average:g}")
        self.memory = memory
        self.average = average
        self.warmup = warmup
        self._epoch = 0

    def begin(self, nets: Nets, data: Feed) -> None:
        super().begin(nets, data)
        n, q, device = len(data), data.task.outputs, data.device
        self._model = noise_model(data.task)
        self.register_buffer("ema", torch.zeros(n, q, device=device))
        self.register_buffer("ema_norm", torch.zeros((), device=device))
        self.register_buffer("likely", torch.ones(n, dtype=torch.bool, device=device))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("transition", torch.zeros(q, q, device=device))
        self.register_buffer("stability", torch.zeros(()))
        self.register_buffer("counted", torch.zeros(2, dtype=torch.float64))
        share, most = PROBE
        self.register_buffer("probe", withheld_rows(min(most, int(share * n)), data))
        self.register_buffer("memorising", torch.zeros((), dtype=torch.bool))
        self.averaged = copy.deepcopy(nets[0]).requires_grad_(False) if self.average else None
        self._horizon = self.average * data.steps()

    def before_epoch(self, nets: Nets, data: Feed, epoch: int, epochs: int) -> None:
        self._epoch = epoch
        stayed, seen = self.counted.tolist()
        if seen:
            self.stability.fill_(stayed / seen)
        self.counted.zero_()

    @property
    def phase(self) -> Phase:
        """Of the epoch that has begun."""
        if self._epoch < self.warmup:
            return Phase.WARM_UP
        return Phase.LEARNING if self._refining() == 0 else Phase.REFINING

    def plan(self, nets: Nets, data: Feed) -> Plan | None:
        if self._epoch == 0:
            return None
        output = data.outputs(self.predictor(nets))
        expected = self.task.expected(output)
        if self._epoch > self.warmup and self.phase is Phase.LEARNING and bool(self.probe.any()):
            fits = self._model.agrees(expected, data.y)
            self.memorising.fill_(memorised_fraction(fits[~self.probe], fits[self.probe]) > MEMORISED)
        self._remember(expected)
        rows = torch.arange(len(data), device=data.device)
        if self.phase is Phase.WARM_UP:
            return Plan(rows, output=output)
        self._judge_labels(data.y)
        plan = Plan(rows, torch.ones(len(data), device=data.device), target=self._targets(data.y), output=output)
        return plan.without(self.probe) if self.phase is Phase.LEARNING else plan

    def loss(self, nets: Nets, batch: Batch) -> Step:
        step = super().loss(nets, batch)
        if self.ema_norm > 0 and step.output is not None:
            stability = self._model.stability(self.ema[batch.index], self.task.expected(step.output))
            count = len(batch.index)
            self.counted += get_ranks().total(torch.tensor([stability * count, count], dtype=torch.float64))
        return step

    def after_step(self, nets: Nets) -> None:
        if self.averaged is None:
            return
        self.steps += 1
        # The horizon grows with the steps done, so that the start is forgotten soon.
        horizon = min(self._horizon, (10 + float(self.steps)) / 9)
        move_towards(self.averaged, nets[0], 1 / max(1.0, horizon))

    def predictor(self, nets: Nets) -> nn.Module:
        return nets[0] if self.averaged is None else self.averaged

    def expected(self) -> Tensor:
        """(N, q) the EMA of the predictions for each training row."""
        return self.ema / self.ema_norm

    def _refining(self) -> float:
        """How far targets are those of refining: 0 while the network is learning, 1 once its predictions are stable or
        it memorises labels."""
        if bool(self.memorising):
            return 1.0
        low, high = STABLE
        return min(1.0, max(0.0, (float(self.stability) - low) / (high - low)))

    def _remember(self, expected: Tensor) -> None:
        memory = self.memory * (1 + self._refining()) / 2
        self.ema.mul_(memory).add_(expected, alpha=1 - memory)
        self.ema_norm.mul_(memory).add_(1 - memory)

    def _judge_labels(self, y: Tensor) -> None:
        """Which labels are likely; the transition matrix is read off only while nothing has been refined."""
        expected, model = self.expected(), self._model
        if not self.transition.any() or self.phase is Phase.LEARNING:
            self.transition.copy_(model.transition_matrix(expected, y))
        right = model.label_probability(model.denoise(expected), y, self.transition)
        self.likely.copy_(model.agrees(expected, y) | (right >= SURE))

    def _targets(self, y: Tensor) -> Tensor:
        """(N, q) what each row is trained towards.

        Where predictions are stable, more of a label that they disagree with would only be memorised: the EMA replaces
        labels that are not likely. While the network is learning that would teach it nothing but what it knows: labels
        stay, and only where one is often given to another class the posterior has part in it.
        """
        expected, given, model = self.expected(), self.task.encode(y), self._model
        posterior = model.posterior(model.denoise(expected), y, self.transition)
        learning = torch.lerp(given, posterior, model.rival_strength(expected, y, self.transition))
        refining = torch.where(self.likely[:, None], given, expected)
        return torch.lerp(learning, refining, self._refining())
