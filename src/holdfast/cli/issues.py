"""``holdfast issues``: which labels of a run are wrong, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from holdfast.cli import options as o

if TYPE_CHECKING:
    import pandas as pd

BESIDE = ("low", "high", "why")
"""Columns that a narrow screen has no room for."""


def issues(
    run: o.RunPath,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write; by default, issues.csv in the run.")] = None,
    show: Annotated[int, typer.Option(help="How many rows to print, lowest trust first.")] = 10,
    force: o.Force = False,
) -> None:
    """List the labels that are probably wrong, with suggestions and the trust in each label.

    After a holdfast review, decided rows have the label that was decided, and the answers calibrate the trust in all
    others.

    Example: [bold]holdfast issues run/[/bold]
    """
    from holdfast.issues.find import REVIEWED
    from holdfast.run import Run
    from holdfast.spreadsheet import write_csv

    if out is not None:
        o.check_free(out, force)
    made = Run.records(run)
    table = made.issues()
    path = out or run / "issues.csv"
    write_csv(table, path)
    flagged = table[table["flag"] & (table["why"] != REVIEWED)]
    if show > 0 and len(flagged):
        o.console.print(_shown(flagged.head(show), o.is_narrow()))
    o.say_wrong_labels(made.wrong_labels(), path)


def _shown(lines: pd.DataFrame, narrow: bool) -> Table:
    """The first rows of the list; a narrow screen has a line for each, and leaves intervals and reasons to the file."""
    table = Table(header_style="bold")
    left = {"flag", "held_out", *(BESIDE if narrow else ())}
    columns = [name for name in lines.columns if name not in left and (name != "name" or lines[name].any())]
    for name in columns:
        widest = 16 if narrow and name not in ("row", "trust") else None
        table.add_column(name, no_wrap=narrow, overflow="ellipsis", max_width=widest)
    for line in lines.to_dict("records"):
        table.add_row(*(f"{line[n]:.4g}" if isinstance(line[n], float) else str(line[n]) for n in columns))
    return table
