"""``report.html``: the configuration of a run, what training saw, how many labels are wrong and which, in one file."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.config import RunConfig
from holdfast.data.display import Display
from holdfast.errors import HoldfastError
from holdfast.files import write_text
from holdfast.issues.find import FLAGGED, ranked
from holdfast.issues.noise import Noise, WrongLabels
from holdfast.report import charts
from holdfast.run import Run

MOST_CLASSES = 20
"""Classes that a heat map or a chart of bars can show."""
PICTURE = 160
"""Pixels on the long side of a picture in the gallery, so that the file stays small."""


def write_report(run: Run, path: str | Path, *, top: int = 48) -> WrongLabels:
    """Write the report of a run to one HTML file that needs no network; how many labels are wrong is returned.

    Rows are shown as pictures, fields or text where the data can be found again; else the report says why not.

    Parameters
    ----------
    top: suspects in the gallery.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # only a report needs it

    table = run.issue_table()
    noise, wrong = None if run.classes is None else run.noise(), run.wrong_labels()
    display, missing = _display(run)
    suspects = ranked(table.assign(position=np.arange(len(table)))).query("flag").head(top)
    loader = PackageLoader("holdfast.report", "")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = pages.get_template("report.html.jinja").render(
        title=Path(run.config.source["path"]).name if run.config.source else "rows in memory",
        config=_config(run.config),
        wrong=wrong,
        score=run.scored.partition(" ") if "test" in run.history else None,
        metric=_metric(run),
        epoch=run.best_epoch + 1,
        charts=_charts(run),
        classes=None if noise is None else _classes(noise),
        matrix=None if noise is None else _matrix(noise, run.classes or ()),
        pairs=[] if noise is None else _pairs(table),
        trust=charts.histogram(table["trust"].to_numpy(), FLAGGED),
        cards=[_card(line, display) for line in suspects.to_dict("records")],
        missing=missing,
        run=run.out,
    )
    write_text(Path(path), text)
    return wrong


def _display(run: Run) -> tuple[Display | None, str]:
    try:
        return Display(run.judged_rows()), ""
    except HoldfastError as error:
        return None, str(error)


def _config(config: RunConfig) -> list[tuple[str, str]]:
    shown = {
        "method": config.call,
        "network": f"{config.net or config.network}, {config.parameters:,} parameters",
        "epochs": config.epochs,
        "batch size": config.batch_size,
        "seed": config.seed,
        "data": config.source["path"] if config.source else "rows in memory",
        "fingerprint": config.fingerprint,
        "versions": ", ".join(f"{name} {version}" for name, version in config.versions.items()),
    }
    return [(name, str(value)) for name, value in shown.items()]


def _metric(run: Run) -> str:
    return "accuracy" if run.classes is not None else "R2"


def _charts(run: Run) -> list[tuple[str, Any]]:
    scores = {name: run.history[name].tolist() for name in ("test", "train") if name in run.history}
    shares = {
        title: run.history[name].tolist()
        for name, title in (("coverage", "labels trusted"), ("purity", "right among the trusted"))
        if name in run.history and run.history[name].nunique() > 1
    }
    metric = _metric(run)
    shown = [(f"{metric} by epoch", charts.curves(scores, y=metric))] if scores else []
    shown.append(("loss by epoch", charts.curves({"loss": run.history["loss"].tolist()}, y="loss")))
    return [*shown, ("share of labels by epoch", charts.curves(shares, y="share"))] if shares else shown


def _classes(noise: Noise) -> Any:
    table = noise.classes.sort_values("wrong", ascending=False).head(MOST_CLASSES)
    return charts.intervals(table["class"].tolist(), table[["wrong", "low", "high"]].to_numpy().tolist())


def _matrix(noise: Noise, names: tuple[str, ...]) -> list[tuple[str, list[tuple[float, float, float]]]] | None:
    if len(names) > MOST_CLASSES:
        return None
    cells = zip(noise.transition.tolist(), noise.low.tolist(), noise.high.tolist(), strict=True)
    return [(name, list(zip(*line, strict=True))) for name, line in zip(names, cells, strict=True)]


def _pairs(table: pd.DataFrame, most: int = 10) -> list[tuple[str, str, int]]:
    """The commonest confusions among the flagged rows: given, suggested, how many."""
    counts = table[table["flag"]].groupby(["given", "suggested"], sort=False).size().nlargest(most)
    return [(str(pair[0]), str(pair[1]), int(count)) for pair, count in counts.items()]  # type: ignore[index]


def _card(line: Mapping[Any, Any], display: Display | None) -> dict[str, Any]:
    position = int(line["position"])
    card: dict[str, Any] = {
        "row": line["row"],
        "name": line["name"],
        "given": label_text(line, "given"),
        "suggested": label_text(line, "suggested"),
        "trust": line["trust"],
        "why": line["why"],
        "picture": None,
        "texts": [],
        "fields": [],
        "problem": "",
    }
    if display is None:
        return card
    try:
        if display.pictures:
            picture = base64.b64encode(display.png(position, PICTURE)).decode()
            card["picture"] = f"data:image/png;base64,{picture}"
    except HoldfastError as error:
        card["problem"] = str(error)
    card["texts"] = display.texts(position)
    card["fields"] = display.fields(position, 6)
    return card


def label_text(line: Mapping[Any, Any], which: str) -> str:
    """The label of a row of the table of issues as people read it; several targets in one line."""
    if which in line:
        label = line[which]
        text = f"{label:.5g}" if isinstance(label, float) else str(label)
        return f"{text} ({line['low']:.5g} to {line['high']:.5g})" if which == "suggested" and "low" in line else text
    values = [value for name, value in line.items() if name.startswith(f"{which}_")]
    return ", ".join(f"{value:.4g}" for value in values)
