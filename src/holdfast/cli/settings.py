"""``--set name=value``: whose setting it is, and what can be set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.errors import HoldfastError

IN_FILE = "holdfast.settings"
"""Under this name the settings of a configuration file wait for those of the command line."""


def owned(options: Iterable[str], owners: Sequence[str], first: str | None = None) -> dict[str, list[str]]:
    """Settings by whose they are: ``stop.patience=3`` is one of ``stop``; without a prefix they belong to ``first``.

    >>> owned(["rate=0.2", "stop.patience=3"], ["stop"], "prl-l")
    {'prl-l': ['rate=0.2'], 'stop': ['patience=3']}
    """
    from holdfast.registry import setting

    found: dict[str, list[str]] = {} if first is None else {first: []}
    for text in options:
        name, value = setting(text)
        owner, dot, rest = name.partition(".")
        if dot and owner in owners:
            found.setdefault(owner, []).append(text.partition(".")[2])
        elif not dot and first is not None:
            found[first].append(text)
        elif not dot:
            example = f"{owners[0] if owners else 'crust'}.{name}={value}"
            raise HoldfastError(f"--set {text}: say whose setting it is, such as {example}")
        else:
            close = get_close_matches(owner, owners, n=1)
            hint = f"; did you mean {close[0]}.{rest}?" if close else ""
            plain = "" if first is None else f"; a setting of {first} has no prefix"
            raise HoldfastError(f"--set {text}: {owner!r} is none of {', '.join(owners)}{hint or plain}")
    return found


def with_those_of_the_file(ctx: typer.Context, given: list[str]) -> list[str]:
    """Settings of a configuration file, and after them, so that they win, those of the command line."""
    return [*ctx.meta.get(IN_FILE, ()), *given]


def values_of(options: Iterable[str]) -> dict[str, Any]:
    """Names and values."""
    from holdfast.registry import setting

    return dict(map(setting, options))


def table_of_settings(name: str, make: Any) -> Table:
    """Names, types, defaults and a line on each; it fits 80 columns."""
    from holdfast.settings import settings_of

    table = Table(header_style="bold", title=None)
    for title, width in (("setting", 12), ("type", 18), ("default", 9), ("what it is", None)):
        table.add_column(title, min_width=width if title == "setting" else None, overflow="fold")
    for each in settings_of(make).values():
        table.add_row(each.name, each.kind, _shown(each.default), escape(each.about.replace("``", "")))
    return table


def _shown(default: Any) -> str:
    words: Mapping[Any, str] = {True: "true", False: "false", None: "none"}
    return words[default] if default is None or isinstance(default, bool) else str(default)
