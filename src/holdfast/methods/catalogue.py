"""The table of the methods, made from the classes."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from holdfast.method import Method
from holdfast.methods import DEFAULT, METHODS
from holdfast.task import Classification


class Entry(NamedTuple):
    """One line of the table."""

    name: str
    cls: str
    summary: str
    networks: int
    labels: str


def catalogue() -> list[Entry]:
    """A line for each method: ordinary training and the default first, then by name."""
    first = ("standard", DEFAULT)
    names = [*first, *sorted(name for name in METHODS if name not in first)]
    return [_entry(name, cls) for name in names if isinstance(cls := METHODS[name], type)]


def markdown() -> str:
    """The table for a document."""
    lines = ["| name | class | what it does | networks | labels |", "|---|---|---|---|---|"]
    lines += [f"| `{e.name}` | `{e.cls}` | {e.summary} | {e.networks} | {e.labels} |" for e in catalogue()]
    return "\n".join(lines)


def _entry(name: str, cls: type[Method]) -> Entry:
    # The first line of its file says it in plain words; ordinary training has no file of its own.
    words = cls.__doc__ if cls is Method else inspect.getdoc(inspect.getmodule(cls))
    line = (words or "").splitlines()[0].removesuffix(".")
    summary = line.partition(": ")[2] or line
    labels = "classes" if cls.requires is Classification else "classes, numbers"
    return Entry(name, cls.__name__, summary, cls.networks, labels)
