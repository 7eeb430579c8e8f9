"""How large what is to be read will be, before it is read: a few megabytes on disk may be made to fill any memory."""

from __future__ import annotations

import os
import re
from typing import Protocol

import psutil

from holdfast.errors import HoldfastError

VARIABLE = "HOLDFAST_MAX_MEMORY"
"""Where the limit stands that --max-memory has set."""
SMALL = 256 << 20
"""Bytes that anything may take."""
USUAL = 200
"""Times its size on disk that a file may unpack to, if nobody has raised the limit: text packs to a tenth of it."""
PIECE = 1 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Readable(Protocol):
    """Anything that gives its bytes piece by piece."""

    def read(self, size: int, /) -> bytes: ...


def as_bytes(text: str) -> int:
    """A size in words as a number.

    >>> as_bytes("8GB"), as_bytes("500 M"), as_bytes("1000")
    (8589934592, 524288000, 1000)
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*([KMGT]?)I?B?", text.strip().upper())
    if found is None:
        raise HoldfastError(f"{text!r} is no size; write 8GB, 500M or a number of bytes")
    return int(float(found[1]) * _UNITS[found[2]])


def limit() -> int:
    """Bytes that data may take: what was asked for, or half of what is free."""
    asked = os.environ.get(VARIABLE)
    return as_bytes(asked) if asked else psutil.virtual_memory().available // 2


def fits(size: int) -> bool:
    """Whether data may take so many bytes."""
    return size <= limit()


def check_fits(size: int, on_disk: int, source: object) -> None:
    """Refuse what would take more memory than there is, or than a file of its size could need.

    Parameters
    ----------
    size: bytes that it will take, or more than so many.
    on_disk: bytes that it takes on disk.
    """
    asked, most = os.environ.get(VARIABLE), limit()
    what = f"{source} would take {in_words(size)} of memory"
    if size > most:
        raise HoldfastError(
            f"{what}, and {in_words(most)} may be used; raise it with holdfast --max-memory SIZE, or take less"
        )
    if not asked and size > SMALL and size > USUAL * max(1, on_disk):
        raise HoldfastError(
            f"{what}, {size // max(1, on_disk):,} times its size on disk, as files made for harm do; if it is yours, "
            "allow it with holdfast --max-memory SIZE"
        )


def check_unpacked(file: Readable, on_disk: int, source: object, grows: int = 1) -> None:
    """Go through a packed file piece by piece and refuse it as soon as it has become too large.

    Parameters
    ----------
    grows: how many times the size of its text a table takes in memory.
    """
    total = checked = 0
    while piece := file.read(PIECE):
        total += len(piece)
        if total - checked >= SMALL // 8:
            check_fits(grows * total, on_disk, source)
            checked = total
    check_fits(grows * total, on_disk, source)


def in_words(size: int) -> str:
    """A size as people read it."""
    return f"{size / (1 << 30):.1f} GB" if size >= 1 << 29 else f"{size / (1 << 20):.0f} MB"
