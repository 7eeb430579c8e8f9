"""Several methods on the same rows, the same noise and the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from holdfast.checkpoint import written_aside
from holdfast.data.rows import Rows
from holdfast.fit import fit
from holdfast.method import Method
from holdfast.noise import corrupt
from holdfast.plots import curves
from holdfast.progress import Progress, Silent
from holdfast.run import Run

MakeProgress = Callable[[str], Progress]


def corrupted(rows: Rows, kind: str | None, rate: float, seed: int) -> Rows:
    """The rows with wrong labels of a kind, the given ones kept as the truth; None leaves them as they are."""
    if kind is None:
        return rows
    return replace(rows, y=corrupt(kind, rows, rate, seed).labels, truth=rows.y)


def compare(
    rows: Rows,
    methods: Mapping[str, Callable[[], Method]],
    net: str | Callable[[], nn.Module] = "auto",
    *,
    test: Rows,
    noise: str | None = None,
    rate: float = 0.0,
    seeds: int = 3,
    out: str | Path | None = None,
    progress: MakeProgress = lambda _: Silent(),
    **settings: Any,
) -> pd.DataFrame:
    """Train every method on every seed and sum up: one line a method.

    Seed s draws the noise, the initial weights and the order of the batches, the same for each method.
    With ``out``, every run has a folder there and goes on where it stopped; a summary as CSV, the lines of all
    runs and a picture of the curves stand beside them.

    Parameters
    ----------
    methods: a maker for each name.
    noise, rate: wrong labels to plant in the training rows; None trains on the labels as given.
    settings: passed to ``fit``.

    Returns
    -------
    DataFrame: mean and standard deviation over the seeds of the last-ten-epoch mean, the best epoch, purity,
    coverage and seconds.
    """
    lines, histories = [], {}
    for name, make in methods.items():
        runs = []
        for seed in range(seeds):
            noisy = corrupted(rows, noise, rate, seed)
            run = fit(
                noisy, make(), net if isinstance(net, str) else net(), test=test, seed=seed,
                out=None if out is None else Path(out) / f"{name}-{seed}", resume=out is not None,
                progress=progress(f"{name} {seed}" if seeds > 1 else name), **settings,
            )  # fmt: skip
            runs.append(run.history)
            lines.append({"method": name, "seed": seed, **figures(run)})
        histories[name] = runs
    table = pd.DataFrame(lines)
    summary = table.drop(columns="seed").groupby("method", sort=False).agg(["mean", "std"])
    if out is not None:
        folder = Path(out)
        for file, frame in (("runs.csv", table.set_index("method")), ("summary.csv", _flat(summary))):
            with written_aside(folder / file) as aside:
                frame.to_csv(aside)
        told = "labels as given" if noise is None else f"{noise} noise of {rate:.0%}"
        metric = "accuracy" if rows.classes is not None else "R2"
        curves(histories, folder / "curves.png", title=f"{told}, {seeds} seed{'s' if seeds > 1 else ''}", metric=metric)
    return summary


def figures(run: Run) -> dict[str, float]:
    """What a table says of a run: scores, and of the last epoch its purity and coverage."""
    end = run.history.iloc[-1]
    return {
        "last10": run.last,
        "best": run.best,
        "purity": float(end.get("purity", float("nan"))),
        "coverage": float(end["coverage"]),
        "seconds": float(run.history["seconds"].sum()),
        "cpu_seconds": float(run.history["cpu_seconds"].sum()),
    }


def _flat(summary: pd.DataFrame) -> pd.DataFrame:
    flat = summary.copy()
    flat.columns = pd.Index([pair[0] if pair[1] == "mean" else f"{pair[0]}_sd" for pair in summary.columns.tolist()])
    return flat
