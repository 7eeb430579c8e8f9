"""How far reviewers agree beyond chance, and how fast each of them is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from holdfast.review.store import Decision, Decisions

PAUSE = 120.0
"""Seconds between two decisions after which somebody was not at work."""
ALONE = 5.0
"""Seconds that a decision after a pause is taken to have cost."""


def kappa(pairs: Iterable[tuple[str, str]]) -> float | None:
    """Cohen's kappa: agreement of two reviewers on the same rows beyond what chance would bring, at most 1.

    None where both always give one and the same label, so that chance alone would make them agree.

    >>> kappa([("cat", "cat"), ("dog", "dog"), ("cat", "dog"), ("dog", "dog")])
    0.5
    """
    table = Counter(pairs)
    total = sum(table.values())
    first, second = Counter[str](), Counter[str]()
    for (a, b), count in table.items():
        first[a] += count
        second[b] += count
    agreed = sum(count for (a, b), count in table.items() if a == b)
    by_chance = sum(first[label] * second[label] for label in first)
    if total == 0 or by_chance == total * total:
        return None
    return (agreed * total - by_chance) / (total * total - by_chance)


def agreements(decisions: Decisions, shared: Iterable[int]) -> list[dict[str, Any]]:
    """Kappa of each two reviewers who have decided about the same rows; being unsure is an answer like any other."""
    answers: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in shared:
        last = {name: json.dumps(entries[-1].label) for name, entries in decisions.by_row[row].items()}
        for first, second in combinations(sorted(last), 2):
            answers.setdefault((first, second), []).append((last[first], last[second]))
    return [
        {"first": first, "second": second, "rows": len(pairs), "kappa": kappa(pairs)}
        for (first, second), pairs in sorted(answers.items())
    ]


@dataclass
class _Worked:
    last: float = 0.0
    seconds: float = 0.0
    decisions: int = 0


@dataclass
class Pace:
    """How many rows each reviewer decides in a minute of work; pauses do not count."""

    _worked: dict[str, _Worked] = field(default_factory=dict)

    def hear(self, decision: Decision) -> None:
        """Take in a decision, the oldest first."""
        worked = self._worked.setdefault(decision.reviewer, _Worked())
        since = decision.at - worked.last
        worked.seconds += since if 0 <= since <= PAUSE else ALONE
        worked.last = decision.at
        worked.decisions += 1

    def per_minute(self, reviewer: str) -> float | None:
        worked = self._worked.get(reviewer)
        return None if worked is None or worked.seconds <= 0 else 60 * worked.decisions / worked.seconds

    def of(self, reviewers: Sequence[str], decisions: Decisions) -> list[dict[str, Any]]:
        found = []
        for name in reviewers:
            pace = self.per_minute(name)
            rate = None if pace is None else round(pace, 1)
            found.append({"name": name, "decided": len(decisions.of(name)), "per_minute": rate})
        return found
