"""What speaks for which label, in words for those who label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
THINGS = {"picture": ("picture", "pictures"), "text": ("text", "texts"), "table": ("row", "rows"),
          "bare": ("row", "rows")}  # fmt: skip


def of_classes(
    line: Mapping[str, Any],
    likely: Sequence[tuple[str, float]],
    near: Sequence[str],
    kind: str,
    unseen: bool,
) -> list[str]:
    """Sentences about the label of a class.

    Parameters
    ----------
    line: of the table of issues.
    likely: classes by their probability.
    near: trusted labels of the most similar rows.
    kind: what the rows are: picture, text, table or bare.
    unseen: whether networks were asked that never saw the label.

    >>> line = {"given": "Boot", "suggested": "Sneaker", "trust": 0.03, "flag": True}
    >>> likely, near = [("Sneaker", 0.91), ("Boot", 0.03)], ["Sneaker"] * 4 + ["Boot"]
    >>> print(*of_classes(line, likely, near, "picture", unseen=True), sep="\\n")
    Four of five similar pictures are labelled Sneaker, one Boot.
    Networks that were trained without this label take it for Sneaker.
    The model gives 91 % to Sneaker and 3 % to Boot.
    """
    given, suggested = str(line["given"]), str(line["suggested"])
    found = []
    if near:
        found.append(_by_neighbours(given, suggested, near, kind))
    if unseen and line["flag"]:
        found.append(f"Networks that were trained without this label take it for {suggested}.")
    share = dict(likely)
    if suggested in share:
        pair = sorted([(share[suggested], suggested), (float(line["trust"]), given)], reverse=True)
        first, second = (f"{percent(value)} to {name}" for value, name in pair)
        found.append(f"The model gives {first} and {second}.")
    return found or [f"The model gives {percent(line['trust'])} to {given}."]


def _by_neighbours(given: str, suggested: str, near: Sequence[str], kind: str) -> str:
    count = Counter(near)
    one, many = THINGS[kind]
    total = NUMBERS[len(near)]
    label, first = max(count.items(), key=lambda pair: (pair[1], pair[0] == suggested, pair[0] == given))
    if len(near) == 1:
        return f"The most similar {one} is labelled {label}."
    if first == len(near):
        alike = ", as this one is" if label == given else ""
        return f"All {total} similar {many} are labelled {label}{alike}."
    text = f"{NUMBERS[first].capitalize()} of {total} similar {many} {'are' if first > 1 else 'is'} labelled {label}"
    rest = given if label != given else suggested
    other = NUMBERS[count[rest]]
    return f"{text}, {other} {rest}."


def of_numbers(given: float, expected: float, interval: tuple[float, float] | None, near: Sequence[float]) -> list[str]:
    """Sentences about a given number.

    >>> of_numbers(1900.0, 1000.0, (900.0, 1100.0), [1010.0, 990.0, 1000.0])
    ['The three most similar rows have 1000 on average, from 990 to 1010; this one has 1900.', \
'1000 is expected here, between 900 and 1100.', 'The given value is 900 higher.']
    """
    found = []
    if len(near) > 1:
        mean = sum(near) / len(near)
        found.append(
            f"The {NUMBERS[len(near)]} most similar rows have {mean:.5g} on average, from {min(near):.5g} to "
            f"{max(near):.5g}; this one has {given:.5g}."
        )
    between = "" if interval is None else f", between {interval[0]:.5g} and {interval[1]:.5g}"
    found.append(f"{expected:.5g} is expected here{between}.")
    difference = given - expected
    if difference:
        found.append(f"The given value is {abs(difference):.5g} {'higher' if difference > 0 else 'lower'}.")
    return found


def percent(share: float) -> str:
    """A probability as people say it; never all or nothing.

    >>> percent(0.914), percent(0.0002), percent(1.0)
    ('91 %', 'less than 1 %', 'more than 99 %')
    """
    if share < 0.005:
        return "less than 1 %"
    return "more than 99 %" if share >= 0.995 else f"{share:.0%}".replace("%", " %")
