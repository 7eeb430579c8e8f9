"""Which labels are wrong: one robust run of Holdfast beside cleanlab with 5-fold cross-validation.

Wrong labels are planted; each case trains the same kind of network for as many epochs in one run of PRL(L), of
Co-PRL(L), of EMA refinement, of CRUST and of ordinary training, whose ledgers say which labels are wrong,
and in five folds for cleanlab, whose best filter is chosen by looking at the true labels. No method is given the noise
rate. Fashion-MNIST and MNIST: 784-256-10; CIFAR-10: 10,000 images, 4-layer CNN; adult and amazon_reviews: an MLP on
encoded columns. Without cleanlab only its earlier results are shown. The last line is one JSON object with a key for
each case.

    python benchmarks/label_issues.py --data FOLDER             all cases
    python benchmarks/label_issues.py --data FOLDER --quick     Fashion-MNIST, adult and amazon_reviews
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import protocol
import torch
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score
from torch import nn

from holdfast import Method, Rows, fit, read
from holdfast.compare import corrupted
from holdfast.files import write_text
from holdfast.methods import METHODS
from holdfast.nets import build
from holdfast.plots import COLOURS, save
from holdfast.progress import Bar

Array = np.ndarray[Any, Any]
FOLDS = 5
FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given")


class Case(NamedTuple):
    """A data set with planted noise."""

    data: str
    noise: str
    rate: float
    net: str
    quick: bool = True
    rows: int | None = None
    label: str | None = None


CASES = {
    "fashion_symmetric_20": Case("fashion_mnist.npz", "symmetric", 0.2, "mlp"),
    "fashion_symmetric_50": Case("fashion_mnist.npz", "symmetric", 0.5, "mlp"),
    "fashion_pairflip_40": Case("fashion_mnist.npz", "pairflip", 0.4, "mlp"),
    "adult_symmetric_20": Case("adult.csv.gz", "symmetric", 0.2, "mlp", label="income >50K"),
    "amazon_symmetric_20": Case("amazon_reviews.csv.gz", "symmetric", 0.2, "mlp", label="Positive"),
    "mnist_symmetric_50": Case("mnist.npz", "symmetric", 0.5, "mlp", quick=False),
    "cifar10_symmetric_40": Case("cifar10_jpeg.npz", "symmetric", 0.4, "cnn4", quick=False, rows=10_000),
}
WAYS = ("prl-l", "co-prl-l", "ema-refinement", "crust", "standard", "cleanlab")
OURS = WAYS[0]


def load(options: argparse.Namespace, case: Case) -> Rows:
    rows, _ = read(protocol.data_folder(options) / case.data, label=case.label)
    return rows if case.rows is None else rows.take(torch.arange(case.rows))


def network(rows: Rows, case: Case, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return build(case.net, rows.shape, len(rows.classes or ()))


def by_run(rows: Rows, case: Case, way: str, epochs: int, seed: int) -> dict[str, Any]:
    """One robust run: its trust, flags and CPU seconds."""
    start = time.process_time()
    run = fit(
        rows, METHODS[way](), network(rows, case, seed), epochs=epochs, batch_size=128, seed=seed, device="cpu",
        progress=Bar(way),
    )  # fmt: skip
    table = run.issue_table()
    spent = time.process_time() - start
    trust = table["trust"].to_numpy()
    return measures(rows, 1 - trust, table["flag"].to_numpy(), spent, run.noise().rate[0]) | calibration(rows, trust)


def by_folds(rows: Rows, case: Case, epochs: int, seed: int) -> dict[str, Any]:
    """Ordinary training on all folds but one, five times; then cleanlab."""
    from cleanlab.count import compute_confident_joint
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    y = rows.y.numpy()
    probs = np.zeros((len(y), len(rows.classes or ())), dtype=np.float64)
    fold = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    start = time.process_time()
    for k in range(FOLDS):
        some, held_out = (torch.from_numpy(np.flatnonzero(at)) for at in (fold != k, fold == k))
        net = network(rows, case, seed)
        run = fit(
            rows.take(some), Method(), net, epochs=epochs, batch_size=128, seed=seed, device="cpu",
            progress=Bar(f"fold {k + 1}"),
        )  # fmt: skip
        assert isinstance(rows.x, torch.Tensor)
        probs[held_out] = run.probabilities(rows.x[held_out]).double().numpy()
    probs /= probs.sum(1, keepdims=True)
    flags = {name: find_label_issues(y, probs, filter_by=name, n_jobs=1) for name in FILTERS}
    quality = {
        name: get_label_quality_scores(y, probs, method=name) for name in ("self_confidence", "normalized_margin")
    }
    spent = time.process_time() - start
    wrong = _wrong(rows)
    best = max(flags, key=lambda name: float(f1_score(wrong, flags[name])))
    score = max(quality, key=lambda name: float(roc_auc_score(wrong, -quality[name])))
    joint = compute_confident_joint(y, probs, calibrate=True)
    rate = 1 - float(np.trace(joint)) / float(joint.sum())
    return measures(rows, -quality[score], flags[best], spent, rate) | {"filter": best}


def measures(rows: Rows, doubt: Array, flag: Array, seconds: float, rate: float) -> dict[str, Any]:
    wrong = _wrong(rows)
    figures = {
        "auroc": roc_auc_score(wrong, doubt),
        "auprc": average_precision_score(wrong, doubt),
        "precision": precision_score(wrong, flag),
        "recall": recall_score(wrong, flag),
        "f1": f1_score(wrong, flag),
        "wrong": wrong.mean(),
        "estimated": rate,
    }
    return {name: round(float(value), 4) for name, value in figures.items()} | {"seconds": round(seconds, 1)}


def calibration(rows: Rows, trust: Array) -> dict[str, Any]:
    """How far trust is from the fraction of right labels: the mean over the rows, and the worst of ten bins."""
    right = ~_wrong(rows)
    place = np.minimum((trust * 10).astype(int), 9)
    curve = [
        (float(trust[place == k].mean()), float(right[place == k].mean()), int((place == k).sum()))
        for k in range(10)
        if (place == k).sum() >= 20
    ]
    mean = sum(abs(expected - found) * count for expected, found, count in curve) / sum(count for *_, count in curve)
    worst = max(abs(expected - found) for expected, found, _ in curve)
    return {
        "calibration": round(mean, 4),
        "worst_bin": round(worst, 4),
        "curve": json.dumps([[round(expected, 3), round(found, 3), count] for expected, found, count in curve]),
    }


def _wrong(rows: Rows) -> Array:
    assert rows.truth is not None
    wrong: Array = (rows.y != rows.truth).numpy()
    return wrong


def trial(options: argparse.Namespace, case: Case, way: str, epochs: int, seed: int) -> dict[str, Any]:
    rows = corrupted(load(options, case), case.noise, case.rate, seed)
    return by_folds(rows, case, epochs, seed) if way == "cleanlab" else by_run(rows, case, way, epochs, seed)


def markdown(table: pd.DataFrame) -> str:
    head = (
        "case",
        "way",
        "F1",
        "precision",
        "recall",
        "AUROC",
        "AUPRC",
        "wrong",
        "estimated",
        "trust off by",
        "seconds",
    )
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for line in table.to_dict("records"):
        off = f"{line['calibration']:.3f}" if pd.notna(line.get("calibration")) else "-"
        way = f"cleanlab ({line['filter']})" if line["way"] == "cleanlab" else line["way"]
        cells = [line["case"], way, *(f"{line[name]:.3f}" for name in ("f1", "precision", "recall", "auroc", "auprc"))]
        lines.append("| " + " | ".join([*cells, f"{line['wrong']:.1%}", f"{line['estimated']:.1%}", off,
                                        f"{line['seconds']:.0f}"]) + " |")  # fmt: skip
    return "\n".join(lines) + "\n"


def picture(table: pd.DataFrame, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    bars, curves = figure.subplots(1, 2, width_ratios=(3, 2))
    names = list(table["case"].unique())
    ways = [way for way in WAYS if (table["way"] == way).any()]
    for k, (way, colour) in enumerate(zip(ways, COLOURS, strict=False)):
        scores = table[table["way"] == way].set_index("case")["f1"].reindex(names)
        at = np.arange(len(names)) + (k - (len(ways) - 1) / 2) * 0.8 / len(ways)
        bars.bar(at, scores, 0.8 / len(ways), color=colour, label=way)
    bars.set_xticks(range(len(names)), [name.replace("_", "\n") for name in names], size=8)
    bars.set(ylabel="F1 of the flagged labels", ylim=(0, 1))
    bars.legend(frameon=False, ncols=len(ways), loc="upper center", bbox_to_anchor=(0.5, 1.12), fontsize=9)
    curves.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    own = table[table["way"] == OURS]
    for colour, line in zip(COLOURS * 2, own.to_dict("records"), strict=False):
        expected, found, _ = zip(*json.loads(line["curve"]), strict=True)
        curves.plot(
            expected, found, "o-", color=colour, markersize=3, linewidth=1, label=line["case"].replace("_", " ")
        )
    curves.set(xlabel=f"trust ({OURS})", ylabel="fraction of labels that are right")
    curves.legend(frameon=False, fontsize=7)
    for axis in (bars, curves):
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.add_argument("--cases", help="only these, with commas between them")
    options = parser.parse_args()
    protocol.prepare(options)
    epochs, seeds = options.epochs or 10, options.seeds or 1
    names = options.cases.split(",") if options.cases else [n for n, c in CASES.items() if c.quick or not options.quick]
    ways = list(WAYS)
    if options.quick:
        ways = [way for way in ways if way in (OURS, "cleanlab")]
    results = protocol.Results(options.results / "label_issues.csv", options.fresh)
    if find_spec("cleanlab") is None:
        print("cleanlab is not installed: only its earlier results are shown")
    lines, closing = [], {}
    for name in names:
        found = {}
        for way in ways:
            rows = []
            for seed in range(seeds):
                asked = {"case": name, "way": way, "epochs": epochs, "seed": seed}
                if way == "cleanlab" and find_spec("cleanlab") is None and results.find(asked) is None:
                    continue
                rows.append(results.get(asked, partial(trial, options, CASES[name], way, epochs, seed)))
            if not rows:
                continue
            mean = pd.DataFrame(rows).mean(numeric_only=True).to_dict()
            found[way] = {**rows[0], **{key: round(float(value), 4) for key, value in mean.items()}}
            lines.append(found[way])
            print(name, way, {k: found[way].get(k) for k in ("f1", "auroc", "calibration", "seconds")}, flush=True)
        ours, theirs = found[OURS], found.get("cleanlab", {})
        closing[name] = {
            "f1": ours["f1"],
            "cleanlab_f1": theirs.get("f1"),
            "auroc": ours["auroc"],
            "time_ratio": round(ours["seconds"] / theirs["seconds"], 3) if theirs else None,
            "calibration": ours["calibration"],
        }
    table = pd.DataFrame(lines)
    write_text(options.results / "label_issues.md", markdown(table))
    picture(table, options.results / "label_issues.png")
    protocol.close(closing)


if __name__ == "__main__":
    main()
