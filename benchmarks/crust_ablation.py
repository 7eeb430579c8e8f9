"""The ablation of the CRUST paper (its Table 2) and its Figure 1, at MNIST scale.

Table 2: CRUST inside observed or predicted classes, with and without mixing inside clusters, at symmetric noise of 20
and 50 %; the same four with coresets of the most central examples, which is how the authors' code selects, in place of
greedy medoids; what that code does; and EMA refinement. Figure 1: fraction of right labels in the
coreset (central selection), accuracy on all training rows (true labels) and on the test rows, by epoch, for coresets of
30, 50 and 70 % at 50 % noise. The paper used CIFAR-10 with ResNet-32; here it is the 784-256-10 network on MNIST, with
Adam at 0.001 and 20 epochs, which is what was reduced.

    python benchmarks/crust_ablation.py --data FOLDER [--quick] [--dataset fashion_mnist]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd
import protocol
import torch
from matplotlib.figure import Figure
from torch import nn

from holdfast import Method, Rows, fit
from holdfast.compare import corrupted
from holdfast.feed import evaluate, inputs_of
from holdfast.functional import Constant
from holdfast.methods import Crust, EMARefinement
from holdfast.nets import MLP
from holdfast.plots import COLOURS, save, tidy
from holdfast.progress import Bar

PAPER = {
    "CRUST (observed, no mix)": (90.21, 84.92),
    "CRUST (observed)": (90.48, 85.23),
    "CRUST (no mix)": (90.71, 85.57),
    "CRUST": (None, 86.27),
}
"""Table 2 of the paper, as far as its text gives it: CIFAR-10 test accuracy at 20 and 50 % noise."""
WARMUP = 3
"""Epochs of ordinary training before the first selection, of 12 or 20."""


def central(**settings: object) -> Crust:
    """A coreset of the most central half of each class, without weights and, unless named, without mixing."""
    chosen = {"select": "central", "partners": 0, "weighted": False, "warmup": WARMUP, **settings}
    return Crust(**chosen)  # type: ignore[arg-type]


TABLE: dict[str, partial[Method] | type[Method]] = {
    "standard": Method,
    "central observed": partial(central, group="observed"),
    "central observed + mix": partial(central, group="observed", partners=1),
    "central predicted": central,  # type: ignore[dict-item]
    "central predicted + mix": partial(central, partners=1),
    "CRUST (observed, no mix)": partial(Crust, group="observed", partners=0, warmup=WARMUP),
    "CRUST (observed)": partial(Crust, group="observed", warmup=WARMUP),
    "CRUST (no mix)": partial(Crust, partners=0, warmup=WARMUP),
    "CRUST": partial(Crust, warmup=WARMUP),
    "CRUST (authors' code)": partial(Crust.authors),
    "EMA refinement": EMARefinement,
}


def trained(rows: Rows, test: Rows, method: Method, rate: float, seed: int, epochs: int, title: str) -> pd.DataFrame:
    """The history of a run, with the accuracy on the true labels of the training rows."""
    noisy = corrupted(rows, "symmetric", rate, seed)
    torch.manual_seed(seed)

    def watch(epoch: int, net: nn.Module) -> dict[str, float]:
        predicted = evaluate(net, inputs_of(rows.x, "cpu")).argmax(1)
        return {"train_true": float((predicted == rows.y).double().mean())}

    run = fit(
        noisy, method, MLP(784, 10), test=test, seed=seed, epochs=epochs, batch_size=128, schedule=Constant(),
        device="cpu", watch=watch, progress=Bar(title[:12]),
    )  # fmt: skip
    return run.history.assign(last10=run.last, best=run.best)


def line(rows: Rows, test: Rows, name: str, rate: float, seed: int, epochs: int) -> dict[str, float]:
    history = trained(rows, test, TABLE[name](), rate, seed, epochs, name)
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


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="mnist", help="mnist or fashion_mnist")
    options = parser.parse_args()
    protocol.prepare(options)
    rows, test = protocol.load(options, options.dataset, 10_000 if options.quick else None)
    epochs, seeds = options.epochs or (12 if options.quick else 20), options.seeds or 1
    results = protocol.Results(options.results / "crust_ablation.csv", options.fresh)
    report: dict[str, dict[str, float]] = {}
    for name in TABLE:
        for rate in (0.2, 0.5):
            lines = []
            for seed in range(seeds):
                asked = {
                    "data": options.dataset,
                    "rows": len(rows),
                    "name": name,
                    "rate": rate,
                    "epochs": epochs,
                    "seed": seed,
                }
                lines.append(results.get(asked, partial(line, rows, test, name, rate, seed, epochs)))
            figures = protocol.mean(lines, ("last10", "best", "purity"))
            published = PAPER.get(name, (None, None))[rate == 0.5]
            print(f"{name}, {rate:.0%}: {figures}; published on CIFAR-10: {published or '-'}")
            report[f"{name} {rate:.0%}"] = figures
    histories = {
        fraction: trained(rows, test, central(fraction=fraction, partners=1), 0.5, 0, epochs, f"{fraction:.0%}")
        for fraction in (0.3, 0.5, 0.7)
    }
    options.results.mkdir(parents=True, exist_ok=True)
    stem = options.results / f"crust_figure1_{options.dataset}"
    keep = ["fraction", "epoch", "purity", "train_true", "test"]
    pd.concat([h.assign(fraction=f)[keep] for f, h in histories.items()]).to_csv(stem.with_suffix(".csv"), index=False)
    figure_1(histories, stem.with_suffix(".png"), options.dataset)
    protocol.close(report)


if __name__ == "__main__":
    main()
