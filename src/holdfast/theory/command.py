"""``holdfast diagnose``: hold a run against the theory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holdfast.run import Run


def diagnose(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; diagnosis.html in the run if not given.")
    ] = None,
    examples: Annotated[int, typer.Option(help="Rows whose Jacobian is looked at.")] = 100,
) -> None:
    """Say how far a run went, what its Jacobian looks like, and which conditions of the theorems hold.

    Example: [bold]holdfast diagnose run/[/bold]
    """
    from holdfast.theory.diagnosis import diagnose as look  # draws and decomposes, which the other commands never do
    from holdfast.theory.page import panels, write_page

    console = Console()
    with console.status("looking at the Jacobian"):
        told = look(Run.load(run), examples=examples)
    path = out or run / "diagnosis.html"
    write_page(told, path)
    for panel in panels(told):
        console.print(f"[bold]{panel.title}.[/bold] {panel.sentence}", highlight=False)
    held = [condition for lines in told.conditions.values() for condition in lines]
    if held:
        console.print(f"{sum(c.holds for c in held)} of {len(held)} conditions of the theorems hold", highlight=False)
    console.print(f"page: {path}", highlight=False)
