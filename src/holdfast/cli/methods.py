"""``holdfast methods``: the methods, what they do and what they are for."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli import options as o
from holdfast.cli.settings import table_of_settings
from holdfast.errors import HoldfastError


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="A method, a stop rule or a kind of noise, to list its settings.", show_default=False),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """List the methods with one sentence on each, or the settings of one.

    Example: [bold]holdfast methods crust[/bold]
    """
    from holdfast.methods.catalogue import catalogue, markdown

    if name is not None:
        _settings(name)
        return
    if as_markdown:
        print(markdown())
        return
    table = Table(header_style="bold")
    for title in ("name", "what it does", "networks", "labels"):
        table.add_column(title)
    for entry in catalogue():
        table.add_row(entry.name, entry.summary, str(entry.networks), entry.labels)
    o.console.print(table)


def _settings(name: str) -> None:
    from holdfast.contrastive import CONTRASTIVE
    from holdfast.methods import METHODS
    from holdfast.methods.catalogue import catalogue
    from holdfast.noise import KINDS, TARGET_KINDS
    from holdfast.settings import settings_of
    from holdfast.stop import STOPS

    parts: dict[str, Any] = {**TARGET_KINDS, **KINDS, **CONTRASTIVE, **STOPS, **METHODS}
    if name not in parts:
        close = get_close_matches(name, parts, n=1)
        hint = f"; did you mean {close[0]}?" if close else "; holdfast methods lists the methods"
        raise HoldfastError(f"no method, stop rule or kind of noise is called {name!r}{hint}")
    summary = next((entry.summary for entry in catalogue() if entry.name == name), "")
    if summary:
        o.console.print(f"{name}: {summary}", highlight=False)
    if not settings_of(parts[name]):
        o.console.print(f"{name} has no settings", highlight=False)
        return
    o.console.print(table_of_settings(name, parts[name]))
