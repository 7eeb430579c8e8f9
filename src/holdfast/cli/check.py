"""``holdfast check``: what is wrong with data, before anything is trained on it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from holdfast.cli import on_disk as d
from holdfast.cli import options as o
from holdfast.cli.names import ENCODERS
from holdfast.errors import HoldfastError
from holdfast.own_code import own_code

if TYPE_CHECKING:
    from holdfast.audit.check import Check

WITHOUT = ("mlp", "cnn4")
"""Networks that ``fit`` trains on words and pixels."""


def check(
    data: o.Data,
    out: Annotated[Path, typer.Option(help="The folder for issues.csv and check.html.")] = Path("check"),
    label: o.Label = None,
    test: Annotated[
        Path | None, typer.Option(help="A test file; rows that are also in the training data are found.")
    ] = None,
    net: Annotated[
        str,
        typer.Option(
            help=f"A pre-trained network to read texts or photographs: {', '.join(ENCODERS)}, text:FOLDER or "
            "image:FOLDER (or a name on the Hugging Face hub), timm:NAME; auto: the usual one if it is installed and "
            "needs no more than five minutes; mlp or cnn4: none."
        ),
    ] = "auto",
    features: Annotated[
        Path | None,
        typer.Option(help="A .npy file of features to judge labels by, one row per row of DATA.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="One more model to judge labels by, with the interface of scikit-learn: lightgbm:LGBMClassifier, "
            "xgboost:XGBClassifier, my_module:MyModel. Used if it predicts held-out labels well.",
            show_default=False,
        ),
    ] = None,
    task: o.TaskName = None,
    threads: o.Threads = 0,
    missing: o.Drop = o.Missing.error,
    truth: Annotated[str | None, typer.Option(help="A column of true labels, which is ignored.")] = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    table: o.TableName = None,
    ignore: o.Ignore = [],  # noqa: B006
    merge: o.Merge = [],  # noqa: B006
    keep_spelling: o.KeepSpelling = False,
    image_size: o.ImageSize = None,
    skip_broken: o.SkipBroken = False,
    follow_links: d.FollowLinks = False,
    trust_pickle: o.TrustPickle = False,
    quiet: o.Quiet = False,
) -> None:
    """Find problems in data, before you train: wrong labels, duplicates, outliers, rare classes, leaking columns.

    Example: [bold]holdfast check people.csv --label income[/bold]
    """
    from holdfast.audit.check import check as look

    o.set_threads(threads)
    found = look(
        data, label, test=test, task=task, missing_labels=missing.value, truth=truth, image_size=image_size,
        skip_broken=skip_broken or None, follow_links=follow_links or None, trust_pickle=trust_pickle or None,
        encoder=_encoder(net), features=features, model=None if model is None else own_code(model, "a model")(),
        progress=o.progress_bar("check", quiet, unit="steps"),
        encoding_bar=partial(o.encoding_bar, quiet), delimiter=delimiter, encoding=encoding, table=table,
        **o.of_labels(ignore, merge, keep_spelling),
    )  # fmt: skip
    found.write(out)
    o.say_read(found.subject.rows)
    _tell(found)
    o.console.print(f"all issues: {out / 'issues.csv'}; to look at: {out / 'check.html'}", highlight=False)
    o.console.print(f"next: {found.next_step}", highlight=False, markup=False, soft_wrap=True)


def _encoder(named: str) -> str | None:
    """What reads texts and pictures; networks of pixels and words, as ``fit`` names them, stand for nothing."""
    from holdfast.encoders import is_encoder

    if named == "auto" or is_encoder(named):
        return named
    if named in WITHOUT:
        return None
    raise HoldfastError(
        f"check trains no network of yours, so --net is auto, a pre-trained one ({', '.join(ENCODERS)}, text:NAME, "
        f"image:NAME, timm:NAME), or {' or '.join(WITHOUT)} to go without; not {named!r}"
    )


def _tell(found: Check) -> None:
    """The kinds of which there are issues, with the first of them; then the others."""
    table = Table(header_style="bold")
    for name in ("kind", "issues", "first"):
        table.add_column(name, justify="right" if name == "issues" else "left")
    for line in found.findings:
        if line.count:
            first = [str(row) for row in found.rows(line.kind)[:4]] or line.columns or line.given or []
            dots = ", ..." if line.count > 4 else ""
            table.add_row(line.kind, f"{line.count:,}", ", ".join(map(str, first[:4])) + dots)
    if table.row_count:
        o.console.print(table)
    labels, *others = found.findings
    notes = [f"labels: {labels.sentence}", *(f"{line.kind}: {line.sentence}" for line in others if line.hint)]
    for note in notes:
        o.console.print(note, highlight=False)
    none = [line.kind for line in found.findings if not line.count and not line.hint]
    if none:
        o.console.print(f"none found: {', '.join(none)}", highlight=False)
