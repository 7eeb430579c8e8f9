"""``report.html``: the configuration of a run, what training saw, how many labels are wrong and which, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from holdfast.data.display import Display
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.files import write_text
from holdfast.issues.find import FLAGGED, ranked
from holdfast.issues.noise import WrongLabels
from holdfast.report import charts
from holdfast.report.parts import card_of, class_chart, confusions, matrix_cells, pages
from holdfast.run import Run


def write_report(run: Run, path: str | Path, *, top: int = 48) -> WrongLabels:
    """Write the report of a run to one HTML file that needs no network; how many labels are wrong is returned.

    Rows are shown as pictures, fields or text where the data can be found again; else the report says why not.

    Parameters
    ----------
    top: suspects in the gallery.
    """
    table = run.answered_table()
    noise, wrong = None if run.classes is None else run.noise(), run.wrong_labels()
    rows, display, missing = _shown(run)
    suspects = ranked(table.assign(position=np.arange(len(table)))).query("flag").head(top)
    text = (
        pages()
        .get_template("report.html.jinja")
        .render(
            title=Path(run.config.source["path"]).name if run.config.source else "rows in memory",
            config=_config(run),
            wrong=wrong,
            score=run.scored.partition(" ") if "test" in run.history else None,
            metric=_metric(run),
            epoch=run.best_epoch + 1,
            charts=_charts(run),
            classes=None if noise is None else class_chart(noise),
            matrix=None if noise is None else matrix_cells(noise, run.classes or ()),
            pairs=[] if noise is None else confusions(table),
            trust=charts.histogram(table["trust"].to_numpy(), FLAGGED),
            cards=[card_of(line, display) for line in suspects.to_dict("records")],
            missing=missing,
            read=None if rows is None else rows.summary,
            run=run.out,
        )
    )
    write_text(Path(path), text)
    return wrong


def _shown(run: Run) -> tuple[Rows | None, Display | None, str]:
    """The rows of a run and what there is to see of them, where they can be found again; else why not."""
    try:
        rows = run.judged_rows()
        return rows, Display(rows), ""
    except HoldfastError as error:
        return None, None, str(error)


def _config(run: Run) -> list[tuple[str, str]]:
    config = run.config
    shown = {
        "method": config.call,
        "network": f"{config.net or config.network}, {config.parameters:,} parameters",
        **({"trees": run.joined} if run.joined else {}),
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
