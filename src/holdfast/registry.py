"""What people choose by name on the command line, with settings written as name=value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeVar

from holdfast.errors import HoldfastError
from holdfast.settings import checked_settings

T = TypeVar("T")

LITERALS = {"true": True, "false": False, "none": None}
"""Values as people write them who do not write Python."""


def by_name(kind: type[T], namespace: Mapping[str, Any]) -> dict[str, type[T]]:
    """The classes of a kind that a module has imported, by the name that each gives itself."""
    found = [item for item in namespace.values() if isinstance(item, type) and issubclass(item, kind)]
    return {item.name: item for item in found if isinstance(item.__dict__.get("name"), str)}  # type: ignore[attr-defined]


def columns_near(wanted: str, columns: Iterable[object], most: int = 5) -> str:
    """What columns a table has, for an error about one that it lacks: all of a few, the nearest by name of many.

    >>> columns_near("lable", ["age", "Label"])
    "its columns are 'age', 'Label'"
    >>> columns_near("lable", ["age", "Label", "town"], most=1)
    "of its 3 columns the nearest is 'Label'"
    """
    names = [str(name) for name in columns]
    if len(names) <= most:
        return f"its columns are {', '.join(map(repr, names))}"
    lowered = {name.lower(): name for name in names}
    close = [lowered[name] for name in get_close_matches(wanted.lower(), lowered, n=most, cutoff=0)]
    return f"of its {len(names):,} columns the nearest {'are' if most > 1 else 'is'} {', '.join(map(repr, close))}"


def lookup(what: str, name: str, among: Mapping[str, Callable[..., T]], options: Iterable[str]) -> Callable[[], T]:
    """How to make what a name stands for, with its settings; a mistake in either raises at once.

    >>> lookup("number", "half", {"whole": int}, [])
    Traceback (most recent call last):
    ...
    holdfast.errors.HoldfastError: no number is called 'half' (there are whole)
    """
    if name not in among:
        close = get_close_matches(name, among, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise HoldfastError(f"no {what} is called {name!r} (there are {', '.join(among)}){hint}")
    make = partial(among[name], **checked_settings(name, among[name], dict(map(setting, options))))
    try:
        make()
    except TypeError as error:
        raise HoldfastError(f"{name}: {error}") from None
    return make


def made(what: str, named: T | str, among: Mapping[str, Callable[..., T]]) -> T:
    """What a name stands for, with its usual settings; what is no name is returned as it is."""
    return lookup(what, named, among, [])() if isinstance(named, str) else named


def setting(text: str) -> tuple[str, Any]:
    """A name and its value: a Python literal, true, false or none, or else a word.

    >>> setting("rate=0.5"), setting("mix=cluster"), setting("exact=true")
    (('rate', 0.5), ('mix', 'cluster'), ('exact', True))
    """
    name, found, value = text.partition("=")
    if not found:
        raise HoldfastError(f"--set takes name=value, not {text!r}")
    if value in LITERALS:
        return name, LITERALS[value]
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two of words nested too deeply
        return name, value
