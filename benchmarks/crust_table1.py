"""Table 1 of the CRUST paper: CRUST and the eight methods it compares with, under four kinds of label noise.

EMA refinement, Holdfast's default, and ordinary training stand beside them; published figures are those of the paper.
MNIST with the 784-256-10 network for all methods (and those that the paper does not have, at symmetric 50 %);
Fashion-MNIST with the 4-layer network and CIFAR-10 with a ResNet-20 of half the width, 5,000 images each and 2,500 to
test on, for ordinary training and the five best of MNIST, at symmetric 50 % and asymmetric 40 %, 20 epochs. CIFAR-10 in
batches of 32 and without augmentation, so that ordinary training memorises wrong labels within these epochs; and at
symmetric 50 % once more in batches of 128 with random crops and flips, where it hardly does. No method is given the
noise rate; methods that train more than once do so inside the same number of epochs. Mean test accuracy of the last ten
epochs beside the best epoch, mean and standard deviation over seeds. The long part is the published small-machine
protocol of Co-teaching, Co-teaching+ and JoCoR (200 epochs, the noise rate given, the learning rate falling from epoch
80), and every method of the table at symmetric 50 % for as long. The last line is one JSON object: last-ten-epoch means
on MNIST by noise.

    python benchmarks/crust_table1.py --data FOLDER             all but the long part, 40 epochs, three seeds
    python benchmarks/crust_table1.py --data FOLDER --quick     MNIST, symmetric 50 %, 10,000 images, 10 epochs
    python benchmarks/crust_table1.py --data FOLDER --long      200 epochs, one seed
    python benchmarks/crust_table1.py --data FOLDER --paper     CIFAR-10, ResNet-32, 120 epochs, five seeds: needs a GPU

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
from holdfast.compare import corrupted
from holdfast.feed import PadCropFlip
from holdfast.files import write_text
from holdfast.functional import Constant, Cosine, HoldThenLinear, Steps
from holdfast.methods import METHODS, CoTeaching, CoTeachingPlus, JoCoR
from holdfast.nets import CNN4, MLP, ResNet
from holdfast.plots import COLOURS, save, tidy

NOISES = (("symmetric", 0.5), ("asymmetric", 0.4), ("symmetric", 0.2), ("symmetric", 0.8))
NAMES = {
    "standard": "ordinary",
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
    "co-teaching-plus-authors": "Co-teaching+, official=True",
    "co-teaching-plus-divided": "Co-teaching+, official=True, divided twice",
    "jocor-authors": "JoCoR, agreement=0.1",
}
TABLE = list(NAMES)[:11]
OTHERS = [name for name in METHODS if name in NAMES and name not in TABLE]
"""Methods that the paper does not compare with: at symmetric 50 % alone. CRUST's variants are in ``crust_ablation.py``;
Sever keeps the gradient of every row in memory and does not take so many."""


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
PUBLISHED = {
    "forward": ("85.1 ± 0.4", "76.0 ± 0.2", "34.8 ± 4.5", "83.6 ± 2.2"),
    "decoupling": ("86.7 ± 0.3", "79.3 ± 0.6", "36.9 ± 4.6", "75.3 ± 0.8"),
    "co-teaching": ("89.1 ± 0.3", "82.1 ± 0.6", "16.2 ± 3.2", "84.6 ± 2.8"),
    "mentor-net": ("88.4 ± 0.5", "77.1 ± 0.4", "28.9 ± 2.3", "77.3 ± 0.8"),
    "d2l": ("86.1 ± 0.4", "67.4 ± 3.6", "10.0 ± 0.1", "85.6 ± 1.2"),
    "incv": ("89.7 ± 0.2", "84.8 ± 0.3", "52.3 ± 3.5", "86.0 ± 0.5"),
    "t-revision": ("79.3 ± 0.5", "78.5 ± 0.6", "36.2 ± 1.6", "76.3 ± 0.8"),
    "l-dmi": ("84.3 ± 0.4", "78.8 ± 0.5", "20.9 ± 2.2", "84.8 ± 0.7"),
    "crust": ("91.1 ± 0.2", "86.3 ± 0.3", "58.3 ± 1.8", "88.8 ± 0.4"),
}
"""CIFAR-10 with ResNet-32 as published: symmetric 20, 50, 80 %, asymmetric 40 %."""
MNIST_LONG = {
    name: protocol.MNIST_PUBLISHED[name.removesuffix("-authors").removesuffix("-divided")]
    for name in ("standard", *TOLD)
}
ORDER = (("symmetric", 0.2), ("symmetric", 0.5), ("symmetric", 0.8), ("asymmetric", 0.4))


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
            for noise in NOISES:
                for method in named:
                    yield Trial("paper", method, *noise, options.epochs or 120, 50_000, seed)
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
    for noise in NOISES:
        for seed in range(options.seeds or 3):
            for method in named:
                yield Trial("mnist", method, *noise, options.epochs or 40, 60_000, seed)
    for method in OTHERS if named == TABLE else ():
        yield Trial("mnist", method, *NOISES[0], options.epochs or 40, 60_000, 0)
    for part in ("fashion", "cifar"):
        for noise in NOISES[:2]:
            for method in best:
                yield Trial(part, method, *noise, 20, 5_000, 0)
    for method in best:
        yield Trial("augmented", method, *NOISES[0], 20, 5_000, 0)


def sgd(parameters: Any) -> Optimizer:
    """The optimizer of the paper."""
    return SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)


def slim() -> nn.Module:
    """A ResNet-20 of half the width."""
    return ResNet(20, channels=3, outputs=10, width=8)


def network(part: str) -> nn.Module:
    makers: dict[str, Callable[[], nn.Module]] = {
        "fashion": lambda: CNN4(1, 10),
        "cifar": slim,
        "augmented": slim,
        "paper": lambda: ResNet(32, channels=3, outputs=10),
    }
    return makers.get(part, lambda: MLP(784, 10))()


def settings(trial: Trial) -> dict[str, Any]:
    """How each part optimises."""
    if trial.part == "paper":
        return {"optimizer": sgd, "schedule": Steps(), "augment": PadCropFlip(), "device": "auto"}
    schedule = {"mnist": Constant(), "long": HoldThenLinear()}.get(trial.part, Cosine())
    augment = PadCropFlip() if trial.part == "augmented" else None
    batch_size = 32 if trial.part == "cifar" else 128
    return {"schedule": schedule, "augment": augment, "batch_size": batch_size, "device": "cpu"}


def method_of(trial: Trial) -> Method:
    if trial.part == "long" and trial.method in TOLD:
        return TOLD[trial.method](trial.rate if trial.noise == "symmetric" else trial.rate / 2)
    return METHODS[trial.method]()


def run(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """Train; the last epochs' mean, the best epoch, and the curve as a string of numbers."""
    name = {"fashion": "fashion_mnist", "cifar": "cifar10", "augmented": "cifar10", "paper": "cifar10"}.get(
        trial.part, "mnist"
    )
    rows, test = protocol.load(options, name, trial.rows)
    if trial.part in ("fashion", "cifar", "augmented"):
        test = test.take(torch.arange(2_500))
    torch.manual_seed(trial.seed)
    done = fit(
        corrupted(rows, trial.noise, trial.rate, trial.seed), method_of(trial), network(trial.part), test=test,
        epochs=trial.epochs, seed=trial.seed, **settings(trial),
    )  # fmt: skip
    curve = 100 * done.history["test"]
    return {
        "last10": round(100 * done.last, 2),
        "best": round(100 * done.best, 2),
        "seconds": round(float(done.history["seconds"].sum()), 1),
        "cpu_seconds": round(float(done.history["cpu_seconds"].sum()), 1),
        "curve": " ".join(f"{value:.2f}" for value in curve),
    }


def table(own: pd.DataFrame, beside: dict[str, Any]) -> str:
    """Markdown: a line a method, for each noise the last ten epochs, in brackets the best one and what is published."""
    noises = [n for n in ORDER if ((own["noise"] == n[0]) & (own["rate"] == n[1])).any()]
    out = ["| method | " + " | ".join(f"{kind} {rate:.0%}" for kind, rate in noises) + " | CPU s a run |"]
    out.append("|---" * (len(noises) + 2) + "|")
    for name in NAMES:
        lines = own[own["method"] == name]
        if lines.empty:
            continue
        cells = []
        for kind, rate in noises:
            here = lines[(lines["noise"] == kind) & (lines["rate"] == rate)]
            note = f"; published {beside[name][ORDER.index((kind, rate))]}" if name in beside else ""
            last, best = protocol.mean_and_spread(here["last10"]), protocol.mean_and_spread(here["best"])
            cells.append(f"{last} (best {best}{note})" if len(here) else "-")
        out.append(f"| {NAMES[name]} | " + " | ".join(cells) + f" | {lines['cpu_seconds'].mean():.0f} |")
    return "\n".join(out) + "\n"


def page(found: pd.DataFrame) -> str:
    """The tables of all parts that were run."""
    part, others = found["part"], found["method"].isin(OTHERS)
    text = ""
    for title, lines, beside in (
        ("MNIST, 784-256-10; published: CIFAR-10, ResNet-32", (part == "mnist") & ~others, PUBLISHED),
        ("MNIST, 784-256-10, methods that the paper does not compare with", (part == "mnist") & others, {}),
        ("Fashion-MNIST, 4-layer network, 5,000 images, 20 epochs", part == "fashion", {}),
        (
            "CIFAR-10, ResNet-20 of half the width, 5,000 images not augmented, batches of 32, 20 epochs; "
            "published: ResNet-32, 50,000, augmented, 128, 120",
            part == "cifar",
            PUBLISHED,
        ),
        ("CIFAR-10, the same network and images, augmented, batches of 128, 20 epochs", part == "augmented", {}),
        ("MNIST, 784-256-10, 200 epochs; published: the same", part == "long", MNIST_LONG),
        ("CIFAR-10, ResNet-32, 120 epochs; published: the same", part == "paper", PUBLISHED),
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


def ranked(found: pd.DataFrame) -> list[str]:
    """Ordinary training and the five methods of the best mean on MNIST."""
    own = found[(found["part"] == "mnist") & found["method"].isin(TABLE)] if len(found) else found
    if own.empty:
        return []
    # Each noise counts alike, however many of its seeds have ended.
    each = own.groupby(["method", "noise", "rate"])["last10"].mean().groupby("method").mean()
    best = each.sort_values(ascending=False).index.tolist()
    return ["standard", *[name for name in best if name != "standard"][:5]]


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.set_defaults(methods="")
    parser.add_argument("--long", action="store_true", help="the part of 200 epochs")
    protocol.job_arguments(parser)
    options = parser.parse_args()
    options.methods = options.methods or ",".join(TABLE)
    protocol.prepare(options)
    results = protocol.Results(options.results / "crust_table1.csv", options.fresh)
    work = partial(run, options=options)
    found, failed = protocol.finish(trials(options, []), work, results, options)
    if not (options.quick or options.long or options.paper):
        found, more = protocol.finish(trials(options, ranked(found)), work, results, options)
        failed |= more
    if found.empty:
        raise SystemExit("no run has ended yet; allow more minutes")
    kind = "quick" if options.quick else "long" if options.long else "paper" if options.paper else "table1"
    text, part = page(found), found["part"]
    write_text(options.results / f"crust_{kind}.md", text)
    if not (options.quick or options.paper):
        drawn = part == "long" if options.long else (part == "mnist") & ~found["method"].isin(OTHERS)
        picture(found[drawn], options.results / f"crust_{kind}.png")
    print(text)
    shown = found[part == ("mnist" if not (options.long or options.paper) else kind)]
    figures: dict[str, Any] = {}
    for (noise, rate, method), lines in shown.groupby(["noise", "rate", "method"], sort=False):
        figures.setdefault(f"{noise}_{int(100 * float(rate))}", {})[method] = round(float(lines["last10"].mean()), 2)
    protocol.close({**figures, **({"failed": failed} if failed else {})})


if __name__ == "__main__":
    main()
