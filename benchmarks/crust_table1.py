"""Table 1 of the CRUST paper: CRUST and the eight methods it compares with, under four kinds of label noise.

The second opinion (the default), EMA refinement and ordinary training stand beside them; published figures are those of
the paper. MNIST with the 784-256-10 network for all methods (and those that the paper does not have, at symmetric 50
%); Fashion-MNIST with the 4-layer network and CIFAR-10 with a ResNet-20 of half the width, 5,000 images each and 2,500
to test on, for ordinary training, CRUST, the default and the five best of MNIST, 20 epochs, at symmetric 50 % (on
CIFAR-10 20 and 80 % too) and a noise to one class: pairflip of 40 % on Fashion-MNIST; on CIFAR-10 asymmetric 40 % (the
five pairs of Patrini et al., which flip a fifth of the labels) and what the authors' code calls so, the derangement of
all classes, which flips two fifths. CIFAR-10 in batches of 32 and without augmentation, so that ordinary training
memorises wrong labels within these epochs; and at symmetric 50 % once more in batches of 128 with random crops and
flips, where it hardly does; so CIFAR-100 too. No method is given the noise rate; methods that train more than once do
so inside the same number of epochs. Mean test accuracy of the last ten epochs beside the best epoch, mean and standard
deviation over seeds. The long part is the published small-machine protocol of Co-teaching, Co-teaching+ and JoCoR (200
epochs, the noise rate given, the learning rate falling from epoch 80), and every method of the table at symmetric 50 %
for as long. The last line is one JSON object: last-ten-epoch means on MNIST by noise.

    python benchmarks/crust_table1.py --data FOLDER             all but the long part, 40 epochs, three seeds
    python benchmarks/crust_table1.py --data FOLDER --small     Fashion-MNIST and both CIFAR alone
    python benchmarks/crust_table1.py --data FOLDER --quick     MNIST, symmetric 50 %, 10,000 images, 10 epochs
    python benchmarks/crust_table1.py --data FOLDER --long      200 epochs, one seed
    python benchmarks/crust_table1.py --data FOLDER --paper     both CIFAR, ResNet-32, 120 epochs, five seeds: on a GPU

``--jobs`` trains as many runs at a time, a process and a thread each; ``--minutes`` starts no further run after so
long. What is done is kept in the results and not done again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import protocol
import torch
from torch import nn
from torch.optim import SGD, Optimizer

from holdfast import Method, fit
from holdfast.augment import PadCropFlip
from holdfast.files import write_text
from holdfast.functional import Constant, Cosine, HoldThenLinear, Steps
from holdfast.methods import METHODS, CoTeaching, CoTeachingPlus, JoCoR
from holdfast.nets import CNN4, MLP, ResNet
from holdfast.plots import COLOURS, save, tidy

NOISES = (("symmetric", 0.5), ("asymmetric", 0.4), ("symmetric", 0.2), ("symmetric", 0.8))
ORDER = (("symmetric", 0.2), ("symmetric", 0.5), ("symmetric", 0.8), ("asymmetric", 0.4), ("derangement", 0.4),
         ("pairflip", 0.4))  # fmt: skip
SMALL = {
    "fashion": (("symmetric", 0.5), ("pairflip", 0.4)),
    "cifar": (("symmetric", 0.5), ("derangement", 0.4), ("symmetric", 0.2), ("symmetric", 0.8), ("asymmetric", 0.4)),
    "augmented": (("symmetric", 0.5),),
    "cifar-100": (("symmetric", 0.2), ("symmetric", 0.5), ("derangement", 0.4)),
}
"""The noises of the small parts."""
DATA = {"fashion": "fashion_mnist", "cifar": "cifar10", "augmented": "cifar10", "paper": "cifar10"}
DATA |= {"paper-100": "cifar100", "cifar-100": "cifar100"}
"""The data set of each part; of the others it is MNIST."""
Noise = tuple[str, float]
NAMES = {
    "standard": "ordinary",
    "second-opinion": "second opinion (default)",
    "ema-refinement": "EMA refinement",
    "crust": "CRUST",
    "forward": "F-correction",
    "decoupling": "Decoupling",
    "co-teaching": "Co-teaching",
    "mentor-net": "MentorNet",
    "d2l": "D2L",
    "incv": "INCV",
    "t-revision": "T-Revision",
    "l-dmi": "L_DMI",
    "co-teaching-plus": "Co-teaching+",
    "jocor": "JoCoR",
    "backward": "B-correction",
    "bootstrap": "Bootstrap",
    "gce": "GCE",
    "sce": "SCE",
    "elr": "ELR",
    "elr-plus": "ELR+",
    "divide-mix": "DivideMix",
    "aum": "AUM",
    "confident-learning": "Confident learning",
    "spl": "SPL",
    "prl-l": "PRL(L)",
    "prl-g": "PRL(G)",
    "co-prl-l": "Co-PRL(L)",
    "norm-clip": "norm clip",
    "individual-clip": "individual clip",
    "huber": "Huber",
    "self-label-refinery": "label refinery",
    "min-sgd": "Min-SGD",
    "crust-authors": "CRUST, authors' code",
    "co-teaching-plus-authors": "Co-teaching+, official=True",
    "co-teaching-plus-divided": "Co-teaching+, official=True, divided twice",
    "jocor-authors": "JoCoR, agreement=0.1",
}
TABLE = list(NAMES)[:12]
OTHERS = [name for name in METHODS if name not in TABLE and name not in ("apl", "crust-authors", "sever")]
"""Methods that the paper does not compare with: at symmetric 50 % alone. What the authors' code does is in
``crust_ablation.py``; Sever keeps the gradient of every row in memory and does not take so many."""


class DividedTwice(CoTeachingPlus):
    """Co-teaching+ whose mean over what is kept is divided by its number once more, as in the authors' code."""

    def __init__(self, rate: float) -> None:
        super().__init__(rate, official=True, forwards="two")

    def selected_losses(self, outputs: list[torch.Tensor], labels: list[torch.Tensor]) -> list[torch.Tensor]:
        # What is kept has a forward pass of its own, so these are the rows of the mean; ranking minds no factor.
        return [losses / len(losses) for losses in super().selected_losses(outputs, labels)]


TOLD: dict[str, Callable[[float], Method]] = {
    "co-teaching": CoTeaching,
    "jocor": lambda rate: JoCoR(rate, agreement=0.65 if rate > 0.5 else 0.9),
    "co-teaching-plus-authors": partial(CoTeachingPlus, official=True),
    "co-teaching-plus-divided": DividedTwice,
    "co-teaching-plus": CoTeachingPlus,
    "jocor-authors": partial(JoCoR, agreement=0.1),
}
"""Methods of the long part that are given the noise rate, for asymmetric noise half of it, as their papers do, and
JoCoR its agreement, as its authors say of CIFAR-10; after the first four, other settings, at symmetric 50 % alone."""
COLUMNS = (
    *(("cifar10", "symmetric", rate) for rate in (0.2, 0.5, 0.8)), ("cifar10", "derangement", 0.4),
    *(("cifar100", "symmetric", rate) for rate in (0.2, 0.5)), ("cifar100", "derangement", 0.4),
)  # fmt: skip
"""Table 1 from left to right. What the paper calls asymmetric is a derangement in its authors' code."""
TABLE1 = {
    "forward": "85.1 ± 0.4, 76.0 ± 0.2, 34.8 ± 4.5, 83.6 ± 2.2, 55.8 ± 0.5, 43.3 ± 0.7, 42.3 ± 0.7",
    "decoupling": "86.7 ± 0.3, 79.3 ± 0.6, 36.9 ± 4.6, 75.3 ± 0.8, 57.6 ± 0.5, 45.7 ± 0.4, 43.1 ± 0.4",
    "co-teaching": "89.1 ± 0.3, 82.1 ± 0.6, 16.2 ± 3.2, 84.6 ± 2.8, 64.0 ± 0.3, 52.3 ± 0.4, 47.7 ± 1.2",
    "mentor-net": "88.4 ± 0.5, 77.1 ± 0.4, 28.9 ± 2.3, 77.3 ± 0.8, 63.0 ± 0.4, 46.4 ± 0.4, 42.4 ± 0.5",
    "d2l": "86.1 ± 0.4, 67.4 ± 3.6, 10.0 ± 0.1, 85.6 ± 1.2, 12.5 ± 4.2, 5.6 ± 5.4, 14.1 ± 5.8",
    "incv": "89.7 ± 0.2, 84.8 ± 0.3, 52.3 ± 3.5, 86.0 ± 0.5, 60.2 ± 0.2, 53.1 ± 0.4, 50.7 ± 0.2",
    "t-revision": "79.3 ± 0.5, 78.5 ± 0.6, 36.2 ± 1.6, 76.3 ± 0.8, 52.4 ± 0.3, 37.6 ± 0.3, 32.3 ± 0.4",
    "l-dmi": "84.3 ± 0.4, 78.8 ± 0.5, 20.9 ± 2.2, 84.8 ± 0.7, 56.8 ± 0.4, 42.2 ± 0.5, 39.5 ± 0.4",
    "crust": "91.1 ± 0.2, 86.3 ± 0.3, 58.3 ± 1.8, 88.8 ± 0.4, 65.2 ± 0.2, 56.4 ± 0.4, 53.0 ± 0.2",
}
"""ResNet-32, 120 epochs, five runs, as published."""


def published(data: str) -> dict[str, dict[Noise, str]]:
    """Table 1 of one data set: by method and noise."""
    return {
        method: {(kind, rate): value for (of, kind, rate), value in zip(COLUMNS, line.split(", "), strict=True)
                 if of == data}
        for method, line in TABLE1.items()
    }  # fmt: skip


MNIST_LONG: dict[str, dict[Noise, Any]] = {
    name: dict(
        zip(ORDER, protocol.MNIST_PUBLISHED[name.removesuffix("-authors").removesuffix("-divided")], strict=False)
    )
    for name in ("standard", *TOLD)
}


class Trial(NamedTuple):
    """One run."""

    part: str
    method: str
    noise: str
    rate: float
    epochs: int
    rows: int
    seed: int


def trials(options: argparse.Namespace, best: list[str]) -> Iterator[Trial]:
    """Everything to run, the most telling first; ``best`` is the order of the methods on MNIST."""
    named = options.methods.split(",") if options.methods else TABLE
    if options.paper:
        for seed in range(options.seeds or 5):
            for data, kind, rate in COLUMNS:
                for method in named:
                    part = "paper" if data == "cifar10" else "paper-100"
                    yield Trial(part, method, kind, rate, options.epochs or 120, options.rows or 50_000, seed)
        return
    if options.quick:
        for method in named:
            yield Trial("mnist", method, *NOISES[0], options.epochs or 10, 10_000, 0)
        return
    if options.long:
        for method in (*TOLD, *[name for name in named if name not in TOLD]):
            yield Trial("long", method, *NOISES[0], options.epochs or 200, 60_000, 0)
        for noise in NOISES[1:]:
            for method in list(TOLD)[:4]:
                yield Trial("long", method, *noise, options.epochs or 200, 60_000, 0)
        return
    for noise in () if options.small else NOISES:
        for seed in range(options.seeds or 3):
            for method in named:
                yield Trial("mnist", method, *noise, options.epochs or 40, 60_000, seed)
    for method in OTHERS if named == TABLE and not options.small else ():
        yield Trial("mnist", method, *NOISES[0], options.epochs or 40, 60_000, 0)
    for part, noises in SMALL.items():
        for noise in noises:
            for method in best:
                yield Trial(part, method, *noise, options.epochs or 20, options.rows or 5_000, 0)


def sgd(parameters: Any) -> Optimizer:
    """The optimizer of the paper."""
    return SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)


def slim(classes: int = 10) -> nn.Module:
    """A ResNet-20 of half the width."""
    return ResNet(20, channels=3, outputs=classes, width=8)


def network(part: str) -> nn.Module:
    makers: dict[str, Callable[[], nn.Module]] = {
        "fashion": lambda: CNN4(1, 10),
        "cifar": slim,
        "augmented": slim,
        "cifar-100": partial(slim, 100),
        "paper": lambda: ResNet(32, channels=3, outputs=10),
        "paper-100": lambda: ResNet(32, channels=3, outputs=100),
    }
    return makers.get(part, lambda: MLP(784, 10))()


def settings(trial: Trial) -> dict[str, Any]:
    """How each part optimises."""
    if trial.part in ("paper", "paper-100"):
        return {"optimizer": sgd, "schedule": Steps(), "augment": PadCropFlip(), "batch_size": 128}
    schedule = {"mnist": Constant(), "long": HoldThenLinear()}.get(trial.part, Cosine())
    augment = PadCropFlip() if trial.part in ("augmented", "cifar-100") else None
    batch_size = 32 if trial.part == "cifar" else 128
    return {"schedule": schedule, "augment": augment, "batch_size": batch_size}


def method_of(trial: Trial) -> Method:
    if trial.part == "long" and trial.method in TOLD:
        return TOLD[trial.method](trial.rate if trial.noise == "symmetric" else trial.rate / 2)
    return METHODS[trial.method]()


def run(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """Train; the last epochs' mean, the best epoch, and the curve as a string of numbers."""
    name = DATA.get(trial.part, "mnist")
    rows, test = protocol.load(options, name, trial.rows)
    if trial.part in SMALL:
        test = test.take(torch.arange(min(2_500, len(test))))
    torch.manual_seed(trial.seed)
    done = fit(
        protocol.planted(rows, name, trial.noise, trial.rate, trial.seed), method_of(trial), network(trial.part),
        test=test, epochs=trial.epochs, seed=trial.seed, device=protocol.device(options), **settings(trial),
    )  # fmt: skip
    curve = 100 * done.history["test"]
    return {
        "last10": round(100 * done.last, 2),
        "best": round(100 * done.best, 2),
        "seconds": round(float(done.history["seconds"].sum()), 1),
        "cpu_seconds": round(float(done.history["cpu_seconds"].sum()), 1),
        "curve": " ".join(f"{value:.2f}" for value in curve),
    }


def table(own: pd.DataFrame, beside: dict[str, dict[Noise, Any]]) -> str:
    """Markdown: a line a method, for each noise the last ten epochs, in brackets the best one and what is published."""
    noises = [n for n in ORDER if ((own["noise"] == n[0]) & (own["rate"] == n[1])).any()]
    out = ["| method | " + " | ".join(f"{kind} {rate:.0%}" for kind, rate in noises) + " | CPU s a run |"]
    out.append("|---" * (len(noises) + 2) + "|")
    for name in dict.fromkeys([*NAMES, *own["method"]]):
        lines = own[own["method"] == name]
        if lines.empty:
            continue
        cells = []
        for kind, rate in noises:
            here = lines[(lines["noise"] == kind) & (lines["rate"] == rate)]
            told = beside.get(name, {}).get((kind, rate))
            note = "" if told is None else f"; published {told}"
            last, best = protocol.mean_and_spread(here["last10"]), protocol.mean_and_spread(here["best"])
            cells.append(f"{last} (best {best}{note})" if len(here) else "-")
        out.append(f"| {NAMES.get(name, name)} | " + " | ".join(cells) + f" | {lines['cpu_seconds'].mean():.0f} |")
    return "\n".join(out) + "\n"


def page(found: pd.DataFrame) -> str:
    """The tables of all parts that were run."""
    part, others = found["part"], found["method"].isin(OTHERS)
    text = ""
    for title, lines, beside in (
        (
            "MNIST, 784-256-10; published: CIFAR-10, ResNet-32",
            (part == "mnist") & ~others,
            published("cifar10"),
        ),
        ("MNIST, 784-256-10, methods that the paper does not compare with", (part == "mnist") & others, {}),
        ("Fashion-MNIST, 4-layer network, 5,000 images, 20 epochs", part == "fashion", {}),
        (
            "CIFAR-10, ResNet-20 of half the width, 5,000 images not augmented, batches of 32, 20 epochs; "
            "published: ResNet-32, 50,000, augmented, 128, 120",
            part == "cifar",
            published("cifar10"),
        ),
        (
            "CIFAR-100, the same network, 5,000 images augmented, batches of 128, 20 epochs; "
            "published: ResNet-32, 50,000, 120",
            part == "cifar-100",
            published("cifar100"),
        ),
        ("CIFAR-10, the same network and images, augmented, batches of 128, 20 epochs", part == "augmented", {}),
        ("MNIST, 784-256-10, 200 epochs; published: the same", part == "long", MNIST_LONG),
        ("CIFAR-10, ResNet-32; published: 50,000 images, 120 epochs", part == "paper", published("cifar10")),
        ("CIFAR-100, ResNet-32; published: 50,000 images, 120 epochs", part == "paper-100", published("cifar100")),
    ):
        if lines.any():
            text += f"{title}\n\n{table(found[lines], beside)}\n"
    return text


def picture(own: pd.DataFrame, path: Path) -> None:
    """Test accuracy by epoch, one panel a noise."""
    from matplotlib.figure import Figure

    several = own.groupby(["noise", "rate"])["method"].nunique()
    noises = [n for n in ORDER if several.get(n, 0) > 1]
    if not noises:
        return
    figure = Figure(
        figsize=(4.4 * min(2, len(noises)) + 2.2 * (len(noises) == 1), 3.1 * ((len(noises) + 1) // 2) + 0.8),
        layout="constrained",
    )
    axes = figure.subplots((len(noises) + 1) // 2, min(2, len(noises)), squeeze=False)
    handles: dict[str, Any] = {}
    colours = (*COLOURS, "#7F7F7F", "#8B4513")
    for axis, (kind, rate) in zip(axes.flat, noises, strict=False):
        part = own[(own["noise"] == kind) & (own["rate"] == rate)]
        for number, name in enumerate(name for name in NAMES if (own["method"] == name).any()):
            lines = [[float(v) for v in text.split()] for text in part[part["method"] == name]["curve"]]
            if lines:
                mean = [sum(values) / len(values) for values in zip(*lines, strict=True)]
                look = {"color": colours[number % len(colours)], "linestyle": "-" if number < len(colours) else "--"}
                wide = 2.4 if name in ("ema-refinement", "crust") else 1.3
                (handles[NAMES[name]],) = axis.plot(range(1, len(mean) + 1), mean, **look, linewidth=wide)
        axis.set(title=f"{kind} {rate:.0%}", xlabel="epoch")
        axis.set_ylim(max(0, 10 * (part["last10"].min() // 10) - 5), 100)
        tidy(axis)
    for line in axes:
        line[0].set_ylabel("test accuracy (%)")
    columns = 4 if len(noises) > 1 else 3
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )
    save(figure, path)


def chosen(results: protocol.Results) -> list[str]:
    """Ordinary training, the default, CRUST, and the five others of the best mean on MNIST."""
    first = ["standard", "second-opinion", "crust"]
    found = pd.read_csv(results.path) if results.path.exists() else pd.DataFrame(columns=[*Trial._fields, "last10"])
    own = found[(found["part"] == "mnist") & found["method"].isin(set(TABLE) - set(first)) & (found["epochs"] == 40)]
    # Each noise counts alike, however many of its seeds have ended.
    each = own.groupby(["method", "noise", "rate"])["last10"].mean().groupby("method").mean()
    return [*first, *each.sort_values(ascending=False).index[:5]]


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.set_defaults(methods="")
    made.add_argument("--long", action="store_true", help="the part of 200 epochs")
    made.add_argument("--small", action="store_true", help="Fashion-MNIST and CIFAR-10 alone")
    protocol.rows_argument(made)
    protocol.job_arguments(made)
    return made


def main() -> None:
    options = parser().parse_args()
    options.methods = options.methods or ",".join(TABLE)
    protocol.prepare(options)
    results = protocol.Results(options.results / "crust_table1.csv", options.fresh)
    work = partial(run, options=options)
    best = options.methods.split(",") if options.methods != ",".join(TABLE) else chosen(results)
    found, failed = protocol.finish(trials(options, best), work, results, options)
    if found.empty:
        raise SystemExit("no run has ended yet; allow more minutes")
    kinds = ("quick", "long", "paper", "small")
    kind = next((name for name in kinds if getattr(options, name)), "table1")
    text, part = page(found), found["part"]
    write_text(options.results / f"crust_{kind}.md", text)
    if kind in ("long", "table1"):
        drawn = part == "long" if options.long else (part == "mnist") & ~found["method"].isin(OTHERS)
        picture(found[drawn], options.results / f"crust_{kind}.png")
    print(text)
    shown = found[part == (kind if kind in ("long", "paper") else "cifar" if kind == "small" else "mnist")]
    figures: dict[str, Any] = {}
    for (noise, rate, method), lines in shown.groupby(["noise", "rate", "method"], sort=False):
        figures.setdefault(f"{noise}_{int(100 * float(rate))}", {})[method] = round(float(lines["last10"].mean()), 2)
    protocol.close({**figures, **({"failed": failed} if failed else {})})


if __name__ == "__main__":
    main()
