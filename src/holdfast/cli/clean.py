"""``holdfast clean``: the data of a run with its labels corrected, in its own format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from holdfast.cli import names
from holdfast.cli import on_disk as d
from holdfast.cli import options as o

if TYPE_CHECKING:
    from holdfast.clean.clean import Cleaned

SHOWN = 10
"""Pairs of classes that are printed."""


def clean(
    run: o.RunPath,
    out: Annotated[
        Path, typer.Option(help="The file to write, or the folder if the data is a folder.", show_default=False)
    ],
    correct: Annotated[
        float | None,
        typer.Option(
            help=f"Correct labels with a lower trust; by default {names.CORRECT:g}, unless you drop or mark.",
            show_default=False,
        ),
    ] = None,
    drop: Annotated[
        float | None, typer.Option(help="Drop rows with a lower trust that are not corrected.", show_default=False)
    ] = None,
    mark: Annotated[
        bool, typer.Option("--mark", help="Add columns with trust and suggestion; by itself, changes no labels.")
    ] = False,
    force: o.Force = False,
    follow_links: d.FollowLinks = False,
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Write your data in its own format, with wrong labels corrected, dropped or marked.

    Everything else stays the same, byte for byte if the format allows it. Reviewed labels are as decided.

    Example: [bold]holdfast clean run/ --out people_clean.csv[/bold]
    """
    from holdfast.clean.clean import clean as cleaned
    from holdfast.run import Run

    made = Run.records(run, trust=d.trusted(trust_code, follow_links))
    done = cleaned(made, out, correct=correct, drop=drop, mark=mark, force=force)
    if len(done.pairs):
        o.console.print(_shown(done))
    for sentence in done.sentences:
        o.console.print(sentence, highlight=False)
    o.console.print(f"cleaned: {out!s}", highlight=False, soft_wrap=True)


def _shown(done: Cleaned) -> Table:
    """The commonest changes of class, and how many others there are."""
    table = Table(header_style="bold")
    table.add_column("label was", max_width=30, overflow="ellipsis", no_wrap=True)
    table.add_column("is now", max_width=30, overflow="ellipsis", no_wrap=True)
    table.add_column("rows", justify="right")
    for line in done.pairs.head(SHOWN).itertuples(index=False):
        table.add_row(str(line[0]), str(line[1]), f"{line[2]:,}")
    rest = done.pairs.iloc[SHOWN:]
    if len(rest):
        table.add_row(f"{len(rest)} other pairs", "", f"{rest['rows'].sum():,}")
    return table
