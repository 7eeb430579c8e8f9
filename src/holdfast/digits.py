"""Whole numbers in what others have written: names of files, lists, headers."""

from __future__ import annotations

LONGEST = 18
"""Digits, so that a number fits into 64 bits; ``int`` raises beyond 4,300 of them."""


def number_in(text: str) -> int | None:
    """The number that digits from 0 to 9 stand for; None of anything else.

    >>> number_in("042"), number_in("-1"), number_in("²"), number_in("9" * 5000)
    (42, None, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST else None
