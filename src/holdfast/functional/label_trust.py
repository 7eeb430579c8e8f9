"""How far a given label can be trusted: Bayes' rule with what a network expects and how labels go wrong.

What a network expects of a row, freed of the noise that it has taken over, is its evidence about the true class; how
labels go wrong is the transition matrix that makes the given labels likeliest. Both are fitted together, without any
true label: the matrix by expectation maximisation, and one number that sharpens or blurs the network's evidence, since
networks are seldom as sure as they should be. Rows = true class, columns = given class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from holdfast.functional.posterior import denoised_posterior

ROUNDS = 30
"""Of expectation maximisation, started from few wrong labels."""
SAMPLE = 20_000
"""Rows on which the sharpness is sought."""
SHARPNESS = (2.3, 5.0)
"""Bounds of the power to which evidence is raised. The likelihood of the given labels cannot find it: soft evidence and
no noise explain them as well as sharp evidence and much noise. From 2.3 on is an assumption: true classes are nearly a
function of the input, so that most of the doubt of a network trained on noisy labels is noise."""
ASSUMED = (0.5, 1.0, 2.0)
"""Evidence may be half as sharp as it is taken to be, or twice: trust is the mean of what follows from each."""
FEWEST = 5
"""A label that fewer rows have is taken as right: no fold knows enough of it to say otherwise."""
JOINED, HALVINGS = (0.5, 10.0), 10
"""Bounds of the power that joined evidence is raised to, and how often they are halved in search of it."""
LISTENED = 0.9
"""A source is heard if it agrees with given labels at least so many times as often as held-out networks do."""
LEAST = 1e-6
STAYS = 0.2
"""The part of a probability that stays where all of it looks like noise taken over: that of classes which resemble each
other looks so too."""
PRIOR = (0.1, 1.0)
"""Rows that each cell of the transition matrix, and each cell of its diagonal, is taken to have had before."""


class Trust(NamedTuple):
    """What the given labels and a network's expectations say together."""

    posterior: Tensor
    """(N, C) probability of each true class."""
    transition: Tensor
    """(C, C) transition matrix: the probability of each given class in each true class."""
    evidence: Tensor
    """(N, C) probability of each true class from the network alone."""

    def right(self, y: Tensor) -> Tensor:
        """(N,) the probability that the given label is right."""
        return self.posterior.gather(1, y[:, None])[:, 0]

    def rival(self, y: Tensor) -> Tensor:
        """(N,) the likeliest class other than the given one."""
        return self.posterior.scatter(1, y[:, None], -1.0).argmax(1)


def label_trust(expected: Tensor, y: Tensor, certain: Tensor | None = None) -> Trust:
    """The probability of each true class, given what a network expects and the label.

    Shape: expected (N, C) probabilities, y (N,), certain (N,) labels that are known to be right.

    >>> expected = torch.tensor([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 30)
    >>> label_trust(expected, torch.tensor([0] * 29 + [1] * 31)).right(torch.tensor([0] * 29 + [1] * 31))[29] < 0.1
    tensor(True)
    """
    return trust_in(_sharpened(expected, y, certain), y, certain)


def _sharpened(expected: Tensor, y: Tensor, certain: Tensor | None = None) -> Tensor:
    """(N, C) evidence about true classes, from what a network that learnt from noisy labels expects."""
    logs, doubtful = _denoised_logs(expected), doubtful_rows(y, certain)
    return (logs * _sharpness(logs[doubtful], y[doubtful])).softmax(1)


def doubtful_rows(y: Tensor, certain: Tensor | None) -> Tensor | slice:
    """The rows by which noise is judged: labels that are certain were given otherwise than all others. All rows where
    none is certain, or all are."""
    return slice(None) if certain is None or bool(certain.all()) else ~certain.to(y.device)


def _sharpness(logs: Tensor, y: Tensor) -> float:
    """The power to which evidence is raised, so that the given labels are likeliest within the bounds."""
    some, given = _sample(logs, y)

    def unlikely(sharpness: float) -> float:
        return -likelihood((some * sharpness).softmax(1), given)

    found = minimize_scalar(unlikely, bounds=SHARPNESS, method="bounded", options={"xatol": 0.02})
    return float(found.x)


def trust_in(evidence: Tensor, y: Tensor, certain: Tensor | None = None) -> Trust:
    """The same from evidence about true classes, whether it is half as sharp as it seems, as sharp, or twice as sharp.

    Shape: evidence (N, C) probabilities of the true classes, y (N,), certain (N,) labels that are known to be right.
    """
    evidence = evidence.double()
    posterior, transition = torch.zeros_like(evidence), evidence.new_zeros(evidence.shape[1], evidence.shape[1])
    for power in ASSUMED:
        part = trust_at(evidence, y, power, certain)
        posterior += part.posterior / len(ASSUMED)
        transition += part.transition / len(ASSUMED)
    rare = torch.bincount(y, minlength=evidence.shape[1])[y] < FEWEST
    posterior[rare] = torch.nn.functional.one_hot(y[rare], evidence.shape[1]).to(posterior)
    return Trust(posterior, transition, evidence)


def trust_at(evidence: Tensor, y: Tensor, power: float = 1.0, certain: Tensor | None = None) -> Trust:
    """The same at one sharpness: evidence raised to a power is taken at its word.

    A certain label is the true class. It has no part in the transition matrix by which others are judged: it was not
    given as they were.

    Shape: evidence (N, C) probabilities of the true classes, y (N,), certain (N,).
    """
    evidence = evidence.double() ** power
    evidence = evidence / evidence.sum(1, keepdim=True)
    doubtful = doubtful_rows(y, certain)
    transition = fit_transition(evidence[doubtful], y[doubtful])
    posterior = bayes(evidence, y, transition)
    if certain is not None:
        own = torch.nn.functional.one_hot(y, evidence.shape[1]).to(evidence)
        posterior = torch.where(certain.to(y.device)[:, None], own, posterior)
    return Trust(posterior, transition, evidence)


def joined_evidence(held_out: Tensor, others: Sequence[Tensor], y: Tensor, certain: Tensor | None = None) -> Tensor:
    """(N, C) evidence of networks that never saw a label, joined with other sources.

    How soon a label is learnt says whether it is right, which a network that never sees it cannot say; but what is
    learnt in the end leans to the given labels, right or wrong. Neighbours in features that were made without labels
    have not learnt the habits of those who gave them. So the mean of all sources decides which labels are likelier
    wrong than others, and is sharpened until as many of them are wrong as the held-out evidence alone has it. A source
    that agrees with the given labels much less often than the held-out evidence knows too little, and is left out.
    Labels that are certain have no say in how many are wrong.

    Shape: held_out (N, C) and each other (N, C) probabilities, y (N,), certain (N,) -> (N, C).
    """
    doubtful = doubtful_rows(y, certain)
    labels = y[doubtful]
    rate = 1 - float(trust_at(_sharpened(held_out, y, certain)[doubtful], labels).right(labels).mean())
    agreement = (held_out.argmax(1) == y).double().mean()
    heard = [other for other in others if (other.argmax(1) == y).double().mean() >= LISTENED * agreement]
    logs = _denoised_logs(torch.stack([each.double() for each in (held_out, *heard)]).mean(0))
    some, given = _sample(logs[doubtful], labels)
    low, high = JOINED
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        found = trust_at((some * middle).softmax(1), given).right(given)
        low, high = (middle, high) if 1 - float(found.mean()) < rate else (low, middle)
    power = float((low * high) ** 0.5)
    return (logs * power).softmax(1)


def further_evidence(further: Tensor, held_out: Tensor, y: Tensor, certain: Tensor | None = None) -> Tensor:
    """(M, C) evidence about further rows, as sharp as held-out evidence is made; their own labels are not asked.

    Shape: further (M, C), held_out (N, C) probabilities, y (N,) the labels of the latter, certain (N,) -> (M, C).
    """
    logs, doubtful = _denoised_logs(torch.cat([held_out, further])), doubtful_rows(y, certain)
    return (logs[len(held_out) :] * _sharpness(logs[: len(held_out)][doubtful], y[doubtful])).softmax(1)


def _denoised_logs(expected: Tensor) -> Tensor:
    """(N, C) logarithms of the probabilities of true classes, freed of the noise that a network has taken over."""
    expected = expected.double().clamp_min(0)
    clean = torch.maximum(denoised_posterior(expected), STAYS * expected)
    return (clean / clean.sum(1, keepdim=True)).clamp_min(LEAST).log()


def _sample(logs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Some rows, enough to fit one number by."""
    chosen = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    return logs[chosen], y[chosen]


def fit_transition(
    evidence: Tensor, y: Tensor, start: Tensor | None = None, weight: Tensor | None = None, rounds: int = ROUNDS
) -> Tensor:
    """The transition matrix under which the given labels are likeliest, by expectation maximisation.

    Shape: evidence (N, C), y (N,), start (C, C), weight (N,) how often each row counts -> (C, C).
    """
    classes = evidence.shape[1]
    own = torch.eye(classes, dtype=evidence.dtype, device=evidence.device)
    transition = 0.7 * own + 0.3 / classes if start is None else start
    for _ in range(rounds):
        posterior = bayes(evidence, y, transition)
        if weight is not None:
            posterior = posterior * weight[:, None]
        transition = transition_of(posterior, y)
    return transition


def transition_of(posterior: Tensor, y: Tensor) -> Tensor:
    """(C, C) how often each label is given to each true class, from the probabilities of the latter.

    Shape: posterior (N, C), or times the weight of each row, y (N,) -> (C, C).
    """
    own = torch.eye(posterior.shape[1], dtype=posterior.dtype, device=posterior.device)
    pairs = torch.zeros_like(own).index_add_(0, y, posterior).T + PRIOR[0] + PRIOR[1] * own
    return pairs / pairs.sum(1, keepdim=True)


def bayes(evidence: Tensor, y: Tensor, transition: Tensor) -> Tensor:
    """(N, C) probability of each true class, in proportion to ``evidence_c transition[c, y]``."""
    # Rows of the transposed matrix, which lie together in memory: columns would cost three times as much.
    joint = evidence * transition.T[y]
    return joint / joint.sum(1, keepdim=True)


def likelihood(evidence: Tensor, y: Tensor) -> float:
    """Mean log probability of the given labels under the matrix that suits them best."""
    transition = fit_transition(evidence, y, rounds=ROUNDS // 2)
    return float((evidence * transition.T[y]).sum(1).log().mean())
