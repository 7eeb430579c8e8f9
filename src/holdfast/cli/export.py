"""``holdfast export``: corrected labels as a file, or doubtful rows for the tools that people label with."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import on_disk as d
from holdfast.cli import options as o
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.run import Run


class To(StrEnum):
    """Whom an export is for."""

    csv = "csv"
    label_studio = "label-studio"
    argilla = "argilla"
    hugging_face = "hugging-face"


def export(
    run: o.RunPath,
    out: Annotated[Path, typer.Option(help="The file to write; a folder for hugging-face.", show_default=False)],
    to: Annotated[
        To,
        typer.Option(help="csv: corrected labels for fit --labels. Others: doubtful rows with suggestions, to label."),
    ] = To.csv,
    every: Annotated[bool, typer.Option("--all", help="Export all rows to label, not only the doubtful ones.")] = False,
    force: o.Force = False,
    follow_links: d.FollowLinks = False,
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Write corrected labels, or doubtful rows for a labelling tool ([bold]import[/bold] reads its answers).

    Example: [bold]holdfast export run/ --out cleaned.csv[/bold]
    """
    from holdfast.clean.files import folder_aside
    from holdfast.exchange import argilla, hugging_face, label_studio
    from holdfast.exchange.items import items
    from holdfast.files import write_text
    from holdfast.run import Run

    made = Run.records(run, trust=d.trusted(trust_code, follow_links))
    if to is To.csv:
        _labels(made, run, out, force)
        return
    endings = {To.label_studio: (".json",), To.argilla: (".json", ".jsonl"), To.hugging_face: ("",)}[to]
    if out.suffix not in endings:
        raise HoldfastError(f"{out} must {'end in ' + ' or '.join(endings) if all(endings) else 'be a folder'}")
    if out.exists() and not (force and out.is_dir() == (to is To.hugging_face)):
        raise HoldfastError(f"{out} exists; choose another name" + ("" if out.is_dir() else ", or pass --force"))
    found = items(made, every)
    more = ""
    if to is To.hugging_face:
        with folder_aside(out, force) as aside:
            hugging_face.save(found, made, aside)
    elif to is To.argilla:
        lines = [json.dumps(record, ensure_ascii=False) for record in argilla.records(found, made)]
        write_text(out, "\n".join(lines) + "\n" if out.suffix == ".jsonl" else f"[{', '.join(lines)}]\n")
    else:
        write_text(out.with_suffix(".xml"), label_studio.page(found, made))
        write_text(
            out, json.dumps(label_studio.tasks(found, made), ensure_ascii=False) + "\n"
        )  # last: it says all is there
        more = f", and {out.with_suffix('.xml')} as the labelling interface"
    _tell(f"{len(found):,} rows: {out}{more}")
    if to is not To.hugging_face:
        _tell(f"labelled and exported as JSON they come back by: holdfast import {run} FILE")


def _labels(made: Run, run: Path, out: Path, force: bool) -> None:
    """Reviewed labels, for fit --labels."""
    from holdfast.review.answers import columns_of
    from holdfast.review.export import corrected
    from holdfast.spreadsheet import write_csv

    if out.suffix != ".csv":
        raise HoldfastError(f"{out} must end in .csv")
    o.check_free(out, force)
    answers, earlier = made.answers(), int(made.earlier_reviews()["reviewed"].sum())
    if answers is None and not earlier:
        raise HoldfastError(
            f"nothing is reviewed in {run} yet; run holdfast review {run}, or correct labels without a review: "
            f"holdfast clean {run} --out FILE"
        )
    table = corrected(made, answers)
    write_csv(table, out)
    before, after = (table[columns_of(table, name)].to_numpy() for name in ("original", "label"))
    reviewed, changed = table["reviewed"].to_numpy(), int((before != after).any(1).sum())
    again = f", {earlier:,} of them before this run" if earlier else ""
    _tell(f"{int(reviewed.sum()):,} rows reviewed{again}, {changed:,} labels changed: {out}")
    if made.config.source:
        data = made.config.source["path"]
        _tell(f"train again, with other options as before: holdfast fit {data} --labels {out} --out FOLDER")


def _tell(text: str) -> None:
    o.console.print(text, highlight=False, soft_wrap=True)
