"""Ordinary training beside the default on digits of which 40 % have a wrong label. Needs no other data."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from matplotlib.figure import Figure
from rich.console import Console
from sklearn.datasets import load_digits

import holdfast
from holdfast.cli.compare import table_of
from holdfast.cli.options import is_narrow
from holdfast.compare import corrupted
from holdfast.functional import Constant
from holdfast.methods import DEFAULT, METHODS
from holdfast.plots import save
from holdfast.progress import Bar
from holdfast.report import write_report

SHOWN = 5


def suspects(run: holdfast.Run, rows: holdfast.Rows, path: Path) -> str:
    """Draw the least trusted digits; say how many wrong labels were found."""
    table = run.issues()
    figure = Figure(figsize=(1.7 * SHOWN, 2.3), layout="constrained")
    for axis, (_, line) in zip(figure.subplots(1, SHOWN), table.head(SHOWN).iterrows(), strict=True):
        axis.imshow(rows.x[line["row"]][0], cmap="gray_r")
        axis.set_title(f"given {line['given']}\nsuggested {line['suggested']}", fontsize=10)
        axis.set_axis_off()
    save(figure, path)
    assert rows.truth is not None
    wrong = (rows.y != rows.truth)[torch.tensor(table["row"].to_numpy())].numpy()
    flag = table["flag"].to_numpy()
    found, flagged = int((flag & wrong).sum()), int(flag.sum())
    share = f"{found / max(1, flagged):.0%} of the {flagged} flagged are wrong"
    return f"{found} of {int(wrong.sum())} wrong labels found; {share}. The {SHOWN} least trusted: {path}"


def main() -> None:
    torch.set_num_threads(1)
    digits = load_digits()
    rows = holdfast.Rows(
        torch.tensor(digits.images[:, None] / 16, dtype=torch.float32),
        torch.tensor(digits.target),
        tuple(map(str, digits.target_names)),
    )
    train, test = rows.split(0.3, seed=0)
    out = Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
    summary = holdfast.compare(
        train,
        {name: METHODS[name] for name in ("standard", DEFAULT)},
        "mlp",
        test=test,
        noise="symmetric",
        rate=0.4,
        seeds=2,
        epochs=120,
        batch_size=32,
        schedule=Constant(),
        device="cpu",
        out=out,
        progress=Bar,
    )
    console = Console()
    console.print(f"{len(train)} digits, 40 % of their labels wrong; {len(test)} digits with right labels to test on")
    console.print(table_of(summary.drop(columns="score", level=0), percent=True, narrow=is_narrow()))
    run = holdfast.Run.records(out / f"{DEFAULT}-0")
    run.rows = corrupted(train, "symmetric", 0.4, 0)
    console.print(suspects(run, run.rows, out / "suspects.png"), soft_wrap=True)
    console.print(f"picture: {out / 'curves.png'}   table: {out / 'summary.csv'}   runs: {out}", soft_wrap=True)
    page = out / "report.html"
    write_report(run, page)
    console.print(f"the page to look at, in any browser: {page.resolve().as_uri()}", soft_wrap=True)


if __name__ == "__main__":
    main()
