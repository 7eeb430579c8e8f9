"""``holdfast predict``: predictions of a trained run for further rows."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from holdfast.cli import options as o
from holdfast.data import read_inputs
from holdfast.errors import HoldfastError
from holdfast.files import written_aside
from holdfast.run import Run


def predict(
    run: o.RunPath,
    data: o.Data,
    features: o.Features = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; standard output if not given.")] = None,
) -> None:
    """Predict rows with a trained run; the label column may be missing.

    Example: [bold]holdfast predict run/ more.csv --out predictions.csv[/bold]
    """
    trained = Run.load(run)
    reading = trained.config.source.get("reading", {})
    as_before = {name: reading[name] for name in ("delimiter", "encoding", "skip_broken") if name in reading}
    bar = partial(o.bar_of, False)
    x, names = read_inputs(data, trained.config.recipe, features=features, progress=bar, **as_before)
    found, trained_on = tuple(x.shape[1:]), trained.config.shape
    if found != trained_on:
        raise HoldfastError(f"{data} has inputs of shape {found}, but the run was trained on {trained_on}")
    table = pd.DataFrame({"row": range(len(x)), **({} if names is None else {"name": names})})
    if trained.classes is None:
        values = trained.predict(x)
        for k in range(values.shape[1]):
            table["prediction" if values.shape[1] == 1 else f"prediction_{k}"] = values[:, k]
    else:
        probability, number = trained.probabilities(x).max(1)
        table["prediction"] = [trained.classes[k] for k in number.tolist()]
        table["probability"] = probability.numpy().round(6)
    if out is None:
        table.to_csv(sys.stdout, index=False)
        return
    with written_aside(out) as aside:
        table.to_csv(aside, index=False)
    o.console.print(f"{len(table)} predictions: {out}")
