"""What the benchmarks share: where the data is, rows of results that survive a stop, and the closing line."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch.optim import Adam

from holdfast import HoldfastError, Method, Rows, fit, read
from holdfast.compare import corrupted, figures
from holdfast.executors import Failed, Local
from holdfast.files import written_aside
from holdfast.methods import METHODS
from holdfast.progress import Bar

RESULTS = Path(__file__).parent / "results"

MNIST_PUBLISHED = {
    "standard": (79.6, 52.7, 23.4, 79.0),
    "co-teaching": (95.1, 89.8, 79.7, 90.3),
    "co-teaching-plus": (97.8, 95.8, 58.9, 93.3),
    "jocor": (98.06, 96.64, 84.89, 95.24),
}
"""MNIST, 784-256-10, 200 epochs, as the JoCoR paper reports them: symmetric 20, 50, 80 %, asymmetric 40 %."""


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="folder with the data (or the environment variable HOLDFAST_DATA)")
    parser.add_argument("--quick", action="store_true", help="one seed, within ten minutes")
    parser.add_argument("--paper", action="store_true", help="the published scale")
    parser.add_argument("--seeds", type=int, help="repetitions")
    parser.add_argument("--epochs", type=int, help="passes over the data")
    parser.add_argument("--methods", default="standard,ema-refinement,crust", help="names with commas between them")
    parser.add_argument("--threads", type=int, default=1, help="processor threads")
    parser.add_argument("--device", help="auto, cpu, cuda; by default cpu, and auto with --paper")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the rows of results")
    parser.add_argument("--fresh", action="store_true", help="run again what is already in the results")
    return parser


def job_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of benchmarks that ``finish``."""
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a process and a thread each")
    parser.add_argument(
        "--minutes", dest="until", type=_from_now, default=math.inf, help="start no further run after so long"
    )


def _from_now(minutes: str) -> float:
    return time.monotonic() + 60 * float(minutes)


def rows_argument(parser: argparse.ArgumentParser) -> None:
    """The option of benchmarks that train on images of a data set, in the order that it has them."""
    parser.add_argument("--rows", type=int, help="training rows, instead of as many as the benchmark has")


def prepare(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    unknown = [name for name in options.methods.split(",") if name not in METHODS]
    if unknown:
        raise SystemExit(f"no method is called {', '.join(unknown)}; there are {', '.join(METHODS)}")


def device(options: argparse.Namespace) -> str:
    """The device asked for; by default the processor, and what there is at the published scale."""
    chosen: str = options.device or ("auto" if options.paper else "cpu")
    return chosen


def data_folder(options: argparse.Namespace) -> Path:
    folder = options.data or os.environ.get("HOLDFAST_DATA")
    if not folder:
        raise SystemExit("name the folder with the data: --data FOLDER or HOLDFAST_DATA")
    return Path(folder)


def load(options: argparse.Namespace, name: str, rows: int | None = None) -> tuple[Rows, Rows]:
    """A data set of the folder, with its own test rows; ``rows`` takes the first of the training rows."""
    folder = data_folder(options)
    for candidate in (f"{name}.npz", f"{name}_jpeg.npz", name):
        if (folder / candidate).exists():
            try:
                train, test = read(folder / candidate)
            except HoldfastError as error:
                raise SystemExit(str(error)) from None
            if test is None:
                raise SystemExit(f"{candidate} ships no test rows")
            if rows is not None and rows > len(train):
                raise SystemExit(f"{candidate} has {len(train)} training rows, fewer than the {rows} of this benchmark")
            return (train if rows is None else train.take(torch.arange(rows))), test
    raise SystemExit(f"{folder} has no {name}.npz, {name}_jpeg.npz or folder {name}")


class HanAdam(Adam):
    """The optimizer of Co-teaching (Han et al. 2018), and of PRL: Adam at 0.001 whose first moment forgets faster, 0.1
    in place of 0.9, from where the schedule lets the rate fall."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, lr=1e-3, betas=(0.9, 0.999), fused=True)

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["betas"] = (0.9 if group["lr"] >= 1e-3 * (1 - 1e-9) else 0.1, 0.999)
        return super().step(closure)


def planted(rows: Rows, name: str, noise: str | None, rate: float, seed: int) -> Rows:
    """Wrong labels in a data set of that name: asymmetric ones by its published map, MNIST's too."""
    settings = {"pairs": "mnist"} if noise == "asymmetric" and name == "mnist" else {}
    return corrupted(rows, noise, rate, seed, **settings)


class Results:
    """Rows in a CSV file, found again by what was asked, so that a benchmark goes on where it stopped."""

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self._fresh = fresh

    def get(self, asked: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The row of what was asked, made and appended if there is none."""
        table, same = self._find(asked)
        if same.any() and not self._fresh:
            return dict(table[same].iloc[-1])
        row = {**asked, **make()}
        # Read again: another process may have added rows while this one trained.
        table, same = self._find(asked)
        table = pd.concat([table[~same], pd.DataFrame([row])], ignore_index=True)
        with written_aside(self.path) as aside:
            table.to_csv(aside, index=False)
        return row

    def find(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row of what was asked, if there is one."""
        table, same = self._find(asked)
        return dict(table[same].iloc[-1]) if same.any() else None

    def _find(self, asked: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.Series[bool]]:
        table = pd.read_csv(self.path) if self.path.exists() else pd.DataFrame(columns=list(asked))
        same = pd.Series(True, index=table.index)
        for name, value in asked.items():
            same &= table[name].astype(str) == str(value) if name in table else False
        return table, same


def trial(
    rows: Rows, test: Rows, method: str | Method, net: Any, seed: int, device: str = "cpu", **settings: Any
) -> dict[str, Any]:
    """One run of one method on rows as they are: its figures, scores in per cent."""
    made = method if isinstance(method, Method) else METHODS[method]()
    title = method if isinstance(method, str) else type(method).__name__
    run = fit(
        rows, made, net, test=test, seed=seed, device=device, progress=Bar(title), **{"batch_size": 128, **settings}
    )
    line = figures(run)
    end = float(run.history["test"].iloc[-1])
    scores = {
        name: round(100 * value, 2)
        for name, value in (("last10", line["last10"]), ("best", line["best"]), ("last", end))
    }
    return {
        **scores,
        "purity": round(line["purity"], 4),
        "coverage": round(line["coverage"], 4),
        "seconds": round(line["seconds"], 1),
        "cpu_seconds": round(line["cpu_seconds"], 1),
    }


def mean(lines: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, float]:
    """Means over seeds, with the spread of each score beside it; what is missing in all is left out."""
    table = pd.DataFrame(list(lines))
    out: dict[str, float] = {}
    for name in names:
        if name in table and table[name].notna().any():
            out[name] = round(float(table[name].mean()), 4)
            if name.endswith(("last10", "best", "last")) and len(table) > 1:
                out[f"{name}_sd"] = round(float(table[name].std()), 4)
    return out


def mean_and_spread(values: pd.Series[float], digits: int = 2) -> str:
    """The mean and, over several seeds, the spread, as a table has them; a dash for nothing."""
    if not len(values):
        return "-"
    return f"{values.mean():.{digits}f}" + (f" ± {values.std():.{digits}f}" if len(values) > 1 else "")


def finish(
    asked: Iterable[Any], run: Callable[[Any], Mapping[str, Any]], results: Results, options: argparse.Namespace
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Run what is not in the results yet, ``options.jobs`` at a time; all rows there are, and why some failed.

    ``asked`` are named tuples. What ``--minutes`` leave over is for another call.
    """
    failed: dict[str, str] = {}
    trials = list(dict.fromkeys(asked))
    fresh = {" ".join(map(str, t)): t for t in trials if options.fresh or results.find(t._asdict()) is None}

    def keep(name: str, outcome: Any) -> None:
        if isinstance(outcome, Failed):
            failed[name] = outcome.why
            print(f"{name} failed: {outcome.why}\n{outcome.trace}", file=sys.stderr, flush=True)
        else:
            results.get(fresh[name]._asdict(), lambda: outcome)
            numbers = {key: value for key, value in outcome.items() if not isinstance(value, str)}
            print(f"{name}: {json.dumps(numbers)}", flush=True)

    jobs = {name: partial(run, trial) for name, trial in fresh.items()}
    Local(options.jobs, options.threads, options.until).run(jobs.items(), keep)
    lines = [line for line in (results.find(trial._asdict()) for trial in trials) if line is not None]
    return pd.DataFrame(lines), failed


def close(figures: Mapping[str, Any]) -> None:
    """The figures as one JSON object on the last line."""
    print(json.dumps(figures))
