"""``holdfast diagnose``: hold a run against the theory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import options as o


def diagnose(
    run: o.RunPath,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; diagnosis.html in the run if not given.")
    ] = None,
    examples: Annotated[int, typer.Option(help="Rows whose Jacobian is looked at.")] = 100,
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Say how far a run went, what its Jacobian looks like, and which conditions of the theorems hold.

    Example: [bold]holdfast diagnose run/[/bold]
    """
    from holdfast.diagnosis.diagnose import diagnose as look
    from holdfast.diagnosis.page import panels, write_page
    from holdfast.run import Run

    with o.console.status("looking at the Jacobian"):
        found = look(Run.load(run, trust=trust_code), examples=examples)
    path = out or run / "diagnosis.html"
    write_page(found, path)
    for panel in panels(found):
        o.console.print(f"[bold]{panel.title}.[/bold] {panel.sentence}", highlight=False)
    conditions = [condition for lines in found.conditions.values() for condition in lines]
    if conditions:
        o.console.print(
            f"{sum(c.holds for c in conditions)} of {len(conditions)} conditions of the theorems hold", highlight=False
        )
    o.console.print(f"page: {path}", highlight=False)
