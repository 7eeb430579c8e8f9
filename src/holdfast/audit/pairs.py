"""Pairs of rows that may nearly coincide, without comparing all with all: rows that share a key are compared."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
TABLES = 24
"""Keys of each row: a pair that one of them parts is found by another."""
NEXT = 3
"""Rows after it in the order of a key with which a row is compared."""
MOST_BITS = 28
BANDS, HASHES = 16, 3
"""Keys of each text, and the hashes that make one key."""
_WORD = re.compile(r"\w+")


def hyperplane_pairs(points: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs that lie on the same side of random planes, neighbours in the order of one more random direction.

    One block of pairs a key. Two rows at an angle of t radians are parted by each of b planes with probability t / pi.

    Shape: points (N, d) -> (P,) and (P,) rows.
    """
    source = torch.Generator().manual_seed(0)
    bits = int(min(max(np.ceil(np.log2(max(2, len(points)))), 4), MOST_BITS))
    weight = 2 ** torch.arange(bits)
    for _ in range(TABLES):
        seen = points @ torch.randn(points.shape[1], bits + 1, generator=source)
        key = ((seen[:, :bits] > seen[:, :bits].median(0).values) * weight).sum(1).numpy()
        order = torch.from_numpy(np.lexsort((seen[:, bits].numpy(), key)))
        keys = torch.from_numpy(key)[order]
        for ahead in range(1, min(NEXT, len(order) - 1) + 1):
            same = keys[:-ahead] == keys[ahead:]
            yield order[:-ahead][same], order[ahead:][same]


def word_pairs(texts: Sequence[str]) -> Iterator[tuple[Array, Array]]:
    """Pairs of texts that share many words: equal in several hashes of their sets of words.

    Two texts whose sets of words have the Jaccard index j share a key with probability j ** 3, and there are 16.
    """
    known = [
        np.array(sorted({zlib.crc32(word.encode()) for word in words_of(text)}), dtype=np.uint64) for text in texts
    ]
    filled = np.array([k for k, words in enumerate(known) if len(words)])
    if len(filled) < 2:
        return
    flat = np.concatenate([known[k] for k in filled])
    starts = np.concatenate([[0], np.cumsum([len(known[k]) for k in filled])[:-1]])
    draw = np.random.default_rng(0)
    for _ in range(BANDS):
        key = np.zeros(len(filled), dtype=np.uint64)
        for _ in range(HASHES):
            a, b = (int(n) for n in draw.integers(1, 2**62, size=2))
            mixed = flat * np.uint64(2 * a + 1) + np.uint64(b)
            mixed ^= mixed >> np.uint64(29)
            key = key * np.uint64(0x9E3779B97F4A7C15) + np.minimum.reduceat(mixed * np.uint64(2 * b + 1), starts)
        order = np.argsort(key, kind="stable")
        for ahead in range(1, min(NEXT, len(order) - 1) + 1):
            same = key[order[:-ahead]] == key[order[ahead:]]
            yield filled[order[:-ahead][same]], filled[order[ahead:][same]]


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def words_apart(one: str, other: str) -> tuple[int, int]:
    """How many words of the longer of two texts the other lacks, and how many words it has."""
    a, b = Counter(words_of(one)), Counter(words_of(other))
    shared = (a & b).total()
    longer = max(a.total(), b.total())
    return longer - shared, longer
