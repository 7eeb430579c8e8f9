"""Noise models: what is believed of the noise in labels, from a network's expectations and the given labels.

One for classes, one for numbers; each follows from the task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import HoldfastError
from holdfast.functional.label_trust import further_evidence, joined_evidence, trust_in
from holdfast.functional.noise_rate import UNSTABLE, label_noise_rate, target_noise_rate
from holdfast.functional.posterior import (
    anchor_rows,
    anchor_transition,
    denoised_posterior,
    label_posterior,
    rival_strength,
)
from holdfast.functional.reduce import check_noise_rate
from holdfast.functional.target_trust import target_trust
from holdfast.kept import Probabilities, largest, mixed, with_class, written_out
from holdfast.task import Classification, Task
from holdfast.types import Evidence

Rate = float | Literal["auto"]
"""A noise rate, or "auto" to have it estimated."""

OPINION = 0.25
"""The part of held-out networks in the targets of a training, beside the posterior."""
STILL_LEARNING, KEPT = (0.05, 0.13), 0.5
"""Parts of their knowledge that held-out networks learn late from which on given labels are kept in those targets, and
from which on so large a share of them is."""
PROBE = 5
"""The last epoch before which an automatic rate is estimated anew."""


class RateEstimate(NamedTuple):
    """A noise rate and the interval it is thought to lie in."""

    rate: float
    low: float
    high: float


class NoiseModel(ABC):
    """What expectations (N, q) of a network and given labels say about the noise."""

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs

    @abstractmethod
    def agrees(self, expected: Probabilities, y: Tensor) -> Tensor:
        """(N,) whether the given label is the one that the network would give."""

    @abstractmethod
    def denoise(self, expected: Tensor) -> Tensor:
        """(N, q) the true label as the network has it, freed of the noise that its outputs have taken over."""

    @abstractmethod
    def transition_matrix(self, expected: Tensor, y: Tensor) -> Tensor:
        """(q, q) how often each label is given to each true class."""

    @abstractmethod
    def label_probability(self, denoised: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        """(N,) the probability that the given label is right."""

    @abstractmethod
    def posterior(self, denoised: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        """(N, q) the true label by expectation and given label together."""

    @abstractmethod
    def rival_strength(self, expected: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        """(N, 1) how plausible the best rival of each label is: 0 for none, 1 for one that is given it as often."""

    @abstractmethod
    def stability(self, before: Tensor, now: Tensor) -> float:
        """The share of predictions that stayed, from expectations before and now: at most 1."""

    @abstractmethod
    def noise_rate(self, expected: Tensor, y: Tensor, stability: float = 1.0) -> RateEstimate:
        """The noise rate by the expectations of a network of this prediction stability."""

    @abstractmethod
    def held_out_loss(self, losses: Tensor) -> float:
        """How well held-out rows are predicted, from the loss of each against its given label, whatever the noise."""

    @abstractmethod
    def join(
        self,
        held_out: Probabilities,
        learning: Probabilities,
        votes: Probabilities | None,
        y: Tensor,
        certain: Tensor | None = None,
    ) -> Probabilities:
        """(N, q) evidence about true labels: from networks that never saw those given, from networks that did, and from
        the labels of neighbours where there are any. ``certain`` (N,) marks labels that are known to be right."""

    @abstractmethod
    def further(
        self, further: Probabilities, held_out: Probabilities, y: Tensor, certain: Tensor | None = None
    ) -> Probabilities:
        """(M, q) evidence about true labels of further rows, of no label of theirs, beside that of rows with labels."""

    @abstractmethod
    def refined(
        self, evidence: Evidence, y: Tensor, certain: Tensor | None = None, own: Probabilities | None = None
    ) -> Probabilities:
        """(N, q) what to train each row towards, by its label and the evidence about it; a label that is certain is.
        ``own`` (N, q) is what the network in training expects by now, if that is to be heard too."""

    @abstractmethod
    def still_learning(self, before: float, now: float, stability: float) -> bool:
        """Whether a new estimate of the noise rate is better than the last, by the upper bounds of both."""

    def improve(self, interval: Tensor, expected: Tensor, y: Tensor, stability: float) -> bool:
        """Take a new estimate into (3,) rate, low and high; False once it is no better."""
        found = self.noise_rate(expected, y, stability)
        before = float(interval[2])
        better = before == 0 or self.still_learning(before, found.high, stability)
        if better:
            interval.copy_(torch.tensor(found))
        return better


class LabelNoise(NoiseModel):
    """Noise in classes."""

    def agrees(self, expected: Probabilities, y: Tensor) -> Tensor:
        return largest(expected) == y

    def denoise(self, expected: Tensor) -> Tensor:
        return denoised_posterior(expected)

    def transition_matrix(self, expected: Tensor, y: Tensor) -> Tensor:
        return anchor_transition(expected, y)

    def label_probability(self, denoised: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        return label_posterior(denoised, y, transition).gather(1, y[:, None])[:, 0]

    def posterior(self, denoised: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        return label_posterior(denoised, y, transition)

    def rival_strength(self, expected: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        anchors = torch.tensor([len(rows) for rows in anchor_rows(expected)], device=transition.device)
        return rival_strength(transition, anchors)[y, None]

    def stability(self, before: Tensor, now: Tensor) -> float:
        return float((before.argmax(1) == now.argmax(1)).double().mean())

    def noise_rate(self, expected: Tensor, y: Tensor, stability: float = 1.0) -> RateEstimate:
        return RateEstimate(*label_noise_rate(expected, y, stability))

    def held_out_loss(self, losses: Tensor) -> float:
        return float(losses.mean())

    def join(
        self,
        held_out: Probabilities,
        learning: Probabilities,
        votes: Probabilities | None,
        y: Tensor,
        certain: Tensor | None = None,
    ) -> Probabilities:
        sources = [source.cpu() for source in (learning, votes) if source is not None]
        return joined_evidence(held_out.cpu(), sources, y.cpu(), _cpu(certain)).to(held_out.device)

    def further(
        self, further: Probabilities, held_out: Probabilities, y: Tensor, certain: Tensor | None = None
    ) -> Probabilities:
        return further_evidence(further.cpu(), held_out.cpu(), y.cpu(), _cpu(certain)).to(held_out.device)

    def refined(
        self, evidence: Evidence, y: Tensor, certain: Tensor | None = None, own: Probabilities | None = None
    ) -> Probabilities:
        """The posterior, and a part of what networks expect, which smooths the posterior's mistakes: else they are
        memorised in a long training. Held-out networks and the one in training share that part, once this is heard.
        Where held-out networks were still learning when they had to end, they know less than the one that trains on: it
        is heard in their place, and the given labels keep a part, of which half is left then."""
        joined, opinion = evidence.joined, evidence.held_out
        unfinished = 0.0 if evidence.unfinished is None else float(evidence.unfinished)
        kept = float(np.interp(unfinished, STILL_LEARNING, (0.0, KEPT)))
        if own is not None and evidence.finished:
            joined, opinion = self.join(opinion, own, None, y, certain), mixed(opinion, own, 0.5)
        elif own is not None:
            joined, opinion, kept = self.join(own, opinion, None, y, certain), own, kept / 2
        posterior = trust_in(joined.cpu(), y.cpu(), _cpu(certain)).posterior.to(opinion.device)
        target = with_class(mixed(posterior, opinion, OPINION), y, torch.ones_like(y).bool(), kept)
        return target if certain is None else with_class(target, y, certain)

    def still_learning(self, before: float, now: float, stability: float) -> bool:
        """While the share of labels it disagrees with falls fast, or most of its predictions change, a network learns
        what is common to many labels and does not yet memorise single wrong ones."""
        return before - now >= 0.025 or stability < UNSTABLE


class TargetNoise(NoiseModel):
    """Noise in numbers: there is no transition matrix, and what the network expects is all that is known."""

    def agrees(self, expected: Probabilities, y: Tensor) -> Tensor:
        """Within three robust standard deviations, taken from the median residual norm."""
        size = (written_out(expected) - y).norm(dim=1)
        usual: Tensor = size <= 3 * 1.4826 * size.median()
        return usual

    def denoise(self, expected: Tensor) -> Tensor:
        return expected

    def transition_matrix(self, expected: Tensor, y: Tensor) -> Tensor:
        return torch.eye(self.outputs, device=y.device)

    def label_probability(self, denoised: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        """One where they agree, else zero."""
        return self.agrees(denoised, y).float()

    def posterior(self, denoised: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        return denoised

    def rival_strength(self, expected: Tensor, y: Tensor, transition: Tensor) -> Tensor:
        return torch.zeros(len(y), 1, device=y.device)

    def stability(self, before: Tensor, now: Tensor) -> float:
        """Always 1: a target that lies far from all others is left out however weak the network still is."""
        return 1.0

    def noise_rate(self, expected: Tensor, y: Tensor, stability: float = 1.0) -> RateEstimate:
        return RateEstimate(*target_noise_rate(expected, y))

    def held_out_loss(self, losses: Tensor) -> float:
        """The median: the loss of a wrong target has no bound."""
        return float(losses.median())

    def join(
        self,
        held_out: Probabilities,
        learning: Probabilities,
        votes: Probabilities | None,
        y: Tensor,
        certain: Tensor | None = None,
    ) -> Probabilities:
        return held_out

    def further(
        self, further: Probabilities, held_out: Probabilities, y: Tensor, certain: Tensor | None = None
    ) -> Probabilities:
        return further

    def refined(
        self, evidence: Evidence, y: Tensor, certain: Tensor | None = None, own: Probabilities | None = None
    ) -> Tensor:
        """The evidence in place of targets that are likelier wrong than right, whatever the network in training says:
        it fits its targets sooner than anything else."""
        joined = written_out(evidence.joined)
        right = target_trust(joined.cpu(), y.cpu(), _cpu(certain)).right.to(y.device) >= 0.5
        return torch.where(right[:, None], y, joined)

    def still_learning(self, before: float, now: float, stability: float) -> bool:
        """Always: the better the fit, the farther off the wrong targets lie."""
        return True


def noise_model(task: Task) -> NoiseModel:
    """The noise model that a task calls for."""
    return LabelNoise(task.outputs) if isinstance(task, Classification) else TargetNoise(task.outputs)


def _cpu(marks: Tensor | None) -> Tensor | None:
    return None if marks is None else marks.cpu()


def check_rate(rate: Rate) -> None:
    """A noise rate that a user has passed."""
    if not isinstance(rate, str):
        check_noise_rate(rate)
    elif rate != "auto":
        raise HoldfastError(f'a noise rate is a number in [0, 1) or "auto", not {rate!r}')
