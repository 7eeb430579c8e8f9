"""The ablation of the CRUST paper (its Table 2) and its Figure 1, at MNIST scale or on CIFAR-10.

Table 2: CRUST inside observed or predicted classes, with and without mixing inside clusters, at symmetric noise of 20
and 50 %; the same four with coresets of the most central examples, which is how the authors' code selects, in place of
greedy medoids; what that code does; and EMA refinement. Figure 1: fraction of right labels in the
coreset (central selection), accuracy on all training rows (true labels) and on the test rows, by epoch, for coresets of
30, 50 and 70 % at 50 % noise. The paper used CIFAR-10 with ResNet-32; by default it is the 784-256-10 network on MNIST,
with Adam at 0.001 and 20 epochs, or with --dataset cifar10 a ResNet-20 of half the width on 5,000 images.

    python benchmarks/crust_ablation.py --data FOLDER [--quick] [--dataset fashion_mnist]
    python benchmarks/crust_ablation.py --data FOLDER --dataset cifar10
    python benchmarks/crust_ablation.py --data FOLDER --paper     CIFAR-10, ResNet-32, 120 epochs, five seeds: on a GPU

``--minutes`` starts no further run after so long; what is done is kept in the results and not done again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import protocol
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.optim import SGD

from holdfast import Method, Rows, fit
from holdfast.augment import PadCropFlip
from holdfast.compare import corrupted
from holdfast.feed import evaluate, inputs_of
from holdfast.functional import Constant, Cosine, Steps
from holdfast.methods import Crust, EMARefinement
from holdfast.nets import MLP, ResNet
from holdfast.plots import COLOURS, save, tidy
from holdfast.progress import Bar

PAPER = {
    "CRUST (observed, no mix)": (90.21, 84.92),
    "CRUST (observed)": (90.48, 85.23),
    "CRUST (no mix)": (90.71, 85.57),
    "CRUST": (91.12, 86.27),
}
"""Table 2 of the paper: CIFAR-10 test accuracy at 20 and 50 % noise."""
FIGURE = "Figure 1"
WARMUP = 3
"""Epochs of ordinary training before the first selection, of 12 or 20; the published scale has the 5 of the authors'
code, since the paper names none."""


class Scale(NamedTuple):
    """How large the experiment is, and how it optimises."""

    data: str
    rows: int | None
    epochs: int
    seeds: int
    net: Callable[[], nn.Module]
    settings: dict[str, Any]
    warmup: int = WARMUP


def scale_of(options: argparse.Namespace) -> Scale:
    """The scale asked for."""
    if options.paper:
        settings = {"optimizer": sgd, "schedule": Steps(), "augment": PadCropFlip()}
        return Scale("cifar10", 50_000, 120, 5, partial(ResNet, 32, channels=3, outputs=10), settings, 5)
    if options.dataset.startswith("cifar"):
        slim = partial(ResNet, 20, channels=3, outputs=10, width=8)
        return Scale(options.dataset, 5_000, 20, 1, slim, {"schedule": Cosine()})
    rows = 10_000 if options.quick else None
    return Scale(options.dataset, rows, 12 if options.quick else 20, 1, partial(MLP, 784, 10), {"schedule": Constant()})


def sgd(parameters: Any) -> SGD:
    """The optimizer of the paper."""
    return SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)


def central(warmup: int, **settings: Any) -> Crust:
    """A coreset of the most central half of each class, without weights and, unless named, without mixing."""
    return Crust(**{"select": "central", "partners": 0, "weighted": False, "warmup": warmup, **settings})


TABLE: dict[str, Callable[[int], Method]] = {
    "standard": lambda warmup: Method(),
    "central observed": partial(central, group="observed"),
    "central observed + mix": partial(central, group="observed", partners=1),
    "central predicted": central,
    "central predicted + mix": partial(central, partners=1),
    "CRUST (observed, no mix)": lambda warmup: Crust(group="observed", partners=0, warmup=warmup),
    "CRUST (observed)": lambda warmup: Crust(group="observed", warmup=warmup),
    "CRUST (no mix)": lambda warmup: Crust(partners=0, warmup=warmup),
    "CRUST": lambda warmup: Crust(warmup=warmup),
    "CRUST (authors' code)": lambda warmup: Crust.authors(),
    "EMA refinement": lambda warmup: EMARefinement(),
}


class Trial(NamedTuple):
    """One run of Table 2."""

    data: str
    rows: int
    name: str
    rate: float
    epochs: int
    seed: int


def trained(
    scale: Scale, options: argparse.Namespace, rows: Rows, test: Rows, method: Method, trial: Trial
) -> pd.DataFrame:
    """The history of a run, with the accuracy on the true labels of the training rows."""
    noisy = corrupted(rows, "symmetric", trial.rate, trial.seed)
    torch.manual_seed(trial.seed)

    def watch(epoch: int, net: nn.Module) -> dict[str, float]:
        device = next(net.parameters()).device
        predicted = evaluate(net, inputs_of(rows.x, device)).argmax(1).cpu()
        return {"train_true": float((predicted == rows.y).double().mean())}

    run = fit(
        noisy, method, scale.net(), test=test, seed=trial.seed, epochs=trial.epochs, batch_size=128,
        device=protocol.device(options), watch=watch, progress=Bar(trial.name[:12]), **scale.settings,
    )  # fmt: skip
    return run.history.assign(last10=run.last, best=run.best)


def line(scale: Scale, options: argparse.Namespace, rows: Rows, test: Rows, trial: Trial) -> dict[str, float]:
    history = trained(scale, options, rows, test, TABLE[trial.name](scale.warmup), trial)
    end = history.iloc[-1]
    return {
        "last10": round(100 * end["last10"], 2),
        "best": round(100 * end["best"], 2),
        "purity": round(end.get("purity", float("nan")), 4),
    }


def figure_1(histories: dict[float, pd.DataFrame], path: Path, data: str) -> None:
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    panels = (
        ("purity", "right labels in the coreset"),
        ("train_true", "accuracy on all training rows"),
        ("test", "test accuracy"),
    )
    for axis, (column, label) in zip(figure.subplots(1, 3), panels, strict=True):
        for colour, (fraction, history) in zip(COLOURS, histories.items(), strict=False):
            shown = history.dropna(subset=[column])
            axis.plot(shown["epoch"] + 1, shown[column], color=colour, label=f"{fraction:.0%}", linewidth=1.8)
        axis.set(xlabel="epoch", ylabel=label)
        tidy(axis)
    figure.axes[0].legend(title="coreset", frameon=False)
    figure.suptitle(f"Central selection, {data}, 50 % symmetric noise: coresets of 30, 50 and 70 %")
    save(figure, path)


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.add_argument("--dataset", default="mnist", help="mnist, fashion_mnist or cifar10")
    made.add_argument("--names", help="lines of Table 2, or 'Figure 1', with semicolons between them; by default all")
    made.add_argument("--minutes", type=float, default=float("inf"), help="start no further run after so long")
    protocol.rows_argument(made)
    return made


def main() -> None:
    options = parser().parse_args()
    protocol.prepare(options)
    scale, start = scale_of(options), time.monotonic()
    rows, test = protocol.load(options, scale.data, options.rows or scale.rows)
    epochs, seeds = options.epochs or scale.epochs, options.seeds or scale.seeds
    results = protocol.Results(options.results / "crust_ablation.csv", options.fresh)
    report: dict[str, dict[str, float]] = {}
    names = options.names.split(";") if options.names else [*TABLE, FIGURE]
    for name in (name for name in names if name != FIGURE):
        for rate in (0.2, 0.5):
            lines = []
            for seed in range(seeds):
                trial = Trial(scale.data, len(rows), name, rate, epochs, seed)
                if time.monotonic() - start > 60 * options.minutes and results.find(trial._asdict()) is None:
                    continue
                lines.append(results.get(trial._asdict(), partial(line, scale, options, rows, test, trial)))
            figures = protocol.mean(lines, ("last10", "best", "purity")) if lines else {}
            published = PAPER.get(name, (None, None))[rate == 0.5]
            print(f"{name}, {rate:.0%}: {figures or 'not run'}; published on CIFAR-10: {published or '-'}", flush=True)
            report[f"{name} {rate:.0%}"] = figures
    if FIGURE in names and time.monotonic() - start <= 60 * options.minutes:
        histories = {}
        for fraction in (0.3, 0.5, 0.7):
            method = central(scale.warmup, fraction=fraction, partners=1)
            trial = Trial(scale.data, len(rows), f"{fraction:.0%}", 0.5, epochs, 0)
            histories[fraction] = trained(scale, options, rows, test, method, trial)
        options.results.mkdir(parents=True, exist_ok=True)
        stem = options.results / f"crust_figure1_{scale.data}{'_paper' if options.paper else ''}"
        keep = ["fraction", "epoch", "purity", "train_true", "test"]
        table = pd.concat([h.assign(fraction=f)[keep] for f, h in histories.items()])
        table.to_csv(stem.with_suffix(".csv"), index=False)
        figure_1(histories, stem.with_suffix(".png"), scale.data)
    protocol.close(report)


if __name__ == "__main__":
    main()
