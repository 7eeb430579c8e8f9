"""``holdfast issues`` and ``holdfast report``: which labels of a run are wrong, as a table and to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.checkpoint import written_aside
from holdfast.run import Run

RunPath = Annotated[Path, typer.Argument(help="Folder of a finished run.", show_default=False)]


def issues(
    run: RunPath,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; issues.csv in the run if not given.")] = None,
    show: Annotated[int, typer.Option(help="How many of the least trusted rows to print.")] = 10,
) -> None:
    """Say which labels of a run are wrong: a ranked table with suggestions and calibrated trust.

    Example: [bold]holdfast issues run/[/bold]
    """
    made = Run.records(run)
    table = made.issues()
    path = out or run / "issues.csv"
    with written_aside(path) as aside:
        table.to_csv(aside, index=False, float_format="%.6g")
    console, flagged = Console(), int(table["flag"].sum())
    if show > 0 and flagged:
        console.print(_shown(table.head(min(show, flagged))))
    if made.classes is not None:
        rate, low, high = made.noise().rate
        console.print(f"wrong labels, estimated: {rate:.1%} ({low:.1%} to {high:.1%})")
    console.print(f"{flagged:,} of {len(table):,} rows flagged: {path}", highlight=False)


def report(
    run: RunPath,
    out: Annotated[Path | None, typer.Option(help="HTML file to write; report.html in the run if not given.")] = None,
    top: Annotated[int, typer.Option(help="Suspects in the gallery.")] = 48,
) -> None:
    """Write one HTML file to look at: noise by class, trust, and the rows whose labels look wrong.

    Example: [bold]holdfast report run/[/bold]
    """
    from holdfast.report import write_report  # draws and decodes, which the other commands never do

    path = out or run / "report.html"
    table = write_report(Run.records(run), path, top=top)
    Console().print(f"{int(table['flag'].sum()):,} of {len(table):,} rows flagged: {path}", highlight=False)


def _shown(lines: object) -> Table:
    table = Table(header_style="bold")
    columns = [name for name in lines.columns if name != "flag"]  # type: ignore[attr-defined]
    for name in columns:
        table.add_column(name)
    for line in lines.to_dict("records"):  # type: ignore[attr-defined]
        table.add_row(*(f"{line[n]:.4g}" if isinstance(line[n], float) else escape(str(line[n])) for n in columns))
    return table
