"""``holdfast predict``: predictions of a trained run for further rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import on_disk as d
from holdfast.cli import options as o
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from holdfast.data.on_disk import OnDisk
    from holdfast.run import Run

ALL = "all"
"""What keeps every column."""


def predict(
    run: o.RunPath,
    data: o.Data,
    features: o.Features = None,
    table: o.TableName = None,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write; by default, standard output.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write the probability of every class.")
    ] = False,
    keep: Annotated[
        list[str],
        typer.Option(help=f"Columns to copy next to the predictions, such as id,name, or {ALL}."),
    ] = [],  # noqa: B006
    force: o.Force = False,
    follow_links: d.FollowLinks = False,
    trust_code: o.TrustCode = [],  # noqa: B006
) -> None:
    """Predict new rows with a trained run. They need no label column.

    Example: [bold]holdfast predict run/ more.csv --out predictions.csv[/bold]
    """
    import pandas as pd

    from holdfast.data import read_inputs
    from holdfast.data.formats import file_options
    from holdfast.data.rows import shape_of
    from holdfast.run import Run
    from holdfast.spreadsheet import write_csv

    if out is not None:
        o.check_free(out, force)
    trained = Run.load(run, trust=trust_code)
    reading = trained.config.source.get("reading", {})
    as_before = file_options({**reading, "table": table or reading.get("table")})
    bar = partial(o.bar_of, False)
    broken = bool(reading.get("skip_broken"))
    x, names = read_inputs(
        data, trained.config.recipe, skip_broken=broken, features=features, follow_links=follow_links,
        progress=bar, **as_before
    )  # fmt: skip
    found, trained_on = shape_of(x), trained.config.shape
    if found != trained_on:
        raise HoldfastError(f"{data} has inputs of shape {found}, but the run was trained on {trained_on}")
    rows = pd.DataFrame({"row": range(len(x)), **({} if names is None else {"name": names})})
    predicted = _predicted(trained, x, probabilities)
    made = pd.concat([rows, predicted], axis=1)
    if keep:
        kept = _kept(data, trained, keep, len(x), as_before)
        twice = [name for name in kept if name in predicted]
        if twice:
            raise HoldfastError(f"{data} has a column {twice[0]!r} as the predictions have; leave it out of --keep")
        made = pd.concat([rows.drop(columns=[name for name in rows if name in kept]), kept, predicted], axis=1)
    write_csv(made, sys.stdout if out is None else out)
    if out is not None:
        o.console.print(f"{len(made)} predictions: {out}")


def _predicted(trained: Run, x: Tensor | OnDisk, probabilities: bool) -> pd.DataFrame:
    """What is predicted of each row: a class with its probability, or numbers."""
    import pandas as pd

    if trained.classes is None:
        if probabilities:
            raise HoldfastError("numbers are predicted, which have no probabilities; leave --probabilities out")
        values = trained.predict(x)
        names = ["prediction"] if values.shape[1] == 1 else [f"prediction_{k}" for k in range(values.shape[1])]
        return pd.DataFrame(values, columns=names)
    of_classes = trained.probabilities(x)
    probability, number = of_classes.max(1)
    table = pd.DataFrame({"prediction": [trained.classes[k] for k in number.tolist()]})
    table["probability"] = probability.numpy().round(6)
    if not probabilities:
        return table
    every = pd.DataFrame(of_classes.numpy().round(6), columns=[f"probability_{name}" for name in trained.classes])
    return pd.concat([table, every], axis=1)


def _kept(data: Path, trained: Run, asked: Sequence[str], count: int, options: Mapping[str, str]) -> pd.DataFrame:
    """The columns of the table that was read which are to be kept, in the order asked for."""
    from holdfast.data.kinds import kind_of
    from holdfast.data.load import load_table
    from holdfast.registry import columns_near

    if kind_of(data) != "table":
        raise HoldfastError(f"{data} is no table, so it has no columns to keep; leave --keep out")
    table = load_table(data, **options)
    frame = table.frame if table.test is None else table.test
    if len(frame) != count:
        raise HoldfastError(f"{data} has {len(frame)} rows, of which {count} were read; leave --keep out")
    named: list[str] = []
    for part in asked:
        # A name may hold commas itself.
        named += [part] if part in frame else [name.strip() for name in part.split(",")]
    if named == [ALL] and ALL not in frame:
        return frame
    gone = next((name for name in named if name not in frame), None)
    if gone is not None:
        raise HoldfastError(f"{data} has no column {gone!r} to keep; {columns_near(gone, frame)}")
    return frame[list(dict.fromkeys(named))]
