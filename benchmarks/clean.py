"""What a cleaned file is worth to somebody else's model: gradient boosting on it, beside the same on the given file.

A fifth of the rows of adult is set apart with its true labels; of the others a fifth of the labels is flipped and the
table is written as a file. ``holdfast fit`` and ``holdfast clean`` make cleaned files of it, as a user types them, and
scikit-learn's HistGradientBoostingClassifier with its defaults is trained on each and tested on the true labels. Noise,
split, training and boosting have the seed. The last line is one JSON object with the mean accuracy of each file.

    python benchmarks/clean.py --data FOLDER             three seeds
    python benchmarks/clean.py --data FOLDER --quick     one seed, one epoch
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from protocol import Results, arguments, close, data_folder, mean_and_spread
from sklearn.ensemble import HistGradientBoostingClassifier

LABEL = "income >50K"
RATE = 0.2
FILES: dict[str, tuple[str, ...]] = {
    "given": (),
    "default": (),
    "correct_0.1": ("--correct", "0.1"),
    "correct_0.2": ("--correct", "0.2"),
    "correct_0.5": ("--correct", "0.5"),
    "drop_0.5": ("--drop", "0.5"),
    "true": (),
}
"""What is trained on, with the options of ``holdfast clean`` that make it."""
COMMAND = (sys.executable, "-c", "from holdfast.cli import main; main()")


def prepared(folder: Path, work: Path, seed: int) -> None:
    """given.csv, of which a fifth of the labels is wrong, true.csv, the same rows with true ones, and test.csv."""
    table = pd.read_csv(folder / "adult.csv.gz")
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(table))
    test, train = (table.iloc[part].reset_index(drop=True) for part in np.split(order, [len(order) // 5]))
    wrong = draw.random(len(train)) < RATE
    given = train.assign(**{LABEL: np.where(wrong, 1 - train[LABEL], train[LABEL])})
    work.mkdir(parents=True, exist_ok=True)
    for name, frame in (("given", given), ("true", train), ("test", test)):
        frame.to_csv(work / f"{name}.csv", index=False)


def trained(work: Path, seed: int, epochs: int | None) -> None:
    """The run on given.csv; one that has ended is not made again."""
    if (work / "run" / "ledger.npz").exists():
        return
    shutil.rmtree(work / "run", ignore_errors=True)
    few = () if epochs is None else ("--epochs", str(epochs))
    asked = ("fit", str(work / "given.csv"), "--label", LABEL, "--out", str(work / "run"), "--seed", str(seed), *few)
    subprocess.run([*COMMAND, *asked, "--quiet"], check=True)


def boosted(path: Path, test: pd.DataFrame, seed: int) -> float:
    """Test accuracy of gradient boosting on a file, in per cent."""
    table = pd.read_csv(path, na_values=["?"])
    words = table.drop(columns=LABEL).select_dtypes(exclude="number").columns
    kinds = {name: pd.CategoricalDtype(sorted({*table[name].dropna(), *test[name].dropna()})) for name in words}
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    model.fit(table.drop(columns=LABEL).astype(kinds), table[LABEL])
    return round(100 * float(model.score(test.drop(columns=LABEL).astype(kinds), test[LABEL])), 3)


def measured(name: str, folder: Path, work: Path, seed: int, epochs: int | None) -> dict[str, Any]:
    """What becomes of the labels in one file, and how well it trains."""
    if not (work / "test.csv").exists():
        prepared(folder, work, seed)
    path = work / f"{name}.csv"
    if name not in ("given", "true"):
        trained(work, seed, epochs)
        subprocess.run([*COMMAND, "clean", str(work / "run"), "--out", str(path), *FILES[name], "--force"], check=True)
    test = pd.read_csv(work / "test.csv", na_values=["?"])
    given, true, now = (pd.read_csv(work / f"{part}.csv")[LABEL] for part in ("given", "true", name))
    same = len(now) == len(given)
    return {
        "rows": len(now),
        "wrong": round(float((now != true).mean()), 4) if same else None,
        "changed": int((now != given).sum()) if same else len(given) - len(now),
        "changed_rightly": round(float((true != given)[now != given].mean()), 4) if same and name != "given" else None,
        "accuracy": boosted(path, test, seed),
    }


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__.split("\n")[0])  # type: ignore[union-attr]
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    folder = data_folder(options)
    seeds, epochs = (1, 1) if options.quick else (options.seeds or 3, options.epochs)
    results = Results(options.results / "clean.csv", options.fresh)
    lines = []
    for seed in range(seeds):
        work = options.results / "cache" / "clean" / f"{'quick' if options.quick else 'seed'}_{seed}"
        if options.fresh:
            shutil.rmtree(work, ignore_errors=True)
        for name in FILES:
            asked = {"file": name, "seed": seed, "epochs": epochs or "usual"}
            line = results.get(asked, partial(measured, name, folder, work, seed, epochs))
            print(line, flush=True)
            lines.append(line)
    table = pd.DataFrame(lines)
    by_file = table.groupby("file", sort=False)["accuracy"]
    for name, scores in by_file:
        print(f"{name:12} {mean_and_spread(scores)}")
    close({str(name): round(float(value), 3) for name, value in by_file.mean().items()})


if __name__ == "__main__":
    main()
