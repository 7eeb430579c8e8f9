"""What answers of reviewers are worth, by the order in which rows are asked about.

One default run judges the labels of each case. A simulated reviewer, right with probability 0.95 and else naming a
random other class, then answers about rows in the order of the review page (``review/order.py``: telling), least
trusted first, or at random. After so many answers, labels are as answered, and a fresh network of the same kind is
trained: ``default``, towards what the *kept* evidence of that one run and the labels say together, answered labels
being certain (nothing of the evidence is made anew, which a real second round would do); and ``ordinary``, towards the
labels as they are. Cases: the first 10,000 images of Fashion-MNIST, two labels in five given to the next class
(pairflip), and news items with labels that people gave. Accuracy is by the true labels of their own test rows, at the
end of training.

``ratio`` is how many answers the default order needs to reach what random order reaches with its last ones, as a part
of these; at most one half is asked for. The last line is one JSON object.

    python benchmarks/review.py --data FOLDER             three seeds
    python benchmarks/review.py --data FOLDER --quick     one seed, fewer epochs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from protocol import Results, arguments, close, data_folder, mean_and_spread
from scipy.optimize import isotonic_regression
from torch import Tensor
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR

from holdfast import Method, Rows, Run, fit, read
from holdfast.compare import corrupted
from holdfast.feed import Feed, outputs_of
from holdfast.files import write_text
from holdfast.methods import SecondOpinion
from holdfast.networks import networks
from holdfast.plots import COLOURS, save, tidy
from holdfast.progress import Bar
from holdfast.review.order import telling
from holdfast.reviewed import with_reviewed
from holdfast.run_folder import RunFolder
from holdfast.types import Evidence

ANSWERS = (0, 100, 200, 400, 800, 1600)
RIGHT = 0.95
EPOCHS, QUICK_EPOCHS = 20, 8
TRAININGS = ("default", "ordinary")

Array = np.ndarray[Any, Any]
Pair = tuple[Rows, Rows]
"""Training rows with the truth beside the given labels, and test rows with right labels."""


def fashion(folder: Path) -> Pair:
    rows, test = read(folder / "fashion_mnist.npz")
    assert test is not None
    return corrupted(rows.take(torch.arange(10_000)), "pairflip", 0.4, 0), test


def news(folder: Path) -> Pair:
    rows, _ = read(folder / "ag_news_human.csv.gz", label="label", truth="truth", encoder="minilm")
    test, _ = read(folder / "ag_news_test.csv.gz", label="label", recipe=dict(rows.recipe))
    return rows, test


CASES: dict[str, Callable[[Path], Pair]] = {"fashion_pairflip_40": fashion, "news_people": news}


class Judged(NamedTuple):
    """A case, and what the one run says of its labels."""

    rows: Rows
    test: Rows
    evidence: Evidence
    trust: Array


def judged(case: str, folder: Path, work: Path, epochs: int) -> Judged:
    """One default run, kept."""
    rows, test = CASES[case](folder)
    if not RunFolder(work).finished:
        fit(rows, net="mlp", epochs=epochs, device="cpu", out=work, resume=True, progress=Bar(case))
    run, evidence = Run.load(work), RunFolder(work).evidence()
    assert evidence is not None
    return Judged(rows, test, evidence, run.issue_table()["trust"].to_numpy(dtype=float))


ORDERS: dict[str, Callable[[Judged, np.random.Generator], Array]] = {
    "telling": lambda found, _: np.argsort(-telling(found.trust), kind="stable"),
    "least trusted": lambda found, _: np.argsort(found.trust, kind="stable"),
    "random": lambda found, draw: draw.permutation(len(found.trust)),
}


def answered(found: Judged, order: str, answers: int, seed: int) -> tuple[Tensor, Tensor]:
    """Labels after so many answers, and which rows were asked about. More answers begin with the same ones."""
    draw = np.random.default_rng(seed)
    truth, classes = found.rows.truth, len(found.rows.classes or ())
    assert truth is not None
    count = len(found.rows)
    slips, other = draw.random(count) > RIGHT, draw.integers(1, classes, count)
    said = torch.where(torch.from_numpy(slips), (truth + torch.from_numpy(other)) % classes, truth)
    asked = torch.zeros(count, dtype=torch.bool)
    asked[torch.from_numpy(ORDERS[order](found, draw)[:answers].copy())] = True
    return torch.where(asked, said, found.rows.y), asked


def accuracy(found: Judged, training: str, y: Tensor, asked: Tensor, seed: int, epochs: int) -> float:
    """Of a network that is trained with labels as they are after the answers, in per cent."""
    rows = replace(found.rows, y=y, reviewed=asked)
    torch.manual_seed(seed)
    _, nets = networks("mlp", 1, rows, None)
    feed = Feed(rows, batch_size=128, seed=seed)
    feed.evidence = found.evidence._replace(trees=None, test=None)
    method = with_reviewed(SecondOpinion() if training == "default" else Method(), rows)
    method.begin(nets, feed)
    optimizer = Adam(nets[0].parameters(), lr=0.001, fused=True)
    rate = CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        for batch in method.batches(nets, feed, optimizer, epoch, epochs):
            method.step(nets, batch, optimizer)
        rate.step()
    right = outputs_of(nets[0], found.test.x, "cpu").argmax(1) == found.test.y
    return round(100 * float(right.double().mean()), 3)


def measured(found: Judged, order: str, training: str, answers: int, seed: int, epochs: int) -> dict[str, Any]:
    y, asked = answered(found, order, answers, seed)
    truth, given = found.rows.truth, found.rows.y
    assert truth is not None
    mended, spoiled = (given != truth) & (y == truth), (given == truth) & (y != truth)
    return {
        "corrected": int(mended.sum()),
        "spoiled": int(spoiled.sum()),
        "wrong_left": int((y != truth).sum()),
        "accuracy": accuracy(found, training, y, asked, seed, epochs),
    }


def needed(curve: pd.Series[float], goal: float) -> float:
    """Answers after which a curve, smoothed so that it never falls, reaches a goal; infinite where it never does."""
    values = isotonic_regression(curve.to_numpy()).x
    if values[-1] < goal:
        return float("inf")
    at = int((values >= goal).argmax())
    if at == 0:
        return float(curve.index[0])
    low, high = values[at - 1], values[at]
    share = 1.0 if high == low else (goal - low) / (high - low)
    return float(curve.index[at - 1] + share * (curve.index[at] - curve.index[at - 1]))


def figures(table: pd.DataFrame) -> dict[str, Any]:
    """For each case and training: labels corrected by an answer, and answers to reach what random order reaches."""
    out: dict[str, Any] = {}
    for (case, training), part in table.groupby(["case", "training"], sort=False):
        curves = part.groupby(["order", "answers"])["accuracy"].mean()
        goal = float(isotonic_regression(curves["random"].to_numpy()).x[-1])
        start, most = float(curves["random"].iloc[0]), max(ANSWERS)
        answers = {order: needed(curves[order], goal) for order in ORDERS}
        last = part[part["answers"] == most].groupby("order")["corrected"].mean() / most
        out[f"{case} {training}"] = {
            "before": round(start, 2),
            "random_after": round(goal, 2),
            "telling_after": round(float(curves["telling"].iloc[-1]), 2),
            "least_after": round(float(curves["least trusted"].iloc[-1]), 2),
            "corrected_per_answer": {order: round(float(last[order]), 3) for order in ORDERS},
            "answers_needed": {order: None if np.isinf(value) else round(value) for order, value in answers.items()},
            "ratio": None if goal <= start else round(answers["telling"] / most, 3),
        }
    return out


def draw(table: pd.DataFrame, path: Path) -> None:
    """Labels corrected and test accuracy by answers, a row of pictures a case."""
    cases = list(dict.fromkeys(table["case"]))
    figure = Figure(figsize=(12, 3.6 * len(cases)), layout="constrained")
    axes = figure.subplots(len(cases), 3, squeeze=False)
    for line, case in zip(axes, cases, strict=True):
        part = table[table["case"] == case]
        shown = [("corrected", part, "wrong labels corrected")]
        shown += [("accuracy", part[part["training"] == t], f"test accuracy in %, {t} training") for t in TRAININGS]
        for axis, (name, lines, title) in zip(line, shown, strict=True):
            for colour, order in zip(COLOURS, ORDERS, strict=False):
                curve = lines[lines["order"] == order].groupby("answers")[name].mean()
                axis.plot(curve.index, curve.to_numpy(), marker="o", markersize=3, color=colour, label=order)
            tidy(axis)
            axis.set_title(f"{case}\n{title}", fontsize=9)
            axis.set_xlabel("answers")
    axes[0][0].legend(frameon=False, fontsize=8)
    save(figure, path)


def page(table: pd.DataFrame) -> str:
    """The same as a table for the docs."""
    lines = [
        "| case | training | order | " + " | ".join(f"{k:,} answers" for k in ANSWERS) + " | corrected by an answer |"
    ]
    lines.append("| --- " * (len(ANSWERS) + 4) + "|")
    for (case, training, order), part in table.groupby(["case", "training", "order"], sort=False):
        scores = [mean_and_spread(part[part["answers"] == k]["accuracy"]) for k in ANSWERS]
        last = part[part["answers"] == max(ANSWERS)]["corrected"].mean() / max(ANSWERS)
        lines.append(f"| {case} | {training} | {order} | " + " | ".join(scores) + f" | {last:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    options = arguments(str(__doc__).split("\n")[0]).parse_args()
    torch.set_num_threads(options.threads)
    folder = data_folder(options)
    seeds = options.seeds or (1 if options.quick else 3)
    epochs = options.epochs or (QUICK_EPOCHS if options.quick else EPOCHS)
    results = Results(options.results / "review.csv", options.fresh)
    lines = []
    for case in CASES:
        found: list[Judged] = []

        def make(*asked: Any, case: str = case, found: list[Judged] = found) -> dict[str, Any]:
            if not found:
                work = options.results / "cache" / "review" / f"{case}_{epochs}"
                found.append(judged(case, folder, work, epochs))
            return measured(found[0], *asked)

        for seed in range(seeds):
            for training in TRAININGS:
                for order in ORDERS:
                    for answers in ANSWERS:
                        first = order if answers else next(iter(ORDERS))  # without answers all orders are the same
                        asked = {"case": case, "training": training, "order": first, "answers": answers, "seed": seed}
                        asked["epochs"] = epochs
                        line = results.get(asked, partial(make, first, training, answers, seed, epochs))
                        lines.append({**line, "order": order})
                        print({**line, "order": order}, flush=True)
    table = pd.DataFrame(lines)
    draw(table, options.results / "review.png")
    write_text(options.results / "review.md", page(table))
    print(page(table))
    close(figures(table))


if __name__ == "__main__":
    main()
