"""``holdfast import``: decisions made in Label Studio or Argilla, back into a run."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import options as o
from holdfast.errors import HoldfastError


def take_in(
    run: o.RunPath,
    file: Annotated[
        Path, typer.Argument(help="A JSON file that Label Studio or Argilla has exported.", show_default=False)
    ],
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Import decisions from Label Studio or Argilla. These rows then count as reviewed.

    Example: [bold]holdfast import run/ project-1.json[/bold], then [bold]holdfast export run/ --out cleaned.csv[/bold]
    """
    from holdfast.exchange import argilla, label_studio
    from holdfast.exchange.items import take_in as kept
    from holdfast.run import Run

    made = Run.records(run, trust=trust_code)
    content = _content(file)
    tool = next((tool for tool in (label_studio, argilla) if tool.is_export(content)), None)
    if tool is None:
        raise HoldfastError(f"{file} is no JSON export of Label Studio (tasks with annotations) or Argilla (records)")
    try:
        decided = list(tool.decided(content, made))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise HoldfastError(f"{file} is not as the tool exports it ({type(error).__name__}: {error})") from None
    new = kept(made, run, decided)
    text = f"{len(decided):,} decisions, {new:,} of them new; next: holdfast clean {run} --out FILE"
    o.console.print(text, highlight=False, soft_wrap=True)


def _content(file: Path) -> Any:
    """A JSON file, or one of JSON lines as a list."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{file} cannot be read: {error}") from None
    try:
        with suppress(ValueError):
            return json.loads(text)
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except RecursionError:
        raise HoldfastError(f"{file} is nested too deeply") from None
    except ValueError as error:
        raise HoldfastError(f"{file} is no JSON: {error}") from None
