"""``holdfast export``: corrected labels as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import options as o
from holdfast.errors import HoldfastError
from holdfast.files import written_aside
from holdfast.review.export import corrected
from holdfast.review.store import REVIEWS, decisions_at
from holdfast.run import Run


def export(
    run: o.RunPath,
    out: Annotated[Path, typer.Option(help="The CSV file to write.", show_default=False)],
) -> None:
    """Write corrected labels, for [bold]holdfast fit DATA --labels[/bold].

    Example: [bold]holdfast export run/ --out cleaned.csv[/bold]
    """
    o.check_new_file(out, ".csv")
    made = Run.records(run)
    if not (run / REVIEWS).exists():
        raise HoldfastError(f"nothing is reviewed in {run} yet; run holdfast review {run}")
    decisions = decisions_at(run / REVIEWS, made.config.fingerprint)
    table = corrected(made.issue_table(), decisions, made.classes is not None)
    with written_aside(out) as aside:
        table.to_csv(aside, index=False)
    labels = [name for name in table.columns if name.startswith("label")]
    changed = sum(int((table[name] != table[name.replace("label", "given")]).sum()) for name in labels[:1])
    reviewed = int(table["reviewed"].sum())
    o.console.print(f"{reviewed:,} rows reviewed, {changed:,} labels changed: {out}", highlight=False)
