"""Class names as people type them: spellings that are one class, and what about labels deserves a word of warning."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.data.labels import to_names
from holdfast.errors import HoldfastError

ALIKE = 0.82
"""Likeness of two names from which one may be a slip of the pen; 1 is the same."""
SLIP = 0.25
"""A slip has at most this share of the rows of what was meant."""
MOST_COMPARED = 300
"""Classes beyond which names are not held against each other."""
FEWEST = 10
"""Rows below which a label in each row may well be a class in each row."""
_LETTERS = ({"y", "n"}, {"t", "f"}, {"m", "f"})
"""Single letters whose case means nothing: yes and no, true and false, male and female."""


class Fold(StrEnum):
    """Which spellings are one class."""

    EXACT = "exact"
    SPACE = "space"
    CASE = "case"

    def of(self, name: str) -> str:
        """What spellings of one class have in common.

        >>> Fold.CASE.of(" YES"), Fold.SPACE.of("not  sure ")
        ('yes', 'not sure')
        """
        if self is Fold.EXACT:
            return name
        spaced = " ".join(unicodedata.normalize("NFC", name).split())
        return spaced if self is Fold.SPACE else spaced.casefold()


def fold_for(names: Sequence[str]) -> Fold:
    """How far spellings may differ and still be one class: not by case where that would leave one class, or letters.

    >>> fold_for(["Yes", "yes ", "no"]), fold_for(["AA", "Aa", "aa"]), fold_for(["a", "A", "b"])
    (<Fold.CASE: 'case'>, <Fold.SPACE: 'space'>, <Fold.SPACE: 'space'>)
    """
    folded = {Fold.CASE.of(name) for name in names}
    letters = all(len(name) <= 1 for name in folded) and not any(folded <= known for known in _LETTERS)
    return Fold.SPACE if letters or len(folded) < 2 else Fold.CASE


def spellings(counts: Mapping[str, int], fold: Fold, merge: Mapping[str, str]) -> dict[str, str]:
    """The class of each name that is spelt otherwise than its class: the commonest spelling, or the one asked for.

    Spellings without stray white space come before those with some.

    >>> spellings({"yes": 9, "YES": 2, "yes ": 1, "nö": 5, "no": 7}, Fold.CASE, {"nö": "no"})
    {'YES': 'yes', 'yes ': 'yes', 'nö': 'no'}
    """
    gone = [name for name in merge if name not in counts]
    if gone:
        listed = ", ".join(map(repr, list(counts)[:5]))
        raise HoldfastError(f"--merge names {gone[0]!r}, which is no label; there are {listed}")
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(fold.of(merge.get(name, name)), []).append(name)
    found = {}
    for group in groups.values():
        own = sorted(name for name in group if name not in merge)
        own.sort(key=lambda name: (name == Fold.SPACE.of(name), counts[name]))
        chosen = own[-1] if own else merge[group[0]]
        found.update({name: chosen for name in group if name != chosen})
    return found


def respelt(values: pd.Series[Any], how: Mapping[str, Any], classes: Sequence[str] | None) -> pd.Series[Any]:
    """Labels with the spelling of their classes; the column itself where none is spelt otherwise.

    Parameters
    ----------
    how: the part of a recipe that says so: ``fold`` and ``spellings``.
    classes: those of an earlier reading, which further spellings join; None where these labels are the first.
    """
    fold, known = Fold(how["fold"]), how["spellings"]
    by_fold = {fold.of(name): name for name in classes or ()}
    codes, names = to_names(values)
    found = [known.get(name, name) for name in names]
    if classes is not None:
        found = [name if name in classes else by_fold.get(fold.of(name), name) for name in found]
    if found == names:
        return values
    return pd.Series(np.array([*found, None], dtype=object)[codes], index=values.index, name=values.name)


def merged_text(counts: Mapping[str, int], respelling: Mapping[str, str]) -> list[str]:
    """One sentence for each class that has several spellings."""
    lines = []
    for chosen in dict.fromkeys(respelling.values()):
        others = [f"{name!r} ({counts[name]:,})" for name, to in respelling.items() if to == chosen]
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        lines.append(f"read as the class {chosen!r}: {shown}; --keep-spelling keeps them apart")
    return lines


def label_warnings(frame: pd.DataFrame, label: str, given: pd.Series[Any], truth: str | None) -> list[str]:
    """What is odd about the classes of a table, one sentence each, with what to do.

    Parameters
    ----------
    given: the labels by their classes, a row for each of the table.
    truth: a column that is set apart anyway.
    """
    codes, names = to_names(given)
    counts = dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))
    found = leaks(frame, label, given, truth)
    if len(names) == len(frame) >= FEWEST:
        return [
            *found,
            f"each of the {len(frame):,} rows has a label of its own in {label!r}, as identifiers do; name the column "
            "of the classes with --label",
        ]
    return [*found, *class_warnings(counts)]


def class_warnings(counts: Mapping[str, int]) -> list[str]:
    """Classes of one row, and names that look like slips of the pen."""
    single = [name for name, count in counts.items() if count == 1]
    found = []
    if single:
        shown = ", ".join(map(repr, single[:5])) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        what = "class has" if len(single) == 1 else "classes have"
        found.append(f"{len(single)} {what} one row only ({shown}), too few to learn or judge; add rows or drop these")
    for rare, meant in near_duplicates(counts):
        found.append(
            f"the class {rare!r} ({counts[rare]:,}) may be meant as {meant!r} ({counts[meant]:,}); if so, pass "
            f"--merge '{rare}={meant}'"
        )
    return found


def near_duplicates(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """(rare, common) names that differ by a few letters; not those that differ by a number or by a short word.

    >>> near_duplicates({"setosa": 50, "setsa": 2, "group 1": 40, "group 2": 3})
    [('setsa', 'setosa')]
    """
    if len(counts) > MOST_COMPARED:
        return []
    by_count = sorted(counts, key=lambda name: -counts[name])
    found = []
    for i, rare in enumerate(by_count):
        commoner = (name for name in by_count[:i] if counts[rare] <= SLIP * counts[name])
        meant = next((name for name in commoner if _alike(rare, name)), None)
        if meant is not None:
            found.append((rare, meant))
    return found


def _alike(a: str, b: str) -> bool:
    a, b = Fold.CASE.of(a), Fold.CASE.of(b)
    words = set(a.replace("_", " ").replace("-", " ").split()) ^ set(b.replace("_", " ").replace("-", " ").split())
    if a == b or any(len(word) <= 2 or any(letter.isdigit() for letter in word) for word in words):
        return False
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE


def leaks(frame: pd.DataFrame, label: str, given: pd.Series[Any], truth: str | None) -> list[str]:
    """Columns that repeat the label."""
    if len(frame) < FEWEST:
        return []
    names = _folded(given)
    found = []
    for column in frame.columns:
        values = frame[column]
        if column in (label, truth) or isinstance(values.iloc[0], list | dict | np.ndarray):
            continue
        begins_so = np.array_equal(_folded(values.head(FEWEST)), names[:FEWEST])
        if begins_so and np.array_equal(_folded(values), names):
            found.append(
                f"column {column!r} equals the label {label!r} in every row, so that nothing else would be learned; "
                f"pass --ignore {column!r} if it is no feature"
            )
        elif column == f"{label}.1":
            found.append(
                f"the file has two columns {label!r}, and the second ({column!r}) is learned from; pass --ignore "
                f"{column!r} if it is no feature"
            )
    return found


def _folded(values: pd.Series[Any]) -> NDArray[Any]:
    codes, names = to_names(values)
    return np.array([*map(Fold.CASE.of, names), ""], dtype=object)[codes]
