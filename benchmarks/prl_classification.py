"""Tables 2 and 3 of the PRL paper: symmetric noise of 30, 50 and 70 %, pairflip of 25, 35 and 45 %.

MNIST with the 784-256-10 network on all images, and both CIFAR with the 4-layer network on some; every method that
takes a drop rate is given the true noise rate, as in the paper. Test accuracy in per cent, the mean of the last epochs
(ten, or as many as had the full drop rate). Table 3 gives Co-PRL(L) a rate that is too high or too low; "auto"
estimates it. The last part compares Co-PRL(L) and Co-teaching without BatchNorm. The last line is one JSON object: how
far PRL(L) is ahead of SPL and Co-PRL(L) ahead of Co-teaching at each pairflip rate on MNIST. The published scale is
the recipe of Co-teaching (protocol.HanAdam), with both CIFAR; "bootstrap" is the hard kind with 0.8 of the given label.

    python benchmarks/prl_classification.py --data FOLDER             all data sets, one seed
    python benchmarks/prl_classification.py --data FOLDER --quick     MNIST, pairflip 45 %, five methods
    python benchmarks/prl_classification.py --data FOLDER --paper     both CIFAR, nine layers, 200 epochs, three seeds

``--minutes`` starts no further run after so many minutes; the next call goes on from there; ``--only`` names
one data set.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import protocol
import torch
from torch import nn

from holdfast import Method, Rows, fit
from holdfast.compare import corrupted
from holdfast.files import write_text
from holdfast.functional import Constant, Cosine, HoldThenLinear
from holdfast.methods import PRLL, SPL, Bootstrap, CoPRLL, CoTeaching, Decoupling, MinSGD, NormClip
from holdfast.nets import CNN4, CNN9, MLP
from holdfast.plots import COLOURS, save, tidy

NOISES = (
    ("pairflip", 0.45),
    ("symmetric", 0.5),
    ("pairflip", 0.35),
    ("pairflip", 0.25),
    ("symmetric", 0.3),
    ("symmetric", 0.7),
)
MAKERS: dict[str, Callable[[Any, int], Method]] = {
    "standard": lambda rate, ramp: Method(),
    "spl": lambda rate, ramp: SPL(rate, ramp=ramp),
    "prl-l": lambda rate, ramp: PRLL(rate, ramp=ramp),
    "co-teaching": lambda rate, ramp: CoTeaching(rate, ramp=ramp),
    "co-prl-l": lambda rate, ramp: CoPRLL(rate, ramp=ramp),
    "norm-clip": lambda rate, ramp: NormClip(),
    "bootstrap": lambda rate, ramp: Bootstrap(),
    "decoupling": lambda rate, ramp: Decoupling(),
    "min-sgd": lambda rate, ramp: MinSGD(),
}
FIRST = ("standard", "spl", "prl-l", "co-teaching", "co-prl-l")
SHIFTS = ("auto", "0.1", "-0.1", "0.05", "-0.05")
PUBLISHED = {
    "cifar10": {
        ("symmetric", 0.3): (63.22, 77.77, 79.40, 79.90, 80.05, 62.41, 63.67, 70.73, 13.31),
        ("symmetric", 0.5): (44.63, 72.22, 74.17, 74.25, 75.43, 43.99, 46.13, 57.48, 13.33),
        ("symmetric", 0.7): (24.12, 56.19, 58.36, 58.41, 60.26, 24.17, 25.13, 40.11, 9.08),
        ("pairflip", 0.25): (68.34, 75.79, 80.54, 80.18, 81.51, 67.92, 68.71, 75.59, 10.45),
        ("pairflip", 0.35): (58.68, 70.40, 77.61, 77.97, 79.01, 58.27, 58.19, 66.38, 12.29),
        ("pairflip", 0.45): (48.05, 58.95, 71.42, 72.43, 73.78, 48.03, 47.84, 51.54, 10.94),
    },
    "cifar100": {
        ("symmetric", 0.3): (32.83, 44.37, 46.40, 45.02, 47.51, 32.10, 34.47, 32.95, 2.94),
        ("symmetric", 0.5): (20.47, 37.89, 38.38, 38.79, 40.64, 19.73, 21.59, 21.02, 2.35),
        ("symmetric", 0.7): (9.93, 24.10, 25.38, 24.94, 27.27, 9.93, 10.59, 12.55, 2.32),
        ("pairflip", 0.25): (40.37, 40.48, 47.57, 42.97, 48.06, 39.34, 40.22, 39.43, 2.62),
        ("pairflip", 0.35): (34.07, 34.17, 43.32, 36.69, 44.08, 32.88, 34.53, 33.14, 2.30),
        ("pairflip", 0.45): (27.66, 27.55, 33.31, 29.71, 34.43, 27.35, 27.56, 26.83, 2.55),
    },
}
"""Table 2: the 9-layer network, 200 epochs, as published, in the order of the methods."""
SHIFTED = {
    ("cifar10", "pairflip", 0.45): (65.07, 70.07, 73.78, 77.56, 79.36),
    ("cifar10", "symmetric", 0.5): (69.21, 72.53, 75.43, 77.65, 78.10),
    ("cifar10", "symmetric", 0.7): (53.88, 58.49, 60.26, 60.89, 54.91),
    ("cifar100", "pairflip", 0.45): (32.60, 34.17, 34.43, 36.87, 38.34),
    ("cifar100", "symmetric", 0.5): (37.74, 39.72, 40.64, 43.02, 43.92),
    ("cifar100", "symmetric", 0.7): (24.40, 25.50, 27.27, 27.80, 28.20),
}
"""Tables 3 and 5: Co-PRL(L) with a rate off by -0.1, -0.05, 0, 0.05 and 0.1."""
GUESSING = 15.0
"""Accuracy in per cent up to which a method has learnt nothing about ten classes."""


class Trial(NamedTuple):
    """One run: where, how, with what noise, and how far the rate given to the method is from the true one."""

    data: str
    net: str
    method: str
    noise: str
    rate: float
    shift: str
    epochs: int
    rows: int
    seed: int


def trials(options: argparse.Namespace) -> Iterator[Trial]:
    """Everything to run, the most telling first."""
    yield from published_trials(options) if options.paper else small_trials(options)


def published_trials(options: argparse.Namespace) -> Iterator[Trial]:
    """Tables 2 and 3 as published, and Co-teaching and Co-PRL(L) without BatchNorm."""
    epochs, rows = options.epochs or 200, options.rows or 50_000
    for seed in range(options.seeds or 3):
        for data in PUBLISHED:
            for method in [*FIRST, *[name for name in MAKERS if name not in FIRST]]:
                for kind, rate in NOISES:
                    yield Trial(data, "cnn9", method, kind, rate, "0", epochs, rows, seed)
        for data, kind, rate in SHIFTED:
            for shift in SHIFTS:
                yield Trial(data, "cnn9", "co-prl-l", kind, rate, shift, epochs, rows, seed)
        for method in ("co-teaching", "co-prl-l"):
            yield Trial("cifar10", "cnn9-plain", method, "pairflip", 0.45, "0", epochs, rows, seed)


def small_trials(options: argparse.Namespace) -> Iterator[Trial]:
    epochs, rows = options.epochs or 12, options.rows or 10_000
    noises = NOISES[:1] if options.quick else NOISES
    for seed in range(options.seeds or 1):
        for kind, rate in noises[:4]:
            for method in FIRST:
                yield Trial("mnist", "mlp", method, kind, rate, "0", epochs, 60_000, seed)
        if options.quick:
            return
        for shift in SHIFTS:
            yield Trial("mnist", "mlp", "co-prl-l", *NOISES[0], shift, epochs, 60_000, seed)
        for kind, rate in NOISES:
            for method in FIRST:
                yield Trial("cifar10", "cnn4", method, kind, rate, "0", epochs, rows, seed)
        for kind, rate in noises[4:]:
            for method in FIRST:
                yield Trial("mnist", "mlp", method, kind, rate, "0", epochs, 60_000, seed)
        for shift in SHIFTS:
            yield Trial("mnist", "mlp", "co-prl-l", *NOISES[1], shift, epochs, 60_000, seed)
        for method in ("co-teaching", "co-prl-l"):
            yield Trial("cifar10", "cnn4-plain", method, "pairflip", 0.45, "0", epochs, rows, seed)
        for shift in SHIFTS:
            yield Trial("cifar10", "cnn4", "co-prl-l", *NOISES[0], shift, epochs, rows, seed)
        for kind, rate in NOISES:
            for method in FIRST:
                yield Trial("cifar100", "cnn4", method, kind, rate, "0", epochs, rows, seed)
        for kind, rate in NOISES:
            for method in list(MAKERS)[len(FIRST) :]:
                yield Trial("mnist", "mlp", method, kind, rate, "0", epochs, 60_000, seed)


def network(name: str, classes: int = 10) -> nn.Module:
    makers: dict[str, Callable[[], nn.Module]] = {
        "mlp": lambda: MLP(784, 10),
        "cnn4": lambda: CNN4(3, classes),
        "cnn4-plain": lambda: CNN4(3, 10, norm=None),
        "cnn9": lambda: CNN9(3, classes),
        # The nine-layer network does not start without any norm; GroupNorm ties no examples together.
        "cnn9-plain": lambda: CNN9(3, classes, norm="group"),
    }
    return makers[name]()


def settings(trial: Trial, paper: bool) -> dict[str, Any]:
    """How a run optimises: at the published scale by the recipe of Co-teaching, CIFAR-100 later than CIFAR-10."""
    if paper:
        hold = (100 if trial.data == "cifar100" else 80) / 200
        return {"optimizer": protocol.HanAdam, "schedule": HoldThenLinear(hold), "batch_size": 128}
    return {"schedule": Constant() if trial.data == "mnist" else Cosine(), "batch_size": 128}


def run(trial: Trial, options: argparse.Namespace, rows: Rows, test: Rows) -> dict[str, Any]:
    """Train; the last epochs' mean, and the curve as a string of numbers."""
    ramp = 10 if trial.epochs >= 30 else 5
    given_rate: Any = "auto" if trial.shift == "auto" else round(trial.rate + float(trial.shift), 4)
    method = MAKERS[trial.method](given_rate, ramp)
    torch.manual_seed(trial.seed)
    done = fit(
        corrupted(rows, trial.noise, trial.rate, trial.seed), method, network(trial.net, len(rows.classes or ())),
        test=test, epochs=trial.epochs, seed=trial.seed, device=protocol.device(options),
        **settings(trial, options.paper),
    )  # fmt: skip
    curve = 100 * done.history["test"]
    last = curve.iloc[-max(1, min(10, trial.epochs - ramp)) :].mean()
    estimate = round(method.estimate.rate, 4) if hasattr(method, "estimate") else float("nan")
    return {
        "last": round(float(last), 2),
        "best": round(float(curve.max()), 2),
        "told": estimate,
        "cpu_seconds": round(float(done.history["cpu_seconds"].sum()), 1),
        "curve": " ".join(f"{value:.2f}" for value in curve),
    }


def table(found: pd.DataFrame, data: str, net: str) -> str:
    """Markdown of one data set: a line a noise, a column a method; published figures in brackets."""
    beside = PUBLISHED["cifar10" if data == "mnist" else data]
    own = found[(found["data"] == data) & (found["net"] == net) & (found["shift"].astype(str) == "0")]
    names = [name for name in MAKERS if (own["method"] == name).any()]
    out = ["| noise | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for kind, rate in sorted(NOISES):
        part = own[(own["noise"] == kind) & (own["rate"] == rate)]
        if part.empty:
            continue
        cells = []
        for name in names:
            values = part[part["method"] == name]["last"]
            published = beside[kind, rate][list(MAKERS).index(name)]
            cells.append(f"{protocol.mean_and_spread(values)} ({published})")
        out.append(f"| {kind} {rate:.0%} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def sensitivity(found: pd.DataFrame, data: str) -> str:
    """Markdown of Table 3 for one data set; published figures in brackets."""
    own = found[(found["data"] == data) & (found["method"] == "co-prl-l")].copy()
    own["shift"] = own["shift"].astype(str)
    shifts = ("-0.1", "-0.05", "0", "0.05", "0.1", "auto")
    out = ["| Co-PRL(L), rate off by | " + " | ".join(shifts) + " |", "|---" * 7 + "|"]
    for kind, rate in sorted(NOISES):
        part = own[(own["noise"] == kind) & (own["rate"] == rate)]
        if part["shift"].nunique() < 2:
            continue
        told, cells = SHIFTED.get((data, kind, rate), ()), []
        for number, shift in enumerate(shifts):
            lines = part[part["shift"] == shift]
            note = f" (estimated {lines['told'].mean():.3f})" if shift == "auto" and len(lines) else ""
            note = f" ({told[number]})" if number < len(told) else note
            cells.append(f"{lines['last'].mean():.2f}{note}" if len(lines) else "-")
        out.append(f"| {kind} {rate:.0%} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def picture(found: pd.DataFrame, path: Path) -> None:
    """Test accuracy by epoch on MNIST, one panel a noise; a method that guesses is left out."""
    from matplotlib.figure import Figure

    own = found[(found["data"] == "mnist") & (found["shift"].astype(str) == "0")]
    noises = [n for n in sorted(NOISES) if ((own["noise"] == n[0]) & (own["rate"] == n[1])).any()]
    figure = Figure(figsize=(3.6 * min(3, len(noises)), 3.1 * ((len(noises) + 2) // 3) + 0.5), layout="constrained")
    axes = figure.subplots((len(noises) + 2) // 3, min(3, len(noises)), squeeze=False)
    handles: dict[str, Any] = {}
    own = own[own["last"] > GUESSING]
    for axis, (kind, rate) in zip(axes.flat, noises, strict=False):
        for name, colour in zip(MAKERS, (*COLOURS, "#7F7F7F"), strict=True):
            part = own[(own["noise"] == kind) & (own["rate"] == rate) & (own["method"] == name)]
            if len(part):
                lines = [[float(value) for value in text.split()] for text in part["curve"]]
                mean = [sum(values) / len(values) for values in zip(*lines, strict=True)]
                (handles[name],) = axis.plot(range(1, len(mean) + 1), mean, color=colour, linewidth=1.6)
        lows = own[(own["noise"] == kind) & (own["rate"] == rate)]["last"]
        axis.set(title=f"{kind} {rate:.0%}", xlabel="epoch", ylim=(5 * (lows.min() // 5) - 10, 100))
        axis.xaxis.get_major_locator().set_params(integer=True)
        tidy(axis)
    for axis in list(axes.flat)[len(noises) :]:
        axis.set_visible(False)
    for line in axes:
        line[0].set_ylabel("test accuracy (%)")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = protocol.arguments(__doc__.splitlines()[0])
    made.add_argument("--minutes", type=float, default=float("inf"), help="start no further run after so long")
    made.add_argument("--only", help="trials of this data set alone: mnist, cifar10 or cifar100")
    protocol.rows_argument(made)
    return made


def main() -> None:
    options = parser().parse_args()
    protocol.prepare(options)
    results = protocol.Results(options.results / "prl_classification.csv", options.fresh)
    loaded: dict[str, tuple[Rows, Rows]] = {}
    lines, start = [], time.monotonic()
    for trial in (each for each in trials(options) if options.only in (None, each.data)):
        asked = trial._asdict()

        def make(trial: Trial = trial) -> dict[str, Any]:
            if trial.data not in loaded:
                loaded[trial.data] = protocol.load(options, trial.data, trial.rows)
            return run(trial, options, *loaded[trial.data])

        if time.monotonic() - start > 60 * options.minutes and results.find(asked) is None:
            continue
        lines.append(results.get(asked, partial(make)))
        print(f"{' '.join(map(str, trial))}: {lines[-1]['last']}", flush=True)
    found = pd.DataFrame(lines)
    text = ""
    for data, net in found[["data", "net"]].drop_duplicates().itertuples(index=False):
        told = "CIFAR-10 as published" if data == "mnist" else "as published"
        text += f"{data}, {net} (in brackets {told})\n\n{table(found, data, net)}\n"
    for data in found["data"].unique():
        text += f"Table 3 on {data}: Co-PRL(L) with a rate that is too high or too low\n\n{sensitivity(found, data)}\n"
    stem = options.results / f"prl_classification{'_paper' if options.paper else ''}"
    write_text(stem.with_suffix(".md"), text)
    print(text)
    if options.paper:
        protocol.close(found.groupby(["data", "method"])["last"].mean().unstack().round(2).to_dict("index"))
        return
    picture(found, stem.with_suffix(".png"))
    own = found[(found["data"] == "mnist") & (found["shift"].astype(str) == "0")]
    score = own.groupby(["noise", "rate", "method"])["last"].mean()
    ahead = {}
    for rate in sorted(rate for kind, rate in NOISES if kind == "pairflip" and ("pairflip", rate, "co-prl-l") in score):
        one, two = ("prl-l", "spl"), ("co-prl-l", "co-teaching")
        ahead[f"pairflip_{rate}"] = {
            f"{a}_minus_{b}": round(float(score["pairflip", rate, a] - score["pairflip", rate, b]), 2)
            for a, b in (one, two)
        }
    protocol.close(ahead)


if __name__ == "__main__":
    main()
