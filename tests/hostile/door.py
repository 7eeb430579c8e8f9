"""A door through which something foreign comes in, and what many doors need."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from hostile.damage import damaged

Knock = Callable[[bytes], None]
ROWS = 24


@dataclass(frozen=True)
class Door:
    """Where something foreign comes in.

    Attributes
    ----------
    samples: valid ones.
    knock: lets bytes in; a sentence (``HoldfastError``) and an end without a word are both well.
    share: how often it is tried, beside others.
    spoil: makes a sample wrong.
    """

    samples: tuple[bytes, ...]
    knock: Knock
    share: int = 1
    spoil: Callable[[bytes, Random], bytes] = field(default=damaged)


class NoSentence(Exception):
    """The command line has ended with a traceback."""


def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": draw.normal(40, 9, ROWS).round(1),
            "town": draw.choice(["Bonn", "Köln", "Aachen"], ROWS),
            "born": pd.date_range("1990-01-01", periods=ROWS).strftime("%Y-%m-%d"),
            "note": [f"a few words of row {i}, and more" for i in range(ROWS)],
            "label": ["yes", "no"] * (ROWS // 2),
        }
    )


def packed(text: bytes) -> tuple[bytes, ...]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.csv", text)
    return gzip.compress(text), bz2.compress(text), out.getvalue()


def written(write: Callable[[Any], object]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def into(path: Path, then: Callable[[], object]) -> Knock:
    """Writes what comes to a path, does something, and puts back what was there."""
    before = path.read_bytes() if path.exists() else None

    def knock(content: bytes) -> None:
        path.write_bytes(content)
        try:
            then()
        finally:
            if before is not None:
                path.write_bytes(before)

    return knock
