"""What a cleaned file is worth to other models: scikit-learn on it, beside the same on the given file.

A fifth of the rows of adult is set apart with its true labels; labels of the others are flipped and the table is
written as a file: one label in five, whichever it is (flips), or two in five of those above 50K (one-sided).
``holdfast fit`` and ``holdfast clean`` make cleaned files of it, as a user types them, and models of scikit-learn with
their defaults are trained on each and tested on the true labels: gradient boosting (HistGradientBoostingClassifier), a
random forest and a decision tree. Noise, split, training and models have the seed. The last line is one JSON object
with the mean accuracy of each model on each file.

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
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

LABEL = "income >50K"
CASES = {"flips": (0.2, 0.2), "one-sided": (0.0, 0.4)}
"""The share of wrong labels among those that are 0, and among those that are 1."""
FILES: dict[str, tuple[str, ...]] = {
    "given": (),
    "default": (),
    "correct_0.1": ("--correct", "0.1"),
    "drop_0.5": ("--drop", "0.5"),
    "true": (),
}
"""What is trained on, with the options of ``holdfast clean`` that make it."""
COMMAND = (sys.executable, "-c", "from holdfast.cli import main; main()")


def prepared(folder: Path, work: Path, case: str, seed: int) -> None:
    """given.csv, in which labels are wrong, true.csv, the same rows with true ones, and test.csv."""
    table = pd.read_csv(folder / "adult.csv.gz")
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(table))
    test, train = (table.iloc[part].reset_index(drop=True) for part in np.split(order, [len(order) // 5]))
    wrong = draw.random(len(train)) < np.array(CASES[case])[train[LABEL]]
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


def scores(path: Path, test: pd.DataFrame, seed: int) -> dict[str, float]:
    """Test accuracy of each model on a file, in per cent."""
    table = pd.read_csv(path, na_values=["?"])
    words = table.drop(columns=LABEL).select_dtypes(exclude="number").columns
    kinds = {name: pd.CategoricalDtype(sorted({*table[name].dropna(), *test[name].dropna()})) for name in words}
    x, y, more = table.drop(columns=LABEL).astype(kinds), table[LABEL], test.drop(columns=LABEL).astype(kinds)
    numbered = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1).fit(
        x[words]
    )
    plain, plain_more = (part.assign(**dict(zip(words, numbered.transform(part[words]).T))) for part in (x, more))  # noqa: B905
    models = {
        "boosting": (HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed), x, more),
        "forest": (RandomForestClassifier(random_state=seed), plain, plain_more),
        "tree": (DecisionTreeClassifier(random_state=seed), plain, plain_more),
    }
    return {
        name: round(100 * float(model.fit(inputs, y).score(further, test[LABEL])), 3)
        for name, (model, inputs, further) in models.items()
    }


def measured(case: str, name: str, folder: Path, work: Path, seed: int, epochs: int | None) -> dict[str, Any]:
    """What becomes of the labels in one file, and how well it trains."""
    if not (work / "test.csv").exists():
        prepared(folder, work, case, seed)
    path = work / f"{name}.csv"
    if name not in ("given", "true"):
        trained(work, seed, epochs)
        subprocess.run([*COMMAND, "clean", str(work / "run"), "--out", str(path), *FILES[name], "--force"], check=True)
    test = pd.read_csv(work / "test.csv", na_values=["?"])
    given, true, now = (pd.read_csv(work / f"{part}.csv")[LABEL] for part in ("given", "true", name))
    same = len(now) == len(given)
    changed = (now != given) if same else None
    return {
        "rows": len(now),
        "wrong": round(float((now != true).mean()), 4) if same else None,
        "changed": len(given) - len(now) if changed is None else int(changed.sum()),
        "rightly": None if changed is None or not changed.any() else round(float((true != given)[changed].mean()), 4),
        **scores(path, test, seed),
    }


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__.split("\n")[0])  # type: ignore[union-attr]
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    folder = data_folder(options)
    seeds, epochs = (1, 1) if options.quick else (options.seeds or 3, options.epochs)
    results = Results(options.results / "clean.csv", options.fresh)
    lines = []
    for case in CASES:
        for seed in range(seeds):
            work = options.results / "cache" / "clean" / f"{case}_{seed}_{epochs or 'usual'}"
            if options.fresh:
                shutil.rmtree(work, ignore_errors=True)
            for name in FILES:
                asked = {"case": case, "file": name, "seed": seed, "epochs": epochs or "usual"}
                line = results.get(asked, partial(measured, case, name, folder, work, seed, epochs))
                print(line, flush=True)
                lines.append(line)
    table = pd.DataFrame(lines)
    figures: dict[str, dict[str, float]] = {}
    for (case, name), part in table.groupby(["case", "file"], sort=False):
        print(
            f"{case} {name}", *(f"{model} {mean_and_spread(part[model])}" for model in ("boosting", "forest", "tree"))
        )
        figures[f"{case} {name}"] = {m: round(float(part[m].mean()), 3) for m in ("boosting", "forest", "tree")}
    close(figures)


if __name__ == "__main__":
    main()
