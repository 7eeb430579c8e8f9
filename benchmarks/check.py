"""What ``holdfast.check`` finds of wrong labels, beside cleanlab on the same out-of-fold probabilities, and its cost.

Each case is a data set with known true labels: planted noise, labels that people really gave, or none. The check is
given neither the noise rate nor any setting. cleanlab's default filter and label scores get the probabilities of the
model that the check has chosen; what they do not get is, for texts, vectors and pictures, the other models and the
labels of near rows. Cases named after an encoder are read by it, the others as words, thumbnails and edges. Seconds are
CPU time of the whole check, all kinds of issues included; ``encoding_seconds`` of them went into features that the
cache did not have. Without cleanlab its columns stay empty. What is measured joins check.csv. The last line is one JSON
object with a key for each case.

    python benchmarks/check.py --data FOLDER             all cases, and a table of a million rows
    python benchmarks/check.py --data FOLDER --quick     tables, texts as words, and digits
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

import features as inputs
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

import holdfast
from holdfast.files import write_text, written_aside
from holdfast.progress import Silent

RESULTS = Path(__file__).parent / "results"
IMAGES = 10_000
Array = np.ndarray[Any, Any]


class Labelled(NamedTuple):
    """Data, the column of its labels if it is a table, and the true labels."""

    data: Any
    label: str | None
    truth: Array
    encoder: str | None = None


def flipped(y: Array, rate: float, seed: int) -> Array:
    """Labels of which a share is replaced by another class, drawn evenly."""
    draw = np.random.default_rng(seed)
    classes = np.unique(y)
    other = classes[(np.searchsorted(classes, y) + draw.integers(1, len(classes), len(y))) % len(classes)]
    return np.where(draw.random(len(y)) < rate, other, y)


def table(folder: Path, name: str, label: str, rate: float, encoder: str | None = None) -> Labelled:
    frame = pd.read_csv(folder / name, na_values=["?"])
    # Four fifths: the rows on which a training of the same table is judged elsewhere stay out.
    frame = frame.iloc[np.random.default_rng(1).permutation(len(frame))[len(frame) // 5 :]].reset_index(drop=True)
    truth = frame[label].to_numpy()
    return Labelled(frame.assign(**{label: flipped(truth, rate, 2)}), label, truth, encoder)


def news(folder: Path, encoder: str | None = None) -> Labelled:
    frame = pd.read_csv(folder / "ag_news_human.csv.gz")
    return Labelled(frame[["text", "label"]], "label", frame["truth"].to_numpy(), encoder)


def digits(folder: Path) -> Labelled:
    x, y = load_digits(return_X_y=True)
    return Labelled((x / 16, flipped(y, 0.4, 4)), None, y)


def features(folder: Path, people: int) -> Labelled:
    """CIFAR-10 by a frozen network, each picture labelled by the worst of some people."""
    held = np.load(folder / "cifar10h_features.npz")
    truth = held["y_true"].astype(int)
    counts = np.load(folder / "cifar10h_counts.npz")["counts"].astype(float)
    shares = (counts / counts.sum(1, keepdims=True)).cumsum(1)[:, :-1]
    draw = np.random.default_rng(5)
    given = np.stack([(draw.random((len(truth), 1)) > shares).sum(1) for _ in range(people)], 1)
    bad = given != truth[:, None]
    worst = np.where(bad.any(1), given[np.arange(len(truth)), bad.argmax(1)], truth)
    return Labelled((held["x_train"].astype("float32"), worst), None, truth)


def photographs(folder: Path, people: int, encoder: str | None) -> Labelled:
    """The test images of CIFAR-10, each labelled by the worst of some people."""
    rows, _ = inputs.people(folder, inputs.IMAGES, people, None)
    assert rows.truth is not None
    return Labelled((rows.x, rows.y.numpy()), None, rows.truth.numpy(), encoder)


def pictures(folder: Path, name: str, rate: float) -> Labelled:
    rows, _ = holdfast.read(folder / name)
    rows = rows.take(torch.arange(IMAGES))
    truth = rows.y.numpy()
    return Labelled((rows.x, flipped(truth, rate, 2)), None, truth)


CASES: dict[str, Callable[[Path], Labelled]] = {
    "adult_20": lambda folder: table(folder, "adult.csv.gz", "income >50K", 0.2),
    "adult_clean": lambda folder: table(folder, "adult.csv.gz", "income >50K", 0.0),
    "amazon_20": lambda folder: table(folder, "amazon_reviews.csv.gz", "Positive", 0.2),
    "amazon_20_minilm": lambda folder: table(folder, "amazon_reviews.csv.gz", "Positive", 0.2, "minilm"),
    "news_people": news,
    "news_people_minilm": lambda folder: news(folder, "minilm"),
    "digits_40": digits,
    "features_1": lambda folder: features(folder, 1),
    "features_10": lambda folder: features(folder, 10),
    "fashion_20": lambda folder: pictures(folder, "fashion_mnist.npz", 0.2),
    "cifar10_20": lambda folder: pictures(folder, "cifar10_jpeg.npz", 0.2),
    "photographs_10": lambda folder: photographs(folder, 10, None),
    "photographs_10_lite0": lambda folder: photographs(folder, 10, "lite0"),
}
QUICK = ("adult_20", "adult_clean", "amazon_20", "news_people", "digits_40")


class Encoding(Silent):
    """A bar that nobody sees, with the CPU seconds of what it was there for."""

    seconds = 0.0

    def __call__(self, title: str, unit: str) -> Encoding:
        return self

    def __enter__(self) -> Self:
        self.seconds -= time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time()


def measured(case: Labelled) -> dict[str, Any]:
    encoding = Encoding()
    start = time.process_time()
    found = holdfast.check(case.data, case.label, encoder=case.encoder, encoding=encoding)
    seconds = time.process_time() - start
    lines = found.issues[found.issues["kind"] == "label"].sort_values("row")
    wrong = lines["given"].to_numpy() != case.truth.astype(str)
    opinions = found.judged.opinions
    assert opinions is not None
    assert found.judged.noise is not None
    rate, low, high = found.judged.noise.rate
    held_out = opinions.held_out[opinions.chosen].expected.numpy()
    return {
        "rows": len(lines),
        "wrong": round(float(wrong.mean()), 4),
        "estimate": [round(rate, 4), round(low, 4), round(high, 4)],
        "model": opinions.chosen,
        "check": scores(wrong, lines["flag"].to_numpy(), lines["score"].to_numpy()),
        "cleanlab": cleanlab_scores(wrong, held_out, found.subject.rows.y.numpy()),
        "other_issues": {
            line["kind"]: int(line["issues"]) for line in found.summary.to_dict("records") if line["kind"] != "label"
        },
        "cpu_seconds": round(seconds, 1),
        "encoding_seconds": round(encoding.seconds, 1),
    }


def scores(wrong: Array, flag: Array, score: Array) -> dict[str, float]:
    shown = {"flagged": float(flag.mean())}
    if wrong.any():
        shown |= {
            "f1": f1_score(wrong, flag),
            "precision": precision_score(wrong, flag, zero_division=0),
            "recall": recall_score(wrong, flag),
            "auroc": roc_auc_score(wrong, score),
        }
    return {name: round(float(value), 4) for name, value in shown.items()}


def cleanlab_scores(wrong: Array, probabilities: Array, y: Array) -> dict[str, float]:
    if find_spec("cleanlab") is None:
        return {}
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    probabilities = probabilities / probabilities.sum(1, keepdims=True)
    flag = find_label_issues(y, probabilities, n_jobs=1)
    return scores(wrong, flag, 1 - get_label_quality_scores(y, probabilities))


def million() -> dict[str, Any]:
    """A million rows of sixteen numbers with planted copies, near copies and outliers: what is found, and the cost."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(1_000_000, 16)).astype("float32")
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int)
    x[500_000:500_100] = x[:100]
    x[500_100:500_200] = x[100:200] + 0.003 * draw.normal(size=(100, 16))
    x[900_000:900_100] = 8 * draw.normal(size=(100, 16)) + 15
    start = time.process_time()
    found = holdfast.check((x, y))
    shown: dict[str, Any] = {"cpu_seconds": round(time.process_time() - start)}
    planted = {"duplicate": 500_000, "near duplicate": 500_100, "outlier": 900_000}
    for kind, first in planted.items():
        rows = set(found.rows(kind))
        hit = len(rows & set(range(first, first + 100)))
        shown[kind] = {"precision": round(hit / max(1, len(rows)), 3), "recall": hit / 100}
    shown["peak_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1)
    return shown


def written(results: dict[str, Any], folder: Path) -> None:
    lines = []
    for name, result in results.items():
        ours, theirs = result["check"], result["cleanlab"]
        lines.append(
            {
                "case": name, "rows": result["rows"], "wrong": result["wrong"], "model": result["model"],
                **{f"check_{key}": value for key, value in ours.items()},
                **{f"cleanlab_{key}": value for key, value in theirs.items()},
                "cpu_seconds": result["cpu_seconds"], "encoding_seconds": result["encoding_seconds"],
            }
        )  # fmt: skip
    frame = pd.DataFrame(lines)
    if (folder / "check.csv").exists():
        before = pd.read_csv(folder / "check.csv")
        frame = pd.concat([before[~before["case"].isin(frame["case"])], frame])
        frame = frame.set_index("case").loc[[name for name in CASES if name in set(frame["case"])]].reset_index()
    with written_aside(folder / "check.csv") as aside:
        frame.to_csv(aside, index=False)
    shown = [
        "| data | rows | wrong | model | F1 | cleanlab's | AUROC | cleanlab's | flagged | cleanlab's | CPU seconds |"
    ]
    shown.append("|" + "---|" * 11)
    for line in frame.to_dict("records"):
        both = [
            f"{line.get(f'{who}_{key}', np.nan):.3f}"
            for key in ("f1", "auroc", "flagged")
            for who in ("check", "cleanlab")
        ]
        cells = [line["case"], f"{line['rows']:,}", f"{line['wrong']:.1%}", line["model"], *both, line["cpu_seconds"]]
        shown.append("| " + " | ".join("-" if cell == "nan" else str(cell) for cell in cells) + " |")
    write_text(folder / "check.md", "\n".join(shown) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("HOLDFAST_DATA"), help="folder with the data")
    parser.add_argument("--quick", action="store_true", help="within ten minutes")
    parser.add_argument("--cases", help="only these, with commas between them")
    parser.add_argument("--threads", type=int, default=1, help="processor threads")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for check.csv and check.md")
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("name the folder with the data: --data or HOLDFAST_DATA")
    torch.set_num_threads(asked.threads)
    names = asked.cases.split(",") if asked.cases else QUICK if asked.quick else tuple(CASES)
    results: dict[str, Any] = {}
    for name in names:
        results[name] = measured(CASES[name](Path(asked.data)))
        print(name, json.dumps(results[name]), flush=True)
    written(results, asked.results)
    if not asked.quick and not asked.cases:
        results["million"] = million()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
