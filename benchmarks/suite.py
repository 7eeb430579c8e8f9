"""What a user gets with the defaults: wrong labels found and a model that holds, case by case.

Each case is a data set with known true labels: planted noise, labels that people really gave, or none. The default
trains as the command line does, with its 30 epochs and batches; beside it ordinary training on the given labels and
on the true ones, other methods if --methods names them, and cleanlab on five folds of the same network where it is
installed: its flags, and ordinary training without what it flags. ``gap_closed`` is (default - ordinary) / (true
labels - ordinary), last epoch. ``cost`` is the CPU time of the default in ordinary trainings, both measured one after
the other in a process that has trained before. Networks are those of the command line, but for MNIST and Fashion-MNIST
an MLP in place of the CNN, for the time it takes. The score of diamonds, whose labels are numbers, is R2 in per cent.
Constants of the default were chosen on the cases marked ``chosen``; the others took no part. The last line is one JSON
object with a key for each case and ``mean_gap_closed``.

    python benchmarks/suite.py --data FOLDER             all cases
    python benchmarks/suite.py --data FOLDER --quick     the small ones
    python benchmarks/suite.py --data FOLDER --methods elr,prl-l,crust

``--jobs`` trains as many runs at a time, a process and a thread each. What is done is kept and not done again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import protocol
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score, roc_auc_score

from holdfast import Method, Rows, fit, read
from holdfast.augment import PadCropFlip
from holdfast.compare import corrupted
from holdfast.data.source import Source
from holdfast.files import write_text
from holdfast.methods import DEFAULT, METHODS
from holdfast.plots import COLOURS, save, tidy

EPOCHS, FOLD_EPOCHS = 30, 5
COST = "cost"
Array = np.ndarray[Any, Any]
Pair = tuple[Rows, Rows]
"""Training rows with the truth beside the given labels, and test rows with right labels."""


def table(folder: Path, name: str, label: str, rate: float, kind: str = "symmetric", smaller: bool = False) -> Pair:
    """A table whose labels are flipped; ``smaller`` flips those of the rarer class alone."""
    rows, test = Source.at(folder / name, "0.2", 0, label=label).load()
    assert test is not None
    noisy = corrupted(rows, kind, rate, 0) if rate else replace(rows, truth=rows.y)
    if smaller:
        rare = int(torch.bincount(rows.y).argmin())
        noisy = replace(noisy, y=torch.where(rows.y == rare, noisy.y, rows.y))
    # Without its source: no wrong label is planted in the test rows, so that they are not to be judged with the others.
    return noisy, replace(test, source={})


def images(folder: Path, name: str, kind: str, rate: float, count: int | None = None) -> Pair:
    rows, test = read(folder / name)
    assert test is not None
    rows = rows if count is None else rows.take(torch.arange(count))
    noisy = protocol.planted(rows, name.removesuffix(".npz"), kind, rate, 0)
    return (noisy if rate else replace(rows, truth=rows.y)), test


def digits(folder: Path) -> Pair:
    x, y = load_digits(return_X_y=True)
    rows = Rows(torch.tensor(x / 16).float(), torch.tensor(y), tuple("0123456789"))
    train, test = rows.split(0.3, 0)
    return corrupted(train, "symmetric", 0.4, 0), test


def news(folder: Path) -> Pair:
    """News items that crowd workers labelled."""
    frame = pd.read_csv(folder / "ag_news_human.csv.gz")
    rows, _ = read(folder / "ag_news_human.csv.gz", label="label", truth="truth")
    test, _ = read(folder / "ag_news_test.csv.gz", label="label", recipe=dict(rows.recipe))
    assert len(frame) == len(rows)
    return rows, test


def people(folder: Path, worst_of: int) -> Pair:
    """Features of CIFAR-10 images, labelled by the worst of so many people."""
    with np.load(folder / "cifar10h_features.npz") as features, np.load(folder / "cifar10h_counts.npz") as votes:
        y, counts = features["y_true"].astype(int), votes["counts"].astype(float)
        x, xt, yt = (torch.tensor(features[name].astype("float32")) for name in ("x_train", "x_test", "y_test"))
    chance, r = counts / counts.sum(1, keepdims=True), np.random.default_rng(0)
    answers = np.stack([(r.random((len(y), 1)) > chance.cumsum(1)[:, :-1]).sum(1) for _ in range(worst_of)], 1)
    bad = answers != y[:, None]
    given = np.where(bad.any(1), answers[np.arange(len(y)), bad.argmax(1)], y)
    names = tuple("0123456789")
    return Rows(x, torch.tensor(given), names, truth=torch.tensor(y)), Rows(xt, yt.long(), names)


class Case(NamedTuple):
    """Where the rows come from, and what is known of them."""

    load: Callable[[Path], Pair]
    quick: bool = True
    chosen: bool = False
    """Whether constants of the default were chosen by looking at it."""
    net: str = "auto"
    numbers: bool = False
    """Whether its labels are numbers, which cleanlab's filter and most methods do not take."""


CASES: dict[str, Case] = {
    "digits_40": Case(digits, chosen=True),
    "adult_20": Case(partial(table, name="adult.csv.gz", label="income >50K", rate=0.2), chosen=True),
    "adult_one_sided_30": Case(partial(table, name="adult.csv.gz", label="income >50K", rate=0.3, smaller=True)),
    "marital_20": Case(partial(table, name="adult.csv.gz", label="marital-status", rate=0.2), quick=False),
    "cut_20": Case(partial(table, name="diamonds.csv.gz", label="cut", rate=0.2), quick=False),
    "cut_pairs_30": Case(partial(table, name="diamonds.csv.gz", label="cut", rate=0.3, kind="pairflip"), quick=False),
    "clarity_20": Case(partial(table, name="diamonds.csv.gz", label="clarity", rate=0.2), quick=False),
    "amazon_20": Case(
        partial(table, name="amazon_reviews.csv.gz", label="Positive", rate=0.2), quick=False, chosen=True
    ),
    "news_people": Case(news, chosen=True),
    "news_pairs_20": Case(partial(table, name="ag_news_test.csv.gz", label="label", rate=0.2, kind="pairflip")),
    "features_1_person": Case(partial(people, worst_of=1), chosen=True),
    "features_10_people": Case(partial(people, worst_of=10), chosen=True),
    "features_30_people": Case(partial(people, worst_of=30), chosen=True),
    "adult_clean": Case(partial(table, name="adult.csv.gz", label="income >50K", rate=0.0), chosen=True),
    "diamonds_clean": Case(
        partial(table, name="diamonds.csv.gz", label="price", rate=0.0), quick=False, chosen=True, numbers=True
    ),
    "fashion_symmetric_20": Case(
        partial(images, name="fashion_mnist.npz", kind="symmetric", rate=0.2), quick=False, net="mlp", chosen=True
    ),
    "fashion_symmetric_50": Case(
        partial(images, name="fashion_mnist.npz", kind="symmetric", rate=0.5), quick=False, net="mlp"
    ),
    "fashion_pairflip_40": Case(
        partial(images, name="fashion_mnist.npz", kind="pairflip", rate=0.4), quick=False, net="mlp", chosen=True
    ),
    "mnist_symmetric_50": Case(partial(images, name="mnist.npz", kind="symmetric", rate=0.5), quick=False, net="mlp"),
    "mnist_symmetric_80": Case(partial(images, name="mnist.npz", kind="symmetric", rate=0.8), quick=False, net="mlp"),
    "mnist_asymmetric_40": Case(
        partial(images, name="mnist.npz", kind="asymmetric", rate=0.4), quick=False, net="mlp", chosen=True
    ),
    "mnist_clean": Case(partial(images, name="mnist.npz", kind="symmetric", rate=0.0), quick=False, net="mlp"),
    "cifar10_symmetric_40": Case(
        partial(images, name="cifar10_jpeg.npz", kind="symmetric", rate=0.4, count=10_000), quick=False, chosen=True
    ),
}


TITLES = {
    "digits_40": "digits, 40 % flipped",
    "adult_20": "adult, 20 % flipped",
    "adult_one_sided_30": "adult, 30 % of the rarer class",
    "marital_20": "adult, marital status, 20 %",
    "cut_20": "diamonds, cut, 20 % flipped",
    "cut_pairs_30": "diamonds, cut, pairs 30 %",
    "clarity_20": "diamonds, clarity, 20 % flipped",
    "amazon_20": "app reviews, 20 % flipped",
    "news_people": "news, crowd workers",
    "news_pairs_20": "news, right labels, pairs 20 %",
    "features_1_person": "CIFAR-10 features, one person",
    "features_10_people": "CIFAR-10 features, worst of 10",
    "features_30_people": "CIFAR-10 features, worst of 30",
    "adult_clean": "adult, as published",
    "diamonds_clean": "diamonds, as published",
    "fashion_symmetric_20": "Fashion-MNIST, symmetric 20 %",
    "fashion_symmetric_50": "Fashion-MNIST, symmetric 50 %",
    "fashion_pairflip_40": "Fashion-MNIST, pairs 40 %",
    "mnist_symmetric_50": "MNIST, symmetric 50 %",
    "mnist_symmetric_80": "MNIST, symmetric 80 %",
    "mnist_asymmetric_40": "MNIST, asymmetric 40 %",
    "mnist_clean": "MNIST, as published",
    "cifar10_symmetric_40": "CIFAR-10, symmetric 40 %",
}
"""What pictures call the cases."""


class Trial(NamedTuple):
    """One training of one case."""

    case: str
    way: str
    """A method, "true" for ordinary training on the true labels, "cleanlab", or COST to measure the default's."""
    epochs: int
    seed: int


def run(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """Train as the command line does; scores in per cent, and of the default what it says of each label."""
    rows, test = CASES[trial.case].load(protocol.data_folder(options))
    if trial.way == "cleanlab":
        return by_cleanlab(rows, test, trial)
    if trial.way == "true":
        assert rows.truth is not None
        rows = replace(rows, y=rows.truth)
    train = partial(
        fit, replace(rows, truth=None), net=CASES[trial.case].net, test=test, augment=augmentation(rows),
        seed=trial.seed, device="cpu",
    )  # fmt: skip
    if trial.way == COST:
        return {"cost": round(cost(train, trial.epochs), 3)}
    method = Method() if trial.way == "true" else METHODS[trial.way]()
    done = train(method, epochs=trial.epochs, evidence=trial.way == DEFAULT)
    scores = 100 * done.history["test"]
    line = {"last": round(float(scores.iloc[-1]), 2), "best": round(float(scores.max()), 2)}
    if trial.way == "true":
        return line
    table = done.issue_table()
    return line | found(rows, table["trust"].to_numpy(), table["flag"].to_numpy())


def cost(train: Callable[..., Any], epochs: int) -> float:
    """CPU time of the default in ordinary trainings; what is loaded and compiled once is not counted."""
    seconds = []
    for method, count in ((METHODS[DEFAULT](), 1), (Method(), epochs), (METHODS[DEFAULT](), epochs)):
        start = time.process_time()
        train(method, epochs=count)
        seconds.append(time.process_time() - start)
    return seconds[2] / seconds[1]


def augmentation(rows: Rows) -> PadCropFlip | None:
    """Crops and flips for colour images, as on the command line."""
    return PadCropFlip() if len(rows.shape) == 3 and rows.shape[0] == 3 else None


def found(rows: Rows, trust: Array, flag: Array) -> dict[str, Any]:
    """How well flags and trust meet the truth."""
    assert rows.truth is not None
    wrong = (rows.y != rows.truth).reshape(len(rows), -1).any(1).numpy()
    bins = np.minimum((trust * 10).astype(int), 9)
    apart = [abs(trust[bins == k].mean() - (~wrong)[bins == k].mean()) * (bins == k).mean() for k in np.unique(bins)]
    line = {
        "wrong": round(float(wrong.mean()), 4),
        "estimated": round(float(1 - trust.mean()), 4),
        "flagged": round(float(flag.mean()), 4),
        "trust_off": round(float(sum(apart)), 4),
    }
    if wrong.any():
        line |= {"f1": round(float(f1_score(wrong, flag)), 4), "auroc": round(float(roc_auc_score(wrong, -trust)), 4)}
    return line


def by_cleanlab(rows: Rows, test: Rows, trial: Trial) -> dict[str, Any]:
    """F1 of cleanlab's default filter and of its best, by five folds, and training without what the default flags.

    The folds train for FOLD_EPOCHS alone: after 30 they have memorised labels, and cleanlab finds next to nothing.
    """
    from cleanlab.filter import find_label_issues

    assert rows.truth is not None
    assert isinstance(rows.x, torch.Tensor)
    y, wrong = rows.y.numpy(), (rows.y != rows.truth).numpy()
    probs = np.zeros((len(y), len(rows.classes or ())))
    fold = np.random.default_rng(trial.seed).permutation(len(y)) % 5
    for k in range(5):
        some, others = (torch.from_numpy(np.flatnonzero(at)) for at in (fold != k, fold == k))
        done = fit(
            rows.take(some), Method(), CASES[trial.case].net, epochs=FOLD_EPOCHS, seed=trial.seed,
            augment=augmentation(rows), device="cpu",
        )  # fmt: skip
        probs[others.numpy()] = done.probabilities(rows.x[others]).double().numpy()
    probs /= probs.sum(1, keepdims=True)
    names = ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given")
    flags = [find_label_issues(y, probs, filter_by=name, n_jobs=1) for name in names]
    scores = [float(f1_score(wrong, flag)) if wrong.any() else np.nan for flag in flags]
    refit = fit(
        rows.take(torch.from_numpy(np.flatnonzero(~flags[0]))), Method(), CASES[trial.case].net, test=test,
        epochs=trial.epochs, seed=trial.seed, augment=augmentation(rows), device="cpu",
    )  # fmt: skip
    return {
        "last": round(100 * float(refit.history["test"].iloc[-1]), 2),
        "flagged": round(float(flags[0].mean()), 4),
        "cleanlab_default_f1": round(scores[0], 4),
        "cleanlab_best_f1": round(max(scores), 4),
    }


def summary(lines: pd.DataFrame, ways: list[str]) -> dict[str, dict[str, Any]]:
    """One entry a case."""
    out: dict[str, dict[str, Any]] = {}
    for name in CASES:
        own = lines[lines["case"] == name].groupby("way").mean(numeric_only=True)
        if not {DEFAULT, "standard", "true"} <= set(own.index):
            continue
        default, ordinary, oracle = own.loc[DEFAULT], own.loc["standard", "last"], own.loc["true", "last"]
        entry = {key: default.get(key) for key in ("f1", "auroc", "wrong", "estimated", "flagged", "trust_off")}
        if "cleanlab" in own.index:
            entry |= {key: own.loc["cleanlab", key] for key in ("cleanlab_default_f1", "cleanlab_best_f1")}
            entry["cleanlab_refit"] = own.loc["cleanlab", "last"]
        entry |= {"ordinary": ordinary, "oracle": oracle, "default": default["last"], "best_epoch": default["best"]}
        gap = oracle - ordinary
        entry["gap_closed"] = (default["last"] - ordinary) / gap if gap > 0.5 else None
        entry["cost"] = own.loc[COST, "cost"] if COST in own.index else None
        entry |= {way: own.loc[way, "last"] for way in ways if way in own.index}
        out[name] = {
            key: None if value is None or pd.isna(value) else round(float(value), 4) for key, value in entry.items()
        }
    return out


def page(figures: dict[str, dict[str, Any]]) -> str:
    """The same as a Markdown table; cases by which constants were chosen have a star."""
    frame = pd.DataFrame(figures).T
    frame.index = [f"{name} *" if CASES[name].chosen else name for name in frame.index]
    head = "| case | " + " | ".join(frame.columns) + " |\n" + "|---" * (len(frame.columns) + 1) + "|\n"
    shown = frame.map(lambda value: "-" if pd.isna(value) else f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}")
    return head + "".join(f"| {name} | " + " | ".join(line) + " |\n" for name, line in shown.iterrows())


def picture(figures: dict[str, dict[str, Any]], path: Path) -> None:
    """Accuracy from ordinary training to training on the true labels, and F1 beside cleanlab's, by case."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 0.42 * len(figures) + 1.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names = list(figures)[::-1]
    places = np.arange(len(names))
    for at, name in enumerate(names):
        entry = figures[name]
        left.plot([entry["ordinary"], entry["oracle"]], [at, at], color="#BBBBBB", linewidth=5, solid_capstyle="round")
    for label, key, marker, colour in (
        ("ordinary training", "ordinary", "o", "#555555"),
        ("true labels", "oracle", "D", "#555555"),
        ("ELR", "elr", "^", COLOURS[2]),
        ("Co-teaching", "co-teaching", "v", COLOURS[4]),
        ("without what cleanlab flags", "cleanlab_refit", "s", COLOURS[0]),
        ("second opinion (default)", "default", "o", COLOURS[1]),
    ):
        scores = pd.Series([figures[name].get(key) for name in names], dtype=float)
        left.plot(scores, places, marker, color=colour, label=label, linestyle="", markersize=7)
    for shift, label, key, colour in (
        (0.2, "second opinion (default)", "f1", COLOURS[1]),
        (-0.2, "cleanlab, default filter", "cleanlab_default_f1", COLOURS[0]),
    ):
        scores = pd.Series([figures[name].get(key) for name in names], dtype=float).fillna(0)
        right.barh(places + shift, scores, color=colour, height=0.38, label=label)
    left.set(yticks=places, yticklabels=[TITLES[name] for name in names], xlabel="test accuracy (%), last epoch")
    right.set(xlabel="F1 of the flagged labels", xlim=(0, 1), ylim=(-0.7, len(names) - 0.3))
    for axis, columns in ((left, 2), (right, 1)):
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=columns, frameon=False)
        tidy(axis)
    save(figure, path)


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.set_defaults(methods="")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case; may be repeated")
    protocol.job_arguments(parser)
    options = parser.parse_args()
    further = [name for name in options.methods.split(",") if name]
    options.methods = ",".join([DEFAULT, *further])
    protocol.prepare(options)
    names = options.case or [name for name, case in CASES.items() if case.quick or not options.quick]
    ways = ["standard", "true", DEFAULT, COST, *further, *(["cleanlab"] if find_spec("cleanlab") else [])]
    seeds, epochs = options.seeds or 1, options.epochs or EPOCHS
    trials = [
        Trial(name, way, epochs, seed)
        for name in names
        for seed in range(seeds)
        for way in (ways[:4] if CASES[name].numbers else ways)
    ]
    results = protocol.Results(options.results / "suite.csv", options.fresh)
    lines, failed = protocol.finish(trials, partial(run, options=options), results, options)
    if lines.empty:
        raise SystemExit("no run has ended yet; allow more minutes")
    figures = summary(lines, further)
    if figures:
        write_text(options.results / "suite.md", page(figures))
        picture(figures, options.results / "suite.png")
        print(page(figures))
    gaps = [entry["gap_closed"] for entry in figures.values() if entry["gap_closed"] is not None]
    closing: dict[str, Any] = {**figures, "mean_gap_closed": round(float(np.mean(gaps)), 4) if gaps else None}
    print(json.dumps(closing | ({"failed": failed} if failed else {})))


if __name__ == "__main__":
    main()
