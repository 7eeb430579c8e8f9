"""Rows that are there twice: copies, near copies, copies with another label, and copies of test rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.audit.finding import Finding, nothing
from holdfast.audit.pairs import hyperplane_pairs, word_pairs, words_apart
from holdfast.audit.pictures import sketches
from holdfast.audit.subject import NEIGHBOURS, Subject
from holdfast.audit.table_text import row_hashes
from holdfast.data.rows import Rows
from holdfast.feed import inputs_of
from holdfast.functional.nearest import nearest

NEAR = 0.1
"""Rows nearly coincide if they are at most so many times as far apart as a row and its tenth neighbour."""
BEYOND = 3.0
"""Pairs up to so many times as far apart show whether there is a gap between copies and others."""
NEAR_PICTURES = 0.35
"""The same for sketches of pictures, which resizing and recolouring change a little."""
WORDS = 0.1
"""Texts nearly coincide if at most so large a share of their words differs, or one word."""
FEWEST_WORDS = 4
USUAL = 0.2
"""Where more than this share of rows has an equal, columns hold few different values, and equal rows are no issue."""

Array = NDArray[Any]


class Copy(NamedTuple):
    """A row and an earlier one that it repeats."""

    row: int
    of: int
    likeness: float
    """1 for exact copies, less for near ones."""


def find_duplicates(subject: Subject) -> list[Finding]:
    """Exact and near copies among training rows, those with another label, and training rows that test rows repeat."""
    count = len(subject)
    hashes = _hashes(subject)
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    exact = [Copy(row, int(first[g]), 1.0) for row, g in enumerate(group.tolist()) if first[g] != row]
    # One row of each group of equal ones stands for all when near ones are sought.
    alone = np.sort(first)
    near = _near(subject, alone)
    inside = [copy for copy in exact if copy.row < count]
    common = len({copy.of for copy in inside} | {copy.row for copy in inside}) > USUAL * count
    near_inside = [copy for copy in near if copy.row < count]
    found = [
        _copies(subject, "duplicate", inside, "equals", flagged=not common),
        _copies(subject, "near duplicate", near_inside, "is nearly", flagged=True),
        _conflicts(subject, [*([] if common else inside), *near_inside]),
    ]
    if subject.test is not None:
        across = [copy for copy in (*exact, *near) if copy.of < count <= copy.row]
        found.append(_overlap(subject, across, flagged=not common))
    return found


def _hashes(subject: Subject) -> Array:
    """(N + T,) equal for equal rows, those to test on last."""
    parts = [_hashes_of(subject.rows, subject.frame, subject)]
    if subject.test is not None:
        parts.append(_hashes_of(subject.test, subject.test_frame, subject))
    return np.concatenate(parts)


def _hashes_of(rows: Rows, frame: Any, subject: Subject) -> Array:
    if frame is not None:
        return row_hashes(frame, subject.rows.recipe)
    found = [
        int.from_bytes(hashlib.blake2b(line.tobytes(), digest_size=8).digest(), "little")
        for x in inputs_of(rows.x, "cpu")
        for line in x.numpy()
    ]
    return np.array(found, dtype=np.uint64)


def _near(subject: Subject, alone: Array) -> list[Copy]:
    """Each row with the earlier one that it nearly repeats."""
    if subject.texts is not None:
        texts = [*subject.texts, *(subject.test_texts or [])]
        return _near_texts([texts[k] for k in alone], alone)
    parts = [subject.rows] if subject.test is None else [subject.rows, subject.test]
    if subject.pictures:
        sketched = torch.cat([sketches(rows) for rows in parts])
        # What is the same everywhere is like anything else that is.
        drawn = alone[sketched[alone].any(1).numpy()]
        return _near_points(sketched[drawn], drawn, NEAR_PICTURES)
    points = torch.cat([subject.points, *([] if subject.test_points is None else [subject.test_points])])
    found = _near_points(points[alone], alone, BEYOND * NEAR)
    limit = _gap(np.array([1 - copy.likeness for copy in found]))
    return [copy for copy in found if 1 - copy.likeness < limit]


def _near_points(points: Tensor, rows: Array, share: float) -> list[Copy]:
    """Each row with the nearest earlier one, if that is within a share of the usual distance."""
    if len(points) < 3:
        return []
    usual = nearest(points, torch.zeros(len(points), dtype=torch.int64), NEIGHBOURS).distance[:, -1]
    best: dict[int, tuple[float, int]] = {}
    for one, other in hyperplane_pairs(points - points.mean(0)):
        apart = torch.cat([(points[a] - points[b]).norm(dim=1) for a, b in _blocks(one, other)])
        limit = torch.minimum(usual[one], usual[other])
        kept = (apart < share * limit).nonzero()[:, 0]
        ratio = apart[kept] / limit[kept]
        for a, b, r in zip(one[kept].tolist(), other[kept].tolist(), ratio.tolist(), strict=True):
            early, late = min(a, b), max(a, b)
            best[late] = min(best.get(late, (np.inf, -1)), (r, early))
    return [Copy(int(rows[late]), int(rows[early]), 1 - r) for late, (r, early) in sorted(best.items())]


def _blocks(one: Tensor, other: Tensor, size: int = 2**16) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(one.split(size), other.split(size), strict=True)


def _gap(ratios: Array) -> float:
    """The largest limit, from a tenth downwards, beyond which hardly any pair lies.

    Copies are nearer than all other pairs by far. Where as many pairs lie just beyond a limit as within, rows are so
    near by nature: their columns hold whole numbers and few categories.
    """
    for limit in (NEAR, NEAR / BEYOND, NEAR / BEYOND**2):
        within, beyond = (ratios < limit).sum(), ((ratios >= limit) & (ratios < BEYOND * limit)).sum()
        if within > 0 and beyond <= within / 2:
            return limit
    return 0.0


def _near_texts(texts: Sequence[str], rows: Array) -> list[Copy]:
    best: dict[int, tuple[float, int]] = {}
    seen: set[tuple[int, int]] = set()
    for one, other in word_pairs(texts):
        for a, b in zip(one.tolist(), other.tolist(), strict=True):
            pair = (min(a, b), max(a, b))
            if pair in seen:
                continue
            seen.add(pair)
            apart, longer = words_apart(texts[a], texts[b])
            if longer >= FEWEST_WORDS and apart <= max(1, WORDS * longer):
                best[pair[1]] = min(best.get(pair[1], (np.inf, -1)), (apart / longer, pair[0]))
    return [Copy(int(rows[late]), int(rows[early]), 1 - r) for late, (r, early) in sorted(best.items())]


def _copies(subject: Subject, kind: str, copies: Sequence[Copy], verb: str, flagged: bool) -> Finding:
    if not copies:
        return nothing(kind, "none")
    rows = np.array([copy.row for copy in copies])
    why = [f"{verb} row {subject.numbers[copy.of]}" for copy in copies]
    share = f"{len(rows):,} rows repeat an earlier one"
    usual = "" if flagged else "; the columns hold so few different values that this is to be expected"
    score = np.array([copy.likeness for copy in copies])
    return Finding(kind, rows, score, np.full(len(rows), flagged), why, share + usual)


def _conflicts(subject: Subject, copies: Sequence[Copy]) -> Finding:
    """Rows that are alike and have different labels: one at least is wrong. The commonest label is suggested."""
    kind = "conflicting duplicate"
    if subject.rows.classes is None:
        return nothing(kind, "numbers are not compared")
    leader: dict[int, int] = {}
    for copy in copies:
        leader[copy.row] = leader.get(copy.of, copy.of)
    groups: dict[int, list[int]] = {}
    for row, head in leader.items():
        groups.setdefault(head, [head]).append(row)
    y, names = subject.rows.y.tolist(), subject.rows.classes
    likeness = {copy.row: copy.likeness for copy in copies}
    rows, score, why, suggested = [], [], [], []
    for members in groups.values():
        counts = Counter(y[row] for row in members)
        if len(counts) == 1:
            continue
        (most, often), *rest = counts.most_common(2)
        known = names[most] if not rest or often > rest[0][1] else ""
        for row in members:
            other = next(each for each in members if y[each] != y[row])
            rows.append(row)
            score.append(min((likeness.get(each, 1.0) for each in (row, other)), default=1.0))
            why.append(f"row {subject.numbers[other]} is alike and labelled {names[y[other]]}")
            suggested.append(known)
    if not rows:
        return nothing(kind, "none")
    sentence = f"{len(rows):,} rows are alike and have different labels"
    flag = np.ones(len(rows), dtype=bool)
    return Finding(kind, np.array(rows), np.array(score), flag, why, sentence, suggested=suggested)


def _overlap(subject: Subject, copies: Sequence[Copy], flagged: bool) -> Finding:
    """Training rows that are test rows too: what is measured on those says nothing of new rows."""
    kind = "also in test"
    if not copies or subject.test is None:
        return nothing(kind, "none")
    best: dict[int, Copy] = {}
    for copy in copies:
        if copy.of not in best or copy.likeness > best[copy.of].likeness:
            best[copy.of] = copy
    rows = np.array(sorted(best))
    chosen = [best[row] for row in rows.tolist()]
    why = [
        f"{'equals' if copy.likeness == 1 else 'is nearly'} row {copy.row - len(subject)} to test on" for copy in chosen
    ]
    tests = len({copy.row for copy in copies})
    sentence = f"{tests:,} of {len(subject.test):,} rows to test on repeat a training row"
    flag = np.array([flagged or copy.likeness < 1 for copy in chosen])
    return Finding(kind, rows, np.array([copy.likeness for copy in chosen]), flag, why, sentence)
