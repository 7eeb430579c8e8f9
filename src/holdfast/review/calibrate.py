"""What reviewers' answers say of the labels that they have not seen: trust and noise rate, calibrated by reviews."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

KNOTS = np.arange(-9.0, 10.0)
"""Log odds of trust at which a shift is fitted; it is interpolated between them and stays beyond the outermost."""
DOUBT = 0.9
"""Standard deviation of the shift before any answer. At a trust of one half that is worth about five reviews; where
nearly all labels are right a review tells less, and it is worth more of them."""
REACH = 2.0
"""Log odds over which answers about some rows speak for others: none about doubtful rows says much of trusted ones."""
SLOPE = 0.25
"""Standard deviation of the slope of the shift: the surer a run is, the farther off it may be."""
STEPS, CLOSE = 50, 1e-9
DRAWS = 400
CELLS = np.linspace(-15, 15, 481)
"""Rows are counted by the log odds of their trust where draws are made: a million cost no more than a thousand."""
INTERVAL = (0.025, 0.975)

Array = NDArray[Any]


class Wrong(NamedTuple):
    """How many labels are wrong, with an interval that holds 95 %."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """How far the trust of a run is off, by what reviewers found.

    ``logit q = logit p + s(logit p)``: p is the run's trust, q the calibrated one. The shift s is piecewise linear,
    near zero before any answer and alike at like trust (a Gaussian process), and q never falls where p rises.

    It is a model of the answers *at a given trust*, so it does not matter which rows were asked about, as long as that
    was decided by trust: rows of a trust that nobody was asked about keep what the run says, and the doubt about it.

    Attributes
    ----------
    shift, doubt: (K,) s at the knots, and (K, K) its covariance.
    """

    shift: Array
    doubt: Array

    @classmethod
    def of(cls, trust: Array, wrong: Array, count: Array | None = None) -> Calibration:
        """Fit the shift to answers: trust (M,) of the reviewed rows, wrong (M,) whether their label was found wrong,
        count (M,) how many rows each stands for, by default one."""
        # Certain labels would have no odds; what a reviewer finds of them says something of nearly certain ones.
        odds = np.clip(logit(np.asarray(trust, dtype=float)), KNOTS[0], KNOTS[-1])
        right, share = ~np.asarray(wrong, dtype=bool), _shares(odds)
        weight = np.ones(len(odds)) if count is None else count
        prior = np.linalg.inv(_covariance())
        shift = np.zeros(len(KNOTS))
        for _ in range(STEPS):
            q = expit(odds + share @ shift)
            precision = prior + share.T @ ((weight * q * (1 - q))[:, None] * share)
            step = np.linalg.solve(precision, share.T @ (weight * (right - q)) - prior @ shift)
            # Far steps of Newton's method may miss; the target is concave, so shorter ones arrive.
            shift = shift + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
            if float(np.abs(step).max()) < CLOSE:
                break
        doubt = np.linalg.inv(precision)
        return cls(_rising(shift, np.diag(doubt)), doubt)

    def trust(self, trust: Array) -> Array:
        """(N,) calibrated trust of labels that nobody has reviewed; certain ones stay so."""
        found: Array = self._shifted(np.asarray(trust, dtype=float), self.shift)
        return found

    def wrong(self, trust: Array, seed: int = 0) -> Wrong:
        """How many labels of this trust are wrong, if none of them is reviewed."""
        trust = np.asarray(trust, dtype=float)
        expected = float((1 - self.trust(trust)).sum())
        count = np.bincount(_cells(trust), minlength=len(CELLS))
        kept = count > 0
        cells, count = CELLS[kept], count[kept]
        rng = np.random.default_rng(seed)
        roots = np.linalg.cholesky(self.doubt + 1e-9 * np.eye(len(KNOTS)))
        drawn = self.shift + rng.standard_normal((DRAWS, len(KNOTS))) @ roots.T
        wrong = expit(-(cells + drawn @ _shares(cells).T))
        # Doubt about the shift, which rows share, and the chance of each row.
        chance = np.sqrt((wrong * (1 - wrong)) @ count) * rng.standard_normal(DRAWS)
        low, high = np.quantile(wrong @ count + chance, INTERVAL) if len(trust) else (0.0, 0.0)
        return Wrong(expected, max(0.0, min(expected, float(low))), min(float(len(trust)), max(expected, float(high))))

    @staticmethod
    def _shifted(trust: Array, shift: Array) -> Array:
        odds = logit(trust)
        shifted: Array = expit(odds + np.interp(np.clip(odds, KNOTS[0], KNOTS[-1]), KNOTS, shift))
        return shifted


class Calibrated(NamedTuple):
    """What is known of the labels of a run after a review."""

    trust: Array
    """(N,) the probability that each given label is right; 1 or 0 where reviewers have settled it."""
    left: Wrong
    """Wrong labels among those that nobody has reviewed."""
    total: Wrong
    """Those, and the ones that reviewers have found."""


def calibrate(trust: Array, reviewed: Array, wrong: Array) -> Calibrated:
    """Calibrate the trust of a run by reviews of some of its rows.

    Shape: trust (N,) as the run has it, reviewed (N,) whether a person has settled the label, wrong (N,) whether it was
    found wrong (read where reviewed).

    >>> trust, reviewed = np.full(1000, 0.8), np.arange(1000) < 200
    >>> found = calibrate(trust, reviewed, reviewed & (np.arange(1000) % 2 == 0))
    >>> float(found.trust[0]), float(found.trust[999].round(1)), round(found.left.estimate, -1)
    (0.0, 0.5, 390.0)
    """
    trust, reviewed, wrong = np.asarray(trust, dtype=float), np.asarray(reviewed, dtype=bool), np.asarray(wrong)
    model = Calibration.of(trust[reviewed], wrong[reviewed])
    settled = np.where(wrong.astype(bool), 0.0, 1.0)
    after = np.where(reviewed, settled, model.trust(trust))
    left, found = model.wrong(trust[~reviewed]), float(wrong[reviewed].sum())
    return Calibrated(after, left, Wrong(*(value + found for value in left)))


class Tally:
    """What ``calibrate`` says is left, followed from answer to answer: rows are counted by the log odds of their trust,
    so that none of it looks at all rows again.

    >>> trust, none = np.full(1000, 0.8), np.zeros(1000, dtype=bool)
    >>> tally = Tally(trust, none, none)
    >>> before = tally.left()
    >>> for row in range(200):
    ...     tally.set(row, reviewed=True, wrong=row % 2 == 0)
    >>> round(before), round(tally.left(), -1)
    (200, 390.0)
    """

    def __init__(self, trust: Array, reviewed: Array, wrong: Array) -> None:
        self._cell = _cells(np.asarray(trust, dtype=float)).astype(np.int16)
        size = np.bincount(self._cell, minlength=len(CELLS))
        # What the rows of a cell are trusted on average.
        self._trust = np.bincount(self._cell, weights=trust, minlength=len(CELLS)) / np.maximum(size, 1)
        self._place = np.where(reviewed, np.where(wrong, 2, 1), 0).astype(np.int8)
        # Open rows, those found right, and those found wrong.
        self._count = np.zeros((3, len(CELLS)))
        np.add.at(self._count, (self._place, self._cell), 1)

    def set(self, row: int, reviewed: bool, wrong: bool) -> None:
        """A row was reviewed, found otherwise, or opened again."""
        cell, place = self._cell[row], (2 if wrong else 1) if reviewed else 0
        self._count[self._place[row], cell] -= 1
        self._count[place, cell] += 1
        self._place[row] = place

    def left(self) -> float:
        """How many of the labels that nobody has reviewed are wrong."""
        places, cells = np.nonzero(self._count[1:])
        model = Calibration.of(self._trust[cells], places == 1, self._count[1:][places, cells])
        open_rows = self._count[0] > 0
        return float(self._count[0, open_rows] @ (1 - model.trust(self._trust[open_rows])))


def _cells(trust: Array) -> Array:
    """(N,) the cell of each row by the log odds of its trust."""
    odds = np.clip(logit(trust), CELLS[0], CELLS[-1])
    cells: Array = np.rint((odds - CELLS[0]) / (CELLS[1] - CELLS[0])).astype(int)
    return cells


def _covariance() -> Array:
    """(K, K) of the shift at the knots before any answer."""
    apart = KNOTS[:, None] - KNOTS
    near: Array = DOUBT**2 * np.exp(-0.5 * (apart / REACH) ** 2)
    return near + SLOPE**2 * np.outer(KNOTS, KNOTS) + 1e-4 * np.eye(len(KNOTS))


def _shares(odds: Array) -> Array:
    """(N, K) how much each knot counts at some log odds: the nearer of the two beside them the more."""
    shares: Array = np.maximum(0.0, 1 - np.abs(np.clip(odds, KNOTS[0], KNOTS[-1])[:, None] - KNOTS))
    return shares


def _rising(shift: Array, doubt: Array) -> Array:
    """The shift, changed as little as need be so that a label trusted more by the run is trusted no less."""
    rising: Array = isotonic_regression(KNOTS + shift, weights=1 / doubt).x - KNOTS
    return rising
