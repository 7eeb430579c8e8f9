"""``holdfast report``: one HTML file to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import options as o


def report(
    run: o.RunPath,
    out: Annotated[Path | None, typer.Option(help="HTML file to write; report.html in the run if not given.")] = None,
    top: Annotated[int, typer.Option(help="Suspects in the gallery.")] = 48,
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Write one HTML file to look at: noise by class, trust, and the rows whose labels look wrong.

    Example: [bold]holdfast report run/[/bold]
    """
    from holdfast.report import write_report
    from holdfast.run import Run

    path = out or run / "report.html"
    o.say_wrong_labels(write_report(Run.records(run, trust=trust_code), path, top=top), path)
