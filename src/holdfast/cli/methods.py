"""``holdfast methods``: the methods, what they do and what they are for."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from holdfast.cli import options as o
from holdfast.methods.catalogue import catalogue, markdown


def methods(
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As a table for a document.")] = False,
) -> None:
    """List the methods, with one sentence on each.

    Example: [bold]holdfast methods[/bold]
    """
    if as_markdown:
        print(markdown())
        return
    table = Table(header_style="bold")
    for title in ("name", "what it does", "networks", "labels"):
        table.add_column(title)
    for entry in catalogue():
        table.add_row(entry.name, entry.summary, str(entry.networks), entry.labels)
    o.console.print(table)
