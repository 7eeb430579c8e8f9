"""Memory: what is allowed, and what a selection will take."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import HoldfastError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class Forecast(NamedTuple):
    """What exact selection is expected to take beyond the points themselves."""

    bytes: int
    seconds: float


def bytes_of(memory: str | int | None) -> int:
    """A budget in bytes; None is half of the memory that is free.

    >>> bytes_of("4GB"), bytes_of("512M"), bytes_of(1000)
    (4000000000, 512000000, 1000)
    """
    if memory is None:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    if isinstance(memory, int):
        return memory
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", memory, re.IGNORECASE)
    if match is None:
        raise HoldfastError(f"cannot read {memory!r} as an amount of memory; write it as 4GB, or 500MB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def dense_bytes(n: int) -> int:
    """A matrix of n² float32, and the work space that fills it."""
    return 4 * n * n + 512 * n * 8 * 3


def list_bytes(n: int, d: int) -> int:
    """Coordinates three times over, what is known of each point, and lists of up to 400 near points, moved once."""
    return n * (16 * d + 100 + min(400, n // 5) * 8 * 2)


def forecast(sizes: Sequence[int], d: int, workers: int) -> Forecast:
    """Of groups of these sizes: the largest of those that run at once, and time on one core of 3 GHz."""
    largest = sorted(sizes, reverse=True)[:workers]
    needed = sum(list_bytes(n, d) for n in largest)
    return Forecast(needed, sum(n * n for n in sizes) * (1e-9 + 1.5e-10 * min(d, 64)) / max(1, workers))


def format_bytes(amount: float) -> str:
    """An amount of memory as people write it.

    >>> format_bytes(4_200_000_000)
    '4.2 GB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if amount >= size:
            return f"{amount / size:.1f} {unit}"
    return f"{amount / 1e3:.0f} kB"
