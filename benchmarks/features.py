"""What the default learns from: words or a pre-trained network, pixels or a pre-trained network, with trees or without.

Each case is a data set with known true labels, read in two ways: ``news`` (labels of crowd workers) as words and with
MiniLM beside them, ``people_10`` and ``people_30`` (the test images of CIFAR-10, the worst of so many people's
labels, tested on 4,000 training images) as pixels for a CNN and as features of EfficientNet-Lite0, ``adult`` (20 %
flipped) with the opinion of boosted trees, as the default has it, and with the network alone. ``test`` is the accuracy
of the default, ``ordinary`` that of ordinary training on the given labels, both after the last epoch; ``f1`` is that of
the default's flags. ``cleanlab_f1`` is that of Datalab's label issues with the out-of-fold probabilities that the
default has heard in the same run, ``cleanlab_features_f1`` of the same with the features alone. ``seconds_features`` is
the CPU time from the file to the features with an empty cache, ``seconds`` that of training the default, evidence
included; ``wall`` is the time that passed. The last line is one JSON object with a key for each case and way.

    python benchmarks/features.py --data FOLDER             all cases: an hour or two on one core, most of it the CNN
    python benchmarks/features.py --data FOLDER --quick     the same with 1,000 images and 10 epochs of them

What is done is kept and not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import protocol
import torch
from sklearn.metrics import f1_score
from suite import augmentation, found, table

import holdfast.evidence
from holdfast import Method, Rows, fit, read
from holdfast.data import arrays
from holdfast.data.encode import encode_pictures
from holdfast.encoders import cache_folder
from holdfast.files import write_text
from holdfast.plots import COLOURS, save, tidy
from holdfast.run_folder import RunFolder

EPOCHS, QUICK_EPOCHS = 30, 10
IMAGES, QUICK_IMAGES = 10_000, 1_000
TEST_IMAGES = 4_000
Array = np.ndarray[Any, Any]
Pair = tuple[Rows, Rows]
"""Training rows with the truth beside the given labels, and test rows with right labels."""


def news(folder: Path, images: int, encoder: str | None, **reading: Any) -> Pair:
    rows, _ = read(folder / "ag_news_human.csv.gz", label="label", truth="truth", encoder=encoder, **reading)
    test, _ = read(folder / "ag_news_test.csv.gz", label="label", recipe=dict(rows.recipe))
    return rows, test


def adult(folder: Path, images: int) -> Pair:
    return table(folder, "adult.csv.gz", "income >50K", 0.2)


def people(folder: Path, images: int, worst_of: int, encoder: str | None) -> Pair:
    """Images that people labelled: any wrong answer of so many is taken."""
    with np.load(folder / "cifar10_jpeg.npz") as held:
        named = {"class_names": held["class_names"]}
        # The other way round: people have labelled the test images.
        for part, other, count in (("train", "test", images), ("test", "train", TEST_IMAGES * images // IMAGES)):
            ends = held[f"offsets_{other}"][: count + 1]
            named |= {f"jpeg_{part}": held[f"jpeg_{other}"][: ends[-1]], f"offsets_{part}": ends}
            named[f"y_{part}"] = held[f"y_{other}"][:count]
    rows, others = arrays.build(named, "cifar10_jpeg.npz")
    with np.load(folder / "cifar10h_counts.npz") as votes:
        counts = votes["counts"].astype(float)
    chance, draw = counts / counts.sum(1, keepdims=True), np.random.default_rng(0)
    answers = [(draw.random((len(counts), 1)) > chance.cumsum(1)[:, :-1]).sum(1) for _ in range(worst_of)]
    drawn, y = np.stack(answers, 1)[:images], rows.y.numpy()
    bad = drawn != y[:, None]
    given = np.where(bad.any(1), drawn[np.arange(len(y)), bad.argmax(1)], y)
    rows = replace(rows, y=torch.from_numpy(given), truth=rows.y)
    made, test = encode_pictures(rows, others, encoder)
    assert test is not None
    return replace(made, source={}), replace(test, source={})


class Way(NamedTuple):
    """How the rows of a case are read and learned from."""

    load: Callable[[Path, int], Pair]
    net: str = "auto"
    trees: bool = True
    """Whether boosted trees are asked where they are cheap, as the default does."""
    tuned: bool = False
    """Whether the encoder itself is trained, for as many epochs as it usually is."""
    small: bool = False
    """Whether --quick takes fewer rows and epochs."""
    title: str = ""
    """What the picture calls it."""


WAYS: dict[str, Way] = {
    "news_words": Way(partial(news, encoder=None), title="news, words"),
    "news_minilm": Way(partial(news, encoder="minilm"), title="news, MiniLM and words"),
    "news_tuned": Way(partial(news, encoder="minilm", tune=True), tuned=True, title="news, MiniLM tuned"),
    "adult_trees": Way(adult, title="adult, with trees"),
    "adult_network": Way(adult, trees=False, title="adult, network alone"),
    "people_10_lite0": Way(
        partial(people, worst_of=10, encoder="lite0"), small=True, title="CIFAR-10, worst of 10 people, Lite0"
    ),
    "people_30_lite0": Way(
        partial(people, worst_of=30, encoder="lite0"), small=True, title="CIFAR-10, worst of 30 people, Lite0"
    ),
    "people_10_cnn": Way(
        partial(people, worst_of=10, encoder=None), net="cnn4", small=True, title="CIFAR-10, worst of 10 people, CNN"
    ),
    "people_30_cnn": Way(
        partial(people, worst_of=30, encoder=None), net="cnn4", small=True, title="CIFAR-10, worst of 30 people, CNN"
    ),
}
"""By case and way."""
SAME_INPUTS = {"people_30_lite0": "people_10_lite0", "people_30_cnn": "people_10_cnn", "adult_network": "adult_trees"}
"""Ways whose features are those of another: they are timed once."""


class Trial(NamedTuple):
    """One measurement."""

    way: str
    part: str
    """"features", "default" or "ordinary"."""
    images: int
    epochs: int
    seed: int


def run(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    way, folder = WAYS[trial.way], protocol.data_folder(options)
    if trial.part == "features":
        return made(way, folder, trial.images)
    rows, test = way.load(folder, trial.images)
    with tempfile.TemporaryDirectory() as out, without_trees(way):
        start = time.perf_counter(), time.process_time()
        done = fit(
            replace(rows, truth=None), Method() if trial.part == "ordinary" else None, way.net, test=test, out=out,
            augment=augmentation(rows), seed=trial.seed, device="cpu",
            **({} if way.tuned else {"epochs": trial.epochs}),
        )  # fmt: skip
        line = {"last": round(100 * float(done.history["test"].iloc[-1]), 2), **since(*start)}
        if trial.part == "ordinary":
            return line
        evidence = RunFolder(Path(out)).evidence()
    assert evidence is not None
    issues = done.issue_table()
    line |= found(rows, issues["trust"].to_numpy(), issues["flag"].to_numpy())
    line["cleanlab_f1"] = by_datalab(rows, pred_probs=evidence.held_out.double().numpy())
    if len(rows.shape) == 1 and not way.tuned:
        assert isinstance(rows.x, torch.Tensor)
        line["cleanlab_features_f1"] = by_datalab(rows, features=rows.x.float().numpy())
    return line


def made(way: Way, folder: Path, images: int) -> dict[str, Any]:
    """How long the features take that nobody has made before; they are kept for the trainings."""
    keep, before = cache_folder(), os.environ.get("HOLDFAST_CACHE")
    with tempfile.TemporaryDirectory() as empty:
        os.environ["HOLDFAST_CACHE"] = empty
        try:
            start = time.perf_counter(), time.process_time()
            way.load(folder, images)
            line = since(*start)
        finally:
            del os.environ["HOLDFAST_CACHE"]
            if before is not None:
                os.environ["HOLDFAST_CACHE"] = before
        if (Path(empty) / "features").is_dir():
            shutil.copytree(Path(empty) / "features", keep / "features", dirs_exist_ok=True)
    return line


def since(wall: float, cpu: float) -> dict[str, float]:
    return {"wall": round(time.perf_counter() - wall, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}


def without_trees(way: Way) -> AbstractContextManager[Any]:
    return nullcontext() if way.trees else patch.object(holdfast.evidence, "WIDE", 0)


def by_datalab(rows: Rows, **given: Array) -> float:
    """F1 of the label issues of cleanlab's Datalab, its settings left alone; nan where it is not installed."""
    try:
        from cleanlab import Datalab
    except ImportError:
        return float("nan")
    assert rows.truth is not None
    if "pred_probs" in given:
        given["pred_probs"] = given["pred_probs"] / given["pred_probs"].sum(1, keepdims=True)
    lab = Datalab({"given": rows.y.numpy()}, label_name="given", verbosity=0)
    lab.find_issues(**given, issue_types={"label": {}})
    flag = lab.get_issues("label")["is_label_issue"].to_numpy()
    return round(float(f1_score((rows.y != rows.truth).numpy(), flag)), 4)


def trials_of(name: str, options: argparse.Namespace) -> list[Trial]:
    small = options.quick and WAYS[name].small
    images = (QUICK_IMAGES if options.quick else IMAGES) if WAYS[name].small else 0
    epochs = options.epochs or (QUICK_EPOCHS if small else EPOCHS)
    parts = [(name, "default"), (name, "ordinary")]
    features = Trial(SAME_INPUTS.get(name, name), "features", images, 0, 0)
    return [features, *(Trial(*part, images, epochs, seed) for seed in range(options.seeds or 1) for part in parts)]


def summary(lines: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """One entry a case and way, means over seeds."""
    out: dict[str, dict[str, Any]] = {}
    parts = {name: own.mean(numeric_only=True) for name, own in lines.groupby(["way", "part"])}
    for name in WAYS:
        default, ordinary = parts.get((name, "default")), parts.get((name, "ordinary"))
        features = parts.get((SAME_INPUTS.get(name, name), "features"))
        if default is None:
            continue
        entry = {
            "test": default["last"], "ordinary": None if ordinary is None else ordinary["last"],
            "f1": default["f1"], "cleanlab_f1": default["cleanlab_f1"],
            "cleanlab_features_f1": default.get("cleanlab_features_f1"), "auroc": default["auroc"],
            "wrong": default["wrong"], "flagged": default["flagged"],
            "seconds_features": None if features is None else features["cpu_seconds"],
            "wall_features": None if features is None else features["wall"],
            "seconds": default["cpu_seconds"], "wall": default["wall"],
        }  # fmt: skip
        out[name] = {k: None if v is None or pd.isna(v) else round(float(v), 4) for k, v in entry.items()}
    return out


def page(figures: dict[str, dict[str, Any]]) -> str:
    """The same as a Markdown table."""
    names = list(next(iter(figures.values())))
    lines = ["| case, way | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for name, entry in figures.items():
        lines.append(f"| {name} | " + " | ".join(_cell(key, entry[key]) for key in names) + " |")
    return "\n".join(lines) + "\n"


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    digits = 2 if key in ("test", "ordinary") else 1 if key.startswith(("seconds", "wall")) else 3
    return f"{value:.{digits}f}"


def picture(figures: dict[str, dict[str, Any]], path: Path) -> None:
    """Test accuracy of ordinary training and of the default, and F1 of the flags beside Datalab's, by case and way."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 0.5 * len(figures) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names = list(figures)[::-1]
    for at, name in enumerate(names):
        entry = figures[name]
        if entry["ordinary"] is not None:
            left.plot([entry["ordinary"], entry["test"]], [at, at], color="#BBBBBB", linewidth=4, zorder=1)
            left.plot(entry["ordinary"], at, "o", color="#555555", label="ordinary training")
        left.plot(entry["test"], at, "o", color=COLOURS[1], label="default")
        marks = (("f1", "o", COLOURS[1], "default"), ("cleanlab_f1", "D", COLOURS[0], "Datalab, same probabilities"),
                 ("cleanlab_features_f1", "s", COLOURS[2], "Datalab, features"))  # fmt: skip
        for key, marker, colour, label in marks:
            if entry[key] is not None:
                right.plot(entry[key], at, marker, color=colour, label=label)
    left.set(
        yticks=range(len(names)),
        yticklabels=[WAYS[name].title for name in names],
        xlabel="test accuracy (%), last epoch",
    )
    right.set(xlabel="F1 of the flagged labels", xlim=(0, 1))
    known: dict[str, Any] = {}
    for axis in (left, right):
        known |= {label: line for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
        tidy(axis)
    figure.legend(known.values(), known, loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)


def main() -> None:
    parser = protocol.arguments(__doc__.splitlines()[0])
    parser.set_defaults(methods="standard")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this one; may be repeated")
    protocol.job_arguments(parser)
    options = parser.parse_args()
    protocol.prepare(options)
    names = options.way or [name for name, way in WAYS.items() if not (options.quick and way.tuned)]
    trials = [trial for name in names for trial in trials_of(name, options)]
    results = protocol.Results(options.results / "features.csv", options.fresh)
    lines, failed = protocol.finish(trials, partial(run, options=options), results, options)
    figures = {} if lines.empty else summary(lines)
    if not figures:
        raise SystemExit("no run has ended yet; allow more minutes")
    write_text(options.results / "features.md", page(figures))
    picture(figures, options.results / "features.png")
    print(page(figures))
    print(json.dumps({**figures, **({"failed": failed} if failed else {})}))


if __name__ == "__main__":
    main()
