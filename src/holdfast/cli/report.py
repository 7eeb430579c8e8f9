"""``holdfast report``: one HTML file to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import on_disk as d
from holdfast.cli import options as o


def report(
    run: o.RunPath,
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write; by default, report.html in the run.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many suspects to show.")] = 48,
    follow_links: d.FollowLinks = False,
    force: o.Force = False,
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Write an HTML report: noise by class, trust, and the rows whose labels look wrong.

    Example: [bold]holdfast report run/[/bold]
    """
    from holdfast.report import write_report
    from holdfast.run import Run

    if out is not None:
        o.check_free(out, force)
    path = out or run / "report.html"
    o.say_wrong_labels(write_report(Run.records(run, trust=d.trusted(trust_code, follow_links)), path, top=top), path)
