"""``holdfast diagnose``: hold a run against the theory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from holdfast.cli import on_disk as d
from holdfast.cli import options as o


def diagnose(
    run: o.RunPath,
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write; by default, diagnosis.html in the run.")
    ] = None,
    examples: Annotated[int, typer.Option(help="How many rows to compute the Jacobian for.")] = 100,
    follow_links: d.FollowLinks = False,
    force: o.Force = False,
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Compare a run with the theory: how far its weights moved, its Jacobian, and which theorems apply.

    Example: [bold]holdfast diagnose run/[/bold]
    """
    from holdfast.diagnosis.diagnose import diagnose as look
    from holdfast.diagnosis.page import panels, write_page
    from holdfast.run import Run

    if out is not None:
        o.check_free(out, force)
    with o.console.status("looking at the Jacobian"):
        found = look(Run.load(run, trust=d.trusted(trust_code, follow_links)), examples=examples)
    path = out or run / "diagnosis.html"
    write_page(found, path)
    for panel in panels(found):
        o.console.print(Text.assemble((f"{panel.title}. ", "bold"), panel.sentence))
    conditions = [condition for lines in found.conditions.values() for condition in lines]
    if conditions:
        o.console.print(
            f"{sum(c.holds for c in conditions)} of {len(conditions)} conditions of the theorems hold", highlight=False
        )
    o.console.print(f"page: {path}", highlight=False)
