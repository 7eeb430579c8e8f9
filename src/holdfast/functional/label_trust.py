"""How far a given label can be trusted: Bayes' rule with what a network expects and how labels go wrong.

What a network expects of a row, freed of the noise that it has taken over, is its evidence about the true class; how
labels go wrong is the transition matrix that makes the given labels likeliest. Both are fitted together, without any
true label: the matrix by expectation maximisation, and one number that sharpens or blurs the network's evidence, since
networks are seldom as sure as they should be. Rows = true class, columns = given class. Of many classes only those that
matter for a row are kept (``holdfast.kept``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from holdfast.functional.few import blocks_of, denoised, few
from holdfast.functional.flips import ROUNDS, cells_of
from holdfast.functional.posterior import noise_removal, without_noise
from holdfast.kept import Kept, Probabilities, largest, of_labels, rows_of, together, with_class

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


class Trust(NamedTuple):
    """What the given labels and a network's expectations say together."""

    posterior: Probabilities
    """(N, C) probability of each true class."""
    transition: Tensor
    """(C, C) transition matrix: the probability of each given class in each true class. Of many classes it is sparse,
    with the pairs that occur."""
    evidence: Probabilities
    """(N, C) probability of each true class from the network alone."""
    tables: tuple[tuple[float, Tensor], ...]
    """Each power to which the evidence was raised, and the table that was fitted to it (``functional/flips.py``)."""

    def right(self, y: Tensor) -> Tensor:
        """(N,) the probability that the given label is right."""
        return of_labels(self.posterior, y)

    def rival(self, y: Tensor) -> Tensor:
        """(N,) the likeliest class other than the given one."""
        if isinstance(self.posterior, Kept):
            others = torch.where(self.posterior.number == y[:, None], -1.0, self.posterior.value)
            found = self.posterior.with_values(others).largest()
            # Where no other class is kept, any other is as likely.
            return torch.where(found == y, (y + 1) % self.posterior.classes, found)
        return self.posterior.scatter(1, y[:, None], -1.0).argmax(1)


def label_trust(expected: Probabilities, y: Tensor, certain: Tensor | None = None) -> Trust:
    """The probability of each true class, given what a network expects and the label.

    Shape: expected (N, C) probabilities, y (N,), certain (N,) labels that are known to be right.

    >>> expected = torch.tensor([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 30)
    >>> label_trust(expected, torch.tensor([0] * 29 + [1] * 31)).right(torch.tensor([0] * 29 + [1] * 31))[29] < 0.1
    tensor(True)
    """
    return trust_in(_sharpened(expected, y, certain), y, certain)


def _sharpened(expected: Probabilities, y: Tensor, certain: Tensor | None = None) -> Probabilities:
    """(N, C) evidence about true classes, from what a network that learnt from noisy labels expects."""
    logs, doubtful = _denoised_logs(few(expected, y)), doubtful_rows(y, certain)
    return _evidence_in_place(logs, _sharpness(rows_of(logs, doubtful), y[doubtful]))


def doubtful_rows(y: Tensor, certain: Tensor | None) -> Tensor | slice:
    """The rows by which noise is judged: labels that are certain were given otherwise than all others. All rows where
    none is certain, or all are."""
    return slice(None) if certain is None or bool(certain.all()) else ~certain.to(y.device)


def _sharpness(logs: Probabilities, y: Tensor) -> float:
    """The power to which evidence is raised, so that the given labels are likeliest within the bounds."""
    some, given = _sample(logs, y)

    def unlikely(sharpness: float) -> float:
        return -likelihood(_evidence(some, sharpness), given)

    found = minimize_scalar(unlikely, bounds=SHARPNESS, method="bounded", options={"xatol": 0.02})
    return float(found.x)


def trust_in(evidence: Probabilities, y: Tensor, certain: Tensor | None = None) -> Trust:
    """The same from evidence about true classes, whether it is half as sharp as it seems, as sharp, or twice as sharp.

    Shape: evidence (N, C) probabilities of the true classes, y (N,), certain (N,) labels that are known to be right.
    """
    evidence = few(evidence, y)
    found = trust_at(evidence, y, ASSUMED, certain)
    rare = torch.bincount(y, minlength=evidence.shape[1])[y] < FEWEST
    return found._replace(posterior=settled(found.posterior, y, rare))


def trust_at(
    evidence: Probabilities, y: Tensor, powers: Sequence[float] = (1.0,), certain: Tensor | None = None
) -> Trust:
    """The same at some degrees of sharpness, on average: evidence raised to each power is taken at its word.

    A certain label is the true class. It has no part in the transition matrix by which others are judged: it was not
    given as they were.

    Shape: evidence (N, C) probabilities of the true classes, y (N,), certain (N,).
    """
    evidence = few(evidence, y)
    cells = cells_of(evidence, y)
    weight = None if certain is None or bool(certain.all()) else (~certain.to(y.device)).double()
    tables: list[tuple[float, Tensor]] = []
    mean = None
    for power in powers:
        cells.raise_(power / tables[-1][0] if tables else power)
        tables.append((power, cells.fit(weight=weight)))
        mean = cells.posterior(tables[-1][1], 1 / len(powers), mean)
    assert mean is not None
    posterior = cells.in_rows(mean)
    if certain is not None:
        posterior = settled(posterior, y, certain.to(y.device))
    matrix = cells.matrix(torch.stack([table for _, table in tables]).mean(0))
    return Trust(posterior, matrix, evidence, tuple(tables))


def settled(posterior: Probabilities, y: Tensor, rows: Tensor) -> Probabilities:
    """(N, C) a posterior in which the label of some rows (N,) is the true class."""
    if isinstance(posterior, Kept):
        return with_class(posterior, y, rows)
    posterior[rows] = torch.nn.functional.one_hot(y[rows], posterior.shape[1]).to(posterior)
    return posterior


def joined_evidence(
    held_out: Probabilities, others: Sequence[Probabilities], y: Tensor, certain: Tensor | None = None
) -> Probabilities:
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
    rate = 1 - float(
        trust_at(rows_of(_sharpened(held_out, y, certain), doubtful), labels).right(labels).double().mean()
    )
    agreement = (largest(held_out) == y).double().mean()
    heard = [other for other in others if (largest(other) == y).double().mean() >= LISTENED * agreement]
    logs = _denoised_logs(mean_of((held_out, *heard), y))
    some, given = _sample(rows_of(logs, doubtful), labels)
    low, high = JOINED
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        found = trust_at(_evidence(some, middle), given).right(given)
        low, high = (middle, high) if 1 - float(found.double().mean()) < rate else (low, middle)
    return _evidence_in_place(logs, float((low * high) ** 0.5))


def mean_of(sources: Sequence[Probabilities], y: Tensor) -> Probabilities:
    """(N, C) the mean of some sources, a part of the rows at a time."""
    rows, classes = sources[0].shape
    parts: list[Probabilities] = [
        few(torch.stack([source[part].double() for source in sources]).mean(0), y[part])
        for part in blocks_of(rows, classes)
    ]
    return together(parts)


def further_evidence(
    further: Probabilities, held_out: Probabilities, y: Tensor, certain: Tensor | None = None
) -> Probabilities:
    """(M, C) evidence about further rows, as sharp as held-out evidence is made; their own labels are not asked.

    Shape: further (M, C), held_out (N, C) probabilities, y (N,) the labels of the latter, certain (N,) -> (M, C).
    """
    all_rows = together([few(held_out, y), few(further, largest(further))])
    logs, doubtful = _denoised_logs(all_rows), doubtful_rows(y, certain)
    own = rows_of(logs, slice(len(y)))
    return _evidence(rows_of(logs, slice(len(y), None)), _sharpness(rows_of(own, doubtful), y[doubtful]))


def _denoised_logs(expected: Probabilities) -> Probabilities:
    """(N, C) logarithms of the probabilities of true classes, freed of the noise that a network has taken over."""
    if isinstance(expected, Kept):
        value = denoised(expected, STAYS).value
        value = value / value.sum(1, keepdim=True)
        return expected.with_values(torch.where(value > 0, value.clamp_min(LEAST).log(), -torch.inf))
    removal = noise_removal(expected)
    logs = torch.empty(expected.shape, dtype=torch.float32, device=expected.device)
    every = expected.new_ones(expected.shape[1], 1)
    for part in blocks_of(*expected.shape):
        block = expected[part]
        clean = torch.maximum(without_noise(block, removal), STAYS * block)
        logs[part] = clean.div_(clean @ every).clamp_min_(LEAST).log_()
    return logs


def _evidence(logs: Probabilities, power: float) -> Probabilities:
    """(N, C) probabilities from their logarithms, sharpened."""
    if isinstance(logs, Kept):
        return logs.with_values(_raised(logs.value, power))
    return _raised(logs, power)


def _evidence_in_place(logs: Probabilities, power: float) -> Probabilities:
    """The same, in the place of the logarithms: of very many rows there is no room for both."""
    values = logs.value if isinstance(logs, Kept) else logs
    for part in blocks_of(*values.shape):
        values[part] = _raised(values[part], power)
    return logs


def _raised(logs: Tensor, power: float) -> Tensor:
    """Probabilities from logarithms that are all at most zero, and one of each row not far below: a softmax, which
    torch works out row by row, takes three times as long."""
    values = (logs * power).exp_()
    return values.div_(values @ values.new_ones(values.shape[1], 1))


def _sample(logs: Probabilities, y: Tensor) -> tuple[Probabilities, Tensor]:
    """Some rows, enough to fit one number by."""
    chosen = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    some = rows_of(logs, chosen)
    return some.double() if isinstance(some, Tensor) else some, y[chosen]


def fit_transition(
    evidence: Probabilities, y: Tensor, start: Tensor | None = None, weight: Tensor | None = None, rounds: int = ROUNDS
) -> Tensor:
    """The transition matrix under which the given labels are likeliest, by expectation maximisation.

    Shape: evidence (N, C), y (N,), start (C, C), weight (N,) how often each row counts -> (C, C).
    """
    cells = cells_of(evidence, y)
    return cells.matrix(cells.fit(start, weight, rounds))


def transition_of(posterior: Probabilities, y: Tensor) -> Tensor:
    """(C, C) how often each label is given to each true class, from the probabilities of the latter.

    Shape: posterior (N, C), or times the weight of each row, y (N,) -> (C, C).
    """
    return cells_of(posterior, y).counted()


def bayes(evidence: Tensor, y: Tensor, transition: Tensor) -> Tensor:
    """(N, C) probability of each true class, in proportion to ``evidence_c transition[c, y]``."""
    # Rows of the transposed matrix, which lie together in memory: columns would cost three times as much.
    joint = evidence * transition.T[y]
    return joint / joint.sum(1, keepdim=True)


def likelihood(evidence: Probabilities, y: Tensor) -> float:
    """Mean log probability of the given labels under the matrix that suits them best."""
    cells = cells_of(evidence, y)
    return cells.likelihood(cells.fit(rounds=ROUNDS // 2))
