"""Several methods on the same rows, the same noise and the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from holdfast.data.held import Columns, take
from holdfast.data.labels import Task
from holdfast.data.rows import Rows
from holdfast.errors import HoldfastError
from holdfast.executors import Failed, executor_named, using
from holdfast.files import written_aside
from holdfast.fit import fit
from holdfast.method import Method
from holdfast.methods import METHODS
from holdfast.noise import corrupt
from holdfast.plots import curves
from holdfast.progress import Count, MakeProgress, Progress, Silent, silent
from holdfast.registry import lookup
from holdfast.run import Run


def corrupted(rows: Rows, kind: str | None, rate: float, seed: int, /, **settings: Any) -> Rows:
    """The rows with wrong labels of a kind, the given ones kept as the truth; None leaves them as they are."""
    if kind is None:
        return rows
    return replace(rows, y=corrupt(kind, rows, rate, seed, **settings).labels, truth=rows.y)


def compare(
    data: Any,
    methods: Mapping[str, Callable[[], Method]] | Sequence[str],
    net: str | Callable[[], nn.Module] = "auto",
    *,
    test: Any = None,
    label: str | None = None,
    truth: str | None = None,
    task: Task | None = None,
    noise: str | None = None,
    rate: float = 0.0,
    noise_settings: Mapping[str, Any] | None = None,
    seeds: int = 3,
    out: str | Path | None = None,
    jobs: int = 1,
    threads: int = 1,
    on: str = "local",
    progress: MakeProgress = silent,
    **settings: Any,
) -> pd.DataFrame:
    """Train every method on every seed and sum up: one line a method.

    Seed s draws the noise, the initial weights and the order of the batches, the same for each method.
    With ``out``, every run has a folder there and goes on where it stopped; a summary as CSV, the lines of all
    runs and a picture of the curves stand beside them. A run that fails is left out, and ``attrs["failed"]`` of what
    is returned says why; only if all fail an error is raised.

    Parameters
    ----------
    data, test, label, truth, task: as ``fit`` takes them; there must be test rows, the data's own or others.
    methods: names, or a maker for each name.
    noise, rate, noise_settings: wrong labels to plant in the training rows (``holdfast.noise.corrupt``); None trains on
        the labels as given.
    jobs: runs at a time, a process each. More than one asks for methods, net and settings that can be pickled, and for
        a script that calls ``compare`` under ``if __name__ == "__main__"``.
    threads: of the processor for each of several jobs.
    on: where several jobs run, and the encoding of texts or images before them: local, for processes of this machine,
        ray, or ray://host:port for a cluster. What comes of them does not depend on it.
    settings: passed to ``fit``.

    Returns
    -------
    DataFrame: mean and standard deviation over the seeds of the test score of the saved network, by given labels and
    where they are known by true ones, of the last-ten-epoch mean, the best epoch, purity, coverage and seconds.
    """
    if not isinstance(methods, Mapping):
        methods = {name: lookup("method", name, METHODS, []) for name in methods}
    named = net if isinstance(net, str) else "mlp"  # a maker of networks takes rows as they are
    plain = any(settings.get(name) is not None for name in ("pretrained", "augment"))
    executor = executor_named(on, jobs, threads)
    with using(executor):
        taken = take(data, test, Columns(label, truth, task), net=named, tune=settings.pop("tune", False), plain=plain)
    rows, held_out, net = taken.rows, taken.test, str(taken.net) if isinstance(net, str) else net
    if held_out is None:
        raise HoldfastError("a comparison needs test rows; pass test, with data of the same kind or a share (0.2)")
    if taken.batch_size is not None:
        settings.setdefault("batch_size", taken.batch_size)
    trials = {
        f"{name}-{seed}": partial(
            _trial, rows, make, net, held_out, noise, rate, noise_settings or {}, seed,
            None if out is None else Path(out) / f"{name}-{seed}",
            None if executor.elsewhere else progress(f"{name} {seed}" if seeds > 1 else name, "epochs"), settings,
        )
        for name, make in methods.items()
        for seed in range(seeds)
    }  # fmt: skip
    with Count(progress("comparison", "runs") if executor.elsewhere else Silent(), len(trials)) as count:
        found = executor.run(trials.items(), count.one)
    failed = {name: outcome.why for name, outcome in found.items() if isinstance(outcome, Failed)}
    if len(failed) == len(trials):
        raise HoldfastError(next(iter(failed.values())))
    lines, histories = [], {}
    for name in methods:
        runs = [(seed, found[f"{name}-{seed}"]) for seed in range(seeds) if f"{name}-{seed}" not in failed]
        lines += [{"method": name, "seed": seed, **scores} for seed, (_, scores) in runs]
        if runs:
            histories[name] = [history for _, (history, _) in runs]
    table = pd.DataFrame(lines)
    summary = table.drop(columns="seed").groupby("method", sort=False).agg(["mean", "std"])
    if out is not None:
        folder = Path(out)
        for file, frame in (("runs.csv", table.set_index("method")), ("summary.csv", _flat(summary))):
            with written_aside(folder / file) as aside:
                frame.to_csv(aside)
        noise_text = "labels as given" if noise is None else f"{noise} noise of {rate:.0%}"
        metric = "accuracy" if rows.classes is not None else "R2"
        curves(
            histories,
            folder / "curves.png",
            title=f"{noise_text}, {seeds} seed{'s' if seeds > 1 else ''}",
            metric=metric,
        )
    summary.attrs["failed"] = failed
    return summary


def _trial(
    rows: Rows,
    make: Callable[[], Method],
    net: str | Callable[[], nn.Module],
    test: Rows,
    noise: str | None,
    rate: float,
    noise_settings: Mapping[str, Any],
    seed: int,
    out: Path | None,
    progress: Progress | None,
    settings: Mapping[str, Any],
) -> tuple[pd.DataFrame, dict[str, float]]:
    noisy = corrupted(rows, noise, rate, seed, **noise_settings)
    run = fit(
        noisy, make(), net if isinstance(net, str) else net(), test=test, seed=seed, out=out, resume=out is not None,
        progress=progress, **settings,
    )  # fmt: skip
    return run.history, figures(run)


def figures(run: Run) -> dict[str, float]:
    """What a table says of a run: scores (that of the saved network first), and of the last epoch its purity and
    coverage."""
    end = run.history.iloc[-1]
    return {
        "score": run.score,
        **({} if run.true_score is None else {"true_score": run.true_score}),
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
