"""``check.html``: what a check has found, in one file to look at."""

from __future__ import annotations

import base64
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.audit.finding import Finding
from holdfast.audit.labels import KIND as LABEL
from holdfast.audit.subject import Subject
from holdfast.data.display import Display
from holdfast.data.formats import file_options
from holdfast.errors import HoldfastError
from holdfast.files import write_text
from holdfast.issues.find import FLAGGED
from holdfast.issues.noise import Noise, WrongLabels, rate_by_trust
from holdfast.report import charts
from holdfast.report.parts import PICTURE, card_of, class_chart, matrix_cells, pages

CARDS, LINES = 24, 20
"""Rows shown of each kind of issue as cards, or as lines."""
SHOWN = (LABEL, "near duplicate", "conflicting duplicate", "outlier")
"""Kinds whose rows are worth looking at."""


def write_page(
    subject: Subject, findings: tuple[Finding, ...], noise: Noise | None, lines: pd.DataFrame, path: Path
) -> None:
    """Write what was found to one HTML file that needs no network.

    Parameters
    ----------
    noise: the noise of labels, where they are classes.
    lines: the table of issues, with the position of each row.
    """
    display = Display(subject.rows, subject.frame)
    labels = lines[lines["kind"] == LABEL]
    wrong = wrong_labels(labels, noise)
    text = (
        pages()
        .get_template("check.html.jinja")
        .render(
            title=data_name(subject),
            pictures=display.pictures,
            rows=len(subject),
            tests=0 if subject.test is None else len(subject.test),
            wrong=wrong,
            others=sum(found.count for found in findings if found.kind != LABEL),
            summary=[(found.kind, found.count, found.sentence) for found in findings],
            trust=charts.histogram(1 - labels["score"].to_numpy(dtype=float), FLAGGED) if len(labels) else None,
            classes=None if noise is None else class_chart(noise),
            matrix=None if noise is None else matrix_cells(noise, subject.rows.classes or ()),
            sections=[_section(found, lines, display, subject) for found in findings if found.count],
            fit=fit_command(subject),
            read=subject.rows.summary,
        )
    )
    write_text(path, text)


def wrong_labels(labels: pd.DataFrame, noise: Noise | None) -> WrongLabels | None:
    """How many labels are wrong, as all commands tell it; None where none was judged."""
    if not len(labels):
        return None
    rate, low, high = rate_by_trust(1 - labels["score"].to_numpy(dtype=float)) if noise is None else noise.rate
    return WrongLabels(rate, low, high, int(labels["flag"].sum()), len(labels))


def fit_command(subject: Subject) -> str:
    """The command that trains on the same data."""
    source = subject.rows.source
    reading = source.get("reading", {})
    named = {"label": subject.rows.recipe.get("label"), **file_options(reading)}
    options = [(f"--{name}", value) for name, value in named.items() if value is not None]
    options += [("--ignore", name) for name in reading.get("ignore", ())]
    options += [("--merge", f"{name}={to}") for name, to in reading.get("merge", {}).items()]
    words = [source["path"] if source else "DATA", *(word for option in options for word in option)]
    words += ["--keep-spelling"] if reading.get("keep_spelling") else []
    return f"holdfast fit {shlex.join(words)} --out run/"


def data_name(subject: Subject) -> str:
    return Path(subject.rows.source["path"]).name if subject.rows.source else "rows in memory"


def _section(found: Finding, lines: pd.DataFrame, display: Display, subject: Subject) -> dict[str, Any]:
    own = lines[(lines["kind"] == found.kind) & lines["flag"]]
    looked_at = found.kind in SHOWN and bool((own["position"] >= 0).all())
    shown = own.head(CARDS if looked_at else LINES).to_dict("records")
    return {
        "title": {LABEL: "Labels that look wrong"}.get(found.kind, found.kind.capitalize()),
        "of": "column" if found.columns is not None else "row",
        "count": len(own),
        "more": len(own) > len(shown),
        "cards": [_card(line, display, subject) for line in shown] if looked_at else [],
        "lines": [] if looked_at else [_line(line) for line in shown],
    }


def _line(line: dict[Any, Any]) -> dict[str, Any]:
    row = "" if line["position"] < 0 else f"{line['row']} {line['name']}".strip()
    return {"what": line["column"] or row, "given": line["given"], "score": line["score"], "why": line["why"]}


def _card(line: dict[Any, Any], display: Display, subject: Subject) -> dict[str, Any]:
    card = card_of({**line, "trust": 1 - line["score"]}, display)
    card["score"], card["other"] = line["score"], None
    other = re.search(r"row (\d+)", line["why"])
    if display.pictures and other and "duplicate" in line["kind"]:
        position = int(np.flatnonzero(subject.numbers == int(other[1]))[0])
        with suppress(HoldfastError):
            picture = base64.b64encode(display.png(position, PICTURE)).decode()
            card["other"] = f"data:image/png;base64,{picture}"
    return card
