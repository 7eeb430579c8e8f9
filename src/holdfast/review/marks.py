"""Words of a text that speak for one label or the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer

Array = NDArray[Any]
Mark = tuple[int, int, str]
"""(start, end, "given" or "suggested") of a word, counted as browsers count: in units of UTF-16."""

TEXTS = 20_000
"""Texts that words are counted in, and of each so many characters."""
CHARACTERS = 1_000
CELLS = 20_000_000
"""Words times classes that are kept at most."""
MOST_WORDS = 50_000
SURE = 2.0
"""A word is marked if its log-odds lie so many standard deviations from even,"""
STRONG = np.log(2)
"""and its odds are twice as high under one label: "the" and "in" differ a little between any two."""
MOST = 16
"""Words of a text that are marked, the most telling ones."""
PSEUDO = 0.5
"""Texts with the word, and without it, that each class is taken to have had before."""
WORD = re.compile(r"\w\w+", re.UNICODE)


class Marks:
    """Which words are more frequent under one label than under another.

    Counted are the texts with a trusted label that hold a word; of two labels, the smoothed log-odds of a word are
    compared with their standard error.

    Parameters
    ----------
    texts: with a trusted label.
    label: (M,) their classes as numbers from 0.
    """

    def __init__(self, texts: Sequence[str], label: Array, classes: int) -> None:
        words = min(MOST_WORDS, max(1, CELLS // max(1, classes)))
        counter = CountVectorizer(
            binary=True, lowercase=True, token_pattern=WORD.pattern, max_features=words, dtype=np.float32
        )
        try:
            found = counter.fit_transform(text[:CHARACTERS] for text in texts)
        except ValueError:  # no word in any of them
            found = csr_matrix((len(texts), 0), dtype=np.float32)
        member = csr_matrix(
            (np.ones(len(label), np.float32), (label, np.arange(len(label)))), shape=(classes, len(label))
        )
        self._word: dict[str, int] = getattr(counter, "vocabulary_", {})
        self._with: Array = np.asarray((member @ found).todense())
        self._texts = np.bincount(label, minlength=classes)

    def of(self, text: str, given: int, suggested: int) -> list[Mark]:
        """Where words stand that speak for the given or the suggested class, the first first."""
        spans = [(m.start(), m.end(), self._word.get(m.group().lower(), -1)) for m in WORD.finditer(text)]
        spans = [span for span in spans if span[2] >= 0]
        if not spans or given == suggested:
            return []
        word = np.array([span[2] for span in spans])
        odds, variance = np.zeros(len(word)), np.zeros(len(word))
        for label, sign in ((given, 1.0), (suggested, -1.0)):
            holding = self._with[label, word].astype(float) + PSEUDO
            without = self._texts[label] + 2 * PSEUDO - holding
            odds += sign * np.log(holding / without)
            variance += 1 / holding + 1 / without
        score = odds / np.sqrt(variance)
        telling = np.argsort(-np.abs(score), kind="stable")
        strong = (np.abs(score) >= SURE) & (np.abs(odds) >= STRONG)
        telling = np.sort(telling[strong[telling]][:MOST])
        return [(*_units(text, *spans[k][:2]), "given" if score[k] > 0 else "suggested") for k in telling]


def _units(text: str, start: int, end: int) -> tuple[int, int]:
    r"""Places in a text as UTF-16 counts them, where some characters count twice.

    >>> _units("\N{GRINNING FACE}abc", 1, 4)
    (2, 5)
    """
    if text.isascii():
        return start, end
    before = len(text[:start].encode("utf-16-le", "surrogatepass")) // 2
    return before, before + len(text[start:end].encode("utf-16-le", "surrogatepass")) // 2
