"""Numbers and dates as people write them: 12,345.67 and 3,14 and 12.3%, 31.12.2024 and Dec 31, 2024.

A notation is a part of a recipe, plain JSON values: ``{"decimal": ",", "thousands": "."}`` or ``{"date": "%d.%m.%Y"}``.
It is found once, in the training rows, and further rows are read by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Notation = Mapping[str, str]
GAPS = ("", "-", "--", "0000-00-00", "0000-00-00 00:00:00")
"""What stands for nothing in a column of numbers or dates."""
ISO = "ISO8601"

_MARKS = ((",", "."), (".", ","), (" ", ","), (" ", "."), ("'", "."))
"""Thousands and decimal marks, the likelier first: 12,345 is read as English."""
_SPACES = {" ": "[ \u00a0\u202f]", "'": "['\u2019]"}
_CURRENCY = re.compile(r"^([-+]?)[$€£¥]\s*|\s*[$€£¥%]$")
_WHOLE = re.compile(r"[-+]?\d+")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?\s?(?:Z|[-+]\d{2}:?\d{2})?")
_DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%Y.%m.%d",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_WORDS = {"%d": "day", "%m": "month", "%Y": "year", "%y": "year", "%b": "month", "%B": "month"}
_LOOK = 50
"""Values by which a format is chosen before all are read."""


def notation_of(values: pd.Series[Any]) -> dict[str, str] | None:
    """How the numbers or dates of a column of words are written; None where its words are something else.

    Whole numbers without any mark are left alone: written as words they are codes, such as those of post offices.

    >>> notation_of(pd.Series(["3,14", "2,5"])), notation_of(pd.Series(["31.12.2024"]))
    ({'decimal': ',', 'thousands': '.'}, {'date': '%d.%m.%Y'})
    """
    held = values.dropna()
    texts = [text.strip() for text in held.unique() if isinstance(text, str)] if len(held) else []
    known = [text for text in texts if text not in GAPS]
    if not known or not any(letter.isdigit() for letter in known[0]):
        return None
    if not all(isinstance(value, str | int | float | np.number | date) for value in held.head(_LOOK)):
        return None
    if len(known) == len(texts) and all(_WHOLE.fullmatch(text) for text in known):
        return None
    return _number_notation(known) or _date_notation(known)


def parsed(values: pd.Series[Any], notation: Notation) -> NDArray[np.float64]:
    """The numbers of a column, dates as days since 1970; NaN for gaps and for what is written in another way."""
    codes, found = pd.factorize(values.astype(object))
    texts = [value.strip() if isinstance(value, str) else value for value in found]
    numbers = _dates(texts, notation["date"]) if "date" in notation else _numbers(texts, notation)
    return np.append(numbers, np.nan)[codes]


def is_gap(values: pd.Series[Any]) -> NDArray[np.bool_]:
    """Which values stand for nothing in a column of numbers or dates."""
    blank = values.map(lambda value: isinstance(value, str) and value.strip() in GAPS).to_numpy(dtype=bool)
    return blank | values.isna().to_numpy(dtype=bool)


def in_words(notation: Notation) -> str:
    """What a reader should know of a notation; empty where it goes without saying.

    >>> in_words({"date": "%d.%m.%Y %H:%M"}), in_words({"decimal": ",", "thousands": "."})
    ('day.month.year', 'decimal comma')
    """
    if "date" not in notation:
        return "decimal comma" if notation["decimal"] == "," else ""
    if notation["date"] == ISO:
        return ""
    day = notation["date"].split(" %H")[0].split(" %I")[0]
    return re.sub(r"%\w", lambda part: _WORDS[part[0]], day)


def _number_notation(texts: Sequence[str]) -> dict[str, str] | None:
    bare = [_CURRENCY.sub(r"\1", text) for text in texts]
    for thousands, decimal in _MARKS:
        pattern = _pattern(thousands, decimal)
        if all(pattern.fullmatch(text) for text in bare):
            return {"decimal": decimal, "thousands": thousands}
    return None


def _pattern(thousands: str, decimal: str) -> re.Pattern[str]:
    mark = _SPACES.get(thousands, re.escape(thousands))
    point = re.escape(decimal)
    return re.compile(rf"[-+]?(?:(?:[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][-+]?\d+)?")


def _numbers(texts: Sequence[Any], notation: Notation) -> NDArray[np.float64]:
    thousands, decimal = notation["thousands"], notation["decimal"]
    pattern, mark = _pattern(thousands, decimal), re.compile(_SPACES.get(thousands, re.escape(thousands)))

    def number(text: Any) -> float:
        if isinstance(text, int | float | np.number) and not isinstance(text, bool):
            return float(text)
        bare = _CURRENCY.sub(r"\1", str(text))
        return float(mark.sub("", bare).replace(decimal, ".")) if pattern.fullmatch(bare) else np.nan

    return np.array([number(text) for text in texts], dtype=np.float64)


def _date_notation(texts: Sequence[str]) -> dict[str, str] | None:
    if all(_ISO.fullmatch(text) for text in texts):
        formats = [ISO]
    else:
        written = (day + time for day, time in product(_DAYS, _TIMES))
        formats = [form for form in written if all(_fits(text, form) for text in texts[:_LOOK])]
    found = (form for form in formats if not np.isnan(_dates(texts, form)).any())
    return next(({"date": form} for form in found), None)


def _fits(text: str, form: str) -> bool:
    try:
        return datetime.strptime(text, form) is not None
    except ValueError:
        return False


def _dates(texts: Sequence[Any], form: str) -> NDArray[np.float64]:
    """Days since 1970."""
    written = pd.Series([text if isinstance(text, str) else None for text in texts], dtype=object)
    stamps = pd.to_datetime(written, format=form, errors="coerce", utc=True)
    held = [pd.Timestamp(text) if isinstance(text, date) else pd.NaT for text in texts]
    stamps = stamps.fillna(pd.to_datetime(pd.Series(held), utc=True)) if any(map(pd.notna, held)) else stamps
    # In the unit of the dates: nanoseconds end in 2262.
    days = (stamps - pd.Timestamp(0, tz="UTC").as_unit(stamps.dt.unit)) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
